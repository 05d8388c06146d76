"""The search for seats: pod sets one after another, each on what the others left.

Equal pods are easy: a set alone fits if and only if the sums of what fits per node suffice. Sets
of different pods compete, so several orders are tried before a gang is refused (`seat_gang`).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from muster_scheduling.placement.attempt import Attempt
from muster_scheduling.placement.columns import Columns
from muster_scheduling.placement.exhaustive import exhaustive_seats
from muster_scheduling.placement.plan import Plan, Seating, Unit, units_of
from muster_scheduling.placement.request import GangRequest
from muster_scheduling.placement.seating import NO_SEATS, fits_at_most


def seat_gang(columns: Columns, request: GangRequest, plans: Sequence[Plan]) -> Seating:
    """Seats for the whole gang, else the most members that any attempt seated.

    A gang of one set gets the exact answer. For several sets these orders are tried: hardest first
    (required topology, fewest nodes, largest share of a node), largest total demand first, as
    written, hardest last; each once with the policy and once leaving alone what the other sets
    could use. Full counts come before smaller elastic counts. When none of them succeeds, sets
    without a required topology get an exhaustive search of bounded length. Where a topology seats
    every set, the first order is as written, which is Kueue's.
    """
    best = Seating((NO_SEATS,) * len(plans), complete=False)
    for attempt in _attempts(columns, request, plans):
        found = attempt.run()
        if found.complete:
            return found
        if found.members > best.members:
            best = found
    return _exhaustive(columns, plans) or best


def _attempts(columns: Columns, request: GangRequest, plans: Sequence[Plan]) -> Iterator[Attempt]:
    elastic = any(p.pod_set.least < p.pod_set.count for p in plans)
    if len(plans) == 1:
        yield Attempt(columns, request, plans, ((0,),), elastic=elastic)
        return
    orders = _orders(columns, plans)
    for smaller in (False, True) if elastic else (False,):
        for yielding in (False, True):
            for order in orders:
                yield Attempt(columns, request, plans, order, elastic=smaller, yielding=yielding)


def _exhaustive(columns: Columns, plans: Sequence[Plan]) -> Seating | None:
    if len(plans) == 1 or any(
        p.required or p.pod_set.by_topology or p.share or p.instances or p.pod_set.near
        for p in plans
    ):
        return None
    least = tuple(found.pod_set.least for found in plans)
    if any(fits_at_most(p.fits, n)[1] < n for p, n in zip(plans, least, strict=True)):
        return None
    fits = [found.fits for found in plans]
    shapes = [found.shape for found in plans]
    seats = exhaustive_seats(columns.free, fits, shapes, least)
    return None if seats is None else Seating(seats, complete=True)


def _orders(columns: Columns, plans: Sequence[Plan]) -> list[tuple[Unit, ...]]:
    def hardness(unit: Unit) -> tuple[bool, int, int, Unit]:
        found = plans[unit[0]]
        nodes = int(np.count_nonzero(found.fits))
        constrained = found.required or found.pod_set.by_topology
        return not constrained, nodes, -columns.share_of_largest(found.shape), unit

    def demand(unit: Unit) -> tuple[int, Unit]:
        share = columns.share_of_largest(plans[unit[0]].shape)
        return -share * plans[unit[0]].pod_set.count, unit

    written = tuple(units_of(plans))
    hardest = tuple(sorted(written, key=hardness))
    largest = tuple(sorted(written, key=demand))
    orders = (hardest, largest, written, hardest[::-1])
    if all(found.pod_set.by_topology for found in plans):
        orders = (written, *orders)
    return list(dict.fromkeys(orders))
