"""Statements: what would be issued for a month now, and what was."""

from collections.abc import Sequence

from muster_contracts.statement_lines import line_of, policy_of
from muster_contracts.statements import (
    LINES_MAX,
    StatementPage,
    StatementQuestion,
)
from muster_domain.errors import Conflict, InvalidValue
from muster_rating.charges import charges
from muster_rating.periods import Period, month_of
from muster_rating.policies import PolicyVersion, versions_in
from muster_rating.prices import PriceBook
from muster_rating.report import Books
from muster_rating.statements import (
    Line,
    Statement,
    booked,
    corrections,
    issue,
    state_of,
)
from muster_rating.windows import Window

CLOSE_GRACE_MS = 24 * 3_600_000
"""A month is closed at the earliest so long after its end: facts about it may still come."""


def month_asked(question: StatementQuestion) -> Period:
    """The month of a question. Raises `InvalidValue`."""
    if not 1 <= question.limit <= LINES_MAX or question.offset < 0:
        raise InvalidValue(f"a page has 1 to {LINES_MAX} lines", field="limit")
    return month_of(question.month, question.zone)


def window_of(period: Period, issued: Sequence[Statement]) -> Window:
    """The time whose books are needed to state a period, and what it puts right."""
    starts = [statement.period.start_ms for statement in issued]
    return Window(min([period.start_ms, *starts]), period.end_ms)


def draft(
    period: Period,
    issued: Sequence[Statement],
    books: Books,
    prices: PriceBook,
    policy: Sequence[PolicyVersion],
    now_ms: int,
) -> Statement:
    """What would be issued for a period now, after the statements that were.

    What is put right of a closed month is reckoned by the policy that it was closed with.
    """
    until_ms = max(period.start_ms, min(period.end_ms, now_ms))
    in_force = versions_in(policy, period.window)
    found = charges(books, prices, Window(period.start_ms, until_ms), in_force)
    put_right: list[Line] = []
    for statement in issued:
        closed = statement.period
        is_now = charges(books, prices, closed.window, statement.policy)
        put_right += corrections(closed.id, booked(issued, closed.id), is_now)
    before = issued[-1] if issued else None
    return issue(period, prices.currency, now_ms, found, put_right, before, policy=in_force)


def check_closing(period: Period, issued: Sequence[Statement], now_ms: int) -> None:
    """Raises `Conflict` for a month that cannot be closed yet, or not after those that are."""
    wait_ms = period.end_ms + CLOSE_GRACE_MS - now_ms
    if wait_ms > 0:
        raise Conflict(
            f"{period.id} can be closed in {-(-wait_ms // 3_600_000)} h: "
            f"facts about it may come for {CLOSE_GRACE_MS // 3_600_000} h after its end"
        )
    last = issued[-1].period if issued else None
    if last is not None and period.start_ms != last.end_ms:
        raise Conflict(f"the next to be closed after {last.id} is the month that begins as it ends")


def page(
    question: StatementQuestion, statement: Statement, now_ms: int, *, closed: bool
) -> StatementPage:
    """A statement with some of its lines."""
    period = statement.period
    some = statement.lines[question.offset : question.offset + question.limit]
    return StatementPage(
        period=period.id,
        zone=question.zone,
        starts_at_ms=period.start_ms,
        ends_at_ms=period.end_ms,
        state=state_of(period, now_ms, closed=closed),
        currency=statement.currency,
        total_micros=statement.total_micros,
        total_lines=len(statement.lines),
        lines=tuple(line_of(line) for line in some),
        at_ms=statement.issued_at_ms,
        number=statement.number if closed else 0,
        issued_at_ms=statement.issued_at_ms if closed else 0,
        digest=statement.digest if closed else "",
        previous=statement.previous if closed else "",
        policy=tuple(policy_of(version) for version in statement.policy),
    )
