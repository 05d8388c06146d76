"""What workloads ask of budgets, and how one limit is shared out among several admitters.

One budget may pay for workloads of several partitions, each admitted by an owner of its own. None
of them may look into the others' books, so the limit is handed out: the budget's home allots a part
to each partition, and a partition admits within its allotment alone.

Two counters keep that safe whatever is lost, repeated or late. `allotted` is written by the home
only and never falls; `returned` is written by the partition only and never falls. What a partition
may use is `allotted - returned`, and the home keeps the sum of that within the limit. Either side
may act on an old word of the other: an old `allotted` is too small for the partition, an old
`returned` too small for the home, so both err on the side of the limit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from muster_domain.budgets import PERCENT, Budget, BudgetWindow
from muster_domain.money import nearest
from muster_rating.attempts import Pair
from muster_rating.periods import Period, periods_in
from muster_rating.prices import PriceBook, RatedWindow
from muster_rating.windows import Window

ACCOUNTS_MAX = 1_000
"""Periods that one workload may touch, over all its budgets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One window of a budget in one of its periods."""

    budget: Budget
    window: BudgetWindow
    period: Period

    @property
    def id(self) -> str:
        """Its name among all accounts."""
        return f"{self.budget.name}/{self.period.id}"


def accounts_in(budget: Budget, window: Window) -> Iterator[Account]:
    """The accounts of a budget that time in a window is charged to, window by window, in order."""
    for limit in budget.windows:
        for period in periods_in(limit.period, budget.zone, window):
            yield Account(budget=budget, window=limit, period=period)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Time that may be charged: at most `longest_ms` of `[from_ms, until_ms)`, wherever it lies."""

    from_ms: int
    until_ms: int
    longest_ms: int

    @property
    def window(self) -> Window:
        """All of it."""
        return Window(self.from_ms, self.until_ms)


def most_micros(
    usage: Mapping[Pair, int], prices: PriceBook, span: Span, period: Window
) -> int | None:
    """The most that milli-units by pair can cost in a period, rounded up; None without a price.

    Where pods will sit is not known, so the dearest pool counts if it is dearer than the flavor.
    """
    part = period.clip(span.from_ms, span.until_ms)
    most = Fraction(0)
    for (flavor, resource), quantity in usage.items():
        whole, dearest = Fraction(0), Fraction(0)
        for rated in prices.windows(flavor, resource, part):
            if rated.price is None:
                return None
            rate = _dearest(prices, flavor, resource, rated) * quantity
            whole += rate * rated.window.length_ms
            dearest = max(dearest, rate)
        most += min(whole, dearest * span.longest_ms)
    return -(-most.numerator // most.denominator)


def cost_micros(usage: Mapping[Pair, int], prices: PriceBook, window: Window) -> int:
    """What milli-units by pair cost at most in a window, rounded once; without a price, nothing."""
    cost = sum(
        (
            _dearest(prices, flavor, resource, rated) * quantity * rated.window.length_ms
            for (flavor, resource), quantity in usage.items()
            for rated in prices.windows(flavor, resource, window)
            if rated.price is not None
        ),
        Fraction(0),
    )
    return nearest(cost)


def _dearest(prices: PriceBook, flavor: str, resource: str, rated: RatedWindow) -> Fraction:
    """Micros of a unit on the node on which it would cost the most."""
    dear = prices.dearest_pool(flavor, resource, rated.window)
    found = [price.micros_per_unit for price in (rated.price, dear) if price is not None]
    return max(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """What one partition has of an account, as its home knows it. Money is in micros.

    `number` orders the partition's words. `wanted` is the `allotted` that it asks for; `waits` says
    that somebody there would be let in if more were free. `since` orders those who want.
    """

    number: int = 0
    allotted: int = 0
    returned: int = 0
    wanted: int = 0
    spent: int = 0
    held: int = 0
    waits: bool = False
    since: int = 0

    @property
    def used(self) -> int:
        """What counts against the limit: what it may use, or more where it already used more."""
        return max(self.allotted - self.returned, self.spent + self.held)


Drawings = Mapping[str, Drawing]
"""By partition."""


def heard(drawings: Drawings, partition: str, said: Drawing) -> dict[str, Drawing]:
    """Take a partition's word; one that is older than the last heard changes nothing."""
    before = drawings.get(partition, Drawing())
    if said.number <= before.number:
        return dict(drawings)
    turn = 1 + max((drawing.since for drawing in drawings.values()), default=0)
    wants = said.wanted > before.allotted
    keeps_turn = before.wanted > before.allotted and before.since
    after = replace(
        said,
        allotted=before.allotted,
        returned=max(before.returned, said.returned),
        since=(before.since if keeps_turn else turn) if wants else 0,
    )
    return {**drawings, partition: after}


def free_micros(drawings: Drawings, limit_micros: int | None) -> int | None:
    """What is left to allot, never below zero; None where there is no limit."""
    if limit_micros is None:
        return None
    return max(0, limit_micros - sum(drawing.used for drawing in drawings.values()))


def allot(drawings: Drawings, limit_micros: int | None) -> dict[str, Drawing]:
    """Give what is wanted, all of it or nothing, in the order of asking.

    Nobody is passed over for good: what comes free later goes to whoever asked first and fits.
    """
    after = dict(drawings)
    wanting = sorted(
        (name for name, drawing in after.items() if drawing.wanted > drawing.allotted),
        key=lambda name: (after[name].since, name),
    )
    for name in wanting:
        drawing = after[name]
        free = free_micros(after, limit_micros)
        grown = replace(drawing, allotted=drawing.wanted, since=0)
        if free is None or grown.used - drawing.used <= free:
            after[name] = grown
    return after


def thresholds_reached(window: BudgetWindow, spent_micros: int) -> tuple[int, ...]:
    """The percentages of the limit, ascending, that spending has reached; a limit of 0 has none."""
    limit = window.limit_micros
    if not limit:
        return ()
    return tuple(
        percent
        for percent in sorted(set(window.alert_percents))
        if spent_micros * PERCENT >= limit * percent
    )


def forecast_micros(spent_micros: int, period: Window, now_ms: int) -> int:
    """What a period comes to if spending goes on as it has so far in it."""
    passed_ms = min(now_ms, period.end_ms) - period.start_ms
    return spent_micros * period.length_ms // passed_ms if passed_ms > 0 else spent_micros
