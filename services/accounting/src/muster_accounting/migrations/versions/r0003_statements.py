"""Statements that were issued."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "statements",
        sa.Column("zone", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("month", sa.Text, nullable=False),
        sa.Column("currency", sa.Text, nullable=False),
        sa.Column("issued_at_ms", sa.BigInteger, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("lines", sa.LargeBinary, nullable=False),
    )
