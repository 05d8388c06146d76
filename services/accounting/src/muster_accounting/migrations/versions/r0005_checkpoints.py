"""Up to when an attempt has said that its work is saved."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column."""
    op.add_column("attempts", sa.Column("checkpointed_ms", sa.BigInteger))
