"""What the leaves of a topology have and what is used of it, in milli-units (R-80, R-81).

Free quantities are kept as one vector for each resource that somebody asked for, brought up to date
leaf by leaf: who looks for victims asks after each candidate, and only its leaves have changed.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from muster_domain.quantity import Resources, add
from muster_scheduling.placement.columns import LIMIT, Vector
from muster_scheduling.placement.record import PODS

_NOTHING: Resources = {}


class Capacity:
    """By leaf number. Leaves never change; what is used of them does."""

    __slots__ = ("_changed", "_empty", "_free", "_offered", "_used")

    def __init__(self, offered: Sequence[Resources]) -> None:
        self._offered = tuple(offered)
        self._used: list[Resources] = [_NOTHING] * len(self._offered)
        self._empty: dict[str, Vector] = {}
        self._free: dict[str, Vector] = {}
        self._changed: set[int] = set()

    def __len__(self) -> int:
        return len(self._offered)

    def charge(self, leaf: int, usage: Resources) -> Resources:
        """Add to what is used of a leaf; returns what was used before."""
        before = self._used[leaf]
        self.set_used(leaf, add(before, usage))
        return before

    def set_used(self, leaf: int, used: Resources) -> None:
        """Say all that is used of a leaf."""
        self._used[leaf] = used
        self._changed.add(leaf)

    def holds(self, leaf: int, usage: Resources) -> bool:
        """Whether so much is free; a leaf that does not count pods holds any number of them."""
        offered, used = self._offered[leaf], self._used[leaf]
        return all(
            offered.get(resource, 0) - used.get(resource, 0) >= amount
            for resource, amount in usage.items()
            if resource in offered or resource != PODS
        )

    def free(self, resource: str, assumed: Mapping[int, Resources], *, empty: bool) -> Vector:
        """What is free of a resource, saturated, beside what is `assumed` to be used as well.

        `empty` leaves out what was charged. The vector is only to be read.
        """
        left = self._all_free(resource, empty=empty)
        if not assumed:
            return left
        left = left.copy()
        for leaf, more in assumed.items():
            used = more.get(resource, 0) + (0 if empty else self._used[leaf].get(resource, 0))
            left[leaf] = self._left(leaf, resource, used)
        return left

    def _all_free(self, resource: str, *, empty: bool) -> Vector:
        leaves = range(len(self._offered))
        if empty:
            if resource not in self._empty:
                left = [self._left(leaf, resource, 0) for leaf in leaves]
                self._empty[resource] = np.array(left, np.int64)
            return self._empty[resource]
        for leaf in self._changed:
            for known, vector in self._free.items():
                vector[leaf] = self._left(leaf, known, self._used[leaf].get(known, 0))
        self._changed.clear()
        if resource not in self._free:
            left = [
                self._left(leaf, resource, self._used[leaf].get(resource, 0)) for leaf in leaves
            ]
            self._free[resource] = np.array(left, np.int64)
        return self._free[resource]

    def _left(self, leaf: int, resource: str, used: int) -> int:
        offered = self._offered[leaf]
        if resource == PODS and PODS not in offered:
            return LIMIT
        return max(-LIMIT, min(LIMIT, offered.get(resource, 0) - used))
