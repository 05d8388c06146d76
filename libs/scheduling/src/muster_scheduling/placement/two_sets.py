"""Two pod sets that compete for nodes, seated exactly.

Nodes that only one set can use are given to it first. Over the rest goes a table: for every number
of pods of the smaller set, the most pods of the larger that the nodes so far seat beside them.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from muster_scheduling.placement.columns import Mask, Shape, Vector, pods_fitting
from muster_scheduling.placement.seating import NO_SEATS, Seats, in_order, together

_CELLS_MAX = 2**25
_SPLITS_MAX = 20_000
"""The table is filled while it is no larger than this: rows times splits of a row, and both times
the pods of the smaller set. Either is a tenth of a second."""


def seats_for_two(
    free: Mapping[str, Vector],
    fits: tuple[Vector, Vector],
    shapes: tuple[Shape, Shape],
    need: tuple[int, int],
) -> tuple[Seats, Seats] | None:
    """Seats for both sets, or `None` when there are none or the table would be too large.

    `fits` is how many pods of each set alone fit on each row of `free` milli-units.
    """
    if need[1] < need[0]:
        turned = seats_for_two(free, (fits[1], fits[0]), (shapes[1], shapes[0]), (need[1], need[0]))
        return (turned[1], turned[0]) if turned is not None else None
    shared = (fits[0] > 0) & (fits[1] > 0)
    alone = [_alone(of_set, shared, count) for of_set, count in zip(fits, need, strict=True)]
    left = [count - seats.members for count, seats in zip(need, alone, strict=True)]
    rows = np.flatnonzero(shared)
    beside = _beside(free, fits, shapes, rows, left)
    if beside is None:
        return None
    chosen = _fill(beside, left[0], left[1])
    if chosen is None:
        return None
    small = np.minimum(chosen, left[0])
    large = beside[small, np.arange(len(rows))]
    both = _cut(rows, small, left[0]), _cut(rows, large, left[1])
    return together((alone[0], both[0])), together((alone[1], both[1]))


def _alone(fits: Vector, shared: Mask, need: int) -> Seats:
    mine = np.where(shared, 0, np.minimum(fits, need))
    total = min(need, int(mine.sum()))
    return in_order(mine, total, np.zeros_like(mine)) if total else NO_SEATS


def _beside(
    free: Mapping[str, Vector],
    fits: tuple[Vector, Vector],
    shapes: tuple[Shape, Shape],
    rows: Vector,
    need: Sequence[int],
) -> Vector | None:
    """`[i, row]`: pods of the larger set beside `i` of the smaller; -1 where `i` do not fit."""
    here = {resource: column[rows] for resource, column in free.items()}
    most = np.minimum(fits[0][rows], need[0])
    depth = int(most.max(initial=0)) + 1
    splits = depth * len(rows)
    if splits > _SPLITS_MAX or splits * (need[0] + 1) > _CELLS_MAX:
        return None
    beside = np.full((depth, len(rows)), -1, np.int64)
    usage = dict(shapes[0])
    for i in range(depth):
        left = {r: column - i * usage.get(r, 0) for r, column in here.items()}
        pods = np.minimum(pods_fitting(left, shapes[1], len(rows)), need[1])
        beside[i] = np.where(i <= most, pods, -1)
    return beside


def _fill(beside: Vector, small: int, large: int) -> Vector | None:
    """How many of the smaller set each row takes, if the rows together seat both sets."""
    best = np.full(small + 1, -1, np.int64)
    best[0] = 0
    splits = np.zeros((beside.shape[1], small + 1), np.int32)
    for row in range(beside.shape[1]):
        reached = np.full(small + 1, -1, np.int64)
        for i in range(min(small, beside.shape[0] - 1) + 1):
            pods = int(beside[i, row])
            if pods < 0:
                break
            ahead = np.where(best[: small + 1 - i] >= 0, best[: small + 1 - i] + pods, -1)
            better = ahead > reached[i:]
            reached[i:][better] = ahead[better]
            splits[row, i:][better] = i
        best = reached
    if best[small] < large:
        return None
    taken = np.zeros(beside.shape[1], np.int64)
    for row in range(beside.shape[1] - 1, -1, -1):
        taken[row] = splits[row, small]
        small -= int(taken[row])
    return taken


def _cut(rows: Vector, counts: Vector, need: int) -> Seats:
    before = np.cumsum(counts) - counts
    counts = np.clip(need - before, 0, counts)
    used = counts > 0
    return Seats(rows[used], counts[used])
