"""One try at seating all pod sets, in one order and in one manner."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from muster_domain.mig import MIG_PREFIX, profile_of
from muster_domain.queues import PlacementPolicy
from muster_scheduling.placement.columns import Columns, Vector, pods_fitting
from muster_scheduling.placement.domains import Narrowed, narrow
from muster_scheduling.placement.geometry import Divisible, times
from muster_scheduling.placement.plan import Plan, Seating, Unit
from muster_scheduling.placement.record import MILLI
from muster_scheduling.placement.request import GangRequest
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
from muster_scheduling.placement.topology.rows import RowFits, row_tree, seat_rows
from muster_scheduling.placement.topology.selection import NotFitting
from muster_scheduling.placement.topology.terms import resolve, slice_size

_USED_BY_GANG = 2**60
"""Moves nodes that the gang already uses before (BINPACK) or behind (SPREAD) all others."""


@dataclass(slots=True)
class Attempt:
    """One order of the pod sets, seated on a private copy of what is free.

    Sets of which one shares cards, or wants to be near in a NUMA zone, do not sit on the same nodes
    (`Plan.sits_apart`).
    """

    columns: Columns
    request: GangRequest
    plans: Sequence[Plan]
    order: tuple[Unit, ...]
    elastic: bool = False
    yielding: bool = False
    free: dict[str, Vector] = field(default_factory=dict[str, Vector])
    used: Vector = field(default_factory=lambda: np.zeros(0, np.int64))
    seated: list[tuple[int, Vector]] = field(default_factory=list[tuple[int, Vector]])
    divided: dict[int, Divisible] = field(default_factory=dict[int, Divisible])

    def run(self) -> Seating:
        """Seat the units in order; with elastic counts, the least of each before more of any."""
        seats = [NO_SEATS] * len(self.plans)
        several = len(self.order) > 1
        for unit in self.order:
            if self.plans[unit[0]].pod_set.by_topology:
                self._seat_by_topology(unit, seats)
                continue
            pod_set = self.plans[unit[0]].pod_set
            most = pod_set.least if self.elastic and several else pod_set.count
            seats[unit[0]] = self._seat(unit[0], most, self._fits(unit[0]))
        asked = [p.pod_set.least if self.elastic else p.pod_set.count for p in self.plans]
        complete = all(found.members >= n for found, n in zip(seats, asked, strict=True))
        if self.elastic and several and complete:
            self._seat_more(seats)
        return Seating(tuple(seats), complete)

    def _seat_more(self, seats: list[Seats]) -> None:
        for index, found in enumerate(self.plans):
            more = found.pod_set.count - seats[index].members
            if more and not found.pod_set.by_topology:
                fits = self._beside(index, seats[index], self._fits(index))
                seats[index] = together((seats[index], self._seat(index, more, fits)))

    def _seat_by_topology(self, unit: Unit, seats: list[Seats]) -> None:
        """Seat a set, or workers with their leader: as many whole slices as fit, if elastic."""
        pod_set = self.plans[unit[0]].pod_set
        size = slice_size(pod_set.topology)
        least, most = -(-pod_set.least // size), pod_set.count // size
        if self.elastic and len(self.order) > 1:
            most = least
        fits = self._row_fits(unit)
        found = self._seat_slices(unit, most * size, fits)
        if found is None and self.elastic:
            while least < most:
                middle = (least + most) // 2
                if self._seat_slices(unit, middle * size, fits) is not None:
                    least = middle + 1
                else:
                    most = middle
            found = self._seat_slices(unit, (least - 1) * size, fits)
        for index, seated in zip(unit, found or (), strict=False):
            seats[index] = seated
            self._take(index, seated)

    def _seat_slices(self, unit: Unit, count: int, fits: RowFits) -> tuple[Seats, Seats] | None:
        pod_set = self.plans[unit[0]].pod_set
        if count < max(1, pod_set.least):
            return None
        labels = pod_set.topology_levels
        options = self.request.options
        terms = resolve(labels, pod_set.topology, count, leaders=len(unit) - 1, options=options)
        try:
            return seat_rows(row_tree(self.columns, labels), terms, fits, options)
        except NotFitting:
            return None

    def _row_fits(self, unit: Unit) -> RowFits:
        workers = self._fits(unit[0])
        if len(unit) == 1:
            return RowFits(workers, np.zeros_like(workers), workers)
        leader = np.minimum(self._fits(unit[1]), 1)
        shape = dict(self.plans[unit[1]].shape)
        free = {
            resource: self.free.get(resource, column) - leader * shape.get(resource, 0)
            for resource, column in self.columns.free.items()
        }
        beside = pods_fitting(free, self.plans[unit[0]].shape, len(self.columns))
        leads, follows = self.plans[unit[1]], self.plans[unit[0]]
        if leads.sits_apart(follows) or (leads.instances and follows.instances):
            beside = np.where(leader > 0, 0, beside)
        return RowFits(workers, leader, np.where(workers > 0, beside, 0))

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
        if len(found.instances) > 1:
            for row, divisible in self.divided.items():
                fits[row] = divisible.fitting(found.instances, int(fits[row]))
        for other, rows in self.seated:
            if self.plans[other].sits_apart(found):
                fits[rows] = 0
        return fits

    def _beside(self, index: int, seats: Seats, fits: Vector) -> Vector:
        """What fits in the required domain that the set already sits in."""
        found = self.plans[index]
        topology = found.pod_set.topology
        if topology is None or not found.required or not len(seats.rows):
            return fits
        domain_of = found.domains.level_of(topology.node_label)
        return np.where(domain_of == domain_of[seats.rows[0]], fits, 0)

    def _seat(self, index: int, most: int, fits: Vector) -> Seats:
        narrowed = narrow(self.plans[index].domains, self.plans[index].pod_set, fits, most)
        if not narrowed.members:
            return NO_SEATS
        seats = self._fill(index, narrowed)
        if len(self.plans) > 1:
            self._take(index, seats)
        return seats

    def _fill(self, index: int, narrowed: Narrowed) -> Seats:
        tier = self.plans[index].eligible.tier
        rank = self._rank(index)
        if self.yielding:
            return in_order(narrowed.fits, narrowed.members, rank)
        if self.request.policy is PlacementPolicy.SPREAD and not narrowed.one_node:
            filling = partial(spread, rank=rank)
            return by_tier(narrowed.fits, narrowed.members, tier, filling)
        filling = partial(by_tier, tier=tier, fill=partial(pack, rank=rank))
        return by_domain(narrowed.fits, narrowed.members, narrowed.inner, filling)

    def _rank(self, index: int) -> Vector:
        if self.yielding:
            return self._wanted_by_others(index)
        away = self.request.policy is PlacementPolicy.SPREAD
        loss = self.plans[index].loss
        packing = self.columns.packing if loss is None else loss
        rank = -packing if away else packing
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

    def _take(self, index: int, seats: Seats) -> None:
        self.seated.append((index, seats.rows))
        for resource, quantity in self.plans[index].shape:
            if resource in self.columns.free:
                if resource not in self.free:
                    self.free[resource] = self.columns.free[resource].copy()
                self.free[resource][seats.rows] -= quantity * seats.counts
        if self.plans[index].instances:
            self._divide(index, seats)
        self.used = np.union1d(self.used, seats.rows)

    def _divide(self, index: int, seats: Seats) -> None:
        """Take over what the cards can still be divided into, in every profile."""
        ask = self.plans[index].instances
        rows: list[int] = seats.rows.tolist()
        for row, count in zip(rows, seats.counts.tolist(), strict=True):
            record = self.columns.records[row]
            divisible = self.divided.get(row) or record.divisible()
            given = divisible.give(times(ask, count)) if record.divided else None
            if given is None:
                continue
            self.divided[row] = given[0]
            for resource, column in self.columns.free.items():
                if resource.startswith(MIG_PREFIX):
                    if resource not in self.free:
                        self.free[resource] = column.copy()
                    self.free[resource][row] = MILLI * given[0].room(profile_of(resource))
