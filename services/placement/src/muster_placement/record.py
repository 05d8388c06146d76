"""What placement stores about a gang and about a node, and under which fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster_domain.nodes import Node, NodeCondition
from muster_domain.states import Admission
from muster_domain.workload import Workload
from muster_scheduling.placement.outcome import Gang

GANG_FIELD = "g/"
NODE_FIELD = "n/"


class PodPhase(StrEnum):
    """What is known about one pod."""

    ASSIGNED = "assigned"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    GONE = "gone"

    @property
    def over(self) -> bool:
        """Whether nothing of it runs any more."""
        return self in (PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE)


class GangPhase(StrEnum):
    """Where a gang stands between its seats being held and being free again.

    BOUND: seats held, admission has not confirmed. RUNNING: the pods may run. ENDING: a member has
    ended badly and the others are being stopped. STOPPING: admission wants the seats back.
    """

    BOUND = "bound"
    RUNNING = "running"
    ENDING = "ending"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedAttempt:
    """Which reservation was confirmed."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """All that placement reads of a `WorkloadAdmitted`: it has the workload already."""

    state: ConfirmedAttempt


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatedGang:
    """A gang with its seats, and what is known of its pods (by pod uid, managed jobs only).

    `admission` is what it was granted; `None` where it was seated before that was kept.

    `heard` orders what an agent said of a pod's starts, so that an older word changes nothing;
    `stalls` counts how often a gang that had started did not run whole any more.
    """

    workload: Workload
    partition: str
    attempt: int
    gang: Gang
    admission: Admission | None = None
    phase: GangPhase = GangPhase.BOUND
    pods: Mapping[str, PodPhase] = field(default_factory=dict[str, PodPhase])
    heard: Mapping[str, int] = field(default_factory=dict[str, int])
    started: bool = False
    stalls: int = 0
    lost: bool = False
    message: str = ""
    traceparent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """A node as it registered, and what placement thinks of it."""

    node: Node
    condition: NodeCondition
    drained: bool = False
    incarnation: int = 0


def pod_uid(workload_id: str, attempt: int, rank: int, replacement: int = 0) -> str:
    """The id of one pod of one attempt, for ever; one that replaces a lost pod has another."""
    uid = f"{workload_id}-{attempt}-{rank}"
    return f"{uid}-{replacement}" if replacement else uid
