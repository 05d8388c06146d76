"""blockAdmission: one start at a time, across the queues of a partition."""

from dataclasses import replace

import pytest

from muster_contracts import events
from muster_domain.conditions import PendingReason
from muster_domain.policy import Lifecycle
from muster_testing.builders import cluster_queue, configuration, workload

from .house import House


@pytest.fixture
def house() -> House:
    queues = configuration(cluster_queue(gpus=4), cluster_queue("other", 4))
    return House(replace(queues, lifecycle=Lifecycle(block_admission=True)))


def test_the_next_is_let_in_when_all_pods_of_the_last_run(house: House) -> None:
    house.submit(workload("w1"))
    house.submit(workload("w2"))
    house.submit(workload("w3", door="other"), queue="other")
    assert house.kinds("w1", "w2", "w3") == ["reserved", "pending", "pending"]
    assert house.decisions[-1].reason == PendingReason.WAITING_FOR_PODS_READY
    house.place("w1")
    assert house.kinds("w2", "w3") == ["pending", "pending"]
    house.start("w1")
    assert sorted(house.kinds("w2", "w3")) == ["pending", "reserved"]


def test_one_cycle_lets_in_one_of_many_who_came_together(house: House) -> None:
    for identity in ("w1", "w2"):
        house.take(events.WorkloadSubmitted(workload=workload(identity), cluster_queue="cq",
                                            objects_sequence=0), identity)  # fmt: skip
    house.cycle()
    assert sorted(house.kinds("w1", "w2")) == ["pending", "reserved"]
    house.cycle()
    assert sorted(house.kinds("w1", "w2")) == ["pending", "reserved"]
    assert house.machine.wake_at_ms() != 0


def test_pods_that_stall_hold_everybody_up_again(house: House) -> None:
    house.run(workload("w1"))
    house.say(events.GangStalled(workload_id="w1", attempt=1, times=1))
    house.submit(workload("w2"))
    assert house.kind("w2") == "pending"
    house.restart()
    house.cycle()
    assert house.kind("w2") == "pending"
    house.say(events.GangStarted(workload_id="w1", attempt=1, times=2))
    assert house.kind("w2") == "reserved"


def test_external_jobs_are_ready_when_they_are_admitted(house: House) -> None:
    house.submit(workload("w1", lease_ms=60_000))
    house.place("w1")
    house.submit(workload("w2"))
    assert house.kind("w2") == "reserved"
