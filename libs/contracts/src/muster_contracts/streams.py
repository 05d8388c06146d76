"""Every stream, bucket and durable consumer there is, declared once.

`python -m muster_runtime.declare` applies this; services check it at start and refuse to run on
anything else.
"""

from dataclasses import dataclass

DAY_S = 24 * 3600
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A JetStream stream. `last_value` keeps one message per subject, without an age limit.

    `atomic` lets several messages be published together or not at all. A stream that holds
    `max_bytes` drops its oldest message for a new one, or turns the new one away if it `refuses`.
    `until_settled` forgets a message once its consumer has settled it.
    """

    name: str
    subjects: tuple[str, ...]
    description: str
    max_age_s: int = 0
    max_bytes: int
    refuses: bool = False
    until_settled: bool = False
    last_value: bool = False
    atomic: bool = False
    duplicate_window_s: int = 120
    max_message_bytes: int = 768 * 1024

    def holds(self, subject: str) -> bool:
        """Whether a message on the subject is kept here."""
        return subject.startswith(tuple(own.removesuffix(">") for own in self.subjects))


@dataclass(frozen=True, slots=True, kw_only=True)
class Durable:
    """A consumer that several replicas of a service share, with explicit acknowledgement.

    Deliveries are not limited: whoever works on it counts them and buries what still fails.
    """

    name: str
    stream: str
    filter_subject: str
    ack_wait_s: int = 30
    max_ack_pending: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A key-value bucket; a key not written for `ttl_s` is gone."""

    name: str
    ttl_s: int


JOBS = Stream(
    name="MUSTER_JOBS",
    subjects=("muster.v1.jobs.>",),
    description="What submitters said and nobody has worked off yet",
    max_age_s=7 * DAY_S,
    max_bytes=1024 * MIB,
    refuses=True,
    until_settled=True,
)
DECISIONS = Stream(
    name="MUSTER_DECISIONS",
    subjects=("muster.v1.decisions.>",),
    description="The last decision about each workload",
    last_value=True,
    max_bytes=1024 * MIB,
)
OBJECTS = Stream(
    name="MUSTER_OBJECTS",
    subjects=("muster.obj.>",),
    description="Declared queues, flavors, priorities and nodes, the last version of each",
    last_value=True,
    atomic=True,
    max_bytes=256 * MIB,
    refuses=True,
)
EVENTS = Stream(
    name="MUSTER_EVENTS",
    subjects=("muster.evt.>",),
    description="The log: every fact in the order it became known",
    max_age_s=31 * DAY_S,
    max_bytes=8192 * MIB,
)
PODS = Stream(
    name="MUSTER_PODS",
    subjects=("muster.cmd.agent.v1.pod.>",),
    description="What should become of each pod",
    last_value=True,
    max_age_s=31 * DAY_S,
    max_bytes=512 * MIB,
)
DEAD_LETTERS = Stream(
    name="MUSTER_DLQ",
    subjects=("muster.dlq.>",),
    description="What could not be digested, with the reason",
    max_age_s=31 * DAY_S,
    max_bytes=256 * MIB,
)

STREAMS: tuple[Stream, ...] = (JOBS, DECISIONS, OBJECTS, EVENTS, PODS, DEAD_LETTERS)

FRONT_DOOR = Durable(name="gateway", stream=JOBS.name, filter_subject="muster.v1.jobs.>")
DURABLES: tuple[Durable, ...] = (FRONT_DOOR,)

LEASES = Bucket(name="muster_leases", ttl_s=10)
BUCKETS: tuple[Bucket, ...] = (LEASES,)
