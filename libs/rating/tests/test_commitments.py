"""Quota as money: what is spoken for, what it can come to, and what an open loan will cost."""

from fractions import Fraction

import pytest

from muster_domain.money import format_decimal
from muster_rating.commitments import Commitment, Quota, commitments
from muster_rating.periods import month_of
from muster_rating.prices import HOUR_MS, PriceBook
from muster_rating.windows import Window

from .house import FLAVOR, GPU, House

PRICES = House().prices("1.40")


def quota(queue: str, nominal: int, ceiling: int, borrowed: int = 0) -> Quota:
    return Quota(
        cluster_queue=queue,
        flavor=FLAVOR,
        resource=GPU,
        nominal_milli=nominal * 1000,
        ceiling_milli=ceiling * 1000,
        borrowed_milli=borrowed * 1000,
    )


def one(of: Quota, window: Window, prices: PriceBook = PRICES) -> Commitment:
    (found,) = commitments([of], prices, window)
    return found


def euros(micros: int | None) -> str:
    assert micros is not None
    return format_decimal(Fraction(micros, 1_000_000), 2)


def test_three_teams_on_one_node_are_committed_to_the_node() -> None:
    june = month_of("2026-06", "UTC").window
    teams = [quota("plataforma", 1, 4), quota("datos", 2, 4), quota("ia", 1, 4)]
    found = commitments(teams, PRICES, june)
    assert [
        (of.quota.cluster_queue, euros(of.committed_micros), euros(of.ceiling_micros))
        for of in found
    ] == [
        ("datos", "2016.00", "4032.00"),
        ("ia", "1008.00", "4032.00"),
        ("plataforma", "1008.00", "4032.00"),
    ]
    assert euros(sum(of.committed_micros or 0 for of in found)) == "4032.00"


@pytest.mark.parametrize(
    ("month", "zone", "cost"),
    [
        ("2026-06", "UTC", "2016.00"),
        ("2026-07", "UTC", "2083.20"),
        ("2026-02", "UTC", "1881.60"),
        ("2026-03", "Europe/Madrid", "2080.40"),
        ("2026-10", "Europe/Madrid", "2086.00"),
    ],
)
def test_two_borrowed_cards_cost_what_the_month_is_long(month: str, zone: str, cost: str) -> None:
    found = one(quota("datos", 2, 4, borrowed=2), month_of(month, zone).window)
    assert euros(found.loan_micros) == cost


def test_a_price_counts_from_when_it_begins() -> None:
    prices = House().prices("1.40", "1.50", from_h=(12,))
    found = one(quota("datos", 2, 2), Window(0, 36 * HOUR_MS), prices)
    assert euros(found.committed_micros) == "105.60"


def test_what_has_no_price_in_part_of_the_time_has_no_amount() -> None:
    found = one(quota("datos", 2, 4, borrowed=1), Window(0, HOUR_MS), PriceBook("EUR"))
    assert (found.committed_micros, found.ceiling_micros, found.loan_micros) == (None, None, None)
