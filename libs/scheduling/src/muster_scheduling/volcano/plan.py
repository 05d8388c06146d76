"""What a session decided, as data. Nothing has happened yet when a plan is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster_domain.volcano import PodGroupPhase


class TaskStatus(StrEnum):
    """Where a pod stands within a session.

    Allocated is decided now; Pipelined waits on its node for what others give back; Releasing is
    told to stop. Binding is Allocated of a gang that is complete: its bind is in the plan.
    """

    PENDING = "Pending"
    ALLOCATED = "Allocated"
    PIPELINED = "Pipelined"
    BINDING = "Binding"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class EvictionReason(StrEnum):
    """Which action takes a pod away."""

    PREEMPT = "preempt"
    RECLAIM = "reclaim"
    SHUFFLE = "shuffle"


class Verdict(StrEnum):
    """What came of a job in this session, in one word."""

    SCHEDULED = "Scheduled"
    PIPELINED = "Pipelined"
    NOT_ENOUGH_PODS = "NotEnoughPods"
    NOT_ENOUGH_PODS_OF_TASK = "NotEnoughPodsOfTask"
    NOT_ENOUGH_PODS_OF_SUB_GROUP = "NotEnoughPodsOfSubGroup"
    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    NOT_ENQUEUED = "NotEnqueued"
    UNKNOWN_QUEUE = "UnknownQueue"
    UNKNOWN_TIER = "UnknownTier"
    INVALID_TOPOLOGY = "InvalidTopology"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A pod gets its node, and the cards it shares there, by index."""

    pod: str
    job: str
    node: str
    cards: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pod will get its node once others have given back what it needs there.

    `hyper_node` is the domain that its gang was nominated for, if any.
    """

    pod: str
    job: str
    node: str
    hyper_node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A pod must stop. `by` is the job it makes room for; empty for a shuffle."""

    pod: str
    job: str
    node: str
    reason: EvictionReason
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseChange:
    """A PodGroup enters another phase."""

    job: str
    before: PodGroupPhase
    after: PodGroupPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a number of nodes do not take a pod."""

    reason: str
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """What came of one job and the numbers behind it.

    `tasks` counts its pods by status when the session ended. `refusals` are those of the first pod
    that found no node. `hyper_node` is the smallest domain that holds all its placed pods.
    """

    job: str
    verdict: Verdict
    message: str
    tasks: Mapping[TaskStatus, int]
    refusals: tuple[Refusal, ...] = ()
    hyper_node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Evictions come first, then binds; all of them in the order in which they were decided."""

    evictions: tuple[Eviction, ...] = ()
    binds: tuple[Bind, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    phases: tuple[PhaseChange, ...] = ()
    outcomes: Mapping[str, JobOutcome] = field(default_factory=dict[str, JobOutcome])
    warnings: tuple[str, ...] = ()
