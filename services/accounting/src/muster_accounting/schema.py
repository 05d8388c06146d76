"""The tables of accounting. Times are milliseconds since 1970, quantities milli-units.

Plain column types and statements only, so the same schema stands in SQLite and in PostgreSQL. A
store gets it by the revisions in `migrations`, and a test holds those to what stands here.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, Table, Text

metadata = MetaData()

progress = Table(
    "progress",
    metadata,
    Column("shard", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("events_sequence", BigInteger, nullable=False),
    Column("objects_sequence", BigInteger, nullable=False),
    Column("objects_at_birth", BigInteger, nullable=False),
    Column("facts_until_ms", BigInteger, nullable=False),
)
"""How far each stream is applied; written in the same transaction as what came of it.

`objects_at_birth` is the last declared object that was there before the books began: what was
declared then holds from the beginning.
"""

attempts = Table(
    "attempts",
    metadata,
    Column("workload_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("opened_ms", BigInteger),
    Column("opened_version", BigInteger),
    Column("namespace", Text),
    Column("workload", Text),
    Column("cluster_queue", Text),
    Column("local_queue", Text),
    Column("team", Text),
    Column("user_name", Text),
    Column("kind", Text),
    Column("priority", BigInteger),
    Column("priority_class", Text),
    Column("labels", Text),
    Column("annotations", Text),
    Column("charges", Text),
    Column("seated_ms", BigInteger),
    Column("seated_version", BigInteger),
    Column("seats", Text),
    Column("nodes", Integer),
    Column("devices", Integer),
    Column("evicted_ms", BigInteger),
    Column("evicted_version", BigInteger),
    Column("evicted_reason", Text),
    Column("preemption_reason", Text),
    Column("preemptor", Text),
    Column("closed_ms", BigInteger),
    Column("closed_version", BigInteger),
    Column("outcome", Text),
    Column("checkpointed_ms", BigInteger),
    Index("attempts_by_opening", "opened_ms"),
    Index("attempts_by_closing", "closed_ms"),
)
"""One attempt of one workload: a usage interval and whose it is.

`charges` is JSON `[[flavor, resource, milli], ...]`, and `seats` is
`[[node, pods, devices, charges], ...]`.
"""

node_facts = Table(
    "node_facts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("node", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("condition", Text),
    Column("report", Text),
)
"""What nodes reported (`report`, JSON) and what placement thought of them (`condition`)."""

statements = Table(
    "statements",
    metadata,
    Column("zone", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("month", Text, nullable=False),
    Column("currency", Text, nullable=False),
    Column("issued_at_ms", BigInteger, nullable=False),
    Column("previous", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("lines", LargeBinary, nullable=False),
)
"""Statements that were issued, one chain for each zone; rows are only ever added."""

objects = Table(
    "objects",
    metadata,
    Column("sequence", BigInteger, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("subject", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""Every version of every declared object that decides about quota and flavors, as it came."""

token_uses = Table(
    "token_uses",
    metadata,
    Column("request_id", Text, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("team", Text, nullable=False),
    Column("key_hash", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("reported_nanos", BigInteger),
    Index("token_uses_by_time", "at_ms"),
)
"""One request to a served model; `tags` is a JSON list, sorted."""

drift_words = Table(
    "drift_words",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("said", Integer, nullable=False),
)
"""The last word about a model's price and hardware; 1 once the log has it."""

observations = Table(
    "observations",
    metadata,
    Column("hour_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("workload_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("node", Text, primary_key=True),
    Column("resource", Text, primary_key=True),
    Column("minutes", BigInteger, nullable=False),
    Column("observed", BigInteger, nullable=False),
    Column("busy", BigInteger, nullable=False),
)
"""How busy the devices of an attempt on a node were in an hour.

Bit n of `minutes` says that the n-th minute was told; `observed` and `busy` are
milli-unit-milliseconds.
"""

rollups = Table(
    "rollups",
    metadata,
    Column("start_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("end_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
    Index("rollups_by_end", "end_ms"),
)
"""What was measured in a window, compressed; gone as soon as a fact about an earlier time comes."""
