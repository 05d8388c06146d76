"""Quota as people declare it: flavors, queues, cohorts, priorities and checks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster_domain.quantity import Resources
from muster_domain.selectors import Labels, Selector, Taint, Toleration

UNLIMITED: int = (2**63 - 1) * 1000
"""Milli-units at and above which a quota counts as no limit at all (R-3)."""


class PlacementPolicy(StrEnum):
    """How seats are chosen among the nodes that fit.

    BINPACK takes few nodes and the fullest that fit, so whole nodes stay free. SPREAD takes as
    many nodes as possible and the emptiest first. FRAGMENTATION takes the nodes and cards where a
    pod costs least of what the pods seen so far could still use.
    """

    BINPACK = "binpack"
    SPREAD = "spread"
    FRAGMENTATION = "fragmentation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFlavor:
    """A kind of hardware: the nodes that carry all its labels.

    `placement_policy` is how pods are seated there, where it is not the installation's.
    """

    name: str
    node_labels: Labels = field(default_factory=dict[str, str])
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str = ""
    placement_policy: PlacementPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuota:
    """Quota of one resource in one flavor, in milli-units. `None` is no limit."""

    nominal_milli: int
    borrowing_limit_milli: int | None = None
    lending_limit_milli: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuotas:
    """The quotas of one flavor, by resource name."""

    flavor: str
    resources: Mapping[str, ResourceQuota]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroup:
    """Resources that are assigned one flavor together; `flavors` are tried in order."""

    covered_resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


class QueueingStrategy(StrEnum):
    """Whether a head that does not fit blocks those behind it."""

    BEST_EFFORT_FIFO = "BestEffortFIFO"
    STRICT_FIFO = "StrictFIFO"


class StopPolicy(StrEnum):
    """Whether a queue admits, and whether what it admitted may stay."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class WithinClusterQueue(StrEnum):
    """Whom a pending workload may preempt in its own ClusterQueue."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"


class ReclaimWithinCohort(StrEnum):
    """From whom in the cohort a ClusterQueue may take back its nominal quota.

    `UNSET` is in objects that no API server has completed: it allows nobody, and is not `NEVER`
    where Kueue only asks for that word.
    """

    UNSET = ""
    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"
    ANY = "Any"


class BorrowWithinCohortPolicy(StrEnum):
    """Whether a workload that must borrow may preempt in other ClusterQueues."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowWithinCohort:
    """`max_priority_threshold`: only workloads at or below it may be taken."""

    policy: BorrowWithinCohortPolicy = BorrowWithinCohortPolicy.NEVER
    max_priority_threshold: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPolicy:
    """A ClusterQueue's `preemption` block."""

    within_cluster_queue: WithinClusterQueue = WithinClusterQueue.NEVER
    reclaim_within_cohort: ReclaimWithinCohort = ReclaimWithinCohort.NEVER
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()


class WhenCan(StrEnum):
    """Whether a flavor that is usable only at a price ends the search."""

    MAY_STOP_SEARCH = "MayStopSearch"
    TRY_NEXT_FLAVOR = "TryNextFlavor"


class FungibilityPreference(StrEnum):
    """Which price is lower among the flavors that were tried."""

    BORROWING_OVER_PREEMPTION = "BorrowingOverPreemption"
    PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorFungibility:
    """When the search for a flavor goes on."""

    when_can_borrow: WhenCan = WhenCan.MAY_STOP_SEARCH
    when_can_preempt: WhenCan = WhenCan.TRY_NEXT_FLAVOR
    preference: FungibilityPreference = FungibilityPreference.BORROWING_OVER_PREEMPTION


class MigrationMode(StrEnum):
    """Whether a workload leaves the flavor that it started in for one that its queue prefers."""

    TRY_PREFERRED_FLAVORS = "TryPreferredFlavors"
    RETAIN_FIRST_ADMISSION = "RetainFirstAdmission"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentAdmission:
    """How a workload with a variant for each flavor moves between flavors (R-111).

    Nobody moves to a flavor after `last_acceptable_flavor`; empty is no such bound.
    """

    mode: MigrationMode = MigrationMode.TRY_PREFERRED_FLAVORS
    last_acceptable_flavor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckRule:
    """A check that a ClusterQueue requires; on every flavor when `on_flavors` is empty."""

    name: str
    on_flavors: tuple[str, ...] = ()


class UndeclaredResources(StrEnum):
    """What a request for a resource that no group covers means."""

    BLOCK = "BlockUndeclared"
    IGNORE = "IgnoreUndeclared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueue:
    """Quota and the order in which it is given out.

    `cohort` empty means it stands alone. `namespace_selector` `None` matches no namespace.
    `fair_weight_milli` 1000 is the weight 1.
    """

    name: str
    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort: str = ""
    queueing_strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    namespace_selector: Selector | None = None
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    preemption: PreemptionPolicy = PreemptionPolicy()
    admission_checks: tuple[AdmissionCheckRule, ...] = ()
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_weight_milli: int = 1000
    admission_fair_sharing: bool = False
    undeclared_resources: UndeclaredResources = UndeclaredResources.BLOCK
    concurrent_admission: ConcurrentAdmission = ConcurrentAdmission()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """A node of the quota tree. Its own quota is added to that of its members."""

    name: str
    parent: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_weight_milli: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    """A namespace's door to a ClusterQueue."""

    namespace: str
    name: str
    cluster_queue: str
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_weight_milli: int = 1000

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """A named priority. `of_pods` tells Kubernetes' PriorityClass from Kueue's own."""

    name: str
    value: int
    of_pods: bool = False
    is_default: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheck:
    """A second phase that must agree before a workload is admitted."""

    name: str
    controller: str
    parameters: Labels = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Node labels from the widest domain to the narrowest."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace and its labels, `kubernetes.io/metadata.name` included."""

    name: str
    labels: Labels


class QueueState(StrEnum):
    """Whether a Volcano Queue takes work. CLOSING is closed and still has PodGroups."""

    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class DequeueStrategy(StrEnum):
    """Whether a job that does not fit blocks those behind it in its Volcano Queue."""

    FIFO = "fifo"
    TRAVERSE = "traverse"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroups:
    """Groups of nodes that a Volcano Queue must use, would rather use, must not, rather not.

    On the nodes of a group in `limits` the queue holds no more than that, in milli-units.
    """

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()
    limits: Mapping[str, Resources] = field(default_factory=dict[str, Resources])


@dataclass(frozen=True, slots=True, kw_only=True)
class VolcanoQueue:
    """A Volcano Queue, in milli-units. A resource absent from `capability` has no ceiling.

    `hierarchy` and `hierarchy_weights` are the path and the weights of hierarchical DRF, as
    `root/a/b` and `1/2/8`. `node_groups` `None` says nothing of nodes.
    """

    name: str
    weight: int = 1
    parent: str = ""
    capability: Resources = field(default_factory=dict[str, int])
    deserved: Resources = field(default_factory=dict[str, int])
    guarantee: Resources = field(default_factory=dict[str, int])
    reclaimable: bool = True
    priority: int = 0
    state: QueueState = QueueState.OPEN
    dequeue_strategy: DequeueStrategy = DequeueStrategy.TRAVERSE
    node_groups: NodeGroups | None = None
    hierarchy: str = ""
    hierarchy_weights: str = ""
    created_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperNode:
    """A domain of Volcano's network topology. Lower tiers are closer together.

    Its members are the nodes, or the HyperNodes, that are named, match the selector, or in whose
    name one of the patterns is found (regular expressions; `^` and `$` bind them to its ends). A
    selector without requirements chooses nobody.
    """

    name: str
    tier: int
    tier_name: str = ""
    node_members: tuple[str, ...] = ()
    node_selector: Selector | None = None
    node_patterns: tuple[str, ...] = ()
    hyper_node_members: tuple[str, ...] = ()
    hyper_node_patterns: tuple[str, ...] = ()
