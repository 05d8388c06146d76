"""The declared configuration, prepared once for deciding.

Owns: which queues exist and are active, which group a resource belongs to, which namespace may use
which ClusterQueue. Knows nothing of usage or of workloads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster_domain.budgets import Budget
from muster_domain.checks import ProvisioningRequestConfig
from muster_domain.conditions import PendingReason
from muster_domain.policy import Lifecycle, Policy
from muster_domain.queue_tree import tree_root
from muster_domain.queues import (
    AdmissionCheck,
    BorrowWithinCohortPolicy,
    ClusterQueue,
    Cohort,
    HyperNode,
    LocalQueue,
    Namespace,
    PreemptionPolicy,
    ReclaimWithinCohort,
    ResourceFlavor,
    StopPolicy,
    Topology,
    VolcanoQueue,
    WithinClusterQueue,
)
from muster_domain.selectors import Labels
from muster_domain.volcano_scheduler import SchedulerConfiguration
from muster_rating.prices import PriceBook
from muster_scheduling.quota import Members, QuotaNode, QuotaTree, build_tree
from muster_scheduling.snapshot.activity import (
    InactiveReason,
    Surroundings,
    inactive_checks,
    obstructions,
)
from muster_scheduling.snapshot.volcano import (
    VOLCANO_FLAVOR,
    derived_queue_name,
    volcano_flavor,
    volcano_members,
)

NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Every declared object that deciding looks at, by name (`namespace/name` for LocalQueues).

    `topologies`, `admission_checks` and `provisioning` of `None` mean that nobody keeps a list of
    them, so that a reference to one is taken as good. `inactive_checks` are checks that are said to
    be inactive, besides those that refer to nothing. Without a `volcano_scheduler` Volcano's
    session decides only about bounds on HyperNodes. `lifecycle` of `None` leaves times to the
    service's settings. `prices` are by currency.
    """

    cluster_queues: Mapping[str, ClusterQueue] = field(default_factory=dict[str, ClusterQueue])
    cohorts: Mapping[str, Cohort] = field(default_factory=dict[str, Cohort])
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict[str, ResourceFlavor])
    local_queues: Mapping[str, LocalQueue] = field(default_factory=dict[str, LocalQueue])
    namespaces: Mapping[str, Namespace] = field(default_factory=dict[str, Namespace])
    topologies: Mapping[str, Topology] | None = None
    admission_checks: Mapping[str, AdmissionCheck] | None = None
    inactive_checks: frozenset[str] = frozenset()
    provisioning: Mapping[str, ProvisioningRequestConfig] | None = None
    volcano_queues: Mapping[str, VolcanoQueue] = field(default_factory=dict[str, VolcanoQueue])
    hyper_nodes: Mapping[str, HyperNode] = field(default_factory=dict[str, HyperNode])
    volcano_scheduler: SchedulerConfiguration | None = None
    policy: Policy = Policy()
    lifecycle: Lifecycle | None = None
    budgets: Mapping[str, Budget] = field(default_factory=dict[str, Budget])
    prices: Mapping[str, PriceBook] = field(default_factory=dict[str, PriceBook])


@dataclass(frozen=True, slots=True)
class Group:
    """One resource group of a ClusterQueue, ready to be scanned."""

    index: int
    resources: frozenset[str]
    flavors: tuple[str, ...]


class QueueEntry:
    """A ClusterQueue with its node in the quota tree. `root` names its cohort tree."""

    __slots__ = (
        "group_of", "groups", "inactive", "name", "node", "obstructions",
        "preempts_while_borrowing", "queue", "root", "topology_only",
    )  # fmt: skip

    def __init__(self, queue: ClusterQueue, node: QuotaNode, catalog: "Catalog") -> None:
        self.name = queue.name
        self.queue = queue
        self.node = node
        self.groups = tuple(
            Group(
                index,
                frozenset(group.covered_resources),
                tuple(flavor.flavor for flavor in group.flavors),
            )
            for index, group in enumerate(queue.resource_groups)
        )
        self.group_of: dict[str, Group] = {}
        for group in self.groups:
            for resource in sorted(group.resources):
                self.group_of.setdefault(resource, group)
        self.root = catalog.root_of(queue)
        self.obstructions = obstructions(queue, catalog.surroundings)
        self.inactive = tuple(found.reason for found in self.obstructions)
        flavors = [catalog.flavors.get(name) for group in self.groups for name in group.flavors]
        self.topology_only = bool(flavors) and all(
            flavor is not None and flavor.topology_name for flavor in flavors
        )
        self.preempts_while_borrowing = _preempts_while_borrowing(
            queue.preemption, catalog.configuration.policy
        )

    @property
    def active(self) -> bool:
        """Whether it admits anything at all."""
        return not self.inactive


class Catalog:
    """A configuration with its quota tree."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.flavors: dict[str, ResourceFlavor] = dict(configuration.flavors)
        if configuration.volcano_queues:
            self.flavors.setdefault(VOLCANO_FLAVOR, volcano_flavor())
        self.topologies = configuration.topologies
        self.topology_flavors = frozenset(
            name for name, flavor in self.flavors.items() if flavor.topology_name
        )
        derived, derived_cohorts = volcano_members(configuration.volcano_queues)
        queues = {**configuration.cluster_queues, **derived}
        self.cohorts: dict[str, Cohort] = {**configuration.cohorts, **derived_cohorts}
        self._parents = {name: c.parent for name, c in self.cohorts.items()}
        self.tree: QuotaTree = build_tree(Members(queues, self.cohorts))
        self.surroundings = Surroundings(
            flavors=self.flavors,
            topologies=configuration.topologies,
            checks=configuration.admission_checks,
            inactive_checks=_inactive_checks(configuration),
            cyclic=self.tree.cyclic,
        )
        self.queues: dict[str, QueueEntry] = {
            name: QueueEntry(queue, self.tree.queues[name], self)
            for name, queue in sorted(queues.items())
        }
        self.queues_of_root: dict[str, list[QueueEntry]] = {}
        for entry in self.queues.values():
            self.queues_of_root.setdefault(entry.root, []).append(entry)

    def root_of(self, queue: ClusterQueue) -> str:
        """Name of the queue's cohort tree."""
        return tree_root(queue.name, queue.cohort, self._parents)

    def cluster_queue_name(self, namespace: str, queue: str, *, volcano: bool = False) -> str:
        """The ClusterQueue behind a LocalQueue or Volcano queue; empty when the door is missing."""
        if volcano:
            known = queue in self.configuration.volcano_queues
            return derived_queue_name(queue) if known else ""
        local = self.configuration.local_queues.get(f"{namespace}/{queue}")
        return local.cluster_queue if local is not None else ""

    def is_stopped(self, local_queue: str) -> bool:
        """Whether a LocalQueue lets nobody through (R-101)."""
        local = self.configuration.local_queues.get(local_queue)
        return local is not None and local.stop_policy is not StopPolicy.NONE

    def is_volcano(self, name: str) -> bool:
        """Whether the ClusterQueue was derived from a Volcano queue."""
        entry = self.queues.get(name)
        return entry is not None and name not in self.configuration.cluster_queues

    def labels_of(self, namespace: str) -> Labels:
        """Labels of a namespace; one that was never declared has its name as its only label."""
        declared = self.configuration.namespaces.get(namespace)
        return declared.labels if declared is not None else {NAMESPACE_LABEL: namespace}


def _inactive_checks(configuration: Configuration) -> dict[str, str]:
    said = dict.fromkeys(configuration.inactive_checks, "")
    if configuration.provisioning is None:
        return said
    return said | inactive_checks(configuration.admission_checks or {}, configuration.provisioning)


def _preempts_while_borrowing(rules: PreemptionPolicy, policy: Policy) -> bool:
    return (
        rules.borrow_within_cohort.policy is not BorrowWithinCohortPolicy.NEVER
        or (
            policy.fair_sharing is not None
            and rules.reclaim_within_cohort is not ReclaimWithinCohort.NEVER
        )
        or (
            policy.improvements.own_victims_while_borrowing
            and rules.within_cluster_queue is not WithinClusterQueue.NEVER
        )
    )


def suspension(reasons: tuple[InactiveReason, ...]) -> PendingReason:
    """What a pending workload of an inactive ClusterQueue is told."""
    stopped_only = reasons == (InactiveReason.STOPPED,)
    return PendingReason.SUSPENDED if stopped_only else PendingReason.MISCONFIGURED
