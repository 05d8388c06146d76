"""Closing months on a store: once, in order, and what comes late goes into the next."""

from dataclasses import replace

import pytest

from muster_accounting.statement_answers import CLOSE_GRACE_MS
from muster_contracts.statement_lines import line_of, read_line
from muster_contracts.statements import CloseQuestion, StatementPage, StatementQuestion
from muster_domain.errors import Conflict, Fenced, InvalidValue
from muster_domain.money import MICROS
from muster_rating.periods import month_of
from muster_rating.prices import HOUR_MS
from muster_rating.statements import broken_link
from muster_runtime.reader import Received

from .homes import Home
from .log import Books, Job, Log, clock, open_books, three_teams

MONTH = "2024-10"
OCTOBER, NOVEMBER = month_of(MONTH, "UTC"), month_of("2024-11", "UTC")
TOTAL = 376320 * MICROS // 100
"""Four GPUs from the fourth of October on."""
DUE_MS = OCTOBER.end_ms + CLOSE_GRACE_MS


async def opened(home: Home) -> Books:
    log = three_teams()
    books = await open_books(home)
    await books.keeper.take_objects(log.objects)
    await books.take(log.messages)
    return books


async def close(books: Books, month: str = MONTH, now_ms: int = DUE_MS) -> StatementPage:
    return await books.keeper.close(CloseQuestion(month=month), now_ms)


async def test_a_month_is_open_then_provisional_then_closed(home: Home) -> None:
    books = await opened(home)
    question = StatementQuestion(month=MONTH)
    try:
        running = await books.keeper.statement(question, clock(360))
        assert (running.state, running.number, running.digest) == ("open", 0, "")
        assert running.total_micros == 2016 * MICROS
        waiting = await books.keeper.statement(question, OCTOBER.end_ms)
        assert (waiting.state, waiting.total_micros) == ("provisional", TOTAL)
        closed = await close(books)
        assert (closed.state, closed.number, closed.total_micros) == ("closed", 1, TOTAL)
        assert await books.keeper.statement(question, DUE_MS) == closed
    finally:
        await books.close()


async def test_a_month_is_not_closed_before_facts_about_it_are_in(home: Home) -> None:
    books = await opened(home)
    try:
        with pytest.raises(Conflict, match="can be closed in 1 h"):
            await close(books, now_ms=DUE_MS - HOUR_MS)
    finally:
        await books.close()


async def test_a_month_that_is_closed_twice_is_issued_once(home: Home) -> None:
    books = await opened(home)
    try:
        first = await close(books)
        assert await close(books, now_ms=DUE_MS + 48 * HOUR_MS) == first
        assert len(await books.store.statements("UTC")) == 1
    finally:
        await books.close()


async def test_months_are_closed_one_after_the_other(home: Home) -> None:
    books = await opened(home)
    late_ms = month_of("2025-01", "UTC").end_ms
    try:
        await close(books)
        with pytest.raises(Conflict, match="the month that begins as it ends"):
            await close(books, "2024-12", late_ms)
        await close(books, "2024-11", late_ms)
        assert (await close(books, "2024-12", late_ms)).number == 3
        assert broken_link(await books.store.statements("UTC")) is None
    finally:
        await books.close()


async def test_what_is_heard_late_is_put_right_in_the_next_month(home: Home) -> None:
    books = await opened(home)
    try:
        october = await close(books)
        log = three_teams()
        late = Job(team="ia", gpus=1, name="late")
        log.messages.clear()
        log.admit(late, 600)
        log.finish(late, 610)
        await books.take(log.messages)
        november = await close(books, "2024-11", NOVEMBER.end_ms + CLOSE_GRACE_MS)
        corrections = [line for line in november.lines if line.corrects]
        assert {line.corrects for line in corrections} == {OCTOBER.id}
        assert sum(line.micros for line in corrections) == 0
        usage = [line for line in corrections if line.kind == "usage"]
        assert [(line.workload, line.micros) for line in usage] == [("late", 14 * MICROS)]
        assert await books.keeper.statement(StatementQuestion(month=MONTH), DUE_MS) == october
    finally:
        await books.close()


def charged_by(log: Log, team: str, basis: str) -> list[Received]:
    terms = {"basis": "usage", "queues": {f"cq-{team}": {"basis": basis}}}
    log.declare("ChargingPolicy", "finance", {"versions": [terms]})
    return log.objects[-1:]


async def test_a_closed_month_keeps_the_policy_that_it_was_closed_with(home: Home) -> None:
    books, log = await opened(home), three_teams()
    try:
        await books.keeper.take_objects(charged_by(log, "ia", "commitment"))
        october = await close(books)
        assert [(told.policy, told.terms[1].basis) for told in october.policy] == [
            ("finance", "commitment")
        ]
        of_ia = [line for line in october.lines if line.cluster_queue == "cq-ia"]
        assert sum(line.micros for line in of_ia) == 672 * 1_400_000
        await books.keeper.take_objects(charged_by(log, "ia", "usage"))
        november = await close(books, "2024-11", NOVEMBER.end_ms + CLOSE_GRACE_MS)
        assert [line for line in november.lines if line.corrects] == []
        assert await books.keeper.statement(StatementQuestion(month=MONTH), DUE_MS) == october
        first, second = await books.store.statements("UTC")
        assert (first.policy[0].id, first.digest) == ("finance", october.digest)
        assert second.previous == first.digest
    finally:
        await books.close()


async def test_a_writer_that_lost_its_lease_issues_nothing(home: Home) -> None:
    books = await opened(home)
    try:
        await books.store.claim(books.keeper.epoch + 1, 0)
        with pytest.raises(Fenced):
            await close(books)
        assert await books.store.statements("UTC") == []
    finally:
        await books.close()


async def test_lines_come_in_pages_and_read_back_as_they_were(home: Home) -> None:
    books = await opened(home)
    try:
        await close(books)
        (statement,) = await books.store.statements("UTC")
        whole = await books.keeper.statement(StatementQuestion(month=MONTH), DUE_MS)
        parts = [
            await books.keeper.statement(
                StatementQuestion(month=MONTH, offset=place, limit=1), DUE_MS
            )
            for place in range(whole.total_lines)
        ]
        assert [line for part in parts for line in part.lines] == list(whole.lines)
        assert tuple(read_line(line) for line in whole.lines) == statement.lines
        assert tuple(line_of(line) for line in statement.lines) == whole.lines
        assert replace(statement, lines=statement.lines).digest == whole.digest
        with pytest.raises(InvalidValue, match="a page has"):
            await books.keeper.statement(StatementQuestion(month=MONTH, limit=0), DUE_MS)
    finally:
        await books.close()
