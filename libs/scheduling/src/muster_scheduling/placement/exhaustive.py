"""Pod sets that compete for nodes, seated by trying every useful split of every node.

Two sets get an exact answer from a table. More go through the nodes once and keep, after each, the
counts of pods still without a seat that nothing better dominates: exact within `_STEPS_MAX`, past
which the search gives up.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from muster_scheduling.placement.columns import Shape, Vector
from muster_scheduling.placement.seating import Seats
from muster_scheduling.placement.two_sets import seats_for_two

Counts = tuple[int, ...]
"""Pods by set."""

_STEPS_MAX = 20_000
"""Steps of the search, about a microsecond each, before it gives up."""


class _OutOfSteps(Exception):
    pass


def exhaustive_seats(
    free: Mapping[str, Vector], fits: Sequence[Vector], shapes: Sequence[Shape], need: Counts
) -> tuple[Seats, ...] | None:
    """Seats for `need` pods of each set, or `None` when there are none or the search gives up.

    `fits` is how many pods of each set alone fit on each row of `free` milli-units.
    """
    asked = {r: 0 for shape in shapes for r, _ in shape if r in free}
    for shape, count in zip(shapes, need, strict=True):
        for resource, quantity in shape:
            if resource in asked:
                asked[resource] += count * quantity
    rows = np.flatnonzero(np.max(np.stack(fits), axis=0))
    for resource, quantity in asked.items():
        if sum(np.maximum(free[resource][rows], 0).tolist()) < quantity:
            return None
    contested = {resource: free[resource] for resource in asked}
    if len(need) == 2:  # noqa: PLR2004 - the table has two axes
        return seats_for_two(
            contested, (fits[0], fits[1]), (shapes[0], shapes[1]), (need[0], need[1])
        )
    search = _Search(contested, fits, shapes, need)
    try:
        found = search.run(rows.tolist())
    except _OutOfSteps:
        return None
    return None if found is None else _seats(found, need)


class _Search:
    def __init__(
        self,
        free: Mapping[str, Vector],
        fits: Sequence[Vector],
        shapes: Sequence[Shape],
        need: Counts,
    ) -> None:
        self._free = free
        self._fits = fits
        self._shapes = [[(r, q) for r, q in shape if r in free] for shape in shapes]
        self._need = need
        self._known: dict[tuple[Counts, Counts], list[Counts]] = {}
        self._steps = 0

    def run(self, rows: list[int]) -> list[tuple[int, Counts]] | None:
        """The split of each row that together seats everything."""
        layers: list[dict[Counts, tuple[Counts, Counts]]] = []
        states = [self._need]
        nobody = (0,) * len(self._need)
        for row, could in zip(rows, self._could_still_seat(rows), strict=True):
            reached: dict[Counts, tuple[Counts, Counts]] = {}
            for state in states:
                for split in self._splits(row):
                    self._step()
                    reached.setdefault(_less(state, split), (state, split))
            layers.append(reached)
            if nobody in reached:
                return _walk_back(rows, layers, nobody)
            states = self._undominated(sorted(s for s in reached if _covers(could, s)))
        return None

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _STEPS_MAX:
            raise _OutOfSteps

    def _could_still_seat(self, rows: list[int]) -> list[Counts]:
        """After each row, what the rows behind it seat of each set alone."""
        totals = [np.cumsum(fits[rows][::-1])[::-1] - fits[rows] for fits in self._fits]
        return [tuple(int(total[i]) for total in totals) for i in range(len(rows))]

    def _undominated(self, ascending: Iterable[Counts]) -> list[Counts]:
        kept: list[Counts] = []
        for state in ascending:
            self._steps += len(kept) // 4
            self._step()
            if not any(_covers(state, other) for other in kept):
                kept.append(state)
        return kept

    def _splits(self, row: int) -> list[Counts]:
        """The largest splits of one row: none of them seats less of every set than another."""
        most = tuple(min(n, int(f[row])) for n, f in zip(self._need, self._fits, strict=True))
        left = tuple(int(column[row]) for column in self._free.values())
        known = self._known.get((most, left))
        if known is None:
            free = dict(zip(self._free, left, strict=True))
            negated = sorted(_negated(split) for split in self._enumerate(free, most, 0))
            known = [_negated(split) for split in self._undominated(negated)]
            self._known[most, left] = known
        return known

    def _enumerate(self, free: dict[str, int], most: Counts, first: int) -> Iterator[Counts]:
        self._step()
        shape = self._shapes[first]
        able = min([most[first], *(max(0, free[r]) // q for r, q in shape)])
        if first == len(most) - 1:
            yield (able,)
            return
        for count in range(able, -1, -1):
            rest = dict(free)
            for resource, quantity in shape:
                rest[resource] -= count * quantity
            for split in self._enumerate(rest, most, first + 1):
                yield (count, *split)


def _walk_back(
    rows: list[int], layers: list[dict[Counts, tuple[Counts, Counts]]], state: Counts
) -> list[tuple[int, Counts]]:
    found: list[tuple[int, Counts]] = []
    for row, reached in zip(reversed(rows[: len(layers)]), reversed(layers), strict=True):
        state, split = reached[state]
        found.append((row, split))
    return found


def _seats(found: list[tuple[int, Counts]], need: Counts) -> tuple[Seats, ...]:
    answer: list[Seats] = []
    for index, left in enumerate(need):
        rows: list[int] = []
        counts: list[int] = []
        for row, split in found:
            count = min(left, split[index])
            left -= count  # noqa: PLW2901 - what is left to seat of this set
            if count:
                rows.append(row)
                counts.append(count)
        answer.append(Seats(np.array(rows, np.int64), np.array(counts, np.int64)))
    return tuple(answer)


def _less(left: Counts, right: Counts) -> Counts:
    return tuple(max(0, a - b) for a, b in zip(left, right, strict=True))


def _covers(upper: Counts, lower: Counts) -> bool:
    return all(a >= b for a, b in zip(upper, lower, strict=True))


def _negated(counts: Counts) -> Counts:
    return tuple(-count for count in counts)
