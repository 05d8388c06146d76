"""Rolls are made as hours end, go when something earlier is told, and change no report."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from muster_accounting.roller import DAY_MS, GRACE_MS, Roller
from muster_contracts.queries import CostReport
from muster_domain.money import IdlePolicy
from muster_rating.attempts import Attempt
from muster_rating.price_lists import read_price_list
from muster_rating.prices import HOUR_MS
from muster_rating.windows import Window
from muster_runtime.reader import Received

from .homes import Home
from .log import GPU, Books, Job, Log, clock, open_books

LAST_H = 60
ALL = Window(clock(0), clock(LAST_H))


def house() -> Log:
    """Two days and a half in which jobs come, are preempted, and one runs on."""
    log = Log()
    log.declare_house({"a": 2, "b": 2})
    log.node("n1", 4)
    log.node("n2", 4)
    first = Job(team="a", gpus=4, nodes=("n1",))
    log.reserve(first, 1)
    log.admit(first, 2, reserved_h=1)
    log.preempt(first, 20)
    log.requeue(first, 21)
    log.declare_house({"a": 3, "b": 1}, at_h=30)
    log.admit(replace(first, attempt=2), 31)
    log.admit(Job(team="b", gpus=1, nodes=("n2",)), 33)
    log.finish(replace(first, attempt=2), 50)
    return log


async def reports(books: Books) -> Sequence[CostReport]:
    found = [
        await books.report(by, hours=LAST_H, through_h=LAST_H, idle=idle)
        for by, idle in (
            ("team", IdlePolicy.ROW),
            ("label:muster.dev/team", IdlePolicy.PROPORTIONAL),
            ("cluster_queue", IdlePolicy.OWNER),
            ("namespace", IdlePolicy.NODE),
            ("workload", IdlePolicy.ROW),
        )
    ]
    return [*found, await books.report("team", hours=LAST_H, through_h=LAST_H - 1)]


async def roll_all(books: Books, zones: tuple[str, ...] = ("UTC",)) -> int:
    roller = Roller(keeper=books.keeper, zones=zones)
    made = 0
    while done := await roller.roll_up(clock(LAST_H) + GRACE_MS):
        made += done
    return made


@pytest.fixture
async def books(home: Home) -> Books:
    log = house()
    books = await open_books(home)
    await books.keeper.take_objects(log.objects)
    await books.take(log.messages)
    return books


async def test_reports_from_rolls_are_the_same(books: Books) -> None:
    try:
        direct = await reports(books)
        assert await roll_all(books) == LAST_H + 2
        windows = await books.store.rolled_windows(ALL)
        assert [w for w in windows if w.length_ms == DAY_MS] == [
            Window(clock(0), clock(24)),
            Window(clock(24), clock(48)),
        ]
        assert len([w for w in windows if w.length_ms == HOUR_MS]) == LAST_H
        assert await reports(books) == direct
        assert await roll_all(books) == 0
    finally:
        await books.close()


POOLS = read_price_list(
    {
        "flavors": {"h100": {GPU: {"hourly": "1.40"}}},
        "pools": {"n2": {"node": "n2", "resources": {GPU: {"hourly": "0.90"}}}},
    },
    default_currency="EUR",
)


async def test_reports_read_rolls_where_nodes_have_prices_of_their_own(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = house()
    books = await open_books(home, prices=POOLS)
    try:
        await books.keeper.take_objects(log.objects)
        await books.take(log.messages)
        direct = await reports(books)
        await roll_all(books)
        assert await reports(books) == direct
        read: list[Window] = []
        attempts_in = books.store.attempts_in

        async def watched(window: Window) -> list[Attempt]:
            read.append(window)
            return await attempts_in(window)

        monkeypatch.setattr(books.store, "attempts_in", watched)
        await books.report("team", hours=LAST_H, through_h=LAST_H)
        assert read == [], "all of it was rolled"
        await books.keeper.take_objects(prorata(log))
        await books.report("team", hours=LAST_H, through_h=LAST_H)
        assert read == [ALL], "rolls do not know loans in proportion"
    finally:
        await books.close()


def prorata(log: Log) -> list[Received]:
    terms = {"basis": "usage", "loanAttribution": "prorata"}
    log.declare("ChargingPolicy", "finance", {"versions": [terms]})
    return log.objects[-1:]


async def test_what_is_told_of_an_earlier_time_takes_the_rolls_after_it_away(books: Books) -> None:
    try:
        await roll_all(books)
        late = house()
        late.finish(Job(team="b", gpus=1, nodes=("n2",)), 40)
        await books.take(late.messages[-1:])
        windows = await books.store.rolled_windows(ALL)
        assert max(w.end_ms for w in windows) == clock(40)
        assert Window(clock(24), clock(48)) not in windows
        direct = await reports(books)
        assert await roll_all(books) == LAST_H - 40 + 1
        assert await reports(books) == direct
    finally:
        await books.close()


async def test_the_same_facts_again_take_nothing_away(books: Books) -> None:
    try:
        await roll_all(books)
        before = await books.store.rolled_windows(ALL)
        attempts = [m for m in house().messages if ".admission." in m.subject]
        await books.take(attempts)
        assert await books.store.rolled_windows(ALL) == before
    finally:
        await books.close()


async def test_a_roll_of_what_has_changed_meanwhile_is_thrown_away(books: Books) -> None:
    try:
        store = books.store
        await roll_all(books)
        rolls = await store.rolls([Window(clock(44), clock(45))])
        late = house()
        late.finish(Job(team="b", gpus=1, nodes=("n2",)), 40)
        watch = await store.watch_changes()
        await books.take(late.messages[-1:])
        assert await store.add_rolls(books.keeper.epoch, rolls, watch) == 0
        assert await store.rolled_windows(Window(clock(44), clock(45))) == []
    finally:
        await books.close()


async def test_months_of_a_zone_are_rolled_where_they_are_whole_hours(books: Books) -> None:
    try:
        roller = Roller(keeper=books.keeper, zones=("Europe/Madrid", "Asia/Kathmandu"))
        span = Window(clock(0), clock(24 * 70))
        months = list(roller._months(span))
    finally:
        await books.close()

    assert [month.length_ms // HOUR_MS for month in months] == [720]
