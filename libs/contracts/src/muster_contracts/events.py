"""Facts, in the past tense, each published by its one owner.

Every admission event carries the state that the workload is in after it, so a projection is a
mapping from id to the last state, and the store can be rebuilt from the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster_contracts.books import BooksKept
from muster_contracts.budgets import BudgetFact
from muster_contracts.declarations import DeclarationNoted
from muster_contracts.intervals import IntervalClosed
from muster_contracts.observations import DevicesObserved
from muster_contracts.tokens import TokenPriceDrifted, TokensReported
from muster_domain.checks import CheckState, PodSetUpdate
from muster_domain.conditions import Explanation, Outcome, PreemptionReason
from muster_domain.nodes import Node, NodeCondition, Placement
from muster_domain.states import Admission, Admitted, Evicting, Finished, Pending, Reserved
from muster_domain.workload import Workload

JsonObject = Mapping[str, Any]
LiveState = Pending | Reserved | Admitted | Evicting


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSubmitted:
    """gateway: a job was accepted at the door and becomes a workload.

    `objects_sequence` is the last declared object that the gateway had seen when it resolved the
    queue; admission decides only after it has seen as much. `manifest` is the job as written.
    """

    workload: Workload
    cluster_queue: str
    objects_sequence: int
    manifest: JsonObject = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """gateway: somebody wants the workload ended."""

    workload_id: str
    by: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishReported:
    """gateway: the holder of an external job says that it ended."""

    workload_id: str
    outcome: Outcome
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed:
    """gateway: the holder of an external job is alive."""

    workload_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReported:
    """gateway: at `at_ms` (its clock) a job said that its work is saved up to now.

    `attempt` is the one that said so; 0 means whichever ran then. The latest report holds.
    """

    workload_id: str
    at_ms: int
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationRequested:
    """gateway: at `at_ms` (its clock) somebody wanted the workload to be active, or not to be.

    One that is not active gives back what it holds and waits until it is. The latest wish holds.
    """

    workload_id: str
    active: bool
    at_ms: int
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRequested:
    """gateway: at `at_ms` (its clock) somebody wanted other numbers of pods in these pod sets.

    Only of an elastic job that lives. The latest wish holds.
    """

    workload_id: str
    counts: Mapping[str, int]
    at_ms: int
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnswered:
    """gateway: somebody who may answered for an admission check of an attempt.

    `requeue_after_ms` is the pause before another try, `updates` what the pods need to be run.
    `provisioning_class_details` are what a ProvisioningRequestConfig makes node labels of.
    `resize` is the size of the workload that the check was asked about.
    """

    workload_id: str
    attempt: int
    check: str
    state: CheckState
    resize: int = 0
    by: str = ""
    message: str = ""
    requeue_after_ms: int | None = None
    updates: tuple[PodSetUpdate, ...] = ()
    provisioning_class_details: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectApplied:
    """gateway: an object was declared; the document is kept as it was written.

    `text` is its YAML, comments included, where it was written in YAML.
    """

    kind: str
    namespace: str
    name: str
    document: JsonObject
    by: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectDeleted:
    """gateway: an object is no longer wanted."""

    kind: str
    namespace: str
    name: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadQueued:
    """admission: the workload waits in its ClusterQueue."""

    workload: Workload
    cluster_queue: str
    version: int
    state: Pending


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaReserved:
    """admission: quota is held for it; placement is to find seats."""

    workload: Workload
    version: int
    state: Reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksPassed:
    """admission: all its admission checks agree; placement is to find seats.

    The workload is as the checks want its pods to be run.
    """

    workload: Workload
    version: int
    state: Reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadAdmitted:
    """admission: quota is posted and the seats are confirmed; the pods may start."""

    workload: Workload
    version: int
    state: Admitted


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsBecameReady:
    """admission: all pods of the workload run."""

    workload_id: str
    version: int
    state: Admitted


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsBecameUnready:
    """admission: all pods of the workload ran, and now they do not all run."""

    workload_id: str
    version: int
    state: Admitted


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadCheckpointed:
    """admission: the attempt's work is saved up to `state.checkpointed_at_ms`.

    One that is evicting may still say so: that is what its checkpoint signal is for.
    """

    workload_id: str
    version: int
    state: Admitted | Evicting


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaReclaimed:
    """admission: pods that are done gave their quota back; the workload holds less from now on."""

    workload_id: str
    version: int
    state: Admitted


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadResized:
    """admission: it is to have other numbers of pods, or waits for them no longer or anew.

    Where `state.resize` is `resizing`, placement is to bring the gang to its counts.
    """

    workload: Workload
    version: int
    state: LiveState


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadEvicted:
    """admission: it must give everything back; quota stays charged until it has."""

    workload_id: str
    version: int
    state: Evicting


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRequeued:
    """admission: everything was given back and it waits again."""

    workload_id: str
    version: int
    state: Pending


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFinished:
    """admission: it ended, once and for ever."""

    workload_id: str
    version: int
    state: Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionRequested:
    """admission: it could start if somebody gave back; preemption is to name victims.

    `admission` holds the flavors that were chosen, `need` the (flavor, resource) pairs that lack
    room. The answer repeats both. `used_lately` orders victims where LocalQueues take turns: what
    each LocalQueue of the ClusterQueue counts, in whole millionths of a milli-unit by resource.
    """

    workload_id: str
    version: int
    admission: Admission
    need: tuple[tuple[str, str], ...]
    used_lately: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict[str, Mapping[str, str]]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One workload that would have to give back, as of one attempt of it.

    Only the pods of `ranks`, where it names some and the gang is worth running without them.
    """

    workload_id: str
    attempt: int
    reason: PreemptionReason
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimsProposed:
    """preemption: these together would let it start. All of them or none."""

    workload_id: str
    version: int
    admission: Admission
    need: tuple[tuple[str, str], ...]
    victims: tuple[Victim, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimsNotFound:
    """preemption: nobody who may be preempted would help.

    With an `explanation` there are victims for the quota, and there would still be no seats.
    """

    workload_id: str
    version: int
    message: str = ""
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlaced:
    """placement: all members have seats, held for this attempt.

    Said again, with more replacements, when the pods of a lost node start elsewhere, and with more
    resizes when it has other pods than before: those of a gang that grew start, those that left are
    gone.
    """

    workload_id: str
    attempt: int
    placement: Placement
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangUnplaceable:
    """placement: no seats for all members; nothing is held.

    Where a Volcano session found who would have to go, `victims` are they: all of them or none.
    With a `resize` that is its number: the gang runs on with the seats that it has.
    """

    workload_id: str
    attempt: int
    explanation: Explanation
    victims: tuple[Victim, ...] = ()
    resize: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStarted:
    """placement: the agents report every member running, for the `times`-th time."""

    workload_id: str
    attempt: int
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStalled:
    """placement: a member that ran has ended and is to run again. `times` counts that."""

    workload_id: str
    attempt: int
    times: int = 1
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsSucceeded:
    """placement: so many pods of each set are done and will not run again; others still run."""

    workload_id: str
    attempt: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFinished:
    """placement: the members ended by themselves."""

    workload_id: str
    attempt: int
    outcome: Outcome
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangLost:
    """placement: a member's node is gone or drained; the gang must be evicted whole."""

    workload_id: str
    attempt: int
    node: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangAborted:
    """placement: a policy of the job aborts it; it is evicted whole and rests until resumed."""

    workload_id: str
    attempt: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GangReleased:
    """placement: no member runs any more and its seats are free."""

    workload_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityChanged:
    """placement: seats came free or nodes came back; what found no seats may try again."""

    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered:
    """agent: this is the machine. `incarnation` grows with every start of the agent."""

    node: Node
    incarnation: int
    heartbeat_interval_ms: int
    running_pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConditionChanged:
    """placement: from `at_ms` on (placement's clock) it thinks this of the node."""

    node: str
    condition: NodeCondition
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStarted:
    """agent: the pod's process runs, for the `times`-th time."""

    pod_uid: str
    workload_id: str
    attempt: int
    node: str
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRestarting:
    """agent: the pod had started `times` times, and a container of it is to start again."""

    pod_uid: str
    workload_id: str
    attempt: int
    node: str
    times: int
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFinished:
    """agent: nothing of the pod runs any more.

    `stopped` when it did not end by itself: it was told to stop, its node stopped it because it was
    cut off, or its node lost it. `exit_code` says something about the job only if not `stopped`.
    """

    pod_uid: str
    workload_id: str
    attempt: int
    node: str
    exit_code: int
    stopped: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequested:
    """gateway: keep the node empty (`drained` true) or use it again."""

    node: str
    drained: bool
    by: str = ""


JobWish = (
    CancelRequested
    | FinishReported
    | LeaseRenewed
    | CheckpointReported
    | ActivationRequested
    | ScaleRequested
    | CheckAnswered
)
Request = WorkloadSubmitted | JobWish
GangFact = (
    GangPlaced
    | GangUnplaceable
    | GangStarted
    | GangStalled
    | PodsSucceeded
    | GangFinished
    | GangLost
    | GangAborted
    | GangReleased
)
PreemptionFact = VictimsProposed | VictimsNotFound
WorkloadFact = (
    Request
    | GangFact
    | PreemptionFact
    | WorkloadQueued
    | QuotaReserved
    | ChecksPassed
    | WorkloadAdmitted
    | PodsBecameReady
    | PodsBecameUnready
    | QuotaReclaimed
    | WorkloadResized
    | WorkloadCheckpointed
    | WorkloadEvicted
    | WorkloadRequeued
    | WorkloadFinished
    | PreemptionRequested
    | CapacityChanged
)
NodeFact = NodeRegistered | NodeConditionChanged | PodStarted | PodRestarting | PodFinished
ObjectFact = ObjectApplied | ObjectDeleted
CostFact = TokensReported | TokenPriceDrifted | DeclarationNoted | DevicesObserved | IntervalClosed
Event = BudgetFact | BooksKept | WorkloadFact | NodeFact | ObjectFact | DrainRequested | CostFact
