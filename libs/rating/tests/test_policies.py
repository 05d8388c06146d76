"""Charging policies: which version holds when, and what its queues pay together."""

from fractions import Fraction

from muster_domain.money import MICROS, ChargingBasis
from muster_rating.charges import charges
from muster_rating.charging import Rules
from muster_rating.focus import focus_rows
from muster_rating.periods import month_of
from muster_rating.policies import (
    NO_POLICY,
    ChargingPolicy,
    PolicyVersion,
    QueueTerms,
    policy_versions,
    policy_windows,
)
from muster_rating.prices import HOUR_MS
from muster_rating.report import Books, cost_table
from muster_rating.statements import booked, corrections, issue
from muster_rating.windows import Window

from .house import House

HOUSE = House()
PRICES = HOUSE.prices("1.40")
MONTH = Window(0, 720 * HOUR_MS)
COMMITMENT = QueueTerms(basis=ChargingBasis.COMMITMENT)
BOTH = QueueTerms(basis=ChargingBasis.BOTH)


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


def test_a_policy_is_part_of_what_a_digest_proves() -> None:
    june = month_of("2026-06", "UTC")
    plain = issue(june, "EUR", june.end_ms, (), (), None)
    charged = issue(june, "EUR", june.end_ms, (), (), None, policy=(version(0, ia=BOTH),))
    assert plain.digest != charged.digest
