"""What was observed of devices: kept once, shown where it was held, and the same from rolls."""

from dataclasses import replace
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_rating.attempts import Attempt, Charge, Seat
from muster_rating.charges import charges
from muster_rating.observations import Observation, by_attempt
from muster_rating.opencost.allocations import HeldAndThere, raw_allocations
from muster_rating.periods import month_of
from muster_rating.prices import HOUR_MS
from muster_rating.report import Books, RowKind, cost_table
from muster_rating.rollups import Roll, merged, roll
from muster_rating.statements import booked, corrections, issue, statement_rows
from muster_rating.windows import Window

from .house import FLAVOR, GPU, House
from .test_properties import LAST, TIMES, all_books

DAY = Window(0, 24 * HOUR_MS)
house = House()


def observed(attempt: Attempt, hour: int, seen: int, busy: int, minutes: int = 1) -> Observation:
    """`seen` and `busy` GPU-hours, in thousandths."""
    return Observation(
        workload_id=attempt.workload_id,
        number=attempt.number,
        node="n1",
        resource=GPU,
        hour_ms=hour * HOUR_MS,
        minutes=minutes,
        observed=seen * HOUR_MS,
        busy=busy * HOUR_MS,
    )


def books(*attempts: Attempt, seen: tuple[Observation, ...] = ()) -> Books:
    return Books(
        attempts=attempts,
        capacity=(house.capacity(4),),
        observations=by_attempt(sorted(seen, key=lambda one: one.key)),
    )


def test_the_busy_part_of_what_was_seen_stands_beside_what_was_held() -> None:
    mine, other = house.attempt("a", 2, 0, 10), house.attempt("b", 1, 0, 5)
    seen = (observed(mine, 0, 2000, 1500), observed(mine, 9, 1000, 0))

    table = cost_table(books(mine, other, seen=seen), house.prices("1.40"), DAY, "team")

    a, b = (row for row in table.rows if row.kind is RowKind.USAGE)
    assert (a.held[GPU], a.observed[GPU], a.busy[GPU]) == (
        20_000 * HOUR_MS,
        3_000 * HOUR_MS,
        1_500 * HOUR_MS,
    )
    assert (b.observed, b.busy) == ({}, {}), "nobody looked, so nothing is said"


def test_a_statement_shows_what_was_seen_of_each_line_and_is_not_corrected_for_it() -> None:
    """Two GPUs of a are its own and two are borrowed; of four hours each was seen for one."""
    mine = house.attempt("a", 4, 0, 10)
    catalog = house.catalog({"a": 2, "b": 2})
    told = replace(books(mine, seen=(observed(mine, 0, 4000, 3000),)), catalogs=(catalog,))
    june = month_of("1970-01", "UTC")

    lines = charges(told, house.prices("1.40"), DAY)
    issued = issue(june, "EUR", june.end_ms, lines, (), None)
    unseen = charges(replace(told, observations={}), house.prices("1.40"), DAY)

    assert {line.klass: (line.observed, line.busy) for line in lines if line.team} == {
        "nominal": (2000 * HOUR_MS, 1500 * HOUR_MS),
        "borrowed": (2000 * HOUR_MS, 1500 * HOUR_MS),
    }
    (row, _) = statement_rows(issued, lambda charge: charge.team, lambda name: name == GPU)
    assert (row.observed_time, row.busy_time) == (4000 * HOUR_MS, 3000 * HOUR_MS)
    assert corrections(june.id, booked([issued], june.id), unseen) == ()
    assert issued.digest == issue(june, "EUR", june.end_ms, unseen, (), None).digest


def test_an_hour_belongs_to_the_window_in_which_it_begins() -> None:
    mine = house.attempt("a", 1, 0, 10)
    there = books(mine, seen=(observed(mine, 3, 1000, 400),))

    def busy(start_ms: int, end_ms: int) -> int:
        window = Window(start_ms, end_ms)
        rows = cost_table(there, house.prices("1"), window, "team").rows
        return sum(row.busy.get(GPU, 0) for row in rows)

    middle = 3 * HOUR_MS + HOUR_MS // 2
    assert busy(0, middle) == 400 * HOUR_MS
    assert busy(middle, 10 * HOUR_MS) == 0


FIRST = Observation(
    workload_id="w", number=1, node="n", resource=GPU, hour_ms=0, minutes=0b011, observed=9, busy=4
)
SECOND = replace(FIRST, minutes=0b1100, observed=7, busy=7)


def test_a_minute_counts_once_in_any_order() -> None:
    both = replace(FIRST, minutes=0b1111, observed=16, busy=11)
    for order in permutations([FIRST, SECOND, FIRST, SECOND]):
        found = order[0]
        for one in order[1:]:
            found = found.merge(one)
        assert found == both
    assert both.merge(replace(FIRST, minutes=0b11000, observed=99)) == both


def two_flavors(*, on_nodes: tuple[str, str]) -> Attempt:
    attempt = house.attempt("a", 2, 0, 10)
    assert attempt.seating is not None
    seats = tuple(
        Seat(
            node=node,
            pods=1,
            devices=1,
            charges=(Charge(flavor=flavor, resource=GPU, quantity_milli=1000),),
        )
        for node, flavor in zip(on_nodes, (FLAVOR, "other"), strict=True)
    )
    return replace(attempt, seating=replace(attempt.seating, seats=seats))


@pytest.mark.parametrize(
    ("attempt", "flavors"),
    [
        (house.attempt("a", 1, 0, 10, node="n9"), [FLAVOR]),
        (two_flavors(on_nodes=("n1", "n2")), [FLAVOR]),
        (two_flavors(on_nodes=("n1", "n1")), []),
        (house.attempt("a", 1, 0, 10, seated=False), []),
    ],
    ids=["moved within its flavor", "by its node", "could be either", "never seated"],
)
def test_it_counts_in_the_flavor_of_the_seat(attempt: Attempt, flavors: list[str]) -> None:
    there = books(attempt, seen=(observed(attempt, 1, 1000, 500),))
    rows = cost_table(there, house.prices("1"), DAY, "flavor").rows
    assert [row.key for row in rows if row.observed] == flavors


@given(all_books(), st.sets(TIMES), st.data())
def test_rolls_keep_what_was_observed(there: Books, cuts: set[int], data: st.DataObject) -> None:
    seen = [
        replace(observed(attempt, 0, data.draw(st.integers(1, 9)), 1), hour_ms=at)
        for attempt in there.attempts
        for at in sorted(data.draw(st.sets(st.integers(0, LAST - 1), max_size=3)))
    ]
    there = replace(there, observations=by_attempt(sorted(seen, key=lambda one: one.key)))
    window = Window(0, LAST)

    def rolled(part: Window) -> Roll:
        return roll(there.attempts, there.capacity, there.catalogs, part, there.observations)

    parts = [rolled(Window(*part)) for part in pairwise(sorted({0, LAST, *cuts}))]

    assert merged(parts, window) == rolled(window)
    direct = cost_table(there, house.prices("1"), window, "team")
    from_rolls = replace(there, rolls=tuple(parts), observations={})
    assert cost_table(from_rolls, house.prices("1"), window, "team") == direct


def test_allocations_carry_it_by_node() -> None:
    mine = house.attempt("a", 2, 0, 10)
    seen = (observed(mine, 0, 2000, 500), replace(observed(mine, 1, 10, 10), node="elsewhere"))
    (held,) = [
        found
        for found in raw_allocations(HeldAndThere(books(mine, seen=seen)), house.prices("1"), DAY)
        if not found.special
    ]
    assert held.observed == {"gpu": 2_000 * HOUR_MS}
    assert held.busy == {"gpu": 500 * HOUR_MS}
