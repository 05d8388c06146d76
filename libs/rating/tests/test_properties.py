"""What must hold for every table, against an obviously correct count of every moment."""

from dataclasses import dataclass, replace
from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from muster_domain.money import ChargingBasis, IdlePolicy, nearest
from muster_rating.attempts import Attempt, Charge, Closing, Eviction, Opening, Owner, Seat, Seating
from muster_rating.borrowing import COHORT, loans
from muster_rating.capacity import CapacitySpan
from muster_rating.catalogs import Catalog, QueueQuota
from muster_rating.charges import charges
from muster_rating.charging import Rules
from muster_rating.dimensions import QUEUE
from muster_rating.holdings import holdings_by_pair
from muster_rating.policies import Attribution, PolicyVersion, QueueTerms, for_all
from muster_rating.prices import ALWAYS_MS, Price, PriceBook
from muster_rating.report import Books, RowKind, Table, cost_table
from muster_rating.windows import Window

LAST = 20
PAIRS = (("h100", "gpu"), ("a100", "gpu"), ("h100", "cpu"))
QUEUES = ("q1", "q2", "q3")
TIMES = st.integers(min_value=0, max_value=LAST)
MAYBE = st.none() | TIMES


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    times = sorted((draw(TIMES), draw(TIMES), draw(TIMES)))
    flavor, resource = draw(st.sampled_from(PAIRS))
    charges = (Charge(flavor=flavor, resource=resource, quantity_milli=draw(st.integers(1, 5))),)
    owner = Owner(
        namespace=draw(st.sampled_from("ab")),
        workload="w",
        cluster_queue=draw(st.sampled_from(QUEUES)),
        team=draw(st.sampled_from(("x", "y", ""))),
        priority=draw(st.integers(0, 2)),
    )
    seat = Seat(node=draw(st.sampled_from(("n1", "n2"))), pods=1, devices=0, charges=charges)
    return Attempt(
        workload_id=f"w{draw(st.integers(0, 10**9))}",
        number=1,
        opening=Opening(at_ms=times[0], version=1, owner=owner, charges=charges),
        seating=draw(st.none() | st.just(Seating(at_ms=times[1], version=2, seats=(seat,)))),
        eviction=draw(st.none() | st.just(Eviction(at_ms=times[2], version=3, reason="Preempted"))),
        closing=draw(st.none() | st.just(Closing(at_ms=times[2], version=4))),
        checkpointed_ms=draw(st.none() | TIMES),
    )


@st.composite
def spans(draw: st.DrawFn) -> CapacitySpan:
    flavor, resource = draw(st.sampled_from(PAIRS))
    start = draw(TIMES)
    return CapacitySpan(
        node=draw(st.sampled_from(("n1", "n2"))),
        flavor=flavor,
        resource=resource,
        quantity_milli=draw(st.integers(1, 12)),
        start_ms=start,
        end_ms=draw(st.none() | st.integers(start, LAST)),
        usable=draw(st.booleans()),
    )


@st.composite
def catalogs(draw: st.DrawFn) -> tuple[Catalog, ...]:
    def catalog(from_ms: int) -> Catalog:
        return Catalog(
            from_ms=from_ms,
            quotas={
                pair: {
                    queue: QueueQuota(
                        nominal_milli=draw(st.integers(0, 6)),
                        lending_limit_milli=draw(st.none() | st.integers(0, 3)),
                        tree=draw(st.sampled_from(("", "t", "u"))),
                    )
                    for queue in QUEUES
                }
                for pair in PAIRS
            },
        )

    return tuple(catalog(at) for at in sorted(draw(st.sets(TIMES, max_size=3))))


@st.composite
def prices(draw: st.DrawFn) -> PriceBook:
    found: list[Price] = []
    for flavor, resource in draw(st.sets(st.sampled_from(PAIRS))):
        for start in draw(st.sets(TIMES | st.just(ALWAYS_MS), min_size=1, max_size=3)):
            hourly = draw(st.fractions(min_value=0, max_value=100, max_denominator=50))
            found.append(
                Price(
                    flavor=flavor,
                    resource=resource,
                    hourly=hourly * 10**6,
                    effective_from_ms=start,
                )
            )
    return PriceBook("EUR", tuple(found))


@st.composite
def all_books(draw: st.DrawFn) -> Books:
    found = draw(st.lists(attempts(), max_size=8, unique_by=lambda attempt: attempt.workload_id))
    return Books(
        attempts=tuple(found),
        capacity=tuple(draw(st.lists(spans(), max_size=5))),
        catalogs=draw(catalogs()),
    )


@st.composite
def windows(draw: st.DrawFn) -> Window:
    start, end = sorted(draw(st.lists(TIMES, min_size=2, max_size=2, unique=True)))
    return Window(start, end)


BY = st.sampled_from(("team", "namespace", "cluster_queue", "flavor", "user", "attempt"))


def capacity_time(books: Books, window: Window, resource: str) -> int:
    return sum(
        span.quantity_milli
        for span in books.capacity
        for at in range(window.start_ms, window.end_ms)
        if span.resource == resource
        and span.start_ms <= at
        and (span.end_ms is None or at < span.end_ms)
    )


@given(all_books(), prices(), windows(), BY)
def test_rows_sum_to_capacity_times_price_times_time(
    books: Books, book: PriceBook, window: Window, by: str
) -> None:
    """I1."""
    table = cost_table(books, book, window, by)

    for resource in ("gpu", "cpu"):
        total = sum(row.held.get(resource, 0) for row in table.rows)
        assert total == capacity_time(books, window, resource)
    assert sum((row.cost for row in table.rows), Fraction(0)) == table.capacity_cost
    assert table.total_micros == nearest(table.capacity_cost)
    assert sum(row.cost_micros or 0 for row in table.rows) == table.total_micros


QUEUE_TERMS = st.builds(
    QueueTerms,
    basis=st.sampled_from(ChargingBasis),
    lender_credit_percent=st.integers(0, 100),
    borrow_percent=st.sampled_from((100, 125, 0, 73)),
    attribution=st.sampled_from(Attribution),
)


@st.composite
def policies(draw: st.DrawFn) -> tuple[PolicyVersion, ...]:
    return tuple(
        PolicyVersion(
            policy="p",
            effective_from_ms=at_ms,
            others=draw(QUEUE_TERMS),
            queues=draw(st.dictionaries(st.sampled_from(QUEUES), QUEUE_TERMS)),
        )
        for at_ms in sorted(draw(st.sets(TIMES | st.just(ALWAYS_MS), max_size=3)))
    )


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    policy = draw(policies())
    usage = not any(version.by_quota for version in policy)
    idle = draw(st.sampled_from([p for p in IdlePolicy if p is not IdlePolicy.NONE]))
    return Rules(idle=idle if usage else IdlePolicy.ROW, policy=policy)


@given(all_books(), prices(), windows(), rules())
def test_what_is_charged_sums_to_the_capacity_whoever_pays(
    books: Books, book: PriceBook, window: Window, charging: Rules
) -> None:
    """I1, with any policy."""
    table = cost_table(books, book, window, "cluster_queue", rules=charging)

    for resource in ("gpu", "cpu"):
        total = sum(row.charged.get(resource, 0) for row in table.rows)
        assert total == capacity_time(books, window, resource)
    assert sum((row.cost for row in table.rows), Fraction(0)) == table.capacity_cost
    assert sum(row.cost_micros or 0 for row in table.rows) == nearest(table.capacity_cost)


@given(all_books(), prices(), windows(), policies())
def test_lines_of_a_statement_charge_each_queue_what_its_row_says(
    books: Books, book: PriceBook, window: Window, policy: tuple[PolicyVersion, ...]
) -> None:
    table = cost_table(books, book, window, "cluster_queue", rules=Rules(policy=policy))
    lines = charges(books, book, window, policy)

    told = {row.key: sum(row.charged.values()) for row in table.rows}
    found: dict[str, int] = {}
    for line in lines:
        key = line.cluster_queue if line.kind is RowKind.USAGE else f"__{line.kind}__"
        found[key] = found.get(key, 0) + line.quantity
    assert {key: time for key, time in found.items() if time} == {
        key: time for key, time in told.items() if time
    }
    assert len({line.key for line in lines}) == len(lines)
    assert sum(line.micros for line in lines) == nearest(table.capacity_cost)


@given(
    all_books(),
    prices(),
    windows(),
    st.sampled_from((IdlePolicy.PROPORTIONAL, IdlePolicy.NODE)),
    st.sampled_from("ab"),
)
def test_a_filter_leaves_what_a_namespace_pays_within_a_unit(
    books: Books, book: PriceBook, window: Window, idle: IdlePolicy, namespace: str
) -> None:
    charging = Rules(idle=idle)
    everybody = cost_table(books, book, window, "namespace", rules=charging)
    alone = cost_table(
        books, book, window, "namespace", lambda owner: owner.namespace == namespace, charging
    )

    def paid(table: Table) -> dict[str, int]:
        return next((row.charged for row in table.rows if row.key == namespace), {})

    pieces = len(PAIRS) * 4 * 2
    for resource in ("gpu", "cpu"):
        difference = paid(everybody).get(resource, 0) - paid(alone).get(resource, 0)
        assert abs(difference) <= pieces


@given(all_books(), windows())
def test_a_queue_uses_or_leaves_its_nominal_quota(books: Books, window: Window) -> None:
    """I7: at the plain price of loans, and with all of it credited."""
    assume(books.catalogs)
    always = replace(in_one_tree(books.catalogs[0]), from_ms=0)
    books = replace(books, catalogs=(always, *map(in_one_tree, books.catalogs[1:])))
    table = cost_table(books, PriceBook("EUR"), window, "cluster_queue")
    committed = cost_table(
        books,
        PriceBook("EUR"),
        window,
        "cluster_queue",
        rules=Rules(policy=for_all(ChargingBasis.BOTH)),
    )

    for resource in ("gpu", "cpu"):
        borrowed = sum(row.borrowed.get(resource, 0) for row in table.rows)
        assert borrowed == sum(row.lent.get(resource, 0) for row in table.rows)
        nominal = sum(row.nominal.get(resource, 0) for row in table.rows)
        from_cohort = sum(row.lent.get(resource, 0) for row in table.rows if row.key == COHORT)
        charged = sum(
            row.charged.get(resource, 0) for row in committed.rows if row.kind is RowKind.USAGE
        )
        assert charged == nominal + from_cohort


def in_one_tree(catalog: Catalog) -> Catalog:
    """The same quotas, where what a queue holds above nominal is borrowed."""
    quotas = {
        pair: {queue: replace(quota, tree="t") for queue, quota in of_pair.items()}
        for pair, of_pair in catalog.quotas.items()
    }
    return replace(catalog, quotas=quotas)


@given(all_books(), prices(), windows(), BY)
def test_no_cell_is_negative_but_the_overallocated(
    books: Books, book: PriceBook, window: Window, by: str
) -> None:
    for row in cost_table(books, book, window, by).rows:
        if row.kind is RowKind.OVERALLOCATED:
            assert all(quantity < 0 for quantity in row.held.values())
            assert row.lost_cost_micros == 0
            continue
        assert (row.cost_micros or 0) >= 0
        assert 0 <= row.lost_cost_micros <= (row.cost_micros or 0)
        for part in (row.borrowed, row.lost, row.unpriced):
            assert all(0 <= part[name] <= row.held[name] for name in part)


@dataclass(frozen=True)
class Moment:
    capacity: int
    held: int
    idle: int
    reserved: int
    unavailable: int
    over: int


def moment(books: Books, pair: tuple[str, str], at: int) -> Moment:
    """Where the capacity of a pair is at one moment, counted from scratch."""
    held = waiting = 0
    on_node: dict[str, int] = {}
    for attempt in books.attempts:
        opening, seating = attempt.opening, attempt.seating
        if opening is None or (attempt.end_ms is not None and at >= attempt.end_ms):
            continue
        quantity = sum(c.quantity_milli for c in opening.charges if (c.flavor, c.resource) == pair)
        if seating is not None and at >= seating.at_ms:
            held += quantity
            node = seating.seats[0].node
            on_node[node] = on_node.get(node, 0) + quantity
        elif at >= opening.at_ms:
            waiting += quantity
    capacity = unavailable = 0
    for span in books.capacity:
        if (span.flavor, span.resource) != pair or at < span.start_ms:
            continue
        if span.end_ms is not None and at >= span.end_ms:
            continue
        capacity += span.quantity_milli
        if not span.usable:
            unavailable += max(0, span.quantity_milli - on_node.get(span.node, 0))
    free = capacity - held - unavailable
    reserved = min(waiting, max(0, free))
    return Moment(capacity, held, max(0, free) - reserved, reserved, unavailable, max(0, -free))


@given(all_books(), windows())
def test_every_kind_of_time_equals_the_count_of_moments(books: Books, window: Window) -> None:
    table = cost_table(books, PriceBook("EUR"), window, "flavor")

    counted = [
        moment(books, pair, at) for pair in PAIRS for at in range(window.start_ms, window.end_ms)
    ]
    assert kind_time(table, RowKind.USAGE) == sum(m.held for m in counted)
    assert kind_time(table, RowKind.IDLE) == sum(m.idle for m in counted)
    assert kind_time(table, RowKind.RESERVED) == sum(m.reserved for m in counted)
    assert kind_time(table, RowKind.UNAVAILABLE) == sum(m.unavailable for m in counted)
    assert kind_time(table, RowKind.OVERALLOCATED) == -sum(m.over for m in counted)


def kind_time(table: Table, kind: RowKind) -> int:
    return sum(sum(row.held.values()) for row in table.rows if row.kind is kind)


@given(all_books(), prices(), windows(), TIMES, BY)
def test_two_halves_of_a_window_cost_what_the_whole_costs(
    books: Books, book: PriceBook, window: Window, cut: int, by: str
) -> None:
    """I3."""
    middle = min(max(cut, window.start_ms), window.end_ms)
    whole = cost_table(books, book, window, by)
    parts = [
        cost_table(books, book, part, by)
        for part in (Window(window.start_ms, middle), Window(middle, window.end_ms))
    ]

    summed: dict[str, Fraction] = {}
    for part in parts:
        for row in part.rows:
            summed[row.key] = summed.get(row.key, Fraction(0)) + row.cost
    assert {key: cost for key, cost in summed.items() if cost} == {
        row.key: row.cost for row in whole.rows if row.cost
    }


def cut_in_two(attempt: Attempt, at_ms: int) -> tuple[Attempt, ...]:
    """The attempt until a moment, and another one on the same seats from then on."""
    opening, seating = attempt.opening, attempt.seating
    end_ms = LAST if attempt.end_ms is None else attempt.end_ms
    if opening is None or seating is None or not seating.at_ms <= at_ms <= end_ms:
        return (attempt,)
    rest = replace(
        attempt,
        number=2,
        opening=replace(opening, at_ms=at_ms),
        seating=replace(seating, at_ms=at_ms),
    )
    return replace(attempt, closing=Closing(at_ms=at_ms, version=5)), rest


@given(all_books(), prices(), windows(), TIMES, rules())
def test_intervals_that_are_cut_in_two_cost_the_same(
    books: Books, book: PriceBook, window: Window, at_ms: int, charging: Rules
) -> None:
    """I9."""
    whole = replace(books, attempts=tuple(replace(a, eviction=None) for a in books.attempts))
    parts = tuple(part for attempt in whole.attempts for part in cut_in_two(attempt, at_ms))

    one, two = (
        {row.key: row.cost for row in cost_table(of, book, window, QUEUE, rules=charging).rows}
        for of in (whole, replace(whole, attempts=parts))
    )

    assert {key: cost for key, cost in one.items() if cost} == {
        key: cost for key, cost in two.items() if cost
    }


@given(all_books(), prices(), windows(), BY, st.randoms(use_true_random=False))
def test_the_order_of_facts_changes_nothing(
    books: Books, book: PriceBook, window: Window, by: str, random: object
) -> None:
    """I4; redelivery is in `test_attempts.py`."""
    shuffled = list(books.attempts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    again = replace(books, attempts=tuple(shuffled), capacity=tuple(reversed(books.capacity)))
    assert cost_table(again, book, window, by) == cost_table(books, book, window, by)


@given(all_books(), prices(), windows(), BY)
def test_doubling_every_price_doubles_every_amount(
    books: Books, book: PriceBook, window: Window, by: str
) -> None:
    """I8."""
    doubled = PriceBook(
        "EUR", tuple(replace(price, hourly=price.hourly * 2) for price in book.prices)
    )

    single = cost_table(books, book, window, by)
    double = cost_table(books, doubled, window, by)
    assert [row.cost * 2 for row in single.rows] == [row.cost for row in double.rows]


@given(all_books(), windows(), st.sampled_from(Attribution))
def test_borrowed_is_what_queues_hold_above_nominal(
    books: Books, window: Window, attribution: Attribution
) -> None:
    """I6."""
    catalog = books.catalogs[0] if books.catalogs else Catalog(from_ms=0)
    for pair, holdings in holdings_by_pair(books.attempts).items():
        quotas = catalog.quotas.get(pair, {})
        terms = PolicyVersion(others=QueueTerms(attribution=attribution))
        found = loans(holdings, quotas, window, terms)
        borrowed: dict[str, int] = {}
        lent = 0
        for at in range(window.start_ms, window.end_ms):
            for queue, quota in quotas.items():
                used = sum(
                    holding.held_milli
                    for holding in holdings
                    if holding.owner.cluster_queue == queue and holding.held(Window(at, at + 1))
                )
                above = max(0, used - quota.nominal_milli) if quota.tree else 0
                borrowed[queue] = borrowed.get(queue, 0) + above
                lent += above
        by_queue: dict[str, int] = {}
        for holding in holdings:
            queue = holding.owner.cluster_queue
            part = found.borrowed.get(holding.attempt.key, 0)
            assert 0 <= part <= holding.held(window)
            by_queue[queue] = by_queue.get(queue, 0) + part
        assert {q: n for q, n in by_queue.items() if n} == {q: n for q, n in borrowed.items() if n}
        assert sum(found.lent.values()) == lent
        assert all(
            found.lent.get(queue, 0) <= quota.nominal_milli * window.length_ms
            for queue, quota in quotas.items()
        )
        assert found.lent.get(COHORT, 0) >= 0
