"""Facts about an attempt put together in any order, any number of times."""

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from muster_rating.attempts import (
    Attempt,
    Charge,
    Closing,
    Eviction,
    Opening,
    Owner,
    Seat,
    Seating,
    settled,
    sum_charges,
)
from muster_rating.holdings import holdings_by_pair
from muster_rating.windows import Window

OWNER = Owner(namespace="a", workload="w", cluster_queue="q")
CHARGES = (Charge(flavor="h100", resource="gpu", quantity_milli=2000),)


def part(**parts: object) -> Attempt:
    return Attempt(workload_id="w1", number=1, **parts)


FACTS = (
    part(opening=Opening(at_ms=10, version=1, owner=OWNER, charges=CHARGES)),
    part(
        opening=Opening(at_ms=10, version=2, owner=OWNER, charges=CHARGES),
        seating=Seating(
            at_ms=20, version=2, seats=(Seat(node="n", pods=1, devices=2, charges=CHARGES),)
        ),
    ),
    part(eviction=Eviction(at_ms=30, version=3, reason="Preempted")),
    part(eviction=Eviction(at_ms=31, version=4, reason="Cancelled")),
    part(resizes=(Seating(at_ms=26, version=9, seats=()),)),
    part(resizes=(Seating(at_ms=24, version=8, seats=()),)),
    part(checkpointed_ms=25),
    part(checkpointed_ms=28),
    part(closing=Closing(at_ms=40, version=5)),
    part(closing=Closing(at_ms=99, version=6, outcome="Cancelled")),
)


@given(st.permutations(FACTS), st.lists(st.sampled_from(FACTS), max_size=12))
def test_order_and_repetition_change_nothing(ordered: list[Attempt], again: list[Attempt]) -> None:
    """I4."""
    expected = reduce(Attempt.merge, FACTS)

    assert reduce(Attempt.merge, [*again, *ordered]) == expected


@given(st.sampled_from(FACTS), st.sampled_from(FACTS), st.sampled_from(FACTS))
def test_merging_is_associative_and_commutative(one: Attempt, two: Attempt, three: Attempt) -> None:
    assert one.merge(two) == two.merge(one)
    assert one.merge(two).merge(three) == one.merge(two.merge(three))


def test_the_first_end_and_the_first_reason_hold() -> None:
    attempt = reduce(Attempt.merge, reversed(FACTS))

    assert attempt.end_ms == 40
    assert attempt.was_preempted
    assert attempt.lost_from_ms == 28
    assert not attempt.is_open


def test_an_attempt_without_an_opening_is_not_open() -> None:
    assert not FACTS[2].is_open
    assert FACTS[0].is_open


def test_steps_that_run_backwards_are_noticed() -> None:
    backwards = FACTS[1].merge(part(closing=Closing(at_ms=15, version=5)))

    assert backwards.runs_backwards
    assert not reduce(Attempt.merge, FACTS).runs_backwards


def test_an_end_that_was_never_heard_of_is_bounded_by_the_next_opening() -> None:
    later = Attempt(
        workload_id="w1",
        number=2,
        opening=Opening(at_ms=500, version=9, owner=OWNER, charges=CHARGES),
    )

    first, second = settled([later, FACTS[1]])

    assert (first.number, first.end_ms) == (1, 500)
    assert second.end_ms is None


def seats(gpus: int) -> tuple[Seat, ...]:
    charge = Charge(flavor="h100", resource="gpu", quantity_milli=1000 * gpus)
    return (Seat(node="n", pods=gpus, devices=gpus, charges=(charge,)),)


def test_an_attempt_that_grew_and_shrank_holds_each_size_for_its_time() -> None:
    grown = part(
        opening=Opening(at_ms=10, version=1, owner=OWNER, charges=CHARGES),
        seating=Seating(at_ms=20, version=2, seats=seats(5)),
        resizes=(
            Seating(at_ms=50, version=4, seats=seats(8)),
            Seating(at_ms=70, version=6, seats=seats(3)),
            Seating(at_ms=990, version=9, seats=seats(9)),
        ),
        closing=Closing(at_ms=100, version=7),
    )
    (held,) = holdings_by_pair(settled([grown])).values()
    stretches = [(one.held_milli, one.seated_ms, one.end_ms) for one in held]
    assert stretches == [(5000, 20, 50), (8000, 50, 70), (3000, 70, 100)]
    assert [one.waiting(Window(0, 1000)) for one in held] == [2000 * 10, 0, 0]
    assert sum(one.held(Window(0, 1000)) for one in held) == 5000 * 30 + 8000 * 20 + 3000 * 30


def test_an_open_attempt_that_grew_holds_its_last_size() -> None:
    resized = part(resizes=(Seating(at_ms=50, version=4, seats=seats(8)),))
    first, second = settled([FACTS[1].merge(resized)])
    assert (first.end_ms, second.end_ms) == (50, None)
    assert second.seating is not None
    assert second.seating.seats == seats(8)


def test_charges_are_summed_by_flavor_and_resource() -> None:
    memory = Charge(flavor="default", resource="memory", quantity_milli=5)

    assert sum_charges([*CHARGES, memory, *CHARGES]) == (
        memory,
        Charge(flavor="h100", resource="gpu", quantity_milli=4000),
    )
