"""Which domains are used, and how many pods go to each leaf (R-83 to R-85a).

First a level and domains of it that hold everything, then down from there level by level. Best fit
takes the largest domains and the tightest last one; unconstrained requests take the domains with
the least free capacity first.
"""

from dataclasses import dataclass

import numpy as np

from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.placement.topology.consumption import Consumption, Rules, leader_first
from muster_scheduling.placement.topology.counts import Counts
from muster_scheduling.placement.topology.terms import Terms, TopologyOptions
from muster_scheduling.placement.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True)
class Chosen:
    """Pods by leaf number in leaf order, and the leaf of the leader where there is one."""

    pods: dict[int, int]
    leader: int | None = None


class NotFitting(Exception):
    """No domains hold the request. `fitting` of `needed` slices would fit."""

    def __init__(self, fitting: int, needed: int) -> None:
        super().__init__(f"{fitting} of {needed} fit")
        self.fitting = fitting
        self.needed = needed


@dataclass(slots=True)
class Selection:
    """One search. Uses up its counts: they end as what was chosen."""

    tree: TopologyTree
    counts: Counts
    terms: Terms
    options: TopologyOptions

    def run(self) -> Chosen:
        """The placement with the fewest domains. Raises `NotFitting`."""
        level, domains = self._find_level(self.terms.level)
        return self.finish(level, np.array(domains, np.int64), pooled=True)

    def finish(self, level: int, ordered: Vector, *, pooled: bool = False) -> Chosen:
        """From domains that together hold everything to leaves (R-85).

        With `pooled` all children above the slice level are taken together; otherwise each domain
        gives its children exactly what it was given.
        """
        terms = self.terms
        domains = self._minimize(level, ordered)
        while pooled and level < min(self.tree.lowest, terms.slice_level):
            children = self.ordered(level + 1, self.tree.children(level, domains))
            level += 1
            domains = self._minimize(level, children)
        while level < self.tree.lowest:
            size = terms.slice_size
            if level >= terms.slice_level:
                size = terms.inner_sizes.get(level + 1, 1)
            domains = [child for domain in domains for child in self._split(level, domain, size)]
            level += 1
        leaves = self.counts[level]
        pods = {leaf: int(leaves.pods[leaf]) for leaf in sorted(domains) if leaves.pods[leaf]}
        leader = next((leaf for leaf in sorted(domains) if leaves.leaders[leaf]), None)
        return Chosen(pods, leader if terms.leaders else None)

    def ordered(self, level: int, domains: Vector, *, with_leader: bool = False) -> Vector:
        """Domains of a level in the order in which they are used (R-83)."""
        counts = self.counts[level]
        slices = (counts.slices_with_leader if with_leader else counts.slices)[domains]
        pods = (counts.pods_with_leader if with_leader else counts.pods)[domains]
        keys = [domains, pods, slices if self._least_free else -slices]
        if self.options.preferred_affinity:
            keys.append(-counts.affinity[domains])
        if with_leader:
            keys.append(-counts.leaders[domains])
        return domains[np.lexsort(keys)]

    @property
    def _least_free(self) -> bool:
        return self.terms.unconstrained and self.options.least_free_when_unconstrained

    @property
    def _rules(self) -> Rules:
        return Rules(not self._least_free, self.options.preferred_affinity)

    def _find_level(self, level: int) -> tuple[int, list[int]]:
        """A level at or above this one, and domains of it that hold everything (R-84)."""
        counts, terms = self.counts[level], self.terms
        if not len(counts.pods):
            raise NotFitting(0, terms.slices)
        ordered = self.ordered(level, np.arange(len(counts.pods)), with_leader=True)
        enough = (counts.slices_with_leader >= terms.slices) & (counts.leaders >= terms.leaders)
        alone = enough[ordered]
        if self._least_free and alone.any():
            return level, [int(ordered[np.argmax(alone)])]
        first = self._first_alone(alone)
        if first is not None:
            rest = ordered[first:]
            beside = counts.slices_with_leader
            chosen = self._rules.tightest(counts, rest, terms.slices, terms.leaders, beside)
            return level, [chosen]
        if terms.required:
            raise NotFitting(int(counts.slices[ordered[0]]), terms.slices)
        if level and not terms.unconstrained:
            return self._find_level(level - 1)
        return level, self._greedy(level, ordered)

    def _first_alone(self, alone: Mask) -> int | None:
        """Where to start among domains that hold everything: at the first of all, if it does.

        With preferred affinity the first may be too small; a required request then goes on.
        """
        if alone[0]:
            return 0
        if self.terms.required and self.options.preferred_affinity and alone.any():
            return int(np.argmax(alone))
        return None

    def _greedy(self, level: int, ordered: Vector) -> list[int]:
        """Several domains: first those of the leaders, then the largest (R-84)."""
        counts = self.counts[level]
        needed, leaders = self.terms.slices, self.terms.leaders
        beside = counts.slices_with_leader
        ordered = leader_first(ordered, counts, needed, leaders, by_slices=True)
        used: list[int] = []
        while leaders and len(ordered) and counts.leaders[ordered[0]]:
            domain = self._next(level, ordered, (needed, leaders), beside)
            used.append(domain)
            leaders -= int(counts.leaders[domain])
            needed -= int(beside[domain])
            ordered = ordered[1:]
        if leaders:
            raise NotFitting(0, self.terms.slices)
        rest = self.ordered(level, ordered)
        for index in range(len(rest)):
            if needed <= 0:
                break
            used.append(self._next(level, rest[index:], (needed, 0), counts.slices))
            needed -= int(counts.slices[used[-1]])
        if needed > 0:
            raise NotFitting(self.terms.slices - needed, self.terms.slices)
        return used

    def _next(
        self, level: int, rest: Vector, needed_and_leaders: tuple[int, int], capacity: Vector
    ) -> int:
        needed, leaders = needed_and_leaders
        if self._rules.best_fit and capacity[rest[0]] >= needed:
            return self._rules.tightest(self.counts[level], rest, needed, leaders, capacity)
        return int(rest[0])

    def _minimize(self, level: int, ordered: Vector) -> list[int]:
        terms = self.terms
        counts = self.counts[level]
        return Consumption(counts, self._rules, terms.slices, terms.leaders, terms.slice_size).run(
            ordered
        )

    def _split(self, level: int, parent: int, size: int) -> list[int]:
        """Give the children of a domain what it was given, in slices of `size`."""
        given, below = self.counts[level], self.counts[level + 1]
        children = self.ordered(level + 1, self.tree.children(level, [parent]))
        by_slices = size > 1
        if by_slices:
            below.slices[children] = below.pods[children] // size
            below.slices_with_leader[children] = below.pods_with_leader[children] // size
        left, leaders = int(given.pods[parent]) // size, int(given.leaders[parent])
        return Consumption(below, self._rules, left, leaders, size, by_slices).run(children)
