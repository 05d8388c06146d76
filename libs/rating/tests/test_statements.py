"""Statements: every hour on one line, sums to the cent, closed months that stay as they are."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_rating.attempts import Attempt
from muster_rating.charges import BORROWED, Charge, charges
from muster_rating.focus import COLUMNS, focus_rows, total_micros
from muster_rating.periods import Period, month_of
from muster_rating.prices import HOUR_MS
from muster_rating.report import Books, RowKind, cost_table
from muster_rating.statements import (
    PeriodState,
    Statement,
    booked,
    broken_link,
    corrections,
    issue,
    state_of,
    statement_rows,
)
from muster_rating.windows import Window

from .house import GPU, House

HOUSE = House()
PRICES = HOUSE.prices("1.40")
JUNE, JULY = month_of("2026-06", "UTC"), month_of("2026-07", "UTC")
DAY = Window(0, 24 * HOUR_MS)


def books(*attempts: Attempt, gpus: int = 4) -> Books:
    return Books(
        attempts=attempts,
        capacity=(HOUSE.capacity(gpus),),
        catalogs=(HOUSE.catalog({"a": 2, "b": 2}),),
    )


def close(found: tuple[Charge, ...], before: list[Statement], period: Period) -> list[Statement]:
    """Issue the next statement; what it puts right is of the periods closed before."""
    last = before[-1] if before else None
    return [*before, issue(period, "EUR", period.end_ms, found, (), last)]


def test_every_hour_of_capacity_is_on_one_line() -> None:
    found = charges(books(HOUSE.attempt("a", 3, 2, 12), HOUSE.attempt("b", 1, 0, 24)), PRICES, DAY)
    by_kind = {
        (charge.team, charge.klass or str(charge.kind)): charge.quantity // (1000 * HOUR_MS)
        for charge in found
    }
    assert by_kind == {
        ("a", "nominal"): 20,
        ("a", "borrowed"): 10,
        ("b", "nominal"): 24,
        ("", "idle"): 42,
    }
    assert sum(charge.micros for charge in found) == 4 * 24 * 1_400_000


def test_a_price_that_changes_makes_two_lines() -> None:
    prices = HOUSE.prices("1.40", "1.50", from_h=(12,))
    found = charges(books(HOUSE.attempt("a", 2, 0, 24), gpus=2), prices, DAY)
    assert [charge.micros for charge in found] == [33_600_000, 36_000_000]


JOBS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]), st.integers(1, 4), st.integers(0, 23), st.integers(1, 30)
    ),
    max_size=6,
)


def made(jobs: list[tuple[str, int, int, int]]) -> Books:
    return books(
        *(
            HOUSE.attempt(team, gpus, start, start + length, name=f"w{number}")
            for number, (team, gpus, start, length) in enumerate(jobs)
        )
    )


@given(jobs=JOBS)
def test_lines_sum_to_capacity_and_agree_with_the_report(
    jobs: list[tuple[str, int, int, int]],
) -> None:
    of_day = made(jobs)
    found = charges(of_day, PRICES, DAY)
    assert sum(charge.micros for charge in found) == 4 * 24 * 1_400_000
    table = cost_table(of_day, PRICES, DAY, "team")
    for team in ("a", "b"):
        row = next((row for row in table.rows if row.key == team), None)
        mine = [charge for charge in found if charge.team == team]
        assert sum(charge.quantity for charge in mine) == (row.held.get(GPU, 0) if row else 0)
        lent = sum(charge.quantity for charge in mine if charge.klass == BORROWED)
        assert lent == (row.borrowed.get(GPU, 0) if row else 0)


@given(jobs=JOBS, cut_h=st.integers(1, 23))
def test_cutting_a_period_changes_no_total(
    jobs: list[tuple[str, int, int, int]], cut_h: int
) -> None:
    of_day, cut_ms = made(jobs), cut_h * HOUR_MS
    whole = charges(of_day, PRICES, DAY)
    parts = (
        *charges(of_day, PRICES, Window(0, cut_ms)),
        *charges(of_day, PRICES, Window(cut_ms, DAY.end_ms)),
    )
    assert sum(c.quantity for c in parts) == sum(c.quantity for c in whole)
    assert abs(sum(c.micros for c in parts) - sum(c.micros for c in whole)) <= len(parts)


@given(jobs=JOBS)
def test_the_rows_of_a_statement_sum_to_its_total_and_focus_sums_to_the_statement(
    jobs: list[tuple[str, int, int, int]],
) -> None:
    (statement,) = close(charges(made(jobs), PRICES, DAY), [], JUNE)
    for by in (lambda charge: charge.team, lambda charge: charge.workload):
        rows = statement_rows(statement, by, lambda resource: resource == GPU)
        assert sum(row.cents for row in rows) * 10_000 == statement.total_micros
    rows = list(focus_rows(statement, "house"))
    assert total_micros(rows) == statement.total_micros
    assert all(tuple(row) == COLUMNS for row in rows)
    for row in rows:
        product = Fraction(row["PricingQuantity"] or "") * Fraction(row["ListUnitPrice"] or "")
        assert abs(product - Fraction(row["BilledCost"] or "")) <= Fraction(2, 1_000_000)


def test_cents_go_to_the_largest_remainders() -> None:
    (charge,) = charges(books(HOUSE.attempt("a", 1, 0, 24), gpus=1), PRICES, DAY)
    thirds = [
        replace(charge, workload_id=name, workload=name, micros=micros)
        for name, micros in (("x", 33_333_334), ("y", 33_333_333), ("z", 33_333_333))
    ]
    (statement,) = close(tuple(thirds), [], JUNE)
    rows = statement_rows(statement, lambda charge: charge.workload, lambda _: True)
    assert [row.cents for row in rows] == [3334, 3333, 3333]


def test_a_closed_month_stays_and_what_is_known_later_is_a_correction_in_the_next() -> None:
    early = books(HOUSE.attempt("a", 2, 0, None))
    late = books(HOUSE.attempt("a", 2, 0, 12, name="a-0-None-2"))
    statements = close(charges(early, PRICES, DAY), [], JUNE)
    digest = statements[0].digest
    put_right = corrections(JUNE.id, booked(statements, JUNE.id), charges(late, PRICES, DAY))
    assert {line.corrects for line in put_right} == {JUNE.id}
    of_usage = [line.charge.micros for line in put_right if line.charge.kind is RowKind.USAGE]
    assert of_usage == [-67_200_000, 33_600_000]
    assert sum(line.charge.micros for line in put_right) == 0
    statements.append(issue(JULY, "EUR", JULY.end_ms, (), put_right, statements[-1]))
    assert statements[0].digest == digest
    again = corrections(JUNE.id, booked(statements, JUNE.id), charges(late, PRICES, DAY))
    assert again == ()
    classes = {row["ChargeClass"] for row in focus_rows(statements[1], "house")}
    assert classes == {"Correction"}


@given(rounds=st.lists(JOBS, min_size=1, max_size=4))
def test_whatever_becomes_known_when_all_statements_together_charge_what_is_so(
    rounds: list[list[tuple[str, int, int, int]]],
) -> None:
    """I5: what is closed stays; all statements together are right."""
    statements = close(charges(made(rounds[0]), PRICES, DAY), [], JUNE)
    digests = [statements[0].digest]
    for number, jobs in enumerate(rounds[1:], start=7):
        put_right = corrections(
            JUNE.id, booked(statements, JUNE.id), charges(made(jobs), PRICES, DAY)
        )
        period = month_of(f"2026-{number:02d}", "UTC")
        statements.append(issue(period, "EUR", period.end_ms, (), put_right, statements[-1]))
        digests.append(statements[-1].digest)
        assert [statement.digest for statement in statements] == digests
        charged = {key: c.quantity for key, c in booked(statements, JUNE.id).items()}
        assert charged == {c.key: c.quantity for c in charges(made(jobs), PRICES, DAY)}
    assert broken_link(statements) is None


def test_a_statement_that_was_changed_left_out_or_slipped_in_is_found() -> None:
    found = charges(books(HOUSE.attempt("a", 2, 0, 24)), PRICES, DAY)
    statements: list[Statement] = []
    for number in (6, 7, 8):
        statements = close(found, statements, month_of(f"2026-{number:02d}", "UTC"))
    assert broken_link(statements) is None
    changed = replace(statements[0], currency="USD")
    assert broken_link([changed, *statements[1:]]) == 2
    assert broken_link([statements[0], statements[2]]) == 3
    assert broken_link([statements[0], statements[0], *statements[1:]]) == 1


@pytest.mark.parametrize(
    ("now_ms", "closed", "state"),
    [
        (JUNE.end_ms - 1, False, PeriodState.OPEN),
        (JUNE.end_ms, False, PeriodState.PROVISIONAL),
        (JUNE.end_ms, True, PeriodState.CLOSED),
    ],
)
def test_a_period_is_open_then_provisional_then_closed(
    now_ms: int, state: PeriodState, *, closed: bool
) -> None:
    assert state_of(JUNE, now_ms, closed=closed) is state
