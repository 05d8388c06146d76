"""Topology assignments for the pod sets of one workload in one flavor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from muster_domain.nodes import DomainCount, TopologyAssignment
from muster_domain.quantity import Resources, add
from muster_domain.selectors import NodeDemand
from muster_domain.workload import TopologyRequest
from muster_scheduling.placement.columns import Mask
from muster_scheduling.placement.topology.assignment import merge, truncate, without
from muster_scheduling.placement.topology.balanced import choose
from muster_scheduling.placement.topology.counts import count_up
from muster_scheduling.placement.topology.selection import Chosen, NotFitting
from muster_scheduling.placement.topology.snapshot import (
    TopologySnapshot,
    count_leaves,
    filter_leaves,
)
from muster_scheduling.placement.topology.terms import (
    TopologyOptions,
    UnusableRequest,
    resolve,
)
from muster_scheduling.placement.topology.vacancy import vacancy_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyPodSet:
    """`count` equal pods; `requests` are the raw milli-units of one (R-87).

    Without a `topology` the pods may sit anywhere, as queues with only topology flavors imply.
    `previous` is what an elastic workload held before it grew or shrank.
    """

    name: str
    count: int
    requests: Resources
    demand: NodeDemand = NodeDemand()
    topology: TopologyRequest | None = None
    previous: TopologyAssignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Move the pods of one lost node. `existing` is what the pod sets hold, by name (R-88).

    A workload `owned_by_pod` is one single pod that nobody can move; it keeps what it has.
    """

    hostname: str
    existing: Mapping[str, TopologyAssignment]
    owned_by_pod: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NoTopology:
    """Why a pod set found no domains. `fitting` of `needed` slices would fit."""

    reason: str
    fitting: int = 0
    needed: int = 0
    excluded: Mapping[str, int] = field(default_factory=dict[str, int])


Found = dict[str, TopologyAssignment | NoTopology]
"""By pod set. After a refusal the pod sets behind it have no entry."""


def find_assignments(
    snapshot: TopologySnapshot,
    pod_sets: Sequence[TopologyPodSet],
    options: TopologyOptions | None = None,
    *,
    assumed: Mapping[int, Resources] | None = None,
    empty: bool = False,
    replacement: Replacement | None = None,
) -> Found:
    """Where the pod sets sit, one group after another; charges nothing.

    A pod set group is a leader and its workers. `assumed` is what the workload already uses of the
    same leaves in other flavors; `empty` looks for places as if nothing were charged.
    """
    options = options or TopologyOptions()
    shared = dict(assumed or {}) if options.share_between_flavors else {}
    search = _Search(snapshot, options, shared, empty=empty)
    found: Found = {}
    for group in _groups(pod_sets):
        if replacement is not None:
            answer = search.replace_node(group, replacement)
        else:
            answer = search.place_group(group)
        found |= answer
        if any(isinstance(one, NoTopology) for one in answer.values()):
            break
    return found


def _groups(pod_sets: Sequence[TopologyPodSet]) -> list[list[TopologyPodSet]]:
    groups: dict[str | int, list[TopologyPodSet]] = {}
    for number, pod_set in enumerate(pod_sets):
        name = pod_set.topology.pod_set_group if pod_set.topology is not None else ""
        groups.setdefault(name or number, []).append(pod_set)
    return list(groups.values())


def _workers_and_leader(
    group: list[TopologyPodSet],
) -> tuple[TopologyPodSet, TopologyPodSet | None]:
    """The smaller set of two is the leader, the second when they are equal (R-82)."""
    if len(group) == 1:
        return group[0], None
    first, second = group[:2]
    return (second, first) if second.count > first.count else (first, second)


@dataclass(slots=True)
class _Search:
    snapshot: TopologySnapshot
    options: TopologyOptions
    assumed: dict[int, Resources]
    empty: bool

    def place_group(self, group: list[TopologyPodSet]) -> Found:
        workers, leader = _workers_and_leader(group)
        if self.options.elastic and workers.previous is not None:
            resized = self._resize(workers, leader, workers.previous)
            if resized is not None:
                return resized
        return self._place(workers, leader)

    def replace_node(self, group: list[TopologyPodSet], lost: Replacement) -> Found:
        found: Found = {}
        for pod_set in group:
            existing = lost.existing.get(pod_set.name)
            if existing is None:
                continue
            if lost.owned_by_pod and self.options.keep_pod_owned:
                found[pod_set.name] = existing
                continue
            found[pod_set.name] = self._replace(pod_set, existing, lost.hostname)
            if isinstance(found[pod_set.name], NoTopology):
                break
        return found

    def _place(
        self,
        workers: TopologyPodSet,
        leader: TopologyPodSet | None,
        inside: Mask | None = None,
    ) -> Found:
        sets = [workers] if leader is None else [workers, leader]
        answer = self._choose(workers, leader, inside)
        if isinstance(answer, NoTopology):
            return {one.name: answer for one in sets}
        found: Found = {workers.name: self._assign(answer.pods, workers)}
        if leader is not None and answer.leader is not None:
            found[leader.name] = self._assign({answer.leader: 1}, leader)
        return found

    def _choose(
        self, workers: TopologyPodSet, leader: TopologyPodSet | None, inside: Mask | None
    ) -> Chosen | NoTopology:
        snapshot, options = self.snapshot, self.options
        leaders = 0 if leader is None else 1
        try:
            terms = resolve(
                snapshot.tree.labels,
                workers.topology,
                workers.count,
                leaders=leaders,
                options=options,
            )
        except UnusableRequest as refusal:
            return NoTopology(reason=str(refusal))
        everywhere = np.ones(len(snapshot.capacity), np.bool_) if inside is None else inside
        leaves = filter_leaves(
            snapshot, workers.demand, everywhere, preferred=options.preferred_affinity
        )
        requests = workers.requests, leader.requests if leader is not None else None
        counted = count_leaves(
            snapshot, leaves.usable, leaves.affinity, requests, self.assumed, empty=self.empty
        )
        try:
            return choose(snapshot.tree, count_up(snapshot.tree, counted, terms), terms, options)
        except NotFitting as refusal:
            label = snapshot.tree.labels[terms.level]
            unit = "pods" if terms.slice_size == 1 else f"slices of {terms.slice_size}"
            return NoTopology(
                reason=f"topology {snapshot.name}: {refusal.fitting} of {refusal.needed} "
                f"{unit} fit within the {label} level",
                fitting=refusal.fitting,
                needed=refusal.needed,
                excluded=leaves.excluded,
            )

    def _assign(self, pods: Mapping[int, int], pod_set: TopologyPodSet) -> TopologyAssignment:
        domains = tuple(
            DomainCount(values=self.snapshot.reported(leaf), count=pods[leaf])
            for leaf in sorted(pods)
        )
        assignment = TopologyAssignment(levels=self.snapshot.reported_levels, domains=domains)
        self._assume(assignment, pod_set)
        return assignment

    def _assume(self, assignment: TopologyAssignment, pod_set: TopologyPodSet) -> None:
        for leaf, usage in self.snapshot.usage(assignment, pod_set.requests).items():
            self.assumed[leaf] = add(self.assumed.get(leaf, {}), usage)

    def _merge(self, left: TopologyAssignment, right: TopologyAssignment) -> TopologyAssignment:
        leaves = self.snapshot.tree.leaves
        paths = {values: leaves[leaf] for values, leaf in self.snapshot.leaf_of.items()}
        return merge(left, right, paths)

    def _resize(
        self,
        workers: TopologyPodSet,
        leader: TopologyPodSet | None,
        previous: TopologyAssignment,
    ) -> Found | None:
        """Keep the pods that run; place only new ones, or drop the last ones.

        `None` when what ran has gone, or does not divide into slices: all is placed anew.
        """
        held = leader.previous if leader is not None else None
        if any(self.snapshot.stale(one) for one in (previous, held) if one is not None):
            return None
        slices = workers.topology.slices if workers.topology is not None else ()
        size = slices[0].size if slices else 1
        if previous.pods % size or workers.count % size:
            return None
        found: Found = {}
        if leader is not None and held is not None:
            found[leader.name] = held
            self._assume(held, leader)
        kept = truncate(previous, workers.count)
        self._assume(kept, workers)
        found[workers.name] = kept
        new = workers.count - kept.pods
        if new <= 0:
            return found
        placed = self._place(replace(workers, count=new), leader if held is None else None)
        more = placed[workers.name]
        if isinstance(more, TopologyAssignment):
            more = self._merge(more, kept)
        return found | placed | {workers.name: more}

    def _replace(
        self, pod_set: TopologyPodSet, existing: TopologyAssignment, hostname: str
    ) -> TopologyAssignment | NoTopology:
        """New places for the pods of one lost node; the others stay (R-88)."""
        kept, lost = without(existing, hostname)
        gone = self.snapshot.stale(kept)
        if gone is not None:
            return NoTopology(reason=f"cannot replace {hostname}: {gone[-1]} has gone as well")
        seated = {self.snapshot.leaf_of[d.values]: d.count for d in kept.domains}
        vacancy = vacancy_of(self.snapshot.tree, pod_set.topology, seated, lost)
        asked = replace(pod_set, count=lost, topology=vacancy.request)
        placed = self._place(asked, None, vacancy.inside)[pod_set.name]
        if isinstance(placed, NoTopology):
            return placed
        if not placed.domains:
            return NoTopology(reason=f"cannot replace {hostname}: no pod of it was found")
        return self._merge(placed, kept)
