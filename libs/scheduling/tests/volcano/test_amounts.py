"""Comparing amounts: what counts as within, as empty, as a share, dimension by dimension."""

import pytest

from muster_scheduling.volcano.amounts import (
    SCALE,
    at_least,
    capped,
    capped_to,
    covers,
    covers_asked,
    covers_some,
    dominant_share,
    exceeding,
    first_short,
    is_empty,
    minus,
    share,
)

from .builders import amounts


@pytest.mark.parametrize(
    ("ceiling", "amount", "within"),
    [
        ("cpu=2 gpu=1", "cpu=2 gpu=1", True),
        ("cpu=2 gpu=1", "cpu=1", True),
        ("cpu=2 gpu=1", "cpu=2 gpu=2", False),
        ("cpu=2", "cpu=1 gpu=1", False),
        ("cpu=2", "cpu=2 gpu=0", True),
        ("", "", True),
        ("", "cpu=1m", False),
    ],
)
def test_every_dimension_must_be_within(ceiling: str, amount: str, *, within: bool) -> None:
    assert covers(amounts(ceiling), amounts(amount)) is within


def test_less_than_nothing_is_within_nothing() -> None:
    assert covers({}, {"cpu": -5})
    assert not covers({"cpu": -5}, {"cpu": 1})
    assert covers({"cpu": -5}, {"cpu": 0})


@pytest.mark.parametrize(
    ("ceiling", "amount", "asked", "short"),
    [
        ("cpu=4 memory=2", "cpu=3 memory=3", "cpu=1", None),
        ("cpu=4 memory=2", "cpu=3 memory=3", "memory=1", "memory"),
        ("cpu=4", "cpu=5", "cpu=1 memory=0", "cpu"),
        ("cpu=4 memory=4", "cpu=4 memory=4 gpu=1", "cpu=1 memory=1 gpu=1", "gpu"),
        ("", "cpu=4 memory=4", "", None),
        ("", "cpu=4", "cpu=0", None),
        ("cpu=1 gpu=1", "cpu=2 gpu=2", "gpu=1 cpu=1", "cpu"),
    ],
    ids=[
        "memory is over, but nobody asks",
        "somebody asks",
        "nothing of memory is asked",
        "what is not there is none",
        "nothing is asked",
        "nothing of anything",
        "the first by name",
    ],
)
def test_only_what_is_asked_is_compared(
    ceiling: str, amount: str, asked: str, short: str | None
) -> None:
    parts = amounts(ceiling), amounts(amount), amounts(asked)
    assert first_short(*parts) == short
    assert covers_asked(*parts) is (short is None)


@pytest.mark.parametrize(
    ("ceiling", "amount", "asked", "within"),
    [
        ("cpu=2", "cpu=1", "cpu=1", True),
        ("cpu=2", "cpu=2", "cpu=1", True),
        ("cpu=2", "cpu=3", "cpu=1", False),
        ("cpu=2 gpu=4", "cpu=3 gpu=4", "cpu=1 gpu=1", True),
        ("cpu=2 gpu=4", "cpu=3 gpu=5", "cpu=1 gpu=1", False),
        ("memory=8", "cpu=3", "cpu=1 memory=1", True),
        ("cpu=2", "cpu=1", "", False),
        ("", "", "cpu=1", False),
        ("", "cpu=1", "cpu=1", False),
        ("gpu=4", "cpu=3 gpu=4", "cpu=1", False),
    ],
    ids=[
        "below",
        "just",
        "above",
        "one of two is enough",
        "neither of two",
        "what it has none of",
        "nothing is asked",
        "nothing says anything",
        "what is not there is none",
        "only what is asked counts",
    ],
)
def test_one_dimension_within_is_enough(
    ceiling: str, amount: str, asked: str, *, within: bool
) -> None:
    assert covers_some(amounts(ceiling), amounts(amount), amounts(asked)) is within


@pytest.mark.parametrize(
    ("left", "right", "at_infinity", "at_zero"),
    [
        ("cpu=4 gpu=2", "cpu=3 gpu=0", "cpu=3 gpu=0", "cpu=3 gpu=0"),
        ("cpu=4 gpu=2", "cpu=5", "cpu=4 gpu=2", "cpu=4 gpu=0"),
        ("cpu=4", "cpu=1 gpu=2", "cpu=1", "cpu=1"),
    ],
    ids=["both limit", "what is not limited", "what is not there does not appear"],
)
def test_the_smaller_of_two(left: str, right: str, at_infinity: str, at_zero: str) -> None:
    assert capped(amounts(left), amounts(right)) == amounts(at_infinity)
    assert capped_to(amounts(left), amounts(right)) == amounts(at_zero)


def test_the_larger_the_difference_and_what_is_more() -> None:
    left, right = amounts("cpu=4 gpu=1"), amounts("cpu=5 memory=2")
    assert at_least(left, right) == amounts("cpu=5 gpu=1 memory=2")
    assert minus(left, right) == {"cpu": -1000, "gpu": 1000, "memory": -2000}
    assert exceeding(left, right) == amounts("cpu=0 gpu=1")


@pytest.mark.parametrize(
    ("amount", "empty"), [("", True), ("cpu=0", True), ("pods=3", True), ("cpu=1m", False)]
)
def test_the_count_of_pods_is_no_resource(amount: str, *, empty: bool) -> None:
    assert is_empty(amounts(amount)) is empty


def test_shares_are_parts_of_what_there_is_and_something_of_nothing_is_all() -> None:
    assert (share(1, 2), share(3, 2), share(0, 0), share(1, 0)) == (
        SCALE // 2,
        SCALE * 3 // 2,
        0,
        SCALE,
    )
    held, there = amounts("cpu=1 memory=3 gpu=9"), amounts("cpu=2 memory=4")
    assert dominant_share(held, there) == SCALE * 3 // 4
