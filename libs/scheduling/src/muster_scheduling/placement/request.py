"""What is asked of placement: seats for every member of one gang."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster_domain.errors import InvalidValue
from muster_domain.nodes import NumaPolicy
from muster_domain.quantity import Resources
from muster_domain.queues import PlacementPolicy, ResourceFlavor, Topology
from muster_domain.selectors import NodeDemand
from muster_domain.states import Admission, PodSetAdmission
from muster_domain.workload import PodSet, TopologyRequest, Workload
from muster_scheduling.placement.shares import GPU, WHOLE
from muster_scheduling.placement.topology.terms import TopologyOptions
from muster_scheduling.placement.zones import NUMA_POLICY, Near

_NUMA_POLICIES = {policy.value: policy for policy in NumaPolicy}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetRequest:
    """`count` equal pods of a gang; `requests` are milli-units of one pod.

    `min_count` below `count` makes the set elastic: that many must be seated, the rest as far as
    they fit. The labels and tolerations of `flavors`, which admission chose, are added to `demand`.
    `levels` are the node labels of the flavor's topology from wide to narrow: with them Kueue's
    topology rules seat the pods, anywhere if no `topology` is asked for (implied). Without them the
    label that `topology` names stands alone.
    """

    name: str
    count: int
    requests: Resources
    min_count: int | None = None
    demand: NodeDemand = NodeDemand()
    flavors: tuple[ResourceFlavor, ...] = ()
    topology: TopologyRequest | None = None
    levels: tuple[str, ...] = ()
    numa: NumaPolicy = NumaPolicy.NONE

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.count:
            raise InvalidValue(
                f"min_count {self.min_count} of count {self.count}",
                field=self.name,
                fix="write 0 <= min_count <= count",
            )
        if any(quantity < 0 for quantity in self.requests.values()):
            raise InvalidValue("a request is below zero", field=self.name, fix="write 0 or more")

    @property
    def near(self) -> Near | None:
        """What a pod wants of one NUMA zone, if it wants any."""
        if self.numa is NumaPolicy.NONE:
            return None
        cards = self.requests.get(GPU, 0) // WHOLE
        return Near(self.numa, self.requests.get("cpu", 0), cards)

    @property
    def least(self) -> int:
        """How many pods must be seated."""
        return self.count if self.min_count is None else self.min_count

    @property
    def topology_levels(self) -> tuple[str, ...]:
        """Labels that a node must carry: all levels of the flavor's topology, else those named."""
        if self.levels or self.topology is None:
            return self.levels
        named = (self.topology.node_label, *(one.node_label for one in self.topology.slices))
        return tuple(dict.fromkeys(label for label in named if label))

    @property
    def by_topology(self) -> bool:
        """Whether Kueue's topology rules seat it (R-82 to R-86).

        They do where its flavor has a topology, and for slices and pod set groups.
        """
        request = self.topology
        return bool(self.levels) or (
            request is not None and bool(request.slices or request.pod_set_group)
        )

    @property
    def topology_name(self) -> str:
        """The topology of its flavors; empty where none is declared."""
        return next((one.topology_name for one in self.flavors if one.topology_name), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRequest:
    """One workload's pod sets, seated together or not at all. `excluded` nodes are not used.

    `options` are Kueue's switches for pod sets that a topology seats; `policy` is for the others.
    """

    workload: str
    pod_sets: tuple[PodSetRequest, ...]
    policy: PlacementPolicy = PlacementPolicy.BINPACK
    excluded: frozenset[str] = frozenset()
    options: TopologyOptions = TopologyOptions()

    def __post_init__(self) -> None:
        names = [pod_set.name for pod_set in self.pod_sets]
        if len(names) != len(set(names)):
            raise InvalidValue(
                "two pod sets have one name", field=self.workload, fix="name each pod set once"
            )


def policy_of(request: GangRequest, otherwise: PlacementPolicy) -> PlacementPolicy:
    """The policy of the first flavor, in the order of pod sets and flavor names, that has one."""
    of_flavors = (f.placement_policy for pod_set in request.pod_sets for f in pod_set.flavors)
    return next((policy for policy in of_flavors if policy is not None), otherwise)


def request_for(
    workload: Workload,
    admission: Admission,
    flavors: Mapping[str, ResourceFlavor],
    topologies: Mapping[str, Topology],
    *,
    elastic: bool = False,
) -> GangRequest:
    """The request of an admitted workload: admitted counts, and the flavors that were chosen.

    `elastic` keeps `min_count`, so that fewer pods than were admitted may be seated (Volcano's
    elastic gang); otherwise the admitted count is exact (Kueue's partial admission decides once).
    Raises `KeyError` when a flavor or topology that the admission names is not given.
    """
    granted = {pod_set.name: pod_set for pod_set in admission.pod_sets}
    return GangRequest(
        workload=workload.id,
        pod_sets=tuple(
            _pod_set_request(pod_set, granted[pod_set.name], flavors, topologies, elastic=elastic)
            for pod_set in workload.pod_sets
        ),
    )


def numa_policy(annotations: Mapping[str, str]) -> NumaPolicy:
    """What a pod's annotation says; an unknown word asks for nothing."""
    return _NUMA_POLICIES.get(annotations.get(NUMA_POLICY, ""), NumaPolicy.NONE)


def _pod_set_request(
    pod_set: PodSet,
    granted: PodSetAdmission,
    flavors: Mapping[str, ResourceFlavor],
    topologies: Mapping[str, Topology],
    *,
    elastic: bool,
) -> PodSetRequest:
    chosen = tuple(flavors[name] for name in sorted(set(granted.flavors.values())))
    levels = next((topologies[f.topology_name].levels for f in chosen if f.topology_name), ())
    least = granted.count if pod_set.min_count is None else min(pod_set.min_count, granted.count)
    return PodSetRequest(
        name=pod_set.name,
        count=granted.count,
        min_count=least if elastic else None,
        requests=pod_set.requests,
        demand=pod_set.demand,
        flavors=chosen,
        topology=pod_set.topology,
        levels=levels,
        numa=numa_policy(pod_set.annotations),
    )
