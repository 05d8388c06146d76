"""What was metered in whole hours, days and months, so that a report on years reads little.

A roll is exact: a table that is put together from rolls and the stretches between them is the same,
to the last unit, as one that is made from all attempts.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from muster_rating.attempts import Attempt, Owner, Pair, settled
from muster_rating.capacity import CapacitySpan
from muster_rating.catalogs import Catalog
from muster_rating.holdings import Holding, holdings_by_pair
from muster_rating.observations import NOTHING_OBSERVED, Observations
from muster_rating.prices import HOUR_MS
from muster_rating.slices import (
    Cell,
    Metered,
    Slice,
    add,
    add_all,
    add_balances,
    measure,
    spans_by_pair,
)
from muster_rating.windows import Window

Key = TypeVar("Key", bound=Hashable)
NOBODY = Attempt(workload_id="", number=0)
"""Stands for the attempts of a holder, which a roll does not tell apart."""
UNROLLED = frozenset(("workload", "attempt"))
"""Dimensions that rolls do not keep."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Those whose attempts are alike in every dimension that rolls keep."""

    namespace: str
    team: str
    user: str
    cluster_queue: str
    local_queue: str
    kind: str
    priority_class: str
    labels: tuple[tuple[str, str], ...]

    @property
    def owner(self) -> Owner:
        """An owner in whose place all of them stand."""
        return Owner(
            namespace=self.namespace,
            workload="",
            cluster_queue=self.cluster_queue,
            local_queue=self.local_queue,
            team=self.team,
            user=self.user,
            kind=self.kind,
            priority_class=self.priority_class,
            labels=dict(self.labels),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """Everything that was metered in a window, by (flavor, resource)."""

    window: Window
    slices: dict[Pair, Slice[Holder]] = field(default_factory=dict[Pair, Slice[Holder]])


def roll(
    attempts: Iterable[Attempt],
    capacity: Iterable[CapacitySpan],
    catalogs: Sequence[Catalog],
    window: Window,
    observations: Observations = NOTHING_OBSERVED,
) -> Roll:
    """Measure a window. `attempts` are all that may have held something in it."""
    holdings = holdings_by_pair(settled(attempts))
    spans = spans_by_pair(capacity)
    declared = {pair for catalog in catalogs for pair in catalog.quotas}
    found = Roll(window=window)
    for pair in sorted({*holdings, *spans, *declared}):
        metered = Metered(
            pair=pair,
            holdings=[
                h for h in holdings.get(pair, ()) if window.overlap_ms(h.reserved_ms, h.end_ms)
            ],
            capacity=[s for s in spans.get(pair, ()) if window.overlap_ms(s.start_ms, s.end_ms)],
            catalogs=catalogs,
            observations=observations,
        )
        of_pair: Slice[Holder] = Slice()
        measure(of_pair, metered, window, holder_of, nodes=True)
        if of_pair != Slice():
            found.slices[pair] = of_pair
    return found


def holder_of(holding: Holding) -> Holder:
    """Whose a holding is, as far as rolls tell."""
    owner = holding.owner
    return Holder(
        namespace=owner.namespace,
        team=owner.team,
        user=owner.user,
        cluster_queue=owner.cluster_queue,
        local_queue=owner.local_queue,
        kind=owner.kind,
        priority_class=owner.priority_class,
        labels=tuple(sorted(owner.labels.items())),
    )


def merged(rolls: Iterable[Roll], window: Window) -> Roll:
    """One roll of several that fill a window together."""
    found = Roll(window=window)
    for part in rolls:
        for pair, of_pair in part.slices.items():
            absorb(found.slices.setdefault(pair, Slice()), of_pair, lambda holder: holder)
    return found


def absorb(into: Slice[Key], rolled: Slice[Holder], key: Callable[[Holder], Key | None]) -> None:
    """Add a rolled slice under other keys; a holder without one is left to the others."""
    into.balance += rolled.balance
    for holder, cell in rolled.cells.items():
        whose = key(holder)
        if whose is not None:
            into.cells.setdefault(whose, Cell()).add(cell)
            add(into.quotas.borrowed, holder.cluster_queue, cell.borrowed)
    add_all(into.quotas.lent, rolled.quotas.lent)
    add_all(into.quotas.nominal, rolled.quotas.nominal)
    add_all(into.quotas.unused, rolled.quotas.unused)
    add_balances(into.balance_on, rolled.balance_on)
    for node, lost in rolled.lost_on.items():
        for holder, quantity in lost.items():
            whose = key(holder)
            if whose is not None:
                add(into.lost_on.setdefault(node, {}), whose, quantity)
    for node, held in rolled.held_on.items():
        for holder, quantity in held.items():
            whose = key(holder)
            if whose is None:
                add(into.others_on, node, quantity)
            else:
                add(into.held_on.setdefault(node, {}), whose, quantity)


def choose(
    available: Iterable[Window], window: Window, edges: Iterable[int]
) -> tuple[list[Window], list[Window]]:
    """The longest windows that fit, and what is left between them, both in order.

    None that is chosen has an edge inside, where a price changes.
    """
    cuts = sorted(edges)
    chosen: list[Window] = []
    fitting = [
        part
        for part in available
        if window.start_ms <= part.start_ms
        and part.end_ms <= window.end_ms
        and not any(part.start_ms < cut < part.end_ms for cut in cuts)
    ]
    taken: set[int] = set()
    for part in sorted(fitting, key=lambda part: (-part.length_ms, part.start_ms)):
        hours = range(part.start_ms, part.end_ms, HOUR_MS)
        if taken.isdisjoint(hours):
            taken.update(hours)
            chosen.append(part)
    chosen.sort(key=lambda part: part.start_ms)
    return chosen, between(chosen, window)


def between(chosen: Iterable[Window], window: Window) -> list[Window]:
    """What windows in order leave of a window."""
    left: list[Window] = []
    at_ms = window.start_ms
    for part in chosen:
        if at_ms < part.start_ms < window.end_ms:
            left.append(Window(at_ms, part.start_ms))
        at_ms = max(at_ms, part.end_ms)
    if at_ms < window.end_ms:
        left.append(Window(at_ms, window.end_ms))
    return left
