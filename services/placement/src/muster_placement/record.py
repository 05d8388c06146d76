"""What placement stores about a gang and about a node, and under which fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster_domain.conditions import Outcome
from muster_domain.nodes import Node, NodeCondition, PodAssignment
from muster_domain.states import Admission
from muster_domain.workload import Workload
from muster_scheduling.jobs.life import PodPhase
from muster_scheduling.placement.outcome import Gang

GANG_FIELD = "g/"
NODE_FIELD = "n/"


class GangPhase(StrEnum):
    """Where a gang stands between its seats being held and being free again.

    BOUND: seats held, admission has not confirmed. RUNNING: the pods may run. ENDING: it is decided
    how it ends, its `outcome`, and what still runs is being stopped. STOPPING: admission wants the
    seats back.
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

    `succeeded` pods were said to be done while others run. `heard` orders what an agent said of a
    pod's starts, so that an older word changes nothing; `stalls` counts how often a gang that had
    started did not run whole any more.

    Of a Volcano Job `retries` counts restarts, `anew` how often the pod of a rank was run anew,
    `renewing` names the ranks whose pod is to run anew once it is over, and `dues` says when a
    delayed policy is due, see `muster_placement.jobs`.

    `resizes` is the number of the last resize that admission told of, `counts` the pods by pod set
    that it is to have by that until this is answered; the ranks in `leaving` are being stopped.
    """

    workload: Workload
    partition: str
    attempt: int
    gang: Gang
    admission: Admission | None = None
    phase: GangPhase = GangPhase.BOUND
    pods: Mapping[str, PodPhase] = field(default_factory=dict[str, PodPhase])
    heard: Mapping[str, int] = field(default_factory=dict[str, int])
    succeeded: int = 0
    started: bool = False
    stalls: int = 0
    lost: bool = False
    message: str = ""
    outcome: Outcome = Outcome.FAILED
    retries: int = 0
    anew: Mapping[str, int] = field(default_factory=dict[str, int])
    renewing: tuple[int, ...] = ()
    dues: Mapping[str, int] = field(default_factory=dict[str, int])
    resizes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    leaving: tuple[int, ...] = ()
    traceparent: str = ""

    @property
    def lacks(self) -> bool:
        """Whether it is to have more pods than have seats."""
        held = self.gang.placement.counts if self.counts else {}
        return any(held.get(name, 0) < count for name, count in self.counts.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """A node as it registered, and what placement thinks of it."""

    node: Node
    condition: NodeCondition
    drained: bool = False
    incarnation: int = 0


def pod_uid(
    workload_id: str,
    attempt: int,
    rank: int,
    replacement: int = 0,
    anew: int = 0,
    resize: int = 0,
) -> str:
    """The id of one pod of one attempt, for ever; one that takes another's place has its own."""
    uid = f"{workload_id}-{attempt}-{rank}"
    uid = f"{uid}-s{resize}" if resize else uid
    uid = f"{uid}-{replacement}" if replacement else uid
    return f"{uid}-r{anew}" if anew else uid


def uid_of(seated: SeatedGang, seat: PodAssignment) -> str:
    """The id of the pod in a seat."""
    anew = seated.anew.get(str(seat.rank), 0)
    return pod_uid(
        seated.workload.id, seated.attempt, seat.rank, seat.replacement, anew, seat.resize
    )


def seat_of(seated: SeatedGang, uid: str) -> PodAssignment | None:
    """The seat of a pod of the gang."""
    return next((seat for seat in seated.gang.placement.pods if uid_of(seated, seat) == uid), None)
