"""How many of some equal pods go to which node, given how many fit on each.

`fits` is the number of pods that fit on each row; `rank` orders rows, lower first, and the lower
row wins a tie. The counts of the answer add up to `need`, which must be above zero and must not
exceed what fits in total; `fits` must be so small that its sum is an int64 (see `fits_at_most`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from muster_scheduling.placement.columns import Vector

Filling = Callable[[Vector, int], "Seats"]
"""Seats `need` pods on rows by what fits there."""


@dataclass(frozen=True, slots=True)
class Seats:
    """`counts[i]` pods on row `rows[i]`; no row twice, no count of zero."""

    rows: Vector
    counts: Vector

    @property
    def members(self) -> int:
        """How many pods have a seat."""
        return int(self.counts.sum())


NO_SEATS = Seats(np.zeros(0, np.int64), np.zeros(0, np.int64))


def fits_at_most(fits: Vector, need: int) -> tuple[Vector, int]:
    """`fits` without what exceeds `need` on any row, and its sum without what exceeds `need`."""
    limited = np.minimum(fits, need)
    return limited, min(need, int(limited.sum()))


def pack(fits: Vector, need: int, rank: Vector) -> Seats:
    """Few rows: the largest whole until one row can take the rest, then the best-ranked of those.

    Taking the largest first makes the number of rows the smallest possible.
    """
    enough = np.flatnonzero(fits >= need)
    if len(enough):
        return _on_one(int(enough[np.argmin(rank[enough])]), need)
    rows = np.flatnonzero(fits)
    order = rows[np.lexsort((rank[rows], -fits[rows]))]
    sizes = fits[order]
    before = np.cumsum(sizes) - sizes
    whole = int(np.argmax(sizes >= need - before))
    left = need - int(before[whole])
    able = np.sort(order[whole:][sizes[whole:] >= left])
    last = able[np.argmin(rank[able])]
    return Seats(np.append(order[:whole], last), np.append(sizes[:whole], left))


def spread(fits: Vector, need: int, rank: Vector) -> Seats:
    """Many rows: as even as what fits allows, the best-ranked rows taking the odd ones."""
    low, high = 1, need
    while low < high:
        level = (low + high) // 2
        if int(np.minimum(fits, level).sum()) >= need:
            high = level
        else:
            low = level + 1
    counts = np.minimum(fits, low - 1)
    odd = need - int(counts.sum())
    able = np.flatnonzero(fits >= low)
    counts[able[np.argsort(rank[able], kind="stable")][:odd]] += 1
    rows = np.flatnonzero(counts)
    return Seats(rows, counts[rows])


def in_order(fits: Vector, need: int, rank: Vector) -> Seats:
    """The best-ranked rows, each filled before the next."""
    rows = np.flatnonzero(fits)
    order = rows[np.argsort(rank[rows], kind="stable")]
    before = np.cumsum(fits[order]) - fits[order]
    counts = np.minimum(fits[order], need - before)
    used = counts > 0
    return Seats(order[used], counts[used])


def by_tier(fits: Vector, need: int, tier: Vector, fill: Filling) -> Seats:
    """All that fits on the lowest tier first, then on the next."""
    present = tier[fits > 0]
    if present.min() == present.max():
        return fill(fits, need)
    parts: list[Seats] = []
    for value in np.unique(present):
        limited, seated = fits_at_most(np.where(tier == value, fits, 0), need)
        parts.append(fill(limited, seated))
        need -= seated
        if not need:
            break
    return together(parts)


def by_domain(fits: Vector, need: int, levels: Sequence[Vector], fill: Filling) -> Seats:
    """Few domains of the first level, in each few of the next, and so on; then `fill`.

    `levels` give each row's domain, numbered from 0 in path order, or -1 for none. The largest
    domains are used whole, the last is the smallest that can take the rest.
    """
    if not levels:
        return fill(fits, need)
    limited, _ = fits_at_most(domain_totals(levels[0], fits), need)
    chosen = pack(limited, need, limited)
    parts: list[Seats] = []
    for domain, members in zip(chosen.rows.tolist(), chosen.counts.tolist(), strict=True):
        inside, _ = fits_at_most(np.where(levels[0] == domain, fits, 0), members)
        parts.append(by_domain(inside, members, levels[1:], fill))
    return together(parts)


def domain_totals(domains: Vector, fits: Vector) -> Vector:
    """What fits in each domain."""
    inside = domains >= 0
    totals = np.zeros(int(domains.max(initial=-1)) + 1, np.int64)
    np.add.at(totals, domains[inside], fits[inside])
    return totals


def together(parts: Sequence[Seats]) -> Seats:
    """One answer from several, adding up counts on the same row."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return NO_SEATS
    rows, inverse = np.unique(np.concatenate([part.rows for part in parts]), return_inverse=True)
    counts = np.zeros(len(rows), np.int64)
    np.add.at(counts, inverse, np.concatenate([part.counts for part in parts]))
    return Seats(rows, counts)


def _on_one(row: int, count: int) -> Seats:
    return Seats(np.array([row], np.int64), np.array([count], np.int64))
