"""Allocation sets: keys, idle, sharing, steps; the totals never depend on any of them."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.errors import InvalidValue
from muster_domain.money import MICROS
from muster_rating.attempts import Attempt
from muster_rating.opencost.allocations import Allocation, Properties
from muster_rating.opencost.filters import ALLOCATION_FIELDS, read_filter
from muster_rating.opencost.sets import (
    Sets,
    Split,
    Terms,
    accumulated,
    allocation_set,
    allocation_sets,
    read_aggregate,
    read_share,
)
from muster_rating.opencost.windows import read_step
from muster_rating.prices import HOUR_MS, PriceBook
from muster_rating.report import Books, cost_table
from muster_rating.windows import Window

from .house import House
from .test_properties import all_books, prices, windows

DAY = 24
TEN_HOURS = Window(0, 10 * HOUR_MS)


@pytest.fixture
def house() -> House:
    return House()


def terms(aggregate: str = "namespace", filter_text: str = "", **more: object) -> Terms:
    plain = Terms(key=read_aggregate(aggregate), keep=read_filter(filter_text, ALLOCATION_FIELDS))
    return replace(plain, **more)  # type: ignore[arg-type]


def costs(found: Sets) -> dict[str, Fraction]:
    return {"/".join(key): found[key].total_cost / MICROS for key in sorted(found)}


def one(house: House, books: Books, window: Window, asked: Terms) -> dict[str, Fraction]:
    (found,) = allocation_sets(books, house.prices("1.40"), [window], asked)
    return costs(found)


def two_days(house: House) -> Books:
    return Books(
        attempts=(house.attempt("a", 4, 0, DAY), house.attempt("b", 1, DAY, 2 * DAY)),
        capacity=(house.capacity(4),),
    )


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("1d", {"a": Fraction("134.40"), "b": Fraction("134.40")}),
        ("", {"a": Fraction("215.04"), "b": Fraction("53.76")}),
    ],
)
def test_what_is_paid_of_idle_depends_on_the_step(
    house: House, step: str, expected: dict[str, Fraction]
) -> None:
    """V-step."""
    steps = read_step(step, Window(0, 2 * DAY * HOUR_MS))

    sets = allocation_sets(
        two_days(house), house.prices("1.40"), steps, terms(share_idle=True, include_idle=True)
    )

    assert costs(accumulated(sets)) == expected


def two_nodes(house: House) -> Books:
    return Books(
        attempts=(
            house.attempt("a", 1, 0, 10, node="n1"),
            house.attempt("b", 4, 0, 10, node="n2"),
        ),
        capacity=(house.capacity(4, node="n1"), house.capacity(4, node="n2")),
    )


def test_idle_of_a_pool_and_of_a_node(house: House) -> None:
    """G11."""
    books = two_nodes(house)
    shared = {"share_idle": True, "include_idle": True}

    assert one(house, books, TEN_HOURS, terms(**shared)) == {
        "a": 14 + Fraction("8.40"),
        "b": 56 + Fraction("33.60"),
    }
    assert one(house, books, TEN_HOURS, terms(**shared, idle_by_node=True)) == {"a": 56, "b": 56}
    assert one(house, books, TEN_HOURS, terms(include_idle=True)) == {
        "__idle__": 42,
        "a": 14,
        "b": 56,
    }
    assert one(house, books, TEN_HOURS, terms(include_idle=True, idle_by_node=True)) == {
        "a": 14,
        "b": 56,
        "muster/n1/__idle__": 42,
    }
    assert one(house, books, TEN_HOURS, terms()) == {"a": 14, "b": 56}


def test_idle_that_nobody_can_pay_stays(house: House) -> None:
    """G10."""
    books = Books(attempts=(), capacity=(house.capacity(4),))

    assert one(house, books, TEN_HOURS, terms(share_idle=True, idle_by_node=True)) == {
        "__idle__": 56
    }


def test_a_filter_takes_its_part_of_idle_and_leaves_the_bill(house: House) -> None:
    """G2: the idle row is scaled, a shared bill is the same with and without the filter."""
    books = Books(
        attempts=(
            house.attempt("datos", 2, 0, 540),
            house.attempt("ia", 1, 100, 532),
            house.attempt("plataforma", 1, 200, 452),
        ),
        capacity=(house.capacity(4),),
    )
    month = Window(0, 720 * HOUR_MS)
    only = 'namespace:"datos"'

    row = one(house, books, month, terms(filter_text=only, include_idle=True))
    assert row["datos"] == 1512
    assert round(row["__idle__"], 2) == Fraction("956.57")
    everybody = one(house, books, month, terms(share_idle=True))
    assert one(house, books, month, terms(filter_text=only, share_idle=True)) == {
        "datos": everybody["datos"]
    }
    assert sum(everybody.values()) == 4032


def test_more_than_there_is_is_shown_and_totals_close(house: House) -> None:
    """G12."""
    books = Books(attempts=(house.attempt("a", 5, 0, 1),), capacity=(house.capacity(4),))

    assert one(house, books, Window(0, HOUR_MS), terms(include_idle=True)) == {
        "__overallocated__": Fraction("-1.40"),
        "a": 7,
    }


def test_a_node_that_takes_no_pods_is_not_idle(house: House) -> None:
    books = Books(attempts=(), capacity=(house.capacity(4, usable=False),))

    assert one(house, books, TEN_HOURS, terms(include_idle=True)) == {"__unavailable__": 56}


def priced(namespace: str, amount: int) -> Allocation:
    return Allocation(
        properties=Properties(namespace=namespace, pod=namespace, labels={"app": namespace}),
        start_ms=0,
        end_ms=24 * HOUR_MS,
        time={"cpu": 1},
        cost={"cpu": Fraction(amount * MICROS)},
    )


THREE = [priced("ns1", 28), priced("ns2", 36), priced("ns3", 18)]
A_DAY = Window(0, 24 * HOUR_MS)


def rounded(found: Sets) -> dict[str, str]:
    return {key: f"{float(cost):.4f}" for key, cost in costs(found).items()}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, {"ns1": "35.8750", "ns2": "46.1250"}),
        ({"share_split": Split.EVEN}, {"ns1": "37.0000", "ns2": "45.0000"}),
    ],
)
def test_what_all_use_is_paid_by_the_rest(
    more: dict[str, object], expected: dict[str, str]
) -> None:
    """V-oc: a namespace of 18 shared by two of 28 and 36."""
    for share in (read_share("ns3", ""), read_share("", "app:ns3")):
        assert rounded(allocation_set(THREE, A_DAY, terms(share=share, **more))) == expected


def test_a_monthly_overhead_is_paid_by_the_hour() -> None:
    """V-oc: 7 an hour for a day."""
    asked = terms(share_cost=Fraction(7 * 730))

    found = allocation_set(THREE, A_DAY, asked)
    assert rounded(found)["ns1"] == "85.3659"
    assert rounded(found)["ns2"] == "109.7561"
    only = allocation_set(
        THREE, A_DAY, replace(asked, keep=read_filter('namespace:"ns2"', ALLOCATION_FIELDS))
    )
    assert rounded(only) == {"ns2": "109.7561"}


def test_a_shared_label_needs_a_value() -> None:
    assert read_share("", "") is None
    assert read_share(" , ", ",") is None
    for text in ("app", "app:", ":web"):
        with pytest.raises(InvalidValue):
            read_share("", text)


def test_what_is_shared_may_be_written_with_blanks() -> None:
    keep = read_share("a, b", "app:web, app:api")

    assert keep is not None
    assert keep(Properties(namespace="b"))
    assert keep(Properties(namespace="x", labels={"app": "api"}))
    assert not keep(Properties(namespace="x"))


@pytest.mark.parametrize(
    ("aggregate", "keys"),
    [
        ("namespace", {"front", "back"}),
        ("all", {"all"}),
        ("controller", {"deployment:web", "__unallocated__"}),
        ("deployment", {"web", "__unallocated__"}),
        ("job", {"__unallocated__"}),
        ("node", {"n1", "n2"}),
        ("pod", {"web", "one"}),
        ("label:app", {"web", "__unallocated__"}),
        ("label:finops.io/team", {"shop", "__unallocated__"}),
        ("annotation:owner", {"anna", "__unallocated__"}),
        ("owner", {"anna", "__unallocated__"}),
        ("queue", {"q", "__unallocated__"}),
        ("namespace,label:app", {"front/web", "back/__unallocated__"}),
        ("", {"muster/n1/front/web/", "muster/n2/back/one/"}),
    ],
)
def test_an_allocation_is_keyed_by(aggregate: str, keys: set[str]) -> None:
    web = Properties(
        namespace="front",
        node="n1",
        controller_kind="deployment",
        controller="web",
        pod="web",
        cluster_queue="q",
        labels={"app": "web", "finops_io_team": "shop"},
        annotations={"owner": "anna"},
    )
    key = read_aggregate(aggregate)

    assert {
        "/".join(key(p)) for p in (web, Properties(namespace="back", node="n2", pod="one"))
    } == keys


@pytest.mark.parametrize("aggregate", ["nonsense", "namespace,nonsense", "label:", "label", ","])
def test_no_other_name_is_a_key(aggregate: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_aggregate(aggregate)

    assert refused.value.field == "aggregate"


def test_two_runs_of_one_name_are_two_spans_of_time(house: House) -> None:
    books = Books(
        attempts=(
            house.attempt("a", 1, 9, 10, name="same"),
            house.attempt("a", 1, 14, 15, name="same", number=2),
        ),
        capacity=(),
    )
    (found,) = allocation_sets(
        books, house.prices("1.40"), [Window(0, DAY * HOUR_MS)], terms("pod")
    )

    (row,) = found.values()
    assert row.time["gpu"] == 2 * 1000 * HOUR_MS
    assert (row.start_ms, row.end_ms) == (9 * HOUR_MS, 15 * HOUR_MS)


SHARING = st.fixed_dictionaries(
    {
        "share_idle": st.booleans(),
        "idle_by_node": st.booleans(),
        "share": st.sampled_from((None, read_share("a", ""))),
        "share_split": st.sampled_from(Split),
    }
)
AGGREGATES = st.sampled_from(("namespace", "all", "node", "team,queue", "controller", ""))


def countable(books: Books) -> Books:
    """The same books, of resources that OpenCost counts."""
    names = {"gpu": "nvidia.com/gpu", "cpu": "cpu"}

    def renamed(attempt: Attempt) -> Attempt:
        opening, seating = attempt.opening, attempt.seating
        if opening is not None:
            charges = tuple(replace(c, resource=names[c.resource]) for c in opening.charges)
            opening = replace(opening, charges=charges)
        if seating is not None:
            seats = tuple(
                replace(s, charges=tuple(replace(c, resource=names[c.resource]) for c in s.charges))
                for s in seating.seats
            )
            seating = replace(seating, seats=seats)
        return replace(attempt, opening=opening, seating=seating)

    return Books(
        attempts=tuple(renamed(attempt) for attempt in books.attempts),
        capacity=tuple(replace(s, resource=names[s.resource]) for s in books.capacity),
        catalogs=tuple(
            replace(
                catalog,
                quotas={
                    (flavor, names[resource]): quotas
                    for (flavor, resource), quotas in catalog.quotas.items()
                },
            )
            for catalog in books.catalogs
        ),
    )


@given(all_books(), prices(), windows(), AGGREGATES, SHARING)
def test_the_total_is_the_capacity_whatever_is_shared(
    books: Books, book: PriceBook, window: Window, aggregate: str, sharing: dict[str, object]
) -> None:
    """I1 and I2: by any key, shared in any way."""
    names = {"gpu": "nvidia.com/gpu", "cpu": "cpu"}
    named = PriceBook("EUR", tuple(replace(p, resource=names[p.resource]) for p in book.prices))
    counted = countable(books)
    asked = terms(aggregate, include_idle=True, **sharing)

    (found,) = allocation_sets(counted, named, [window], asked)

    total = sum((row.total_cost for row in found.values()), Fraction(0))
    assert total == cost_table(counted, named, window, "team").capacity_cost


@given(all_books(), prices(), windows(), st.integers(1, 7), SHARING)
def test_the_total_is_the_same_in_steps_of_any_length(
    books: Books, book: PriceBook, window: Window, step: int, sharing: dict[str, object]
) -> None:
    """I2: who pays of idle depends on the step, what all pay does not."""
    names = {"gpu": "nvidia.com/gpu", "cpu": "cpu"}
    named = PriceBook("EUR", tuple(replace(p, resource=names[p.resource]) for p in book.prices))
    counted, asked = countable(books), terms("namespace", include_idle=True, **sharing)
    starts = range(window.start_ms, window.end_ms, step)
    steps = [Window(start, min(start + step, window.end_ms)) for start in starts]

    whole, summed = (
        accumulated(allocation_sets(counted, named, windows, asked))
        for windows in ([window], steps)
    )

    totals = [sum((row.total_cost for row in one.values()), Fraction(0)) for one in (whole, summed)]
    assert totals[0] == totals[1]


def test_what_everybody_shares_and_nobody_is_left_to_pay_has_a_row(house: House) -> None:
    books = Books(attempts=(house.attempt("infra", 1, 0, 24),), capacity=(house.capacity(4),))
    asked = terms("namespace", share=read_share("infra", ""), include_idle=True)

    (found,) = allocation_sets(books, house.prices("1.40"), [Window(0, DAY * HOUR_MS)], asked)

    assert costs(found) == {"__unallocated__": Fraction("33.6"), "__idle__": Fraction("100.8")}


@given(all_books(), prices(), windows(), SHARING)
def test_a_filter_and_its_opposite_together_are_the_whole(
    books: Books, book: PriceBook, window: Window, sharing: dict[str, object]
) -> None:
    counted = countable(books)
    names = {"gpu": "nvidia.com/gpu", "cpu": "cpu"}
    named = PriceBook("EUR", tuple(replace(p, resource=names[p.resource]) for p in book.prices))
    found = [
        allocation_sets(counted, named, [window], terms("namespace", text, **sharing))[0]
        for text in ("", 'namespace:"a"', 'namespace!:"a"')
    ]

    def held(one: Sets) -> dict[str, Fraction]:
        return {key: cost for key, cost in costs(one).items() if not key.startswith("__")}

    whole, mine, others = (held(one) for one in found)
    assert {**mine, **others} == whole
