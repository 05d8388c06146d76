"""Charging policies: which version holds when, and what its queues pay together."""

from dataclasses import replace
from fractions import Fraction

import pytest

from muster_domain.money import MICROS, ChargingBasis, format_decimal
from muster_rating.charges import charges
from muster_rating.charging import Rules
from muster_rating.focus import focus_rows
from muster_rating.periods import month_of
from muster_rating.policies import (
    NO_POLICY,
    Attribution,
    ChargingPolicy,
    PolicyVersion,
    QueueTerms,
    for_all,
    policy_versions,
    policy_windows,
)
from muster_rating.prices import HOUR_MS
from muster_rating.report import Books, cost_table
from muster_rating.statements import booked, corrections, issue
from muster_rating.windows import Window

from .house import GPU, House

HOUSE = House()
PRICES = HOUSE.prices("1.40")
MONTH = Window(0, 720 * HOUR_MS)
COMMITMENT = QueueTerms(basis=ChargingBasis.COMMITMENT)
BOTH = QueueTerms(basis=ChargingBasis.BOTH)
DIGEST_OF_BOTH = "568f08be7c5a098ec9acc308162b3c1221053ed8985354a5291fb900a21db945"
"""Of a statement of June 2026 in UTC without lines, `ia` paying by BOTH since 1970."""


def version(from_h: int, policy: str = "finance", **queues: QueueTerms) -> PolicyVersion:
    return PolicyVersion(policy=policy, effective_from_ms=from_h * HOUR_MS, queues=queues)


def borrowing(*, end_h: int = 270) -> Books:
    """One team on all four GPUs, two of them borrowed from the others."""
    return Books(
        attempts=(HOUSE.attempt("datos", 4, 0, end_h, name="train"),),
        capacity=(HOUSE.capacity(4),),
        catalogs=(HOUSE.catalog({"datos": 2, "ia": 1, "plataforma": 1}),),
    )


def told(books: Books, *policy: PolicyVersion) -> dict[str, Fraction]:
    table = cost_table(books, PRICES, MONTH, "cluster_queue", rules=Rules(policy=policy))
    assert table.total_micros == 4032 * MICROS
    return {row.key: row.cost / MICROS for row in table.rows if row.cost}


def test_a_version_holds_until_the_next_and_before_the_first_usage_does() -> None:
    first, second = version(10), version(20, ia=COMMITMENT)
    assert policy_windows((first, second), Window(5 * HOUR_MS, 30 * HOUR_MS)) == [
        (Window(5 * HOUR_MS, 10 * HOUR_MS), NO_POLICY),
        (Window(10 * HOUR_MS, 20 * HOUR_MS), first),
        (Window(20 * HOUR_MS, 30 * HOUR_MS), second),
    ]
    assert policy_windows((first, second), Window(20 * HOUR_MS, 21 * HOUR_MS)) == [
        (Window(20 * HOUR_MS, 21 * HOUR_MS), second)
    ]


def test_of_two_versions_that_begin_together_the_later_name_counts() -> None:
    a, b = version(1, "a"), version(1, "b")
    policies = (
        ChargingPolicy(name="b", versions=(b, version(3, "b"))),
        ChargingPolicy(name="a", versions=(a, version(2, "a"))),
    )
    assert policy_versions(policies) == (b, version(2, "a"), version(3, "b"))


def test_queues_on_different_bases_and_the_rest_come_to_the_capacity() -> None:
    """datos pays its loan, ia gets its part of it, plataforma pays only for what it uses."""
    assert told(borrowing(), version(0, datos=BOTH, ia=BOTH)) == {
        "datos": 2772,
        "ia": 630,
        "__uncommitted__": 630,
    }


def test_commitment_alone_pays_for_no_loan() -> None:
    assert told(borrowing(), version(0, datos=COMMITMENT, ia=COMMITMENT)) == {
        "datos": 2016,
        "ia": 1008,
        "__uncommitted__": 1008,
    }


def test_a_change_of_the_policy_counts_from_its_moment() -> None:
    assert told(borrowing(), version(360, ia=COMMITMENT)) == {
        "datos": 1512,
        "ia": 504,
        "__idle__": Fraction(1008 - 504),
        "__uncommitted__": 1512,
    }


def test_a_statement_has_lines_of_unused_quota_and_of_credits() -> None:
    policy = (version(0, datos=BOTH, ia=BOTH, plataforma=BOTH),)
    found = charges(borrowing(), PRICES, MONTH, policy)
    assert [(c.cluster_queue, c.klass, c.workload, c.micros // MICROS) for c in found] == [
        ("datos", "unused", "", 1260),
        ("ia", "lent", "", -378),
        ("ia", "unused", "", 1008),
        ("plataforma", "lent", "", -378),
        ("plataforma", "unused", "", 1008),
        ("datos", "borrowed", "train", 756),
        ("datos", "nominal", "train", 756),
    ]
    june = month_of("2026-06", "UTC")
    statement = issue(june, "EUR", june.end_ms, found, (), None, policy=policy)
    rows = {(row["SubAccountId"], row["x_ChargeClass"]): row for row in focus_rows(statement, "x")}
    assert rows["ia", "lent"]["ChargeCategory"] == "Credit"
    assert rows["ia", "unused"]["CapacityReservationStatus"] == "Unused"
    assert rows["ia", "unused"]["ConsumedQuantity"] is None
    assert {row["x_ChargingPolicy"] for row in rows.values()} == {"finance@1970-01-01T00:00:00Z"}


def test_a_closed_month_is_put_right_by_the_policy_that_it_was_closed_with() -> None:
    policy = (version(0, datos=BOTH),)
    june = month_of("2026-06", "UTC")
    found = charges(borrowing(), PRICES, MONTH, policy)
    closed = issue(june, "EUR", june.end_ms, found, (), None, policy=policy)
    again = charges(borrowing(), PRICES, MONTH, closed.policy)
    assert corrections(june.id, booked([closed], june.id), again) == ()
    late = charges(borrowing(end_h=280), PRICES, MONTH, closed.policy)
    put_right = corrections(june.id, booked([closed], june.id), late)
    changed = {line.charge.klass or str(line.charge.kind) for line in put_right}
    assert changed == {"nominal", "borrowed", "unused", "uncommitted"}
    assert sum(line.charge.micros for line in put_right) == 0


LOAN = QueueTerms(borrow_percent=125)
TEN_HOURS = Window(0, 10 * HOUR_MS)


def two_jobs(**of_a: int) -> Books:
    """G4a: A has two GPUs for ten hours, B two more from hour 4 to 8, two are nominal."""
    return Books(
        attempts=(
            HOUSE.attempt("q", 2, 0, of_a.get("end_h", 10), name="a"),
            HOUSE.attempt("q", 2, 4, 8, name="b"),
        ),
        capacity=(HOUSE.capacity(4),),
        catalogs=(HOUSE.catalog({"q": 2, "lender": 2}),),
    )


def hours_borrowed(books: Books, terms: QueueTerms) -> dict[str, Fraction]:
    policy = (PolicyVersion(policy="finance", queues={"q": terms}),)
    table = cost_table(books, PRICES, TEN_HOURS, "cluster_queue", rules=Rules(policy=policy))
    lines = charges(books, PRICES, TEN_HOURS, policy)
    of_jobs = dict.fromkeys(("a", "b"), 0)
    for line in lines:
        if line.klass == "borrowed":
            of_jobs[line.workload] += line.quantity
    row = next(row for row in table.rows if row.key == "q")
    assert sum(of_jobs.values()) == row.borrowed[GPU]
    return {name: HOUSE.gpu_hours(quantity) for name, quantity in of_jobs.items()}


@pytest.mark.parametrize(
    ("attribution", "end_h", "expected"),
    [
        (Attribution.LIFO, 10, {"a": 0, "b": 8}),
        (Attribution.PRORATA, 10, {"a": 4, "b": 4}),
        (Attribution.LIFO, 6, {"a": 0, "b": 4}),
        (Attribution.PRORATA, 6, {"a": 2, "b": 2}),
    ],
)
def test_whose_a_loan_is(attribution: Attribution, end_h: int, expected: dict[str, int]) -> None:
    """G4a and G4b."""
    terms = QueueTerms(attribution=attribution)
    assert hours_borrowed(two_jobs(end_h=end_h), terms) == expected


@pytest.mark.parametrize(
    ("terms", "paid"),
    [
        (QueueTerms(), "39.20"),
        (LOAN, "42.00"),
        (QueueTerms(borrow_percent=50), "33.60"),
        (QueueTerms(basis=ChargingBasis.COMMITMENT), "28.00"),
        (QueueTerms(basis=ChargingBasis.BOTH), "39.20"),
        (QueueTerms(basis=ChargingBasis.BOTH, borrow_percent=125), "42.00"),
    ],
)
def test_a_loan_may_cost_more_than_its_time(terms: QueueTerms, paid: str) -> None:
    """G4a: 28 GPU-hours, 8 of them borrowed, at 1.40."""
    policy = (PolicyVersion(policy="finance", queues={"q": terms}),)
    table = cost_table(two_jobs(), PRICES, TEN_HOURS, "cluster_queue", rules=Rules(policy=policy))
    lines = charges(two_jobs(), PRICES, TEN_HOURS, policy)
    row = next(row for row in table.rows if row.key == "q")
    assert format_decimal(row.cost / MICROS, 2) == paid
    micros = sum(line.micros for line in lines if line.cluster_queue == "q")
    assert format_decimal(Fraction(micros, MICROS), 2) == paid
    assert table.total_micros == sum(line.micros for line in lines) == 56 * MICROS


def test_a_surcharge_is_a_line_of_who_borrowed() -> None:
    policy = (PolicyVersion(policy="finance", queues={"q": LOAN}),)
    found = charges(two_jobs(), PRICES, TEN_HOURS, policy)
    (line,) = (line for line in found if line.klass == "surcharge")
    assert (line.workload, line.team, HOUSE.gpu_hours(line.quantity)) == ("b", "q", 2)
    june = month_of("2026-06", "UTC")
    statement = issue(june, "EUR", june.end_ms, found, (), None, policy=policy)
    (row,) = (r for r in focus_rows(statement, "x") if r["x_ChargeClass"] == "surcharge")
    assert (row["BilledCost"], row["PricingQuantity"]) == ("2.800000", "2.000000000000")
    assert (row["PricingCategory"], row["ConsumedQuantity"]) == ("Dynamic", None)


def test_a_digest_that_was_issued_before_a_term_existed_stays() -> None:
    june = month_of("2026-06", "UTC")
    issued = issue(june, "EUR", june.end_ms, (), (), None, policy=(version(0, ia=BOTH),))
    loan = issue(june, "EUR", june.end_ms, (), (), None, policy=(version(0, ia=LOAN),))
    assert issued.digest == DIGEST_OF_BOTH
    assert loan.digest != issue(june, "EUR", june.end_ms, (), (), None, policy=()).digest


def test_one_basis_for_all_leaves_whose_loans_are_whose() -> None:
    terms = QueueTerms(basis=ChargingBasis.BOTH, attribution=Attribution.PRORATA)
    assert for_all(ChargingBasis.USAGE, 100, (version(5, ia=terms),)) == (
        NO_POLICY,
        PolicyVersion(
            effective_from_ms=5 * HOUR_MS,
            queues={"ia": QueueTerms(attribution=Attribution.PRORATA)},
        ),
    )


def test_a_policy_is_part_of_what_a_digest_proves() -> None:
    june = month_of("2026-06", "UTC")
    plain = issue(june, "EUR", june.end_ms, (), (), None)
    charged = issue(june, "EUR", june.end_ms, (), (), None, policy=(version(0, ia=BOTH),))
    assert plain.digest != charged.digest


def test_quota_of_what_was_not_there_is_paid_by_nobody_before_its_first_use() -> None:
    """Neither in a report nor on a statement, though somebody used it in the month after."""
    used = (HOUSE.attempt("ia", 1, 730, 740), HOUSE.attempt("ia", 1, 730, None, seated=False))
    books = replace(borrowing(), attempts=used, capacity=())
    policy = (version(0, ia=COMMITMENT),)
    table = cost_table(books, PRICES, MONTH, "cluster_queue", rules=Rules(policy=policy))
    assert [row.key for row in table.rows if row.charged] == []
    assert charges(books, PRICES, MONTH, policy) == ()
