"""Who pays: idle policies and charging bases, with the exact results of worked examples."""

from fractions import Fraction

import pytest

from muster_domain.errors import InvalidValue
from muster_domain.money import MICROS, ChargingBasis, IdlePolicy, round_rows, split
from muster_rating.charging import Rules
from muster_rating.policies import for_all
from muster_rating.prices import HOUR_MS
from muster_rating.report import Books, RowKind, Table, cost_table
from muster_rating.windows import Window

from .house import GPU, House

MONTH = Window(0, 720 * HOUR_MS)
TEN_HOURS = Window(0, 10 * HOUR_MS)


@pytest.fixture
def house() -> House:
    return House()


def three_teams(house: House) -> Books:
    return Books(
        attempts=(
            house.attempt("datos", 2, 0, 540),
            house.attempt("ia", 1, 100, 532),
            house.attempt("plataforma", 1, 200, 452),
        ),
        capacity=(house.capacity(4),),
        catalogs=(house.catalog({"datos": 2, "ia": 1, "plataforma": 1}),),
    )


def cents(table: Table) -> dict[str, str]:
    amounts, _ = round_rows([Fraction(row.cost_micros or 0, MICROS // 100) for row in table.rows])
    return {row.key: f"{amount / 100:.2f}" for row, amount in zip(table.rows, amounts, strict=True)}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            Rules(idle=IdlePolicy.NONE),
            {"datos": "1512.00", "ia": "604.80", "plataforma": "352.80"},
        ),
        (
            Rules(idle=IdlePolicy.PROPORTIONAL),
            {"datos": "2468.57", "ia": "987.43", "plataforma": "576.00"},
        ),
        (
            Rules(idle=IdlePolicy.NODE),
            {"datos": "2468.57", "ia": "987.43", "plataforma": "576.00"},
        ),
        (
            Rules(idle=IdlePolicy.OWNER),
            {"datos": "2016.00", "ia": "1008.00", "plataforma": "1008.00"},
        ),
        (
            Rules(policy=for_all(ChargingBasis.COMMITMENT)),
            {"datos": "2016.00", "ia": "1008.00", "plataforma": "1008.00"},
        ),
        (
            Rules(policy=for_all(ChargingBasis.BOTH)),
            {"datos": "2016.00", "ia": "1008.00", "plataforma": "1008.00"},
        ),
    ],
)
def test_the_month_of_three_teams_by_every_policy(
    house: House, rules: Rules, expected: dict[str, str]
) -> None:
    books = three_teams(house)

    assert (
        cents(cost_table(books, house.prices("1.40"), MONTH, "cluster_queue", rules=rules))
        == expected
    )


def test_a_team_on_borrowed_cards_pays_the_lenders(house: House) -> None:
    books = Books(
        attempts=(house.attempt("datos", 4, 0, 270),),
        capacity=(house.capacity(4),),
        catalogs=(house.catalog({"datos": 2, "ia": 1, "plataforma": 1}),),
    )

    def told(rules: Rules) -> dict[str, str]:
        return cents(cost_table(books, house.prices("1.40"), MONTH, "cluster_queue", rules=rules))

    assert told(Rules(policy=for_all(ChargingBasis.BOTH))) == {
        "datos": "2772.00",
        "ia": "630.00",
        "plataforma": "630.00",
    }
    assert told(Rules(policy=for_all(ChargingBasis.BOTH, 0))) == {
        "datos": "2772.00",
        "ia": "1008.00",
        "plataforma": "1008.00",
        "__uncommitted__": "-756.00",
    }
    assert told(Rules(idle=IdlePolicy.OWNER)) == {
        "datos": "2772.00",
        "ia": "630.00",
        "plataforma": "630.00",
    }


def test_idle_of_a_node_is_paid_on_that_node(house: House) -> None:
    books = Books(
        attempts=(
            house.attempt("a", 1, 0, 10, node="n1"),
            house.attempt("b", 4, 0, 10, node="n2"),
        ),
        capacity=(house.capacity(4, node="n1"), house.capacity(4, node="n2")),
    )

    def idle(policy: IdlePolicy) -> dict[str, Fraction]:
        table = cost_table(books, house.prices("1.40"), TEN_HOURS, "team", rules=Rules(idle=policy))
        return {row.key: row.idle_cost / MICROS for row in table.rows}

    assert idle(IdlePolicy.PROPORTIONAL) == {"a": Fraction("8.40"), "b": Fraction("33.60")}
    assert idle(IdlePolicy.NODE) == {"a": 42, "b": 0}


@pytest.mark.parametrize("policy", [IdlePolicy.PROPORTIONAL, IdlePolicy.NODE])
def test_idle_that_nobody_can_pay_stays_on_its_row(house: House, policy: IdlePolicy) -> None:
    books = Books(attempts=(), capacity=(house.capacity(4),))

    table = cost_table(books, house.prices("1.40"), TEN_HOURS, "team", rules=Rules(idle=policy))

    assert cents(table) == {"__idle__": "56.00"}


def test_capacity_above_all_quota_is_nobodys(house: House) -> None:
    books = Books(
        attempts=(),
        capacity=(house.capacity(4),),
        catalogs=(house.catalog({"a": 1, "b": 2}),),
    )
    prices = house.prices("1.40")

    owners = cost_table(
        books, prices, TEN_HOURS, "cluster_queue", rules=Rules(idle=IdlePolicy.OWNER)
    )
    quota = cost_table(
        books,
        prices,
        TEN_HOURS,
        "cluster_queue",
        rules=Rules(policy=for_all(ChargingBasis.COMMITMENT)),
    )

    assert cents(owners) == {"a": "14.00", "b": "28.00", "__idle__": "14.00"}
    assert cents(quota) == {"a": "14.00", "b": "28.00", "__uncommitted__": "14.00"}


def test_quota_above_the_capacity_is_shown(house: House) -> None:
    books = Books(
        attempts=(),
        capacity=(house.capacity(16),),
        catalogs=(house.catalog({"a": 16, "b": 8}),),
    )
    rules = Rules(policy=for_all(ChargingBasis.COMMITMENT))

    table = cost_table(books, house.prices("1.40"), MONTH, "cluster_queue", rules=rules)

    assert cents(table) == {"a": "16128.00", "b": "8064.00", "__uncommitted__": "-8064.00"}
    assert table.total_micros == 16128 * MICROS
    uncommitted = table.of_kind(RowKind.UNCOMMITTED)
    assert uncommitted is not None
    assert uncommitted.charged == {GPU: -8 * 720 * 1000 * HOUR_MS}


def test_cents_go_to_the_largest_remainders() -> None:
    assert split(10_000, [1, 1, 1]) == (3_334, 3_333, 3_333)
    assert split(5, [1, 1, 1]) == (2, 2, 1)
    assert split(1_000, [1, 1, 1, 3]) == (167, 167, 166, 500)


@pytest.mark.parametrize(
    ("rules", "by", "field"),
    [
        (Rules(idle=IdlePolicy.OWNER), "team", "by"),
        (Rules(policy=for_all(ChargingBasis.COMMITMENT)), "namespace", "by"),
        (Rules(policy=for_all(ChargingBasis.BOTH), idle=IdlePolicy.NODE), "cluster_queue", "idle"),
        (Rules(policy=for_all(ChargingBasis.USAGE, 101)), "team", "lender_credit"),
    ],
)
def test_what_makes_no_sense_together_is_refused(
    house: House, rules: Rules, by: str, field: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        cost_table(three_teams(house), house.prices("1.40"), MONTH, by, rules=rules)

    assert refused.value.field == field


def test_quota_of_everybody_is_not_shown_to_one_tenant(house: House) -> None:
    with pytest.raises(InvalidValue):
        cost_table(
            three_teams(house),
            house.prices("1.40"),
            MONTH,
            "cluster_queue",
            lambda owner: owner.namespace == "datos",
            Rules(idle=IdlePolicy.OWNER),
        )
