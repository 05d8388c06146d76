"""The books line by line: who had what, from when to when, and at which price.

What is held costs quantity x time x price; an attempt that waits for its seats costs nothing.
Intervals of windows that meet add up to those of both.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from muster_rating.attempts import Attempt, Owner, Pair, settled
from muster_rating.capacity import CapacitySpan
from muster_rating.holdings import Holding, holdings_by_pair
from muster_rating.prices import Price, PriceBook, RatedWindow
from muster_rating.scopes import by_price, rated_windows
from muster_rating.slices import spans_by_pair
from muster_rating.windows import Window


class IntervalKind(StrEnum):
    """HELD is hardware, from seats until it came back; WAITING is quota before there were seats."""

    HELD = "held"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """So many milli-units of a resource that one attempt had while one price held.

    `is_open` where its end is not known yet, and it is counted to the end of the window.
    """

    attempt: Attempt
    owner: Owner
    flavor: str
    resource: str
    kind: IntervalKind
    quantity_milli: int
    window: Window
    is_open: bool
    price: Price | None

    @property
    def unit_time(self) -> int:
        """Milli-unit-milliseconds."""
        return self.quantity_milli * self.window.length_ms

    @property
    def cost_micros(self) -> Fraction | None:
        """What it costs, exactly; None where it is held and has no price."""
        if self.kind is IntervalKind.WAITING:
            return Fraction(0)
        return None if self.price is None else self.price.micros_per_unit * self.unit_time


def intervals(
    attempts: Iterable[Attempt],
    prices: PriceBook,
    window: Window,
    capacity: Iterable[CapacitySpan] = (),
) -> Iterator[Interval]:
    """The intervals in a window, by flavor, resource, workload and attempt.

    `attempts` are all that may have held something in it; `capacity` tells which nodes have prices
    of their own.
    """
    spans = spans_by_pair(capacity)
    for pair, holdings in holdings_by_pair(settled(attempts)).items():
        of_pair = spans.get(pair, [])
        for holding in holdings:
            waiting = window.clip(holding.reserved_ms, holding.waited_until_ms)
            for rated in prices.windows(*pair, waiting):
                quantity = holding.waiting_milli
                yield from _cut(holding, pair, IntervalKind.WAITING, quantity, rated, waiting)
            if holding.seated_ms is None:
                continue
            held = window.clip(holding.seated_ms, holding.end_ms)
            for rated in rated_windows(prices, pair, of_pair, held):
                for part in by_price(pair, [holding], (), rated):
                    quantity = sum(of_price.held_milli for of_price in part.holdings)
                    at_price = RatedWindow(rated.window, part.price)
                    yield from _cut(holding, pair, IntervalKind.HELD, quantity, at_price, held)


def _cut(
    holding: Holding,
    pair: Pair,
    kind: IntervalKind,
    quantity_milli: int,
    rated: RatedWindow,
    whole: Window,
) -> Iterator[Interval]:
    if not quantity_milli or not rated.window.length_ms:
        return
    yield Interval(
        attempt=holding.attempt,
        owner=holding.owner,
        flavor=pair[0],
        resource=pair[1],
        kind=kind,
        quantity_milli=quantity_milli,
        window=rated.window,
        is_open=holding.end_ms is None and rated.window.end_ms == whole.end_ms,
        price=rated.price,
    )
