"""Topology domains as numbered levels, widest first.

Domains of a level are numbered in path order, so that the lower number wins a tie, and the children
of a domain are neighbours.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, groupby

import numpy as np

from muster_scheduling.placement.columns import Vector
from muster_scheduling.placement.topology.assignment import Path


@dataclass(frozen=True, slots=True)
class TreeLevel:
    """`parent[i]` is the domain above domain `i`; its children are `first[i]` to `first[i + 1]`."""

    paths: tuple[Path, ...]
    parent: Vector
    first: Vector


@dataclass(frozen=True, slots=True)
class TopologyTree:
    """All domains that have a leaf below them. `labels` name the levels."""

    labels: tuple[str, ...]
    levels: tuple[TreeLevel, ...]

    @property
    def lowest(self) -> int:
        """The number of the lowest level."""
        return len(self.labels) - 1

    @property
    def leaves(self) -> tuple[Path, ...]:
        """Full paths of the lowest domains."""
        return self.levels[-1].paths

    def children(self, level: int, domains: Iterable[int]) -> Vector:
        """The domains one level below these, parent by parent."""
        first = self.levels[level].first
        inside = [range(int(first[domain]), int(first[domain + 1])) for domain in domains]
        return np.fromiter(chain.from_iterable(inside), np.int64)

    def ancestor(self, leaf: int, level: int) -> int:
        """The domain of a level that a leaf belongs to."""
        domain = leaf
        for below in range(self.lowest, level, -1):
            domain = int(self.levels[below].parent[domain])
        return domain


def grow_tree(labels: tuple[str, ...], leaves: Iterable[Path]) -> TopologyTree:
    """The tree over these leaf paths; each path has a value for every label."""
    paths = sorted(set(leaves))
    levels: list[TreeLevel] = []
    below: list[Path] = []
    for depth in range(len(labels), 0, -1):
        of_level = [path for path, _ in groupby(paths, key=lambda path: path[:depth])]
        number = {path: index for index, path in enumerate(of_level)}
        starts = [0] * (len(of_level) + 1)
        for path in below:
            starts[number[path[:depth]] + 1] += 1
        above = [path for path, _ in groupby(of_level, key=lambda path: path[: depth - 1])]
        place = {path: index for index, path in enumerate(above)}
        levels.append(
            TreeLevel(
                paths=tuple(of_level),
                parent=np.array([place[path[: depth - 1]] for path in of_level], np.int64),
                first=np.cumsum(np.array(starts, np.int64)),
            )
        )
        below = of_level
    return TopologyTree(labels, tuple(reversed(levels)))
