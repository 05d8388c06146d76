"""Where all capacity of one (flavor, resource) went in one window, to the last unit.

At every moment: held + idle + reserved + unavailable - overallocated = capacity. Everything is an
integer of milli-units times milliseconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from muster_rating.attempts import Pair
from muster_rating.capacity import CapacitySpan
from muster_rating.holdings import Holding
from muster_rating.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Milli-unit-milliseconds of one pair in one window.

    `reserved` is free capacity that was kept for gangs which hold quota and wait for seats.
    `overallocated` is what was held beyond the capacity that was reported.
    """

    capacity: int
    held: int
    idle: int
    reserved: int
    unavailable: int
    overallocated: int

    def __add__(self, other: "Balance") -> "Balance":
        """Two stretches together."""
        return Balance(
            capacity=self.capacity + other.capacity,
            held=self.held + other.held,
            idle=self.idle + other.idle,
            reserved=self.reserved + other.reserved,
            unavailable=self.unavailable + other.unavailable,
            overallocated=self.overallocated + other.overallocated,
        )


EMPTY = Balance(capacity=0, held=0, idle=0, reserved=0, unavailable=0, overallocated=0)
"""No time at all."""


def balance(
    pair: Pair, holdings: Sequence[Holding], spans: Sequence[CapacitySpan], window: Window
) -> Balance:
    """Classify the capacity of a pair over a window. O(n log n) in holdings and spans."""
    turns: list[tuple[int, int, int, int, int]] = []
    for holding in holdings:
        held, waiting = holding.held_milli, holding.waiting_milli
        if holding.seated_ms is not None:
            _turn(turns, window, (holding.seated_ms, holding.end_ms), (0, held, 0, 0))
        _turn(turns, window, (holding.reserved_ms, holding.waited_until_ms), (0, 0, waiting, 0))
    for span in spans:
        _turn(turns, window, (span.start_ms, span.end_ms), (span.quantity_milli, 0, 0, 0))
    for start_ms, end_ms, quantity in _unavailable(pair, holdings, spans, window):
        _turn(turns, window, (start_ms, end_ms), (0, 0, 0, quantity))
    return _integrate(sorted(turns))


def _turn(
    turns: list[tuple[int, int, int, int, int]],
    window: Window,
    times: tuple[int, int | None],
    amounts: tuple[int, int, int, int],
) -> None:
    part = window.clip(*times)
    if part.length_ms:
        capacity, held, waiting, unavailable = amounts
        turns.append((part.start_ms, capacity, held, waiting, unavailable))
        turns.append((part.end_ms, -capacity, -held, -waiting, -unavailable))


def _integrate(turns: list[tuple[int, int, int, int, int]]) -> Balance:
    capacity = held = waiting = unavailable = 0
    sums = dict.fromkeys(("capacity", "held", "idle", "reserved", "unavailable", "over"), 0)
    before_ms = 0
    for at_ms, group in groupby(turns, key=lambda turn: turn[0]):
        length_ms = at_ms - before_ms
        free = capacity - unavailable - held
        reserved = min(waiting, max(0, free))
        sums["capacity"] += capacity * length_ms
        sums["held"] += held * length_ms
        sums["unavailable"] += unavailable * length_ms
        sums["reserved"] += reserved * length_ms
        sums["idle"] += (max(0, free) - reserved) * length_ms
        sums["over"] += max(0, -free) * length_ms
        before_ms = at_ms
        for _, of_capacity, of_held, of_waiting, of_unavailable in group:
            capacity += of_capacity
            held += of_held
            waiting += of_waiting
            unavailable += of_unavailable
    return Balance(
        capacity=sums["capacity"],
        held=sums["held"],
        idle=sums["idle"],
        reserved=sums["reserved"],
        unavailable=sums["unavailable"],
        overallocated=sums["over"],
    )


def balances_by_node(
    pair: Pair, holdings: Sequence[Holding], spans: Sequence[CapacitySpan], window: Window
) -> dict[str, Balance]:
    """The capacity of each node, each by itself; what is kept for gangs is idle here."""
    turns: dict[str, list[tuple[int, int, int, int]]] = {}
    for span in spans:
        part = window.clip(span.start_ms, span.end_ms)
        stopped = 0 if span.usable else span.quantity_milli
        _turn_on(turns, span.node, part, (span.quantity_milli, stopped, 0))
    for holding in holdings:
        if holding.seated_ms is not None:
            part = window.clip(holding.seated_ms, holding.end_ms)
            for node, quantity in seats_of(holding, pair):
                _turn_on(turns, node, part, (0, 0, quantity))
    return {node: _integrate_node(sorted(turns[node])) for node in sorted(turns)}


def _turn_on(
    turns: dict[str, list[tuple[int, int, int, int]]],
    node: str,
    part: Window,
    amounts: tuple[int, int, int],
) -> None:
    if part.length_ms:
        capacity, stopped, held = amounts
        of_node = turns.setdefault(node, [])
        of_node += [
            (part.start_ms, capacity, stopped, held),
            (part.end_ms, -capacity, -stopped, -held),
        ]


def _integrate_node(turns: Sequence[tuple[int, int, int, int]]) -> Balance:
    capacity = stopped = held = before_ms = 0
    there = taken = unavailable = over = 0
    for at_ms, of_capacity, of_stopped, of_held in turns:
        length_ms = at_ms - before_ms
        there += capacity * length_ms
        taken += held * length_ms
        unavailable += max(0, stopped - held) * length_ms
        over += max(0, held - capacity) * length_ms
        before_ms = at_ms
        capacity += of_capacity
        stopped += of_stopped
        held += of_held
    return Balance(
        capacity=there,
        held=taken,
        idle=there + over - taken - unavailable,
        reserved=0,
        unavailable=unavailable,
        overallocated=over,
    )


def _unavailable(
    pair: Pair, holdings: Sequence[Holding], spans: Sequence[CapacitySpan], window: Window
) -> Iterable[tuple[int, int, int]]:
    """(start, end, milli-units) of nodes that took no pods, less what was held on them."""
    stopped = [
        span
        for span in spans
        if not span.usable and window.overlap_ms(span.start_ms, span.end_ms) > 0
    ]
    on_nodes = _held_on(pair, holdings, {span.node for span in stopped})
    for span in stopped:
        part = window.clip(span.start_ms, span.end_ms)
        turns: list[tuple[int, int]] = []
        for holding, quantity in on_nodes.get(span.node, ()):
            held = part.clip(holding.seated_ms or 0, holding.end_ms)
            turns += [(held.start_ms, quantity), (held.end_ms, -quantity)]
        held_milli, at_ms = 0, part.start_ms
        for until_ms, group in groupby(sorted(turns), key=lambda turn: turn[0]):
            yield at_ms, until_ms, max(0, span.quantity_milli - held_milli)
            held_milli += sum(quantity for _, quantity in group)
            at_ms = until_ms
        yield at_ms, part.end_ms, max(0, span.quantity_milli - held_milli)


def _held_on(
    pair: Pair, holdings: Sequence[Holding], nodes: set[str]
) -> Mapping[str, list[tuple[Holding, int]]]:
    found: dict[str, list[tuple[Holding, int]]] = {}
    if not nodes:
        return found
    for holding in holdings:
        for node, quantity in seats_of(holding, pair):
            if node in nodes:
                found.setdefault(node, []).append((holding, quantity))
    return found


def seats_of(holding: Holding, pair: Pair) -> Iterable[tuple[str, int]]:
    """(node, milli-units) of a pair for each seat that has some."""
    seating = holding.attempt.seating
    if seating is None:
        return
    for seat in seating.seats:
        for charge in seat.charges:
            if (charge.flavor, charge.resource) == pair:
                yield seat.node, charge.quantity_milli
