"""From facts of the log to reports, in virtual time."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from fractions import Fraction

import pytest

from muster_contracts import codec
from muster_contracts.allocations import AllocationQuestion, AllocationSets
from muster_contracts.queries import CostLineKind, CostReport
from muster_domain.errors import Fenced, InvalidValue
from muster_domain.money import MICROS
from muster_domain.nodes import NodeCondition
from muster_rating.prices import HOUR_MS
from muster_rating.windows import Window

from .homes import Home
from .log import GPU, Books, Job, Log, clock, open_books, three_teams


@asynccontextmanager
async def books_of(log: Log, home: Home) -> AsyncIterator[Books]:
    books = await open_books(home)
    try:
        if log.objects:
            await books.keeper.take_objects(log.objects)
        await books.take(log.messages)
        yield books
    finally:
        await books.close()


def euros(report: CostReport) -> dict[str, Fraction]:
    return {
        line.key: Fraction(line.cost_micros or 0, MICROS) for line in (*report.lines, report.idle)
    }


def hours(quantity: int) -> Fraction:
    return Fraction(quantity, 1000 * HOUR_MS)


async def test_three_teams_on_one_node_add_up_to_the_node(home: Home) -> None:
    async with books_of(three_teams(), home) as books:
        report = await books.report("team")

    assert euros(report) == {
        "datos": 1512,
        "ia": Fraction("604.80"),
        "plataforma": Fraction("352.80"),
        "__idle__": Fraction("1562.40"),
    }
    assert {line.key: hours(line.resource_time[GPU]) for line in report.lines} == {
        "datos": 1080,
        "ia": 432,
        "plataforma": 252,
    }
    assert hours(report.idle.resource_time[GPU]) == 1116
    assert report.total.cost_micros == 4032 * MICROS
    assert hours(report.total.resource_time[GPU]) == 2880
    assert (report.currency, report.provisional, report.unpriced) == ("EUR", False, ())


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("namespace", ["ns-datos", "ns-ia", "ns-plataforma"]),
        ("user", ["datos-user", "ia-user", "plataforma-user"]),
        ("cluster_queue", ["cq-datos", "cq-ia", "cq-plataforma"]),
        ("local_queue", ["ns-datos/main", "ns-ia/main", "ns-plataforma/main"]),
        ("flavor", ["h100"]),
        ("kind", ["Job"]),
        ("label:muster.dev/team", ["datos", "ia", "plataforma"]),
    ],
)
async def test_every_dimension_has_the_same_total(home: Home, by: str, keys: list[str]) -> None:
    async with books_of(three_teams(), home) as books:
        report = await books.report(by)

    assert [line.key for line in report.lines] == keys
    assert sum(euros(report).values()) == 4032


async def test_a_tenant_sees_its_own_rows(home: Home) -> None:
    async with books_of(three_teams(), home) as books:
        report = await books.report("team", namespaces=("ns-ia",))

    assert [line.key for line in report.lines] == ["ia"]
    assert report.total.cost_micros == sum(euros(report).values()) * MICROS


async def test_redelivery_in_any_order_ends_in_the_same_rows(home: Home) -> None:
    log = three_teams()
    gang = Job(team="ia", gpus=1, name="again")
    log.reserve(gang, 600)
    log.admit(gang, 601)
    log.preempt(gang, 610)
    log.requeue(gang, 611)
    second = replace(gang, attempt=2)
    log.admit(second, 620)
    async with books_of(log, home) as books:
        expected = await books.store.all_attempts()
        expected_nodes = await books.store.node_facts()

    for seed in range(20):
        shuffled = log.messages * 3
        random.Random(seed).shuffle(shuffled)
        books = await open_books(home.another())
        try:
            for start in range(0, len(shuffled), 7):
                await books.take(shuffled[start : start + 7])
            assert await books.store.all_attempts() == expected
            assert await books.store.node_facts() == expected_nodes
            assert set(books.keeper.view.open) == {("id-ia-again", 2)}
        finally:
            await books.close()


async def test_a_restart_goes_on_from_the_watermark_with_the_same_view(home: Home) -> None:
    log = three_teams()
    books = await open_books(home)
    await books.keeper.take_objects(log.objects)
    await books.take(log.messages[:4])
    await books.close()

    books = await open_books(home, epoch=2)
    try:
        assert books.keeper.progress.events_sequence == 4
        assert books.keeper.progress.objects_sequence == len(log.objects)
        assert len(books.keeper.view.open) == 2
        await books.take(log.messages[4:])
        assert (await books.report("team")).total.cost_micros == 4032 * MICROS
    finally:
        await books.close()


async def test_a_writer_whose_lease_is_gone_changes_nothing(home: Home) -> None:
    log = three_teams()
    old = await open_books(home, epoch=5)
    new = await open_books(home, epoch=6)
    try:
        with pytest.raises(Fenced):
            await old.take(log.messages)
        with pytest.raises(Fenced):
            await old.keeper.take_objects(log.objects)
        with pytest.raises(Fenced):
            await open_books(home, epoch=5)
        assert await new.store.all_attempts() == []
    finally:
        await old.close()
        await new.close()


async def test_preempted_time_is_charged_and_shown_as_lost(home: Home) -> None:
    log = Log()
    log.declare_house({"a": 8})
    for node in ("n1", "n2"):
        log.node(node, 4)
    first = Job(team="a", gpus=8, nodes=("n1", "n2"))
    log.admit(first, 10)
    log.preempt(first, 11)
    log.requeue(first, 12)
    second = replace(first, attempt=2)
    log.admit(second, 13)
    log.finish(second, 15)
    async with books_of(log, home) as books:
        report = await books.report("team", hours=20)

    [line] = report.lines
    assert hours(line.resource_time[GPU]) == 32
    assert hours(line.lost_time[GPU]) == 16
    assert line.lost_cost_micros == Fraction("22.40") * MICROS


async def test_what_was_saved_on_the_way_out_is_not_lost(home: Home) -> None:
    log = Log()
    log.declare_house({"a": 8})
    for node in ("n1", "n2"):
        log.node(node, 4)
    job = Job(team="a", gpus=8, nodes=("n1", "n2"))
    log.admit(job, 10)
    log.preempt(job, 11)
    log.checkpoint(job, 12, evicted_h=11)
    log.checkpoint(job, 12, evicted_h=11)
    log.requeue(job, 13)
    async with books_of(log, home) as books:
        report = await books.report("team", hours=20)

    [line] = report.lines
    assert hours(line.resource_time[GPU]) == 24
    assert hours(line.lost_time[GPU]) == 8


async def test_waiting_for_seats_is_not_charged(home: Home) -> None:
    log = Log()
    log.declare_house({"a": 4})
    log.node("n1", 4)
    job = Job(team="a", gpus=4)
    log.reserve(job, 2)
    log.admit(job, 5, reserved_h=2)
    log.finish(job, 10)
    async with books_of(log, home) as books:
        report = await books.report("team", hours=10)

    assert [(line.key, line.kind) for line in report.lines] == [
        ("a", CostLineKind.USAGE),
        ("__reserved__", CostLineKind.RESERVED),
    ]
    assert hours(report.lines[0].waiting_time[GPU]) == 12
    assert euros(report) == {
        "a": 28,
        "__reserved__": Fraction("16.80"),
        "__idle__": Fraction("11.20"),
    }


async def test_a_fenced_node_is_unavailable_and_not_idle(home: Home) -> None:
    log = Log()
    log.declare_house({"a": 8})
    log.node("n1", 4)
    log.node("n2", 4)
    log.condition("n2", NodeCondition.FENCED, 5)
    log.condition("n2", NodeCondition.READY, 8)
    async with books_of(log, home) as books:
        report = await books.report("team", hours=10)

    assert [line.key for line in report.lines] == ["__unavailable__"]
    assert hours(report.lines[0].resource_time[GPU]) == 12
    assert hours(report.idle.resource_time[GPU]) == 68


async def test_borrowing_follows_the_declared_quota(home: Home) -> None:
    log = Log()
    log.declare_house({"a": 3, "b": 1})
    log.node("n1", 4)
    job = Job(team="b", gpus=3)
    log.admit(job, 0)
    log.declare_house({"a": 1, "b": 3}, at_h=6)
    log.finish(job, 10)
    async with books_of(log, home) as books:
        report = await books.report("cluster_queue", hours=10)

    lines = {line.key: line for line in report.lines}
    assert hours(lines["cq-b"].borrowed_time[GPU]) == 12
    assert hours(lines["cq-a"].lent_time[GPU]) == 12


async def test_a_volcano_job_is_charged_as_the_hardware_it_sits_on(home: Home) -> None:
    log = Log()
    log.declare_house({"a": 4})
    log.node("n1", 4)
    job = Job(team="v", gpus=2, flavor="volcano", queue="volcano/default")
    log.admit(job, 0)
    log.finish(job, 10)
    async with books_of(log, home) as books:
        report = await books.report("team", hours=10)

    assert euros(report) == {"v": 28, "__idle__": 28}


async def test_running_jobs_are_counted_up_to_now(home: Home) -> None:
    log = Log()
    log.declare_house({"a": 4})
    log.node("n1", 4)
    log.admit(Job(team="a", gpus=1), 0)
    async with books_of(log, home) as books:
        report = await books.report("team", hours=100, through_h=10)
        future = await books.report("team", hours=100, through_h=-1)

    assert euros(report) == {"a": 14, "__idle__": 42}
    assert report.provisional
    assert report.complete_through_ms == clock(10)
    assert (future.lines, future.total.cost_micros) == ((), 0)


async def test_a_cancel_while_pending_does_not_stretch_the_attempt_before(
    home: Home,
) -> None:
    log = Log()
    job = Job(team="a", gpus=1)
    log.admit(job, 0)
    log.preempt(job, 1)
    log.requeue(job, 2)
    log.finish(job, 500)
    async with books_of(log, home) as books:
        [attempt] = await books.store.all_attempts()

    assert attempt.end_ms == clock(2)


async def test_an_end_before_its_beginning_counts_as_zero(home: Home) -> None:
    log = Log()
    job = Job(team="a", gpus=1)
    log.admit(job, 7)
    log.finish(job, 6)
    async with books_of(log, home) as books:
        report = await books.report("team", hours=10)
        clamped = books.keeper.metrics.clamped._value.get()

    assert report.total.resource_time == {}
    assert clamped == 1


async def test_only_attempts_in_the_window_are_read(home: Home) -> None:
    async with books_of(three_teams(), home) as books:
        found = await books.store.attempts_in(Window(clock(452), clock(453)))

    assert [attempt.workload_id for attempt in found] == ["id-datos-train", "id-ia-train"]


async def test_an_attempt_whose_end_was_lost_ends_with_the_next(home: Home) -> None:
    log = Log()
    log.declare_house({"a": 4})
    log.node("n1", 4)
    job = Job(team="a", gpus=1)
    log.admit(job, 0)
    second = replace(job, attempt=2)
    log.admit(second, 5)
    log.finish(second, 6)
    async with books_of(log, home) as books:
        report = await books.report("team", hours=10)
        later = await books.store.attempts_in(Window(clock(8), clock(9)))

    assert hours(report.lines[0].resource_time[GPU]) == 6
    assert [attempt.number for attempt in later] == [1, 2]


async def test_an_empty_window_is_refused(home: Home) -> None:
    async with books_of(three_teams(), home) as books:
        with pytest.raises(InvalidValue, match="not after its start"):
            await books.report("team", end_ms=clock(0))


async def test_objects_that_were_there_before_the_books_hold_from_the_beginning(
    home: Home,
) -> None:
    log = Log()
    log.declare_house({"a": 4}, at_h=50)
    log.node("n1", 4)
    books = await open_books(home, objects_there=len(log.objects))
    try:
        await books.keeper.take_objects(log.objects)
        await books.take(log.messages)
        assert hours((await books.report("team", hours=10)).idle.resource_time[GPU]) == 40
    finally:
        await books.close()


async def test_keys_that_read_alike_are_one_row_of_an_answer(home: Home) -> None:
    """A label may hold a slash: `a/b` of `c`, and `a` of `b/c`."""
    log = Log()
    log.declare_house({"x": 4})
    log.node("n1", 4)
    for name, labels in (("one", {"k": "a/b", "l": "c"}), ("two", {"k": "a", "l": "b/c"})):
        job = Job(team="x", gpus=1, name=name, labels=labels)
        log.admit(job, 0)
        log.finish(job, 10)
    question = AllocationQuestion(
        window=f"{clock(0) // 1000},{clock(10) // 1000}", aggregate="label:k,label:l"
    )
    async with books_of(log, home) as books:
        body = await books.keeper.allocations(question, clock(10), clock(10))

    (found,) = codec.decode(AllocationSets, body).sets
    assert [(row.name, row.total_cost_micros) for row in found.rows] == [("a/b/c", 28 * MICROS)]
