"""Attempts, nodes, declared objects, and how far they are read."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "progress",
        sa.Column("shard", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("events_sequence", sa.BigInteger, nullable=False),
        sa.Column("objects_sequence", sa.BigInteger, nullable=False),
        sa.Column("objects_at_birth", sa.BigInteger, nullable=False),
        sa.Column("facts_until_ms", sa.BigInteger, nullable=False),
    )
    _create_attempts()
    op.create_table(
        "node_facts",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("condition", sa.Text),
        sa.Column("report", sa.Text),
    )
    op.create_table(
        "objects",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def _create_attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("workload_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("opened_ms", sa.BigInteger),
        sa.Column("opened_version", sa.BigInteger),
        sa.Column("namespace", sa.Text),
        sa.Column("workload", sa.Text),
        sa.Column("cluster_queue", sa.Text),
        sa.Column("local_queue", sa.Text),
        sa.Column("team", sa.Text),
        sa.Column("user_name", sa.Text),
        sa.Column("kind", sa.Text),
        sa.Column("priority", sa.BigInteger),
        sa.Column("priority_class", sa.Text),
        sa.Column("labels", sa.Text),
        sa.Column("annotations", sa.Text),
        sa.Column("charges", sa.Text),
        sa.Column("seated_ms", sa.BigInteger),
        sa.Column("seated_version", sa.BigInteger),
        sa.Column("seats", sa.Text),
        sa.Column("nodes", sa.Integer),
        sa.Column("devices", sa.Integer),
        sa.Column("evicted_ms", sa.BigInteger),
        sa.Column("evicted_version", sa.BigInteger),
        sa.Column("evicted_reason", sa.Text),
        sa.Column("preemption_reason", sa.Text),
        sa.Column("preemptor", sa.Text),
        sa.Column("closed_ms", sa.BigInteger),
        sa.Column("closed_version", sa.BigInteger),
        sa.Column("outcome", sa.Text),
    )
    op.create_index("attempts_by_opening", "attempts", ["opened_ms"])
    op.create_index("attempts_by_closing", "attempts", ["closed_ms"])
