"""A table from rolls is the table from all attempts, to the last unit."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.money import ChargingBasis, IdlePolicy
from muster_rating.attempts import Owner
from muster_rating.charging import Rules
from muster_rating.policies import for_all
from muster_rating.price_lists import read_price_list
from muster_rating.prices import HOUR_MS, PriceBook
from muster_rating.report import Books, cost_table
from muster_rating.rollups import Roll, choose, merged, roll
from muster_rating.scopes import pool_edges
from muster_rating.windows import Window

from .test_opencost_sets import countable
from .test_properties import LAST, TIMES, all_books, prices

DAY = 24 * HOUR_MS
RULES = st.one_of(
    st.builds(
        lambda idle: ("team", Rules(idle=idle)),
        st.sampled_from(
            [IdlePolicy.NONE, IdlePolicy.ROW, IdlePolicy.PROPORTIONAL, IdlePolicy.NODE]
        ),
    ),
    st.builds(lambda idle: ("cluster_queue", Rules(idle=idle)), st.sampled_from(IdlePolicy)),
    st.builds(
        lambda basis: ("cluster_queue", Rules(policy=for_all(basis))),
        st.sampled_from([ChargingBasis.COMMITMENT, ChargingBasis.BOTH]),
    ),
)


def rolled(
    books: Books,
    cuts: set[int],
    picked: list[bool],
    prices: PriceBook,
    turns: tuple[int, ...] = (),
) -> Books:
    """The same books with some stretches rolled, and without the attempts that are only there."""
    edges = sorted({0, LAST, *cuts})
    stretches = [
        Window(start, end)
        for (start, end), wanted in zip(pairwise(edges), picked, strict=False)
        if wanted
        and not prices.changes(Window(start, end))
        and not any(start < turn < end for turn in turns)
    ]
    rolls = [roll(books.attempts, books.capacity, books.catalogs, part) for part in stretches]
    live = [Window(start, end) for start, end in pairwise(edges)]
    live = [part for part in live if part not in stretches]
    needed = [
        attempt
        for attempt in books.attempts
        if attempt.is_open
        or any(part.overlap_ms(attempt.opening.at_ms, attempt.end_ms) for part in live)
    ]
    return replace(books, attempts=tuple(needed), rolls=tuple(rolls))


@given(all_books(), prices(), st.sets(TIMES), st.lists(st.booleans(), max_size=LAST), RULES)
def test_rolls_change_no_table(
    books: Books,
    prices: PriceBook,
    cuts: set[int],
    picked: list[bool],
    asked: tuple[str, Rules],
) -> None:
    by, rules = asked
    window = Window(0, LAST)

    direct = cost_table(books, prices, window, by, rules=rules)
    again = cost_table(rolled(books, cuts, picked, prices), prices, window, by, rules=rules)

    assert again == direct


@given(all_books(), prices(), st.sets(TIMES), st.lists(st.booleans(), max_size=LAST))
def test_rolls_change_no_table_of_a_tenant(
    books: Books, prices: PriceBook, cuts: set[int], picked: list[bool]
) -> None:
    def mine(owner: Owner) -> bool:
        return owner.namespace == "a"

    window = Window(0, LAST)
    for idle in (IdlePolicy.ROW, IdlePolicy.PROPORTIONAL, IdlePolicy.NODE):
        rules = Rules(idle=idle)
        direct = cost_table(books, prices, window, "user", mine, rules)
        again = cost_table(rolled(books, cuts, picked, prices), prices, window, "user", mine, rules)
        assert again == direct


@st.composite
def in_pools(draw: st.DrawFn) -> tuple[Books, PriceBook]:
    """Books whose nodes carry labels, and prices of nodes and of racks, which nodes may leave."""
    books = countable(draw(all_books()))
    racks = st.sampled_from(({}, {"rack": "a"}, {"rack": "b"}))
    capacity = tuple(replace(span, labels=draw(racks)) for span in books.capacity)
    resources = {"nvidia.com/gpu": {"hourly": "2"}, "cpu": {"hourly": "0.5"}}
    later = {"nvidia.com/gpu": {"hourly": "7", "effective_from": "1970-01-01T00:00:00.007Z"}}
    pools = {
        "a": {"node_labels": {"rack": "a"}, "resources": resources},
        "b": {"node_labels": {"rack": "b"}, "resources": later},
        "n2": {"node": "n2", "flavor": "h100", "resources": later},
    }
    picked = draw(st.sets(st.sampled_from(sorted(pools)), min_size=1))
    flavors = {flavor: {"nvidia.com/gpu": {"hourly": "3"}} for flavor in ("h100", "a100")}
    listed = {"flavors": flavors, "pools": {name: pools[name] for name in sorted(picked)}}
    prices = read_price_list(listed, default_currency="EUR")
    return replace(books, capacity=capacity), prices


@given(in_pools(), st.sets(TIMES), st.lists(st.booleans(), max_size=LAST), RULES)
def test_rolls_change_no_table_where_nodes_have_prices_of_their_own(
    priced: tuple[Books, PriceBook],
    cuts: set[int],
    picked: list[bool],
    asked: tuple[str, Rules],
) -> None:
    books, prices = priced
    by, rules = asked
    window = Window(0, LAST)
    turns = pool_edges(prices, books.capacity, window)

    direct = cost_table(books, prices, window, by, rules=rules)
    some = rolled(books, cuts, picked, prices, turns)
    again = cost_table(some, prices, window, by, rules=rules)

    assert again == direct
    if rules.idle is not IdlePolicy.NONE:
        assert sum((row.cost for row in direct.rows), Fraction(0)) == direct.capacity_cost


@given(all_books(), st.sets(TIMES, min_size=1))
def test_rolls_that_meet_are_the_roll_of_both(books: Books, cuts: set[int]) -> None:
    edges = sorted({0, LAST, *cuts})
    window = Window(0, LAST)
    parts: list[Roll] = [
        roll(books.attempts, books.capacity, books.catalogs, Window(start, end))
        for start, end in pairwise(edges)
    ]

    whole = roll(books.attempts, books.capacity, books.catalogs, window)

    assert merged(parts, window) == whole


def hours(*numbers: int) -> list[Window]:
    return [Window(number * HOUR_MS, (number + 1) * HOUR_MS) for number in numbers]


@pytest.mark.parametrize(
    ("window", "edges", "chosen", "left"),
    [
        (Window(0, DAY), (), [Window(0, DAY)], []),
        (Window(0, DAY), (DAY,), [Window(0, DAY)], []),
        (
            Window(HOUR_MS, 2 * DAY),
            (),
            [*hours(*range(1, 24)), Window(DAY, 2 * DAY)],
            [],
        ),
        (
            Window(0, DAY),
            (HOUR_MS // 2,),
            hours(*range(1, 24)),
            [Window(0, HOUR_MS)],
        ),
        (
            Window(5, HOUR_MS + 7),
            (),
            [],
            [Window(5, HOUR_MS + 7)],
        ),
    ],
)
def test_the_longest_rolls_that_fit_are_taken(
    window: Window, edges: tuple[int, ...], chosen: list[Window], left: list[Window]
) -> None:
    available = [*hours(*range(48)), Window(0, DAY), Window(DAY, 2 * DAY)]

    assert choose(available, window, edges) == (chosen, left)
