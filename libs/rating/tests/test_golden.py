"""Numbers that were worked out by hand: gangs, many short jobs, parts of cards, a lost node.

Each test names its vector. Of the others G1, G2, G3, G4, G8 and G16 are in
`tests/e2e/test_cost_article.py` and G4's terms of loans in `test_policies.py`; G10, G11, G12 and
V-step are in `test_opencost_sets.py`, V-oc in `test_opencost_vectors.py`.
"""

import random
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from muster_domain.money import format_decimal, nearest, split
from muster_rating.attempts import Attempt, Charge, Closing, Seat
from muster_rating.capacity import CapacitySpan
from muster_rating.price_lists import read_price_list
from muster_rating.prices import HOUR_MS, Price, PriceBook
from muster_rating.report import Books, Row, Table, cost_table
from muster_rating.windows import Window

from .house import FLAVOR, GPU, House

HOUSE = House()
PRICES = HOUSE.prices("1.40")
DAY = Window(0, 24 * HOUR_MS)
MINUTE_MS = 60_000


def table(*attempts: Attempt, gpus: int = 32, window: Window = DAY) -> Table:
    books = Books(attempts=attempts, capacity=(HOUSE.capacity(gpus),))
    return cost_table(books, PRICES, window, "team")


def euros(micros: int | None, places: int = 2) -> str:
    return format_decimal(Fraction(micros or 0, 1_000_000), places)


def test_a_hundred_orders_of_facts_told_three_times_are_one_result() -> None:
    """G5: what G4a's two jobs tell, part by part."""
    jobs = (
        HOUSE.attempt("q", 2, 0, 10, name="a"),
        HOUSE.attempt("q", 2, 4, 8, name="b"),
    )
    parts = [
        replace(Attempt(workload_id=job.workload_id, number=1), **{name: getattr(job, name)})
        for job in jobs
        for name in ("opening", "seating", "closing")
    ]
    window = Window(0, 10 * HOUR_MS)
    catalogs = (HOUSE.catalog({"q": 2, "lender": 2}),)

    def row(attempts: Iterable[Attempt]) -> Row:
        books = Books(attempts=tuple(attempts), capacity=(HOUSE.capacity(4),), catalogs=catalogs)
        rows = cost_table(books, PRICES, window, "cluster_queue").rows
        return next(row for row in rows if row.key == "q")

    expected = row(jobs)
    assert [HOUSE.gpu_hours(of[GPU]) for of in (expected.held, expected.borrowed)] == [28, 8]
    for seed in range(100):
        told = parts * 3
        random.Random(seed).shuffle(told)
        merged: dict[str, Attempt] = {}
        for part in told:
            known = merged.get(part.workload_id)
            merged[part.workload_id] = part if known is None else known.merge(part)
        assert row(merged.values()) == expected


def test_an_end_that_says_when_it_began_makes_a_whole_interval() -> None:
    """G6: the opening was lost, the end repeats it."""
    whole = HOUSE.attempt("a", 2, 3, 9)
    only_end = Attempt(workload_id=whole.workload_id, number=1, closing=whole.closing)
    assert only_end.merge(replace(whole, closing=None)) == whole
    row = table(only_end.merge(replace(whole, closing=None))).rows[0]
    assert HOUSE.gpu_hours(row.held[GPU]) == 12


def test_a_node_that_was_lost_is_charged_until_it_is_given_up_and_put_right_later() -> None:
    """G7: last heard of at 4:55, given up after ten minutes; the real end was at 5:00."""
    began = HOUSE.attempt("a", 1, 0, None, name="w")
    given_up = Closing(at_ms=5 * HOUR_MS + 5 * MINUTE_MS, version=5, outcome="Failed")
    real = Closing(at_ms=5 * HOUR_MS, version=9, outcome="Failed")
    first = began.merge(replace(began, closing=given_up))
    assert table(first).rows[0].held[GPU] == 1000 * given_up.at_ms
    then = first.merge(replace(began, closing=real))
    assert table(then).rows[0].held[GPU] == 1000 * real.at_ms


def test_a_gang_that_was_preempted_pays_for_both_attempts_and_shows_what_was_lost() -> None:
    """G13."""
    half_ms = HOUR_MS // 2
    first = HOUSE.attempt("a", 32, 10, 13, name="gang", preempted=True)
    assert first.closing is not None
    first = replace(first, closing=replace(first.closing, at_ms=12 * HOUR_MS + half_ms))
    second = HOUSE.attempt("a", 32, 13, 15, name="gang", number=2)
    found = table(first, second)
    row = found.rows[0]
    assert HOUSE.gpu_hours(row.held[GPU]) == 144
    assert euros(row.cost_micros) == "201.60"
    assert HOUSE.gpu_hours(row.lost[GPU]) == 80
    assert euros(row.lost_cost_micros) == "112.00"


def test_many_short_jobs_cost_what_their_time_costs() -> None:
    """G14: a thousand of them stand for a million; each second costs a fraction of a cent."""
    count, second = 1_000, 1_000
    attempts: list[Attempt] = []
    for number in range(count):
        whole = HOUSE.attempt("a", 1, 0, 1, name=f"w{number:04d}")
        assert whole.opening is not None
        assert whole.seating is not None
        at_ms = number * second
        attempts.append(
            replace(
                whole,
                opening=replace(whole.opening, at_ms=at_ms),
                seating=replace(whole.seating, at_ms=at_ms),
                closing=Closing(at_ms=at_ms + second, version=4),
            )
        )
    cost = table(*attempts, gpus=1, window=Window(0, count * second)).rows[0].cost
    assert euros(nearest(cost)) == "0.39"
    assert format_decimal(cost * 1000 / 1_000_000, 2) == "388.89"


def test_parts_of_a_card_are_priced_as_parts() -> None:
    """G15: 3g of 7g for ten hours is 3/7 of a card, one of four slices in time is a quarter."""
    mig, shared = "nvidia.com/mig-3g.40gb", "nvidia.com/gpu.shared"
    prices = PriceBook(
        "EUR",
        tuple(
            Price(flavor=FLAVOR, resource=resource, hourly=Fraction("1.40") * part)
            for resource, part in ((mig, Fraction(3, 7)), (shared, Fraction(1, 4)))
        ),
    )
    for resource, cost in ((mig, "6.00"), (shared, "3.50")):
        whole = HOUSE.attempt("a", 1, 0, 10)
        charges = (Charge(flavor=FLAVOR, resource=resource, quantity_milli=1000),)
        assert whole.opening is not None
        assert whole.seating is not None
        seat = Seat(node="n1", pods=1, devices=1, charges=charges)
        part = replace(
            whole,
            opening=replace(whole.opening, charges=charges),
            seating=replace(whole.seating, seats=(seat,)),
        )
        capacity = CapacitySpan(
            node="n1", flavor=FLAVOR, resource=resource, quantity_milli=1000,
            start_ms=0, end_ms=None, usable=True,
        )  # fmt: skip
        found = cost_table(Books(attempts=(part,), capacity=(capacity,)), prices, DAY, "team")
        assert euros(found.rows[0].cost_micros) == cost


def test_cents_are_shared_by_largest_remainder() -> None:
    """G9."""
    assert split(10_000, [1, 1, 1]) == (3334, 3333, 3333)
    assert split(5, [1, 1, 1]) == (2, 2, 1)
    assert split(1_000, [1, 1, 1, 3]) == (167, 167, 166, 500)


def test_a_full_node_costs_what_its_month_is_long() -> None:
    """G8, in Madrid's March; the other months are in the article's test."""
    four = table(HOUSE.attempt("a", 4, 0, None), gpus=4, window=Window(0, 743 * HOUR_MS))
    assert euros(four.total_micros) == "4160.80"


def test_billing_weights_of_slurm_are_prices() -> None:
    """V-slurm, the sum: CPU=1.0, Mem=0.25G, gpu=2.0, license=1.5.

    One CPU and 8 GiB are 3.0 an hour; with a licence 4.5, of which nothing is cut off; with a GPU
    5.0. Slurm's maxima are not taken over (ADR 27).
    """
    weights = {
        "cpu": {"hourly": "1.0"},
        "memory": {"hourly": "0.25", "per": "1Gi"},
        GPU: {"hourly": "2.0"},
        "example.com/license": {"hourly": "1.5"},
    }
    prices = read_price_list({"flavors": {FLAVOR: weights}}, default_currency="EUR")
    held = {"cpu": 1000, "memory": 8 * 2**30 * 1000}

    def hourly(usage: dict[str, int]) -> Fraction:
        cost = Fraction(0)
        for resource, milli in usage.items():
            price = prices.at(FLAVOR, resource, 0)
            assert price is not None
            cost += price.micros_per_unit * milli * HOUR_MS / 1_000_000
        return cost

    assert hourly(held) == 3
    assert hourly({**held, "example.com/license": 1000}) == Fraction("4.5")
    assert hourly({**held, GPU: 1000}) == 5
