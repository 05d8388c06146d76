"""Taking pods from ordered domains of one level until a number is reached (R-84, R-85, R-85a)."""

from dataclasses import dataclass

import numpy as np

from muster_scheduling.placement.columns import Vector
from muster_scheduling.placement.topology.counts import LevelCounts

_MANY = 2**62


@dataclass(frozen=True, slots=True)
class Rules:
    """How the last domain is chosen: the tightest, or simply the next; within affinity tiers."""

    best_fit: bool
    by_affinity: bool = False

    def tightest(
        self, counts: LevelCounts, ordered: Vector, needed: int, leaders: int, capacity: Vector
    ) -> int:
        """The first that can host the leaders with the smallest capacity that suffices.

        The first of all must do so.
        """
        candidates = ordered
        if self.by_affinity:
            other = counts.affinity[ordered] != counts.affinity[ordered[0]]
            candidates = ordered[: int(np.argmax(other))] if other.any() else ordered
        able = (capacity[candidates] >= needed) & (counts.leaders[candidates] >= leaders)
        return int(candidates[np.argmin(np.where(able, capacity[candidates], _MANY))])


@dataclass(slots=True)
class Consumption:
    """Consumes slices of `size` pods, or plain pods below the slices (`by_slices` false).

    Overwrites the counts of used domains with what was taken from them.
    """

    counts: LevelCounts
    rules: Rules
    left: int
    leaders: int
    size: int = 1
    by_slices: bool = True

    def run(self, ordered: Vector) -> list[int]:
        """The domains used, in order. Together the ordered domains must hold what is asked."""
        ordered = leader_first(
            ordered, self.counts, self.left, self.leaders, by_slices=self.by_slices
        )
        used: list[int] = []
        for index in range(len(ordered)):
            used.append(self._next(ordered[index:]))
            if not self.left and not self.leaders:
                break
        return used

    @property
    def _plain(self) -> Vector:
        return self.counts.slices if self.by_slices else self.counts.pods

    @property
    def _beside(self) -> Vector:
        return self.counts.slices_with_leader if self.by_slices else self.counts.pods_with_leader

    def _next(self, rest: Vector) -> int:
        counts = self.counts
        domain = int(rest[0])
        capacity = self._beside if self.leaders else self._plain
        if self.rules.best_fit and self._ends(domain, capacity):
            domain = self.rules.tightest(counts, rest, self.left, self.leaders, capacity)
        taken = min(int(capacity[domain]), self.left)
        leaders = min(int(counts.leaders[domain]), self.leaders)
        self.left -= taken
        self.leaders -= leaders
        self._plain[domain] = taken
        self._beside[domain] = taken
        counts.leaders[domain] = leaders
        counts.pods[domain] = taken * self.size
        return domain

    def _ends(self, domain: int, capacity: Vector) -> bool:
        return capacity[domain] >= self.left and self.counts.leaders[domain] >= self.leaders


def leader_first(
    ordered: Vector, counts: LevelCounts, needed: int, leaders: int, *, by_slices: bool
) -> Vector:
    """Put first the first domain that can host the leader and still leaves enough (R-85a)."""
    if not leaders:
        return ordered
    plain = counts.slices if by_slices else counts.pods
    beside = counts.slices_with_leader if by_slices else counts.pods_with_leader
    slack = int(plain[ordered].sum()) - needed
    hosts = (counts.leaders[ordered] > 0) & (plain[ordered] - beside[ordered] <= slack)
    if not hosts.any():
        return ordered
    first = int(np.argmax(hosts))
    return np.concatenate((ordered[first : first + 1], np.delete(ordered, first)))
