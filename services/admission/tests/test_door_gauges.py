"""LocalQueues have what ClusterQueues have, under their name and namespace."""

import math
from dataclasses import replace

import pytest

from muster_domain.policy import AdmissionFairSharing, Policy
from muster_domain.queues import StopPolicy
from muster_testing.builders import (
    FLAVOR,
    GPU,
    NAMESPACE,
    cluster_queue,
    configuration,
    local_queue,
    workload,
)

from .measured import Measured

DOOR = {"name": "jobs", "namespace": NAMESPACE}
PAIR = {"flavor": FLAVOR, "resource": GPU}


@pytest.fixture
def house() -> Measured:
    return Measured(configuration(cluster_queue(gpus=4)))


def status(house: Measured, name: str = "jobs") -> dict[str, float | None]:
    door = {"name": name, "namespace": NAMESPACE}
    words = ("True", "False", "Unknown")
    return {word: house.value("local_queue_status", **door, active=word) for word in words}


def test_who_waits_who_runs_and_what_they_hold(house: Measured) -> None:
    house.run(workload(gpus=2))
    house.submit(workload("w2", 1))
    house.submit(workload("w3", 4))
    assert house.value("local_queue_pending_workloads", **DOOR, status="inadmissible") == 1
    assert house.value("local_queue_pending_workloads", **DOOR, status="active") == 0
    assert house.value("local_queue_reserving_active_workloads", **DOOR) == 2
    assert house.value("local_queue_admitted_active_workloads", **DOOR) == 1
    assert house.value("local_queue_resource_reservation", **DOOR, **PAIR) == 3
    assert house.value("local_queue_resource_usage", **DOOR, **PAIR) == 2


def test_counts_and_times_are_kept_for_the_door_as_well(house: Measured) -> None:
    house.submit()
    house.cycle(3_000)
    house.place()
    house.start()
    house.cycle(2_000)
    house.finish()
    classed = {**DOOR, "priority_class": ""}
    assert house.value("local_queue_quota_reserved_workloads_total", **classed) == 1
    assert house.value("local_queue_admitted_workloads_total", **classed) == 1
    assert house.value("local_queue_admission_wait_time_seconds_sum", **classed) == 3
    assert house.value("local_queue_ready_wait_time_seconds_count", **classed) == 1
    assert house.value("local_queue_execution_time_seconds_sum", **classed) == 2
    ended = {**classed, "outcome": "Succeeded"}
    assert house.value("local_queue_finished_workloads_total", **ended) == 1
    assert house.value("local_queue_retained_workloads", **DOOR) == 1


def test_evictions_are_counted_by_door(house: Measured) -> None:
    house.run()
    house.configure(
        configuration(cluster_queue(gpus=4), doors=[local_queue(stop=StopPolicy.HOLD_AND_DRAIN)])
    )
    why = {"reason": "LocalQueueStopped", "underlying_cause": "", "priority_class": ""}
    assert house.value("local_queue_evicted_workloads_total", **DOOR, **why) == 1


@pytest.mark.parametrize(
    ("of_queue", "of_door", "active"),
    [
        (StopPolicy.NONE, StopPolicy.NONE, "True"),
        (StopPolicy.HOLD, StopPolicy.NONE, "False"),
        (StopPolicy.NONE, StopPolicy.HOLD, "False"),
    ],
)
def test_a_door_is_active_while_it_and_its_queue_let_anybody_in(
    house: Measured, of_queue: StopPolicy, of_door: StopPolicy, active: str
) -> None:
    queue = cluster_queue(gpus=4, stop=of_queue)
    house.configure(configuration(queue, doors=[local_queue(stop=of_door)]))
    words = {"True": 0, "False": 0, "Unknown": 0}
    assert status(house) == {**words, active: 1}


def test_a_door_to_nowhere_has_no_series(house: Measured) -> None:
    doors = [local_queue(), local_queue("nowhere", name="lost")]
    house.configure(configuration(cluster_queue(gpus=4), doors=doors))
    assert not house.has("lost")


def test_a_door_that_is_gone_leaves_no_series(house: Measured) -> None:
    house.configure(
        configuration(cluster_queue(gpus=4), doors=[local_queue(), local_queue(name="old")])
    )
    house.run(workload(door="old"))
    assert house.value("local_queue_admitted_active_workloads", name="old", namespace=NAMESPACE)
    house.configure(configuration(cluster_queue(gpus=4), doors=[local_queue()]))
    assert not house.has("old")


def test_what_doors_used_lately_is_what_they_take_turns_by() -> None:
    sharing = AdmissionFairSharing(half_life_ms=3_600_000, sampling_ms=300_000)
    shared = replace(cluster_queue(gpus=8), admission_fair_sharing=True)
    idle = replace(local_queue(name="idle"), fair_weight_milli=0)
    doors = [replace(local_queue(), fair_weight_milli=2_000), idle]
    declared = replace(
        configuration(shared, doors=doors), policy=Policy(admission_fair_sharing=sharing)
    )
    house = Measured(declared)
    house.run(workload(gpus=8))
    name = "local_queue_admission_fair_sharing_usage"
    assert house.value(name, **DOOR) == pytest.approx(0.4490 / 2, abs=5e-5)
    assert house.value(name, name="idle", namespace=NAMESPACE) == math.inf


def test_doors_that_take_no_turns_say_nothing_about_them(house: Measured) -> None:
    house.run()
    assert house.value("local_queue_admission_fair_sharing_usage", **DOOR) is None
