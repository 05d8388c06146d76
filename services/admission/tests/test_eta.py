"""By when those who wait can start: only what time limits say, or nothing."""

import pytest

from muster_admission.eta import latest_starts
from muster_testing.builders import cluster_queue, configuration, workload

from .house import House


@pytest.fixture
def house() -> House:
    return House(configuration(cluster_queue(gpus=4)))


def test_who_is_next_starts_when_enough_must_have_ended(house: House) -> None:
    start_ms = house.now_ms
    house.run(workload("short", 2, limit_ms=10_000))
    house.run(workload("long", 2, limit_ms=60_000))
    house.submit(workload("a-next", 2))
    house.submit(workload("b-after", 1))
    house.cycle(1_000)
    assert latest_starts(house.machine.book) == {
        "a-next": start_ms + 10_000,
        "b-after": start_ms + 60_000,
    }


def test_without_a_limit_it_is_not_known(house: House) -> None:
    house.run(workload("endless", 4))
    house.submit(workload("next", 1))
    assert latest_starts(house.machine.book) == {}


def test_what_ran_before_counts_towards_the_limit(house: House) -> None:
    house.run(workload("short", 4, limit_ms=10_000))
    house.submit(workload("next", 4))
    house.cycle(10_000)
    assert house.kind("short") == "evicting"
    assert latest_starts(house.machine.book) == {}


def test_nobody_who_waits_behind_the_unknown_is_promised_anything(house: House) -> None:
    house.run(workload("short", 2, limit_ms=10_000))
    house.run(workload("endless", 2))
    house.submit(workload("big", 4))
    house.submit(workload("small", 1))
    assert latest_starts(house.machine.book) == {}
