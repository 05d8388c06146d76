"""Rolls tell of each node where its capacity went; those that do not are made again."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Take the rolls away; whoever keeps the books rolls all hours again."""
    op.execute(sa.text("DELETE FROM rollups"))
