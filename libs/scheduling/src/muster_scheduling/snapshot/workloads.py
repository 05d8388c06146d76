"""Workloads as the decision core sees them: prepared once, then only read.

`PendingWorkload` and `AdmittedWorkload` live as long as the workload waits or runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from muster_domain.policy import Policy
from muster_domain.queues import UNLIMITED
from muster_domain.selectors import NodeDemand
from muster_domain.states import Admission
from muster_domain.workload import LocalQueueRef, PodSet, TopologyRequest, Workload
from muster_scheduling.ordering.keys import OrderKey, effective_priority, order_key
from muster_scheduling.quota import FlavorResource, Vector, bounded
from muster_scheduling.snapshot.board import Seats
from muster_scheduling.snapshot.requests import charged_requests

REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
GROUP = "kueue.x-k8s.io/podset-group-name"
ALLOWED_FLAVORS = "kueue.x-k8s.io/workload-allowed-resource-flavors"


@dataclass(frozen=True, slots=True)
class PodSetRequest:
    """One pod set's wish: milli-units of one pod, and what its pods demand of a node.

    `per_pod` is what quota is charged, `raw` what the pod takes of a machine. Pod sets of one
    `group` share their flavors, with a topology or without (R-26).
    """

    name: str
    count: int
    min_count: int
    per_pod: Mapping[str, int]
    raw: Mapping[str, int]
    demand: NodeDemand
    topology: TopologyRequest | None
    shape: str
    group: str = ""

    def totals(self, count: int) -> dict[str, int]:
        """Milli-units of `count` pods; a product out of range stays a number (R-5)."""
        totals: dict[str, int] = {}
        for name, amount in self.per_pod.items():
            total = amount * count
            totals[name] = total if total < UNLIMITED else bounded(total)
        return totals


@dataclass(frozen=True, slots=True)
class Variant:
    """What makes a workload one of several attempts at the same job, each in a `flavor` (R-111).

    `parent` is the id that all of them share.
    """

    parent: str
    flavor: str


@dataclass(frozen=True, slots=True)
class ScanBookmark:
    """Where the flavor scan of a workload goes on (R-37).

    `tried` has the index of the last tried flavor per pod set and resource, -1 to start over.
    """

    tried: tuple[Mapping[str, int], ...]
    generation: int
    cycle: int

    @property
    def pending_flavors(self) -> bool:
        """Whether a flavor is left that was not tried."""
        return any(index != -1 for pod_set in self.tried for index in pod_set.values())


@dataclass(slots=True, eq=False)
class PendingWorkload:
    """A workload that waits for quota.

    `shape` is equal for workloads that the core cannot tell apart but by age (R-48).
    `replaces` is the key of the smaller slice of an elastic job that this one takes over (R-110);
    its own where the workload runs and is to have more pods.
    `held_back` keeps it out of the line whatever the time.
    `has_quota` marks one that already holds quota (`granted`) and comes back for seats: for all, or
    for those of `lost_node`. Flavors in `avoided` have quota and no seats.
    `failed_checks`: an admission check asked for another try or rejected it, and that still stands.
    `inadmissible` says why no queue may take it as it is.
    """

    workload: Workload
    id: str
    key: str
    namespace: str
    queue_name: str
    volcano: bool
    priority: int
    queued_at_ms: int
    pod_sets: tuple[PodSetRequest, ...]
    shape: str
    requeue_at_ms: int | None = None
    held_back: bool = False
    granted: Admission | None = None
    seats: tuple[Seats, ...] = ()
    lost_node: str = ""
    owned_by_pod: bool = False
    attempt: int = 0
    allowed_flavors: tuple[str, ...] | None = None
    parent: str = ""
    reclaimable: Mapping[str, int] = field(default_factory=dict[str, int])
    avoided: frozenset[str] = frozenset()
    replaces: str = ""
    has_quota: bool = False
    gated: bool = False
    failed_checks: bool = False
    inadmissible: str = ""
    order: OrderKey = field(default=(0, 0, ""))

    def __post_init__(self) -> None:
        self.order = order_key(self.priority, self.queued_at_ms, self.id)

    @property
    def local_queue(self) -> str:
        """`namespace/name` of its LocalQueue."""
        return f"{self.namespace}/{self.queue_name}"

    @property
    def grows(self) -> bool:
        """Whether it holds quota for the pods that run, and asks for that of more."""
        return self.replaces == self.key

    @property
    def variant(self) -> Variant | None:
        """Which attempt of its parent's it is, if one."""
        return _variant(self.parent, self.allowed_flavors)

    @property
    def may_shrink(self) -> bool:
        """Whether a smaller gang would do."""
        return any(pod_set.min_count < pod_set.count for pod_set in self.pod_sets)

    def asks(self) -> dict[str, int]:
        """Milli-units by resource over all pod sets."""
        total: dict[str, int] = {}
        for pod_set in self.pod_sets:
            for resource, amount in pod_set.totals(pod_set.count).items():
                total[resource] = total.get(resource, 0) + amount
        return total


@dataclass(slots=True, eq=False)
class AdmittedWorkload:
    """A workload that holds quota: what it is charged, and by what it is chosen as a victim.

    `evicting` is set once it must go; its quota stays charged until it has gone. `admitted` is set
    once its quota is posted. An eviction loses what it has done since `unsaved_since_ms`; `None`
    where it has done nothing.
    """

    id: str
    key: str
    cluster_queue: str
    local_queue: str
    priority: int
    queued_at_ms: int
    reserved_at_ms: int
    attempt: int
    usage: Vector
    admission: Admission
    evicting: bool = False
    admitted: bool = False
    seats: tuple[Seats, ...] = ()
    variant: Variant | None = None
    unsaved_since_ms: int | None = None


def prepare(
    workload: Workload,
    policy: Policy,
    *,
    queued_at_ms: int | None = None,
    reclaimable: Mapping[str, int] | None = None,
    parent: str = "",
) -> PendingWorkload:
    """Ready a submitted workload for the queue.

    `queued_at_ms` is the time that orders it (`queue_timestamp_ms`); creation by default.
    `reclaimable` counts pods by pod set that are done and need not start again (R-15).
    `parent` is the id of the workload that this one is a variant of.
    """
    priority = effective_priority(workload, policy)
    done = reclaimable or {}
    pod_sets = tuple(_request(p, done.get(p.name, 0), policy) for p in workload.pod_sets)
    flavors = _allowed_flavors(workload, policy)
    shape = _digest(priority, [pod_set.shape for pod_set in pod_sets], sorted(flavors or ()))
    return PendingWorkload(
        workload=workload,
        id=workload.id,
        key=workload.key,
        namespace=workload.namespace,
        queue_name=workload.queue.name,
        volcano=not isinstance(workload.queue, LocalQueueRef),
        priority=priority,
        queued_at_ms=workload.created_at_ms if queued_at_ms is None else queued_at_ms,
        pod_sets=pod_sets,
        shape=shape,
        allowed_flavors=flavors,
        parent=parent,
        reclaimable=done,
        replaces=workload.annotations.get(REPLACES, ""),
    )


def prepare_slice(
    workload: Workload,
    pods: Mapping[str, int],
    policy: Policy,
    *,
    queued_at_ms: int,
    attempt: int,
    reclaimable: Mapping[str, int],
) -> PendingWorkload:
    """Ready a workload that has `pods` by pod set for asking for those that it lacks (R-110).

    All of them, or as many as there is room for where it grows by itself.
    """
    pod_sets: list[PodSet] = []
    for pod_set in workload.pod_sets:
        has = pods.get(pod_set.name, 0)
        least = has - reclaimable.get(pod_set.name, 0) if workload.grows_by_itself else None
        pod_sets.append(replace(pod_set, count=max(pod_set.count, has), min_count=least))
    asked = replace(workload, pod_sets=tuple(pod_sets))
    found = prepare(asked, policy, queued_at_ms=queued_at_ms, reclaimable=reclaimable)
    shape = _digest(found.shape, sorted(pods.items()))
    return replace(found, attempt=attempt, replaces=workload.key, shape=shape)


def prepare_again(waiting: PendingWorkload, policy: Policy) -> PendingWorkload:
    """The same workload where it stands, as another policy sees it."""
    again = prepare(waiting.workload, policy, reclaimable=waiting.reclaimable)
    return replace(
        waiting,
        priority=again.priority,
        pod_sets=again.pod_sets,
        shape=again.shape,
        allowed_flavors=again.allowed_flavors,
    )


def hold(  # noqa: PLR0913 - the facts of one reservation, each by its name
    workload: Workload,
    admission: Admission,
    policy: Policy,
    *,
    reserved_at_ms: int,
    attempt: int = 1,
    queued_at_ms: int | None = None,
    evicting: bool = False,
    admitted: bool = False,
    seats: tuple[Seats, ...] = (),
    reclaimable: Mapping[str, int] | None = None,
    parent: str = "",
    unsaved_since_ms: int | None = None,
) -> AdmittedWorkload:
    """Ready a workload that holds quota for being charged and considered as a victim."""
    return AdmittedWorkload(
        id=workload.id,
        key=workload.key,
        cluster_queue=admission.cluster_queue,
        local_queue=f"{workload.namespace}/{workload.queue.name}",
        priority=effective_priority(workload, policy),
        queued_at_ms=workload.created_at_ms if queued_at_ms is None else queued_at_ms,
        reserved_at_ms=reserved_at_ms,
        attempt=attempt,
        usage=charged(admission, workload.pod_sets, reclaimable),
        admission=admission,
        evicting=evicting,
        admitted=admitted,
        seats=seats,
        variant=_variant(parent, _allowed_flavors(workload, policy)),
        unsaved_since_ms=unsaved_since_ms,
    )


def charged(
    admission: Admission,
    pod_sets: tuple[PodSet, ...] = (),
    reclaimable: Mapping[str, int] | None = None,
) -> dict[FlavorResource, int]:
    """Milli-units by (flavor, resource) that an admission is charged (R-15).

    Pods that are done (`reclaimable`, by pod set) give their part back, as soon as fewer than were
    admitted are left of the pod set as declared; so do those that are not declared any more.
    """
    done = reclaimable or {}
    declared = {pod_set.name: pod_set.count for pod_set in pod_sets}
    usage: dict[FlavorResource, int] = {}
    for granted in admission.pod_sets:
        total = declared.get(granted.name, granted.count)
        left = total - min(done.get(granted.name, 0), total)
        for resource, amount in granted.usage.items():
            shrunk = amount // granted.count * left if left < granted.count else amount
            fr = (granted.flavors[resource], resource)
            usage[fr] = usage.get(fr, 0) + shrunk
    return usage


def _request(pod_set: PodSet, done: int, policy: Policy) -> PodSetRequest:
    count = pod_set.count - min(done, pod_set.count)
    minimum = count if pod_set.min_count is None else min(count, pod_set.min_count)
    demand = pod_set.demand
    raw = {name: max(0, amount) for name, amount in pod_set.requests.items()}
    shape = _digest(
        count,
        minimum,
        sorted(pod_set.requests.items()),
        sorted(demand.node_selector.items()),
        demand.affinity,
        demand.tolerations,
        pod_set.topology,
        _group(pod_set),
    )
    return PodSetRequest(
        name=pod_set.name,
        count=count,
        min_count=minimum,
        per_pod=charged_requests(raw, policy),
        raw=raw,
        demand=demand,
        topology=pod_set.topology,
        shape=shape,
        group=_group(pod_set),
    )


def _allowed_flavors(workload: Workload, policy: Policy) -> tuple[str, ...] | None:
    written = workload.annotations.get(ALLOWED_FLAVORS) if policy.concurrent_admission else None
    return None if written is None else tuple(name.strip() for name in written.split(","))


def _variant(parent: str, flavors: tuple[str, ...] | None) -> Variant | None:
    return Variant(parent, flavors[0]) if parent and flavors else None


def _group(pod_set: PodSet) -> str:
    topology = pod_set.topology
    return pod_set.annotations.get(GROUP, "") if topology is None else topology.pod_set_group


def _digest(*parts: object) -> str:
    return blake2b(repr(parts).encode(), digest_size=12).hexdigest()
