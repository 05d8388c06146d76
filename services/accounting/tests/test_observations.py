"""How busy devices were: booked once however often it is told, and unknown where nobody looked."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from muster_accounting.bookkeeper import read_facts
from muster_accounting.roller import GRACE_MS, Roller
from muster_contracts import codec
from muster_contracts.allocations import AllocationQuestion, AllocationSets
from muster_contracts.observations import BLOCK_MS, MINUTE_MS, MINUTES
from muster_contracts.queries import CostLine
from muster_rating.opencost.windows import read_window
from muster_rating.prices import HOUR_MS
from muster_rating.windows import Window
from muster_runtime.reader import Received

from .homes import Home
from .log import GPU, Books, Job, Log, clock, open_books

MINE = Job(team="a", gpus=2)
OTHER = Job(team="b", gpus=1)
LAST_H = 12


def house() -> Log:
    log = Log()
    log.declare_house({"a": 2, "b": 2})
    log.node("n1", 4)
    log.admit(MINE, 0)
    log.admit(OTHER, 1)
    log.finish(MINE, 10)
    return log


async def booked(home: Home, log: Log, messages: Sequence[Received]) -> Books:
    books = await open_books(home)
    await books.keeper.take_objects(log.objects)
    for received in messages:
        await books.take([received])
    return books


async def lines(books: Books) -> dict[str, CostLine]:
    report = await books.report("team", hours=LAST_H, through_h=LAST_H)
    return {line.key: line for line in (*report.lines, report.total)}


async def test_reports_say_how_busy_what_was_seen_was(home: Home) -> None:
    log = house()
    log.observe(MINE, block=0, observed=100, busy=75)
    log.observe(MINE, block=1, observed=50, busy=10)
    log.observe(MINE, block=7, observed=100, busy=0)
    books = await booked(home, log, log.messages)
    try:
        found = await lines(books)
    finally:
        await books.close()

    minute = 2 * 1000 * MINUTE_MS
    assert found["a"].observed_time == {GPU: minute * 250 // 100}
    assert found["a"].busy_time == {GPU: minute * 85 // 100}
    assert found["b"].observed_time == {}
    assert found["__total__"].busy_time == found["a"].busy_time


async def test_order_and_repetition_change_no_row(home: Home) -> None:
    log = house()
    told = [log.observe(MINE, block, 100, 10 + block) for block in (0, 1, 6)]
    rows: list[Any] = []
    for order in permutations([*told, told[1]]):
        books = await booked(home.another(), log, order)
        rows.append(await books.store.all_observations())
        await books.close()
    assert all(found == rows[0] for found in rows)
    assert [(one.hour_ms - clock(0), one.minutes) for one in rows[0]] == [
        (0, 1 | 1 << MINUTES),
        (HOUR_MS, 1),
    ]


async def test_rolls_hold_it_and_go_when_more_of_their_hour_is_told(home: Home) -> None:
    log = house()
    log.observe(MINE, block=6, observed=100, busy=50)
    books = await booked(home, log, log.messages)
    roller = Roller(keeper=books.keeper)
    try:
        direct = await lines(books)
        while await roller.roll_up(clock(LAST_H) + GRACE_MS):
            pass
        assert await lines(books) == direct
        await books.take(log.messages[-1:])
        everything = Window(clock(0), clock(LAST_H))
        assert len(await books.store.rolled_windows(everything)) == LAST_H
        late = log.observe(MINE, block=7, observed=100, busy=100)
        await books.take([late])
        assert await books.store.rolled_windows(everything) == [Window(clock(0), clock(1))]
        assert (await lines(books))["a"].busy_time == {GPU: 2 * 1000 * MINUTE_MS * 150 // 100}
    finally:
        await books.close()


async def test_allocations_say_it_too(home: Home) -> None:
    log = house()
    log.observe(MINE, block=0, observed=100, busy=25)
    books = await booked(home, log, log.messages)
    window = read_window("today", clock(LAST_H))
    assert window.start_ms <= clock(0)
    try:
        body = await books.keeper.allocations(
            AllocationQuestion(window="today", aggregate="team"), clock(LAST_H), clock(LAST_H)
        )
    finally:
        await books.close()
    (found,) = codec.decode(AllocationSets, body, bytes_max=10**6).sets
    by_team = {row.name: row for row in found.rows}
    minute = 2 * 1000 * MINUTE_MS
    assert (by_team["a"].observed, by_team["a"].busy) == ({"gpu": minute}, {"gpu": minute // 4})
    assert (by_team["b"].observed, by_team["b"].busy) == ({}, {})


@pytest.mark.parametrize(
    ("changes", "use", "reason"),
    [
        ({"from_ms": clock(0) + 1}, {}, "begins at"),
        ({"from_ms": clock(0) + MINUTE_MS}, {}, "begins at"),
        ({}, {"observed": [1]}, "not 10 minutes"),
        ({}, {"busy": [2, *[0] * 9], "observed": [1, *[0] * 9]}, "busy for 2 of 1"),
        ({}, {"busy": [-1, *[0] * 9]}, "busy for -1"),
    ],
)
def test_what_cannot_be_is_put_aside_with_the_reason(
    changes: dict[str, int], use: dict[str, list[int]], reason: str
) -> None:
    log = house()
    told = log.observe(MINE, block=0, observed=100, busy=100)
    body = json.loads(told.body)
    body |= changes
    body["uses"][0] |= use
    facts, (letter,) = read_facts([replace(told, body=json.dumps(body).encode())])
    assert facts == []
    assert reason in letter.reason
    assert BLOCK_MS == MINUTES * MINUTE_MS
