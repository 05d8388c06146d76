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
    part(checkpointed_ms=25),
    part(checkpointed_ms=28),
    part(closing=Closing(at_ms=40, version=5)),
    part(closing=Closing(at_ms=99, version=6, outcome="Cancelled")),
)


@given(st.permutations(FACTS), st.lists(st.sampled_from(FACTS), max_size=12))
def test_order_and_repetition_change_nothing(ordered: list[Attempt], again: list[Attempt]) -> None:
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


def test_charges_are_summed_by_flavor_and_resource() -> None:
    memory = Charge(flavor="default", resource="memory", quantity_milli=5)

    assert sum_charges([*CHARGES, memory, *CHARGES]) == (
        memory,
        Charge(flavor="h100", resource="gpu", quantity_milli=4000),
    )
