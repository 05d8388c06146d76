"""Prices of nodes and pools: the closest counts, ties are refused, totals hold."""

from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.errors import InvalidValue
from muster_domain.money import MICROS, IdlePolicy, nearest
from muster_rating.budgets import Span, cost_micros, most_micros
from muster_rating.charges import charges
from muster_rating.charging import Rules
from muster_rating.opencost.filters import ALLOCATION_FIELDS, read_filter
from muster_rating.opencost.sets import Terms, allocation_sets, read_aggregate
from muster_rating.policies import PolicyVersion
from muster_rating.price_lists import read_price_list
from muster_rating.prices import HOUR_MS, PriceBook, PriceList, price_books
from muster_rating.report import Books, RowKind, cost_table
from muster_rating.scopes import price_on_node
from muster_rating.windows import Window

from .house import FLAVOR, GPU, House
from .test_opencost_sets import countable
from .test_properties import LAST, all_books, policies, windows

HOUSE = House()
TEN_HOURS = Window(0, 10 * HOUR_MS)
RACK = {"rack": "a"}


def read(**pools: Any) -> PriceBook:  # noqa: ANN401 - pools as people write them
    document = {"flavors": {FLAVOR: {GPU: {"hourly": "1.40"}}}, "pools": pools}
    return read_price_list(document, default_currency="EUR")


def pool(hourly: str, **selector: object) -> dict[str, object]:
    return {**selector, "resources": {GPU: {"hourly": hourly}}}


RACK_A = pool("1.00", node_labels=RACK)
OLD = pool("0.50", node="n1")


def two_nodes() -> Books:
    """n1 in rack a and n2, four cards each; a has two of n1, b two of each."""
    first = HOUSE.attempt("b", 4, 0, 10, node="n1", name="gang")
    assert first.seating is not None
    seats = tuple(
        replace(
            first.seating.seats[0],
            node=node,
            charges=(replace(first.seating.seats[0].charges[0], quantity_milli=2000),),
        )
        for node in ("n1", "n2")
    )
    gang = replace(first, seating=replace(first.seating, seats=seats))
    return Books(
        attempts=(HOUSE.attempt("a", 2, 0, 10, node="n1"), gang),
        capacity=(
            replace(HOUSE.capacity(4, node="n1"), labels=RACK),
            HOUSE.capacity(4, node="n2"),
        ),
        catalogs=(HOUSE.catalog({"a": 4, "b": 2}),),
    )


@pytest.mark.parametrize(
    ("pools", "hourly"),
    [
        ({}, "1.40"),
        ({"rack": RACK_A}, "1.00"),
        ({"rack": RACK_A, "old": OLD}, "0.50"),
        ({"rack": RACK_A, "room": pool("2.00", node_labels={**RACK, "room": "1"})}, "2.00"),
        ({"other": pool("9.00", node="n9"), "b": pool("9.00", node_labels={"rack": "b"})}, "1.40"),
        ({"rack": {**RACK_A, "flavor": "a100"}}, "1.40"),
        ({"rack": {**RACK_A, "resources": {"cpu": {"hourly": "1"}}}}, "1.40"),
    ],
)
def test_the_closest_price_counts(pools: dict[str, Any], hourly: str) -> None:
    span = replace(HOUSE.capacity(4), labels={**RACK, "room": "1"})
    price = price_on_node(read(**pools), span, 0)
    assert price is not None
    assert price.hourly == Fraction(hourly)


@pytest.mark.parametrize(
    ("pools", "field", "problem"),
    [
        (
            {"rack": RACK_A, "room": pool("2.00", node_labels={"room": "1"})},
            "pools.room",
            "room and rack may select the same node by 1 labels each",
        ),
        ({"x": OLD, "y": OLD}, "pools.y", "the same node n1"),
        ({"rack": pool("1", node="n1", node_labels=RACK)}, "pools.rack", "either one node"),
        ({"rack": pool("1")}, "pools.rack", "either one node"),
        ({"rack": {"node": "n1"}}, "pools.rack.resources", "without a price"),
        ({"rack": pool("-1", node="n1")}, f"pools.rack.resources.{GPU}.hourly", "no"),
    ],
)
def test_what_is_not_clear_about_pools_is_refused(
    pools: dict[str, Any], field: str, problem: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        read(**pools)
    assert refused.value.field == field
    assert problem in refused.value.problem


def test_pools_that_no_node_can_be_in_both_of_are_apart() -> None:
    racks = {name: pool("1", node_labels={"rack": name}) for name in ("a", "b")}
    flavors = {name: {**RACK_A, "flavor": name} for name in ("h100", "a100")}
    assert len(read(**racks).pools) == len(read(**flavors).pools) == 2


def test_everybody_pays_the_price_of_the_nodes_that_he_was_on() -> None:
    books, prices = two_nodes(), read(rack=RACK_A)
    table = cost_table(books, prices, TEN_HOURS, "team")
    assert {row.key: row.cost / MICROS for row in table.rows} == {
        "a": 20,
        "b": 20 + 28,
        "__idle__": 28,
    }
    assert table.total_micros == (40 + 56) * MICROS
    lines = charges(books, prices, TEN_HOURS)
    assert [(c.team, c.klass, c.pool, c.micros / MICROS) for c in lines] == [
        ("", "", "", 28),
        ("a", "nominal", "rack", 20),
        ("b", "borrowed", "", 14),
        ("b", "borrowed", "rack", 10),
        ("b", "nominal", "", 14),
        ("b", "nominal", "rack", 10),
    ]
    terms = Terms(
        key=read_aggregate("node"), keep=read_filter("", ALLOCATION_FIELDS), include_idle=True
    )
    (found,) = allocation_sets(books, prices, [TEN_HOURS], terms)
    assert {key: one.total_cost / MICROS for key, one in found.items()} == {
        ("n1",): 40,
        ("n2",): 28,
        ("__idle__",): 28,
    }


def test_a_node_that_leaves_a_pool_costs_the_flavors_price_from_then_on() -> None:
    books = Books(
        attempts=(HOUSE.attempt("a", 4, 0, 10),),
        capacity=(replace(HOUSE.capacity(4, 0, 6), labels=RACK), HOUSE.capacity(4, 6)),
    )
    table = cost_table(books, read(rack=RACK_A), TEN_HOURS, "team")
    assert [row.cost / MICROS for row in table.rows] == [24 + Fraction("22.40")]


def test_a_node_that_is_counted_later_only_is_in_its_pool_before() -> None:
    books = Books(
        attempts=(HOUSE.attempt("a", 4, 0, 10),),
        capacity=(replace(HOUSE.capacity(4, 6), labels=RACK),),
    )
    prices, window = read(rack=RACK_A), Window(0, 5 * HOUR_MS)
    table = cost_table(books, prices, window, "team")
    assert {row.key: row.cost / MICROS for row in table.rows} == {"a": 20, "__overallocated__": -20}
    lines = charges(books, prices, window)
    assert {(c.team, c.pool, c.micros / MICROS) for c in lines} == {
        ("a", "rack", 20),
        ("", "rack", -20),
    }
    terms = Terms(key=read_aggregate("team"), keep=read_filter("", ALLOCATION_FIELDS))
    (found,) = allocation_sets(books, prices, [window], terms)
    assert {key: one.total_cost / MICROS for key, one in found.items()} == {("a",): 20}


def test_a_budget_holds_the_dearest_price_that_a_node_of_the_flavor_may_have() -> None:
    prices = read(rack=pool("2.00", node_labels=RACK), b200={**OLD, "flavor": "b200"})
    span = Span(from_ms=0, until_ms=HOUR_MS, longest_ms=HOUR_MS)
    assert most_micros({HOUSE.pair: 1000}, prices, span, TEN_HOURS) == 2 * MICROS
    assert cost_micros({HOUSE.pair: 1000}, prices, Window(0, HOUR_MS)) == 2 * MICROS


def test_lists_together_keep_all_pools() -> None:
    lists = (PriceList(name="a", book=read(rack=RACK_A)), PriceList(name="b", book=read(old=OLD)))
    assert {pool.name for pool in price_books(lists)["EUR"].pools} == {"rack", "old"}


def test_of_pools_in_different_lists_that_tie_the_first_name_counts() -> None:
    node = replace(HOUSE.capacity(4), labels={**RACK, "room": "1"})
    lists = [
        PriceList(name=name, book=read(**pools))
        for name, pools in (
            ("a", {"zoo": pool("1.00", node_labels=RACK)}),
            ("b", {"ark": pool("2.00", node_labels={"room": "1"})}),
            ("c", {"both": pool("3.00", node_labels={"room": "1", "hall": "2"})}),
        )
    ]
    for order in permutations(lists):
        price = price_on_node(price_books(order)["EUR"], node, 0)
        assert price is not None
        assert (price.pool, price.hourly) == ("ark", 2)


def test_a_pool_that_two_lists_name_alike_is_that_of_the_later_list() -> None:
    room = {**pool("2.00", node_labels={"room": "1"}), "resources": {"cpu": {"hourly": "9"}}}
    lists = [PriceList(name="a", book=read(x=RACK_A)), PriceList(name="b", book=read(x=room))]
    for order in permutations(lists):
        book = price_books(order)["EUR"]
        for labels in (RACK, {"room": "1"}):
            price = price_on_node(book, replace(HOUSE.capacity(4), labels=labels), 0)
            assert price is not None
            assert price.pool == "", "no list says what a card of this room costs"


@st.composite
def scoped(draw: st.DrawFn) -> PriceBook:
    resources = {
        resource: [
            {
                "hourly": str(draw(st.integers(0, 9))),
                "effective_from": f"1970-01-01T00:00:00.{at:03}Z",
            }
            for at in sorted(draw(st.sets(st.integers(0, LAST), min_size=1, max_size=2)))
        ]
        for resource in ("nvidia.com/gpu", "cpu")
    }
    pools = {
        node: {"node": node, "resources": resources}
        for node in draw(st.sets(st.sampled_from(("n1", "n2")), min_size=1))
    }
    flavors = {
        flavor: {"nvidia.com/gpu": {"hourly": "3"}, "cpu": {"hourly": "1"}}
        for flavor in ("h100", "a100")
    }
    return read_price_list({"flavors": flavors, "pools": pools}, default_currency="EUR")


@given(all_books(), scoped(), windows(), policies())
def test_totals_are_the_nodes_at_their_prices_whoever_pays(
    books: Books, prices: PriceBook, window: Window, policy: tuple[PolicyVersion, ...]
) -> None:
    counted = countable(books)
    expected = Fraction(0)
    for span in counted.capacity:
        for at_ms in range(window.start_ms, window.end_ms):
            if span.start_ms <= at_ms and (span.end_ms is None or at_ms < span.end_ms):
                price = price_on_node(prices, span, at_ms)
                assert price is not None
                expected += price.micros_per_unit * span.quantity_milli
    for rules in (*(Rules(idle=idle) for idle in IdlePolicy), Rules(policy=policy)):
        table = cost_table(counted, prices, window, "cluster_queue", rules=rules)
        assert table.capacity_cost == expected
        if rules.idle is not IdlePolicy.NONE:
            assert sum((row.cost for row in table.rows), Fraction(0)) == expected
    lines = charges(counted, prices, window, policy)
    assert sum(line.micros for line in lines) == nearest(expected)
    told: dict[str, Fraction] = {}
    for line in lines:
        if line.kind is RowKind.USAGE:
            cost = Fraction(line.hourly or 0) * line.quantity * MICROS / (line.per_milli * HOUR_MS)
            told[line.cluster_queue] = told.get(line.cluster_queue, Fraction(0)) + cost
    by_queue = {row.key: row.cost for row in table.rows if row.kind is RowKind.USAGE}
    assert {k: v for k, v in told.items() if v} == {k: v for k, v in by_queue.items() if v}
    terms = Terms(
        key=read_aggregate("team"), keep=read_filter("", ALLOCATION_FIELDS), share_idle=True
    )
    (found,) = allocation_sets(counted, prices, [window], terms)
    assert sum((one.total_cost for one in found.values()), Fraction(0)) == expected
