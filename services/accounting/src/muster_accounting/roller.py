"""Rolling hours up as they end, days from hours, and months from days.

A fact about an earlier time takes the rolls after it away, in its own transaction; they are made
again from that hour on. What is read for a roll is thrown away if such a fact comes meanwhile.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster_rating.capacity import CapacitySpan, with_node_flavors
from muster_rating.catalogs import Catalog
from muster_rating.observations import by_attempt
from muster_rating.opencost.windows import read_window
from muster_rating.prices import HOUR_MS
from muster_rating.rollups import Roll, choose, merged, roll
from muster_rating.windows import Window

if TYPE_CHECKING:
    from muster_accounting.bookkeeper import Bookkeeper

GRACE_MS = 600_000
"""An hour is rolled so long after its end, when late facts of it have come."""
HOURS_AT_ONCE = 24
DAY_MS = 24 * HOUR_MS


@dataclass(slots=True, kw_only=True)
class Roller:
    """Makes what is missing. `zones` are those whose months are rolled."""

    keeper: "Bookkeeper"
    zones: tuple[str, ...] = ("UTC",)

    async def roll_up(self, through_ms: int) -> int:
        """Make the oldest rolls that are missing; returns how many. Raises `Fenced`, `Transient`.

        Zero when there is nothing left to do up to `through_ms`.
        """
        store = self.keeper.store
        first_ms = self.keeper.view.first_ms
        opened_ms = await store.first_opening_ms()
        starts = [at for at in (first_ms, opened_ms) if at is not None]
        if not starts:
            return 0
        span = Window(
            min(starts) // HOUR_MS * HOUR_MS, (through_ms - GRACE_MS) // HOUR_MS * HOUR_MS
        )
        there = await store.rolled_windows(span)
        hours = list(missing(_steps(span, HOUR_MS), there))[:HOURS_AT_ONCE]
        if hours:
            return await self.measure(hours)
        wider = [*_steps(_whole_days(span), DAY_MS), *self._months(span)]
        for window in missing(wider, there):
            parts, left = choose((w for w in there if w != window), window, ())
            if not left:
                return await self._merge(parts, window)
        return 0

    async def measure(self, hours: Sequence[Window]) -> int:
        """Roll hours; how many, none if something changed meanwhile. As `roll_up` raises."""
        keeper = self.keeper
        async with keeper.turn:
            mark = await keeper.store.watch_changes()
            known = tuple(keeper.view.spans), tuple(keeper.view.declarations.catalogs)
        rolls = [await self._rolled(hour, *known) for hour in hours]
        return await keeper.store.add_rolls(keeper.epoch, rolls, mark)

    async def rolled(self, hour: Window) -> Roll:
        """What an hour comes to, by what is known now. Raises `Transient`."""
        view = self.keeper.view
        return await self._rolled(hour, tuple(view.spans), tuple(view.declarations.catalogs))

    async def _rolled(
        self, hour: Window, spans: Sequence[CapacitySpan], catalogs: Sequence[Catalog]
    ) -> Roll:
        store = self.keeper.store
        seated = with_node_flavors(await store.attempts_in(hour), spans)
        observed = by_attempt(await store.observations_in(hour))
        return await asyncio.to_thread(roll, seated, spans, catalogs, hour, observed)

    async def _merge(self, parts: Sequence[Window], window: Window) -> int:
        keeper = self.keeper
        mark = await keeper.store.watch_changes()
        rolls = await keeper.store.rolls(parts)
        if len(rolls) < len(parts):
            return 0
        whole = await asyncio.to_thread(merged, rolls, window)
        return await keeper.store.add_rolls(keeper.epoch, [whole], mark)

    def _months(self, span: Window) -> Iterator[Window]:
        for zone in self.zones:
            month = read_window("lastmonth", span.end_ms, zone)
            while month.start_ms >= span.start_ms:
                if month.start_ms % HOUR_MS == 0 and month.end_ms <= span.end_ms:
                    yield month
                month = read_window("lastmonth", month.start_ms, zone)


def missing(wanted: Iterable[Window], there: Iterable[Window]) -> Iterator[Window]:
    """The wanted windows that are not there, in their order."""
    known = frozenset(there)
    return (window for window in wanted if window not in known)


def _steps(span: Window, step_ms: int) -> Iterator[Window]:
    for start_ms in range(span.start_ms, span.end_ms, step_ms):
        yield Window(start_ms, start_ms + step_ms)


def _whole_days(span: Window) -> Window:
    return Window(-(-span.start_ms // DAY_MS) * DAY_MS, span.end_ms // DAY_MS * DAY_MS)
