"""The leaves of one flavor's topology: what they offer, and what is used of it (R-80)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from muster_domain.nodes import Node, NodeCondition, TopologyAssignment
from muster_domain.quantity import Resources, add, scale
from muster_domain.queues import ResourceFlavor, Topology
from muster_domain.selectors import NodeDemand, Toleration, untolerated
from muster_scheduling.placement.columns import LIMIT, Mask, Shape, Vector, pods_fitting
from muster_scheduling.placement.outcome import Predicate
from muster_scheduling.placement.record import HOSTNAME, pod_usage
from muster_scheduling.placement.topology.assignment import Path
from muster_scheduling.placement.topology.capacity import Capacity
from muster_scheduling.placement.topology.counts import LevelCounts, leaf_counts
from muster_scheduling.placement.topology.terms import TopologyOptions
from muster_scheduling.placement.topology.tree import TopologyTree, grow_tree

DEMANDS_KEPT = 16
"""For so many different demands on nodes it is remembered which nodes meet them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPod:
    """A pod of no topology workload; it counts while it has a node and has not ended."""

    node: str
    requests: Resources
    ended: bool = False


@dataclass(slots=True)
class TopologySnapshot:
    """Capacity by leaf. A leaf is a node where hostnames are the lowest level, else all its nodes.

    `capacity` holds what the usable nodes offer, less what others than topology workloads use
    there, and what was charged since.
    """

    name: str
    tree: TopologyTree
    tolerations: tuple[Toleration, ...]
    nodes: tuple[Node, ...]
    capacity: Capacity
    leaf_of: dict[Path, int] = field(init=False)
    _refusals: list[tuple[NodeDemand, Mapping[int, str]]] = field(init=False)

    def __post_init__(self) -> None:
        self._refusals = []
        reported = (self.reported(leaf) for leaf in range(len(self.capacity)))
        self.leaf_of = {values: leaf for leaf, values in enumerate(reported)}

    @property
    def by_node(self) -> bool:
        """Whether each leaf is one node."""
        return self.tree.labels[-1] == HOSTNAME

    def reported(self, leaf: int) -> Path:
        """A leaf as assignments name it: by hostname alone where it is a node (R-87)."""
        path = self.tree.leaves[leaf]
        return path[-1:] if self.by_node else path

    @property
    def reported_levels(self) -> tuple[str, ...]:
        """The levels of the values that assignments give."""
        return self.tree.labels[-1:] if self.by_node else self.tree.labels

    def charge(self, assignment: TopologyAssignment, requests: Resources) -> None:
        """Count the pods of an assignment as usage; leaves that are gone do not count."""
        for leaf, usage in self.usage(assignment, requests).items():
            self.capacity.charge(leaf, usage)

    def release(self, assignment: TopologyAssignment, requests: Resources) -> None:
        """Undo `charge`."""
        for leaf, usage in self.usage(assignment, requests).items():
            self.capacity.charge(leaf, scale(usage, -1))

    def charge_others(
        self, assignment: TopologyAssignment, requests: Resources, options: TopologyOptions
    ) -> None:
        """Count pods of another flavor on the same machines; only nodes can be told apart."""
        if self.by_node and options.share_between_flavors:
            self.charge(assignment, requests)

    def usage(
        self, assignment: TopologyAssignment, requests: Resources
    ) -> dict[int, dict[str, int]]:
        """What the pods of an assignment use, by leaf number (R-87)."""
        one = pod_usage(requests)
        return {
            self.leaf_of[domain.values]: scale(one, domain.count)
            for domain in assignment.domains
            if domain.values in self.leaf_of
        }

    def refusals(self, demand: NodeDemand) -> Mapping[int, str]:
        """The leaves that are out of the question for a pod, in order, and why."""
        for known, answer in self._refusals:
            if known == demand:
                return answer
        reasons = (_refusal(node, demand, self.tolerations) for node in self.nodes)
        found = {leaf: reason for leaf, reason in enumerate(reasons) if reason}
        self._refusals = [(demand, found), *self._refusals[: DEMANDS_KEPT - 1]]
        return found

    def stale(self, assignment: TopologyAssignment) -> Path | None:
        """The first domain of an assignment that has gone, if any."""
        gone = (d.values for d in assignment.domains if d.values not in self.leaf_of)
        return next(gone, None)


@dataclass(slots=True)
class LeafFilter:
    """What a pod may use: `usable` leaves, how well it likes each, and why others are out."""

    usable: Mask
    affinity: Vector
    excluded: dict[str, int] = field(default_factory=dict[str, int])


def topology_snapshot(
    topology: Topology,
    flavor: ResourceFlavor,
    nodes: Iterable[tuple[Node, NodeCondition]],
    others: Iterable[OtherPod] = (),
) -> TopologySnapshot:
    """The leaves made of these nodes.

    Only READY nodes with all labels of the flavor and of the topology's levels count; a hostname
    must be reported as a label like any other.
    """
    taken = _used_by(others)
    found: dict[Path, tuple[Node, dict[str, int]]] = {}
    ready = (node for node, condition in nodes if condition is NodeCondition.READY)
    for node in sorted(ready, key=lambda node: node.name):
        path = tuple(node.labels.get(label) for label in topology.levels)
        wanted = flavor.node_labels.items()
        if None in path or any(node.labels.get(key) != value for key, value in wanted):
            continue
        full = tuple(value for value in path if value is not None)
        free = add(node.allocatable, scale(taken.get(node.name, {}), -1))
        first, total = found.get(full, (node, {}))
        found[full] = first, add(total, free)
    tree = grow_tree(topology.levels, found)
    return TopologySnapshot(
        name=topology.name,
        tree=tree,
        tolerations=flavor.tolerations,
        nodes=tuple(found[path][0] for path in tree.leaves),
        capacity=Capacity([found[path][1] for path in tree.leaves]),
    )


def filter_leaves(
    snapshot: TopologySnapshot, demand: NodeDemand, inside: Mask, *, preferred: bool
) -> LeafFilter:
    """Leaves that a pod may use: within `inside`, and where they are nodes, by its demands."""
    found = LeafFilter(inside.copy(), np.zeros(len(inside), np.int64))
    if not snapshot.by_node:
        return found
    for leaf, reason in snapshot.refusals(demand).items():
        if inside[leaf]:
            found.usable[leaf] = False
            found.excluded[reason] = found.excluded.get(reason, 0) + 1
    terms = demand.affinity.preferred_terms if preferred else ()
    if terms:
        for leaf in np.flatnonzero(found.usable).tolist():
            labels = snapshot.nodes[leaf].labels
            found.affinity[leaf] = sum(t.weight for t in terms if t.term.matches(labels))
    return found


def count_leaves(
    snapshot: TopologySnapshot,
    usable: Mask,
    affinity: Vector,
    requests: tuple[Resources, Resources | None],
    assumed: Mapping[int, Resources],
    *,
    empty: bool = False,
) -> LevelCounts:
    """How many pods fit on each leaf, alone and beside a leader; `requests` are both of one pod.

    `assumed` is used up as well, by leaf number; `empty` ignores what was charged (R-81).
    """
    pod = pod_usage(requests[0])
    leader = pod_usage(requests[1]) if requests[1] is not None else {}
    resources = sorted(pod.keys() | leader.keys())
    free = {r: snapshot.capacity.free(r, assumed, empty=empty) for r in resources}
    size = len(snapshot.capacity)
    alone = np.where(usable, pods_fitting(free, _shape(pod), size), 0)
    if not leader:
        return leaf_counts(alone, alone.copy(), np.zeros(size, np.int64), affinity)
    leaders = np.where(usable, np.minimum(pods_fitting(free, _shape(leader), size), 1), 0)
    beside = {r: free[r] - leaders * min(LIMIT, leader.get(r, 0)) for r in free}
    with_leader = np.where(usable, pods_fitting(beside, _shape(pod), size), 0)
    return leaf_counts(alone, with_leader, leaders, affinity)


def _used_by(pods: Iterable[OtherPod]) -> dict[str, dict[str, int]]:
    used: dict[str, dict[str, int]] = {}
    for pod in pods:
        if not pod.ended:
            used[pod.node] = add(used.get(pod.node, {}), pod_usage(pod.requests))
    return used


def _shape(usage: Mapping[str, int]) -> Shape:
    return tuple(sorted(usage.items()))


def _refusal(node: Node, demand: NodeDemand, more: tuple[Toleration, ...]) -> str:
    if untolerated(node.taints, (*demand.tolerations, *more)) is not None:
        return Predicate.TAINT
    wanted = demand.node_selector.items()
    if any(node.labels.get(key) != value for key, value in wanted):
        return Predicate.NODE_SELECTOR
    required = demand.affinity.required_terms
    if required and not any(t.requirements and t.matches(node.labels) for t in required):
        return Predicate.NODE_AFFINITY
    return ""
