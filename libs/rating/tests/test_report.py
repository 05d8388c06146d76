"""Cost tables: worked examples with exact results."""

from dataclasses import replace
from fractions import Fraction

import pytest

from muster_domain.errors import InvalidValue
from muster_domain.money import MICROS
from muster_rating.attempts import Attempt
from muster_rating.prices import HOUR_MS, PriceBook
from muster_rating.report import Books, RowKind, Table, cost_table
from muster_rating.windows import Window

from .house import House

GPU = "nvidia.com/gpu"


@pytest.fixture
def house() -> House:
    return House()


MONTH = Window(0, 720 * HOUR_MS)


def euros(table: Table) -> dict[str, Fraction]:
    return {row.key: Fraction(row.cost_micros or 0, MICROS) for row in table.rows}


def hours(quantity: int) -> Fraction:
    return Fraction(quantity, 1000 * HOUR_MS)


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


def test_three_teams_on_one_node_add_up_to_the_node(house: House) -> None:
    table = cost_table(three_teams(house), house.prices("1.40"), MONTH, "team")

    assert euros(table) == {
        "datos": Fraction("1512"),
        "ia": Fraction("604.80"),
        "plataforma": Fraction("352.80"),
        "__idle__": Fraction("1562.40"),
    }
    assert {row.key: hours(row.held[GPU]) for row in table.rows} == {
        "datos": 1080,
        "ia": 432,
        "plataforma": 252,
        "__idle__": 1116,
    }
    assert table.total_micros == 4032 * MICROS == table.capacity_cost


@pytest.mark.parametrize("by", ["team", "namespace", "user", "cluster_queue", "flavor", "workload"])
def test_the_total_does_not_depend_on_the_dimension(house: House, by: str) -> None:
    table = cost_table(three_teams(house), house.prices("1.40"), MONTH, by)

    assert table.total_micros == sum(row.cost_micros or 0 for row in table.rows) == 4032 * MICROS


def test_a_filter_shows_the_idle_that_its_share_would_carry(house: House) -> None:
    table = cost_table(
        three_teams(house),
        house.prices("1.40"),
        MONTH,
        "team",
        lambda owner: owner.namespace == "datos",
    )

    assert [row.key for row in table.rows] == ["datos", "__idle__"]
    assert euros(table)["datos"] == 1512
    assert nearest_cent(euros(table)["__idle__"]) == Fraction("956.57")


def nearest_cent(amount: Fraction) -> Fraction:
    return Fraction(round(amount * 100), 100)


def test_a_price_change_splits_the_time(house: House) -> None:
    books = Books(attempts=(house.attempt("a", 2, 12, 36),), capacity=())

    table = cost_table(
        books, house.prices("1.40", "1.50", from_h=(24,)), Window(0, 48 * HOUR_MS), "team"
    )

    assert euros(table) == {
        "a": Fraction("69.60"),
        "__overallocated__": -Fraction("69.60"),
    }


def test_borrowed_is_above_nominal_and_falls_on_the_last_in(house: House) -> None:
    books = Books(
        attempts=(
            house.attempt("a", 2, 0, 10, name="first", queue="q"),
            house.attempt("b", 2, 4, 8, name="second", queue="q"),
        ),
        capacity=(house.capacity(4),),
        catalogs=(house.catalog({"q": 2, "other": 2}),),
    )

    table = cost_table(books, house.prices("1.40"), Window(0, 10 * HOUR_MS), "team")
    queues = cost_table(books, house.prices("1.40"), Window(0, 10 * HOUR_MS), "cluster_queue")

    assert {row.key: hours(row.borrowed.get(GPU, 0)) for row in table.rows} == {
        "a": 0,
        "b": 8,
        "__idle__": 0,
    }
    by_queue = {row.key: row for row in queues.rows}
    assert hours(by_queue["q"].held[GPU]) == 28
    assert hours(by_queue["q"].borrowed[GPU]) == 8
    assert hours(by_queue["other"].lent[GPU]) == 8


def test_borrowed_ends_when_the_queue_is_back_inside_its_quota(house: House) -> None:
    books = Books(
        attempts=(
            house.attempt("a", 2, 0, 6, name="first", queue="q"),
            house.attempt("b", 2, 4, 8, name="second", queue="q"),
        ),
        capacity=(house.capacity(4),),
        catalogs=(house.catalog({"q": 2, "other": 2}),),
    )

    table = cost_table(books, house.prices("1.40"), Window(0, 10 * HOUR_MS), "cluster_queue")

    q = next(row for row in table.rows if row.key == "q")
    assert (hours(q.held[GPU]), hours(q.borrowed[GPU])) == (20, 4)


def test_a_change_of_quota_changes_what_is_borrowed_from_then_on(house: House) -> None:
    books = Books(
        attempts=(house.attempt("a", 3, 0, 10, queue="q"),),
        capacity=(house.capacity(4),),
        catalogs=(
            house.catalog({"q": 3, "other": 1}),
            house.catalog({"q": 1, "other": 3}, from_h=6),
        ),
    )

    table = cost_table(books, house.prices("1.40"), Window(0, 10 * HOUR_MS), "cluster_queue")

    assert {row.key: hours(row.borrowed.get(GPU, 0)) for row in table.rows if row.borrowed} == {
        "q": 8
    }


def test_the_lowest_priority_holds_the_borrowed_part(house: House) -> None:
    books = Books(
        attempts=(
            house.attempt("a", 2, 0, 10, name="humble", queue="q", priority=1),
            house.attempt("b", 2, 4, 8, name="important", queue="q", priority=9),
        ),
        capacity=(house.capacity(4),),
        catalogs=(house.catalog({"q": 2, "other": 2}),),
    )

    table = cost_table(books, house.prices("1.40"), Window(0, 10 * HOUR_MS), "team")

    assert {row.key: hours(row.borrowed[GPU]) for row in table.rows if row.borrowed} == {"a": 8}


def test_a_preempted_attempt_is_charged_and_shown_as_lost(house: House) -> None:
    books = Books(
        attempts=(
            house.attempt("a", 32, 0, 3, name="gang", number=1, preempted=True),
            house.attempt("a", 32, 4, 6, name="gang", number=2),
        ),
        capacity=(house.capacity(32),),
    )

    table = cost_table(books, house.prices("1.40"), Window(0, 6 * HOUR_MS), "team")

    row = table.rows[0]
    assert hours(row.held[GPU]) == 160
    assert hours(row.lost[GPU]) == 96
    assert row.lost_cost_micros == Fraction("134.40") * MICROS
    assert row.cost_micros == 224 * MICROS


@pytest.mark.parametrize(
    ("saved_h", "lost"),
    [
        pytest.param(2, 32, id="before the end"),
        pytest.param(3, 0, id="at the end"),
        pytest.param(-1, 96, id="before the seats"),
    ],
)
def test_what_was_saved_before_a_preemption_is_not_lost(
    house: House, saved_h: int, lost: int
) -> None:
    preempted = house.attempt("a", 32, 0, 3, preempted=True)
    books = Books(
        attempts=(replace(preempted, checkpointed_ms=saved_h * HOUR_MS),),
        capacity=(house.capacity(32),),
    )

    table = cost_table(books, house.prices("1.40"), Window(0, 6 * HOUR_MS), "team")

    row = table.rows[0]
    assert hours(row.held[GPU]) == 96
    assert hours(row.lost.get(GPU, 0)) == lost


def test_waiting_for_seats_costs_nobody_and_is_kept_apart_from_idle(house: House) -> None:
    books = Books(
        attempts=(house.attempt("a", 3, 5, 10, reserved_h=1),), capacity=(house.capacity(4),)
    )

    table = cost_table(books, house.prices("1"), Window(0, 10 * HOUR_MS), "team")

    assert euros(table) == {"a": 15, "__idle__": 13, "__reserved__": 12}
    assert hours(table.rows[0].waiting[GPU]) == 12


def test_quota_beyond_the_hardware_does_not_make_more_hardware(house: House) -> None:
    books = Books(
        attempts=(
            house.attempt("a", 3, 0, 10),
            house.attempt("b", 8, 0, None, seated=False),
        ),
        capacity=(house.capacity(4),),
    )

    table = cost_table(books, house.prices("1"), Window(0, 10 * HOUR_MS), "team")

    assert euros(table) == {"a": 30, "b": 0, "__reserved__": 10}
    assert table.total_micros == 40 * MICROS


def test_a_node_that_takes_no_pods_is_unavailable_except_for_what_is_held_on_it(
    house: House,
) -> None:
    books = Books(
        attempts=(house.attempt("a", 1, 0, 10, node="n1"),),
        capacity=(
            house.capacity(4, 0, 4),
            house.capacity(4, 4, 8, usable=False),
            house.capacity(4, 8, None),
            house.capacity(2, node="n2"),
        ),
    )

    table = cost_table(books, house.prices("1"), Window(0, 10 * HOUR_MS), "team")

    assert euros(table) == {"a": 10, "__idle__": 38, "__unavailable__": 12}


def test_more_held_than_there_is_shows_and_still_adds_up(house: House) -> None:
    books = Books(attempts=(house.attempt("a", 5, 0, 1),), capacity=(house.capacity(4),))

    table = cost_table(books, house.prices("1.40"), Window(0, HOUR_MS), "team")

    assert euros(table) == {"a": Fraction("7"), "__overallocated__": Fraction("-1.40")}
    assert table.total_micros == Fraction("5.60") * MICROS
    assert table.of_kind(RowKind.IDLE) is None


def test_a_million_short_jobs_are_rounded_once(house: House) -> None:
    prices = house.prices("1.40")
    second = house.attempt("a", 1, 0, 1)
    jobs = tuple(
        Attempt(
            workload_id=f"w{number:05d}",
            number=1,
            opening=second.opening,
            seating=second.seating,
            closing=type(second.closing)(at_ms=1000, version=1),
        )
        for number in range(10_000)
    )

    table = cost_table(Books(attempts=jobs, capacity=()), prices, Window(0, HOUR_MS), "team")

    assert table.rows[0].cost_micros == 3_888_889


def test_an_unpriced_flavor_is_named_and_not_counted_as_free(house: House) -> None:
    table = cost_table(three_teams(house), PriceBook("EUR"), MONTH, "team")

    assert table.unpriced == (house.pair,)
    assert all(row.cost_micros is None for row in table.rows)
    assert hours(table.rows[0].unpriced[GPU]) == 1080
    assert table.total_micros == 0


def test_a_price_of_zero_is_a_price(house: House) -> None:
    table = cost_table(three_teams(house), house.prices("0"), MONTH, "team")

    assert table.unpriced == ()
    assert [row.cost_micros for row in table.rows] == [0, 0, 0, 0]


def test_open_attempts_are_counted_to_the_end_of_the_window(house: House) -> None:
    books = Books(attempts=(house.attempt("a", 4, 2, None),), capacity=(house.capacity(4),))

    table = cost_table(books, house.prices("1"), Window(0, 10 * HOUR_MS), "team")

    assert table.has_open
    assert euros(table) == {"a": 32, "__idle__": 8}


def test_a_label_groups_and_what_lacks_it_is_unallocated(house: House) -> None:
    table = cost_table(three_teams(house), house.prices("1.40"), MONTH, "label:equipo")

    assert [row.key for row in table.rows] == ["__unallocated__", "__idle__"]


def test_an_unknown_dimension_is_refused(house: House) -> None:
    with pytest.raises(InvalidValue, match="costs are not kept by 'colour'"):
        cost_table(three_teams(house), house.prices("1.40"), MONTH, "colour")
