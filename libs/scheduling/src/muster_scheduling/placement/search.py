"""The search for seats: pod sets one after another, each on what the others left.

Equal pods are easy: a set alone fits if and only if the sums of what fits per node suffice. Sets
of different pods compete, so several orders are tried before a gang is refused (`seat_gang`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from muster_domain.workload import TopologyMode
from muster_scheduling.placement.columns import Columns, Shape, Vector, pods_fitting
from muster_scheduling.placement.domains import Domains, Narrowed, domains, narrow
from muster_scheduling.placement.eligibility import Eligibility, eligibility
from muster_scheduling.placement.exhaustive import exhaustive_seats
from muster_scheduling.placement.record import pod_usage
from muster_scheduling.placement.request import GangRequest, PlacementPolicy, PodSetRequest
from muster_scheduling.placement.seating import (
    NO_SEATS,
    Seats,
    by_domain,
    by_tier,
    fits_at_most,
    in_order,
    pack,
    spread,
    together,
)

_USED_BY_GANG = 2**60
"""Moves nodes that the gang already uses before (BINPACK) or behind (SPREAD) all others."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One pod set against the nodes as they are: `fits` is how many of its pods each can seat."""

    pod_set: PodSetRequest
    shape: Shape
    eligible: Eligibility
    domains: Domains
    fits: Vector


@dataclass(frozen=True, slots=True)
class Seating:
    """Seats by pod set, in request order. `complete` when every set has its least."""

    seats: tuple[Seats, ...]
    complete: bool

    @property
    def members(self) -> int:
        """How many pods have a seat."""
        return sum(seats.members for seats in self.seats)


def plan(columns: Columns, pod_set: PodSetRequest, excluded: frozenset[str]) -> Plan:
    """Evaluate one pod set against all nodes."""
    shape = tuple(sorted(pod_usage(pod_set.requests).items()))
    eligible = eligibility(columns, pod_set, excluded)
    return Plan(
        pod_set=pod_set,
        shape=shape,
        eligible=eligible,
        domains=domains(columns, pod_set.topology_levels),
        fits=np.where(eligible.usable, columns.fitting(shape), 0),
    )


def seat_gang(columns: Columns, request: GangRequest, plans: Sequence[Plan]) -> Seating:
    """Seats for the whole gang, else the most members that any attempt seated.

    A gang of one set gets the exact answer. For several sets these orders are tried: hardest first
    (required topology, fewest nodes, largest share of a node), largest total demand first, as
    written, hardest last; each once with the policy and once leaving alone what the other sets
    could use. Full counts come before smaller elastic counts. When none of them succeeds, sets
    without a required topology get an exhaustive search of bounded length.
    """
    best = Seating((NO_SEATS,) * len(plans), complete=False)
    for attempt in _attempts(columns, request, plans):
        found = attempt.run()
        if found.complete:
            return found
        if found.members > best.members:
            best = found
    return _exhaustive(columns, plans) or best


def _attempts(
    columns: Columns, request: GangRequest, plans: Sequence[Plan]
) -> Iterator["_Attempt"]:
    elastic = any(p.pod_set.least < p.pod_set.count for p in plans)
    if len(plans) == 1:
        yield _Attempt(columns, request.policy, plans, (0,), elastic=elastic)
        return
    orders = _orders(columns, plans)
    for smaller in (False, True) if elastic else (False,):
        for yielding in (False, True):
            for order in orders:
                yield _Attempt(
                    columns, request.policy, plans, order, elastic=smaller, yielding=yielding
                )


def _exhaustive(columns: Columns, plans: Sequence[Plan]) -> Seating | None:
    if len(plans) == 1 or any(_is_required(found.pod_set) for found in plans):
        return None
    least = tuple(found.pod_set.least for found in plans)
    if any(fits_at_most(p.fits, n)[1] < n for p, n in zip(plans, least, strict=True)):
        return None
    fits = [found.fits for found in plans]
    shapes = [found.shape for found in plans]
    seats = exhaustive_seats(columns.free, fits, shapes, least)
    return None if seats is None else Seating(seats, complete=True)


def _is_required(pod_set: PodSetRequest) -> bool:
    return pod_set.topology is not None and pod_set.topology.mode is TopologyMode.REQUIRED


def _orders(columns: Columns, plans: Sequence[Plan]) -> list[tuple[int, ...]]:
    def hardness(index: int) -> tuple[bool, int, int, int]:
        required = _is_required(plans[index].pod_set)
        nodes = int(np.count_nonzero(plans[index].fits))
        return not required, nodes, -columns.share_of_largest(plans[index].shape), index

    def demand(index: int) -> tuple[int, int]:
        share = columns.share_of_largest(plans[index].shape)
        return -share * plans[index].pod_set.count, index

    written = tuple(range(len(plans)))
    hardest = tuple(sorted(written, key=hardness))
    largest = tuple(sorted(written, key=demand))
    return list(dict.fromkeys((hardest, largest, written, hardest[::-1])))


@dataclass(slots=True)
class _Attempt:
    """One order of the pod sets, seated on a private copy of what is free."""

    columns: Columns
    policy: PlacementPolicy
    plans: Sequence[Plan]
    order: tuple[int, ...]
    elastic: bool = False
    yielding: bool = False
    free: dict[str, Vector] = field(default_factory=dict[str, Vector])
    used: Vector = field(default_factory=lambda: np.zeros(0, np.int64))

    def run(self) -> Seating:
        """Seat the sets in order; with elastic counts, the least of each before more of any."""
        seats = [NO_SEATS] * len(self.plans)
        complete = True
        several = len(self.plans) > 1
        for index in self.order:
            pod_set = self.plans[index].pod_set
            most = pod_set.least if self.elastic and several else pod_set.count
            least = pod_set.least if self.elastic else pod_set.count
            seats[index] = self._seat(index, most, self._fits(index))
            complete = complete and seats[index].members >= least
        if self.elastic and several and complete:
            for index, found in enumerate(self.plans):
                more = found.pod_set.count - seats[index].members
                fits = self._beside(index, seats[index], self._fits(index))
                seats[index] = together((seats[index], self._seat(index, more, fits)))
        return Seating(tuple(seats), complete)

    def _fits(self, index: int) -> Vector:
        found = self.plans[index]
        if not len(self.used):
            return found.fits
        some = {
            resource: self.free.get(resource, column)[self.used]
            for resource, column in self.columns.free.items()
        }
        fits = found.fits.copy()
        left = pods_fitting(some, found.shape, len(self.used))
        fits[self.used] = np.where(found.fits[self.used] > 0, left, 0)
        return fits

    def _beside(self, index: int, seats: Seats, fits: Vector) -> Vector:
        """What fits in the required domain that the set already sits in."""
        found = self.plans[index]
        topology = found.pod_set.topology
        if topology is None or not _is_required(found.pod_set) or not len(seats.rows):
            return fits
        domain_of = found.domains.level_of(topology.node_label)
        return np.where(domain_of == domain_of[seats.rows[0]], fits, 0)

    def _seat(self, index: int, most: int, fits: Vector) -> Seats:
        narrowed = narrow(self.plans[index].domains, self.plans[index].pod_set, fits, most)
        if not narrowed.members:
            return NO_SEATS
        seats = self._fill(index, narrowed)
        if len(self.plans) > 1:
            self._take(self.plans[index].shape, seats)
        return seats

    def _fill(self, index: int, narrowed: Narrowed) -> Seats:
        tier = self.plans[index].eligible.tier
        rank = self._rank(index)
        if self.yielding:
            return in_order(narrowed.fits, narrowed.members, rank)
        if self.policy is PlacementPolicy.SPREAD and not narrowed.one_node:
            filling = partial(spread, rank=rank)
            return by_tier(narrowed.fits, narrowed.members, tier, filling)
        filling = partial(by_tier, tier=tier, fill=partial(pack, rank=rank))
        return by_domain(narrowed.fits, narrowed.members, narrowed.inner, filling)

    def _rank(self, index: int) -> Vector:
        if self.yielding:
            return self._wanted_by_others(index)
        away = self.policy is PlacementPolicy.SPREAD
        rank = -self.columns.packing if away else self.columns.packing
        if len(self.used):
            rank = rank.copy()
            rank[self.used] += _USED_BY_GANG if away else -_USED_BY_GANG
        return rank

    def _wanted_by_others(self, index: int) -> Vector:
        wanted = np.zeros(len(self.columns), np.int64)
        for other, found in enumerate(self.plans):
            if other != index:
                wanted += fits_at_most(found.fits, found.pod_set.count)[0]
        return wanted

    def _take(self, shape: Shape, seats: Seats) -> None:
        for resource, quantity in shape:
            if resource in self.columns.free:
                if resource not in self.free:
                    self.free[resource] = self.columns.free[resource].copy()
                self.free[resource][seats.rows] -= quantity * seats.counts
        self.used = np.union1d(self.used, seats.rows)
