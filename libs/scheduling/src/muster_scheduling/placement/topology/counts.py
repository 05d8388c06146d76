"""How many pods and slices fit in every domain, from the leaves up (R-81)."""

from dataclasses import dataclass

import numpy as np

from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.placement.topology.terms import Terms
from muster_scheduling.placement.topology.tree import TopologyTree

_MANY = 2**62
_PODS_MAX = 2**31 - 1


@dataclass(slots=True)
class LevelCounts:
    """What fits in each domain of one level; the search overwrites it with what it chose.

    `leaders` is 1 where a leader fits; `*_with_leader` is what fits beside it.
    """

    pods: Vector
    pods_with_leader: Vector
    leaders: Vector
    affinity: Vector
    slices: Vector
    slices_with_leader: Vector

    def copy(self) -> "LevelCounts":
        """An independent copy."""
        return LevelCounts(
            self.pods.copy(),
            self.pods_with_leader.copy(),
            self.leaders.copy(),
            self.affinity.copy(),
            self.slices.copy(),
            self.slices_with_leader.copy(),
        )


Counts = list[LevelCounts]
"""By level, widest first."""


def leaf_counts(
    pods: Vector, pods_with_leader: Vector, leaders: Vector, affinity: Vector
) -> LevelCounts:
    """The counts of the lowest level, before slices are known. 2**31 pods are as good as more."""
    nothing = np.zeros_like(pods)
    pods, pods_with_leader = (np.minimum(fits, _PODS_MAX) for fits in (pods, pods_with_leader))
    return LevelCounts(pods, pods_with_leader, leaders.copy(), affinity, nothing, nothing.copy())


def count_up(tree: TopologyTree, leaves: LevelCounts, terms: Terms) -> Counts:
    """The counts of every level above the given leaves."""
    counts = [leaves]
    if terms.slice_level == tree.lowest:
        _count_slices(leaves, terms.slice_size)
    for level in range(tree.lowest - 1, -1, -1):
        counts.insert(0, count_level(tree, level, counts[0], terms))
    return counts


def count_level(tree: TopologyTree, level: int, below: LevelCounts, terms: Terms) -> LevelCounts:
    """The counts of a level from those of the level below it."""
    inner = terms.inner_sizes.get(level + 1, 1)
    pods = below.pods // inner * inner
    pods_with_leader = below.pods_with_leader // inner * inner
    able = np.ones_like(below.leaders, np.bool_) if not terms.leaders else below.leaders > 0
    parent = tree.levels[level + 1].parent
    size = len(tree.levels[level].paths)
    summed = LevelCounts(*np.zeros((6, size), np.int64))
    np.add.at(summed.pods, parent, pods)
    np.add.at(summed.slices, parent, below.slices)
    np.add.at(summed.affinity, parent, below.affinity)
    np.maximum.at(summed.leaders, parent, below.leaders)
    lost_pods = _least(parent, pods - pods_with_leader, able, size)
    lost_slices = _least(parent, below.slices - below.slices_with_leader, able, size)
    summed.pods_with_leader = np.where(lost_pods < _MANY, summed.pods - lost_pods, 0)
    summed.slices_with_leader = np.where(lost_slices < _MANY, summed.slices - lost_slices, 0)
    if level == terms.slice_level:
        _count_slices(summed, terms.slice_size)
    return summed


def _count_slices(counts: LevelCounts, size: int) -> None:
    counts.slices = counts.pods // size
    counts.slices_with_leader = counts.pods_with_leader // size


def _least(parent: Vector, lost: Vector, able: Mask, size: int) -> Vector:
    least = np.full(size, _MANY, np.int64)
    np.minimum.at(least, parent, np.where(able, lost, _MANY))
    return least
