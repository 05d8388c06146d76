"""What was measured in whole hours, days and months."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "rollups",
        sa.Column("start_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("end_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("rollups_by_end", "rollups", ["end_ms"])
