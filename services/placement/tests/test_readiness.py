"""A gang that ran and does not run whole says so once, and says so once when it does again."""

import pytest

from muster_contracts import events
from muster_testing.builders import workload

from .house import House, two_nodes

PAIR = workload(gpus=4, pods=2)


@pytest.fixture
def house() -> House:
    found = two_nodes()
    found.run(PAIR)
    return found


def test_one_pod_that_restarts_stalls_the_gang(house: House) -> None:
    house.pod_restarts(0)
    house.pod_restarts(1)
    assert house.count(events.GangStalled) == 1
    house.pod_runs_again(1)
    assert house.count(events.GangStarted) == 1
    house.restart()
    house.pod_runs_again(0)
    last = house.last(events.GangStarted)
    assert isinstance(last, events.GangStarted)
    assert (house.count(events.GangStarted), last.times) == (2, 2)


def test_words_that_come_again_change_nothing(house: House) -> None:
    house.pod_restarts(0)
    house.pod_runs_again(0)
    assert not house.pod_restarts(0)
    assert not house.pod_started(0)
    assert not house.pod_runs_again(0)
    assert house.count(events.GangStalled) == 1


def test_a_word_about_a_pod_that_is_over_changes_nothing(house: House) -> None:
    house.pod_ended(0)
    assert not house.pod_restarts(0)
    assert house.count(events.GangStalled) == 0


def test_pods_that_are_done_are_told_while_others_run(house: House) -> None:
    house.pod_ended(0)
    told = house.last(events.PodsSucceeded)
    assert isinstance(told, events.PodsSucceeded)
    assert dict(told.counts) == {"main": 1}
    house.restart()
    assert not house.pod_ended(0)
    house.pod_ended(1)
    assert house.count(events.PodsSucceeded) == 1
    assert house.count(events.GangFinished) == 1
