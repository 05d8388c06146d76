"""LocalQueues of one ClusterQueue take turns by what they used lately, whatever dies in between.

`House` compares after every commit what is stored with what is known, the histories included.
"""

from dataclasses import replace

import pytest

from muster_admission.turns import turn_rows
from muster_contracts import events
from muster_domain.policy import AdmissionFairSharing, Policy
from muster_domain.queues import PreemptionPolicy, WithinClusterQueue
from muster_scheduling.fairness.history import FINE
from muster_scheduling.snapshot.catalog import Configuration
from muster_testing.builders import (
    GPU,
    NAMESPACE,
    cluster_queue,
    configuration,
    local_queue,
    placement,
    workload,
)

from .house import House

HOUR = 3_600_000
TICK = 300_000
A, B = f"{NAMESPACE}/a", f"{NAMESPACE}/b"
PENALTY = 0.4490
"""What 8 GPUs count from the start, at a half-life of an hour and a tick of five minutes (R-75)."""


def taking_turns(gpus: int = 8, half_life_ms: int = HOUR) -> Configuration:
    shared = replace(cluster_queue(gpus=gpus), admission_fair_sharing=True)
    declared = configuration(shared, doors=[local_queue(name="a"), local_queue(name="b")])
    sharing = AdmissionFairSharing(half_life_ms=half_life_ms, sampling_ms=TICK)
    return replace(declared, policy=Policy(admission_fair_sharing=sharing))


@pytest.fixture
def house() -> House:
    return House(taking_turns())


def consumed(house: House, door: str = A) -> float:
    history = house.machine.book.view.histories.get(door)
    return 0.0 if history is None else history.consumed.get(GPU, 0) / (1000 * FINE)


def penalties(house: House, door: str = A) -> list[str]:
    history = house.machine.book.view.histories.get(door)
    return [] if history is None else sorted(history.penalties)


def test_whoever_used_least_goes_first_after_a_restart_too(house: House) -> None:
    house.run(workload("a1", 8, door="a"))
    house.submit(workload("a2", 8, door="a", priority=9))
    house.submit(workload("b1", 8, door="b"))
    house.restart()
    house.finish("a1")
    assert house.kinds("a2", "b1") == ["pending", "reserved"]


def test_constant_use_counts_as_kueue_counts_it(house: House) -> None:
    house.submit(workload("a1", 8, door="a"))
    assert (penalties(house), consumed(house)) == (["a1"], 0.0)
    house.place("a1")
    assert penalties(house) == []
    assert consumed(house) == pytest.approx(PENALTY, abs=5e-5)
    for expected in (0.8728, 1.2728, 1.6504, 2.0068, 2.3431):
        assert house.machine.book.turns.next_ms() == house.now_ms + TICK
        house.cycle(TICK)
        assert consumed(house) == pytest.approx(expected, abs=5e-5)


def test_the_same_answer_twice_settles_once(house: House) -> None:
    asked = workload("a1", 8, door="a")
    house.submit(asked)
    placed = events.GangPlaced(workload_id="a1", attempt=1, placement=placement(asked))
    house.say(placed, "a1")
    first = consumed(house)
    house.say(placed, "a1")
    house.restart()
    house.say(placed, "a1")
    assert consumed(house) == first == pytest.approx(PENALTY, abs=5e-5)


@pytest.mark.parametrize("lost", ["no seats", "cancelled"])
def test_a_lost_reservation_drops_its_penalty(house: House, lost: str) -> None:
    house.submit(workload("a1", 8, door="a"))
    if lost == "no seats":
        house.refuse_seats("a1")
    else:
        house.cancel("a1")
    house.restart()
    assert (penalties(house), consumed(house)) == ([], 0.0)


def test_admitted_again_counts_one_penalty_each_time_and_never_stacks(house: House) -> None:
    house.submit(workload("a1", 8, door="a"))
    house.refuse_seats("a1")
    house.cycle(TICK)
    assert penalties(house) == ["a1"]
    house.place("a1")
    assert penalties(house) == []
    assert consumed(house) == pytest.approx(PENALTY, abs=5e-5)


def test_use_ends_with_the_quota_and_is_forgotten_by_half_lives(house: House) -> None:
    house.run(workload("a1", 8, door="a"))
    house.cancel("a1")
    house.restart()
    house.cycle(TICK)
    assert consumed(house) == pytest.approx(0.8728, abs=5e-5)
    house.release("a1")
    house.cycle(HOUR)
    assert consumed(house) == pytest.approx(0.8728 / 2, abs=5e-5)
    house.cycle(200 * HOUR)
    assert house.machine.book.view.histories == {}
    assert house.machine.book.turns.next_ms() is None


def test_without_half_life_only_entries_count_until_the_next_tick() -> None:
    house = House(taking_turns(half_life_ms=0))
    house.run(workload("a1", 2, door="a"))
    assert consumed(house) == 2.0
    house.finish("a1")
    assert consumed(house) == 2.0
    house.cycle(TICK)
    assert consumed(house) == 0.0


def test_use_that_was_there_counts_from_the_moment_that_turns_are_taken() -> None:
    house = House(replace(taking_turns(), policy=Policy()))
    house.run(workload("a1", 8, door="a"))
    assert house.machine.book.view.histories == {}
    house.configure(taking_turns())
    assert consumed(house) == 0.0
    house.cycle(TICK)
    assert consumed(house) == pytest.approx(PENALTY, abs=5e-5)
    house.configure(replace(taking_turns(), policy=Policy()))
    assert house.machine.book.view.histories == {}
    assert not [name for name in house.stored if name.startswith("u/")]


def test_a_door_that_is_gone_has_no_history(house: House) -> None:
    house.run(workload("a1", 1, door="a"))
    house.run(workload("b1", 1, door="b"))
    declared = taking_turns()
    house.configure(replace(declared, local_queues={B: declared.local_queues[B]}))
    assert list(house.machine.book.view.histories) == [B]


def test_the_turns_and_what_they_go_by_are_shown(house: House) -> None:
    house.run(workload("a1", 4, door="a"))
    house.submit(workload("b1", 4, door="b"))
    rows = turn_rows(house.machine.book.view, "cq")
    assert [(row.local_queue, row.place) for row in rows] == [(A, 0), (B, 1)]
    used = {row.local_queue: (row.consumed_milli, row.penalty_milli) for row in rows}
    assert used[A] == ({GPU: 224}, {})
    assert used[B] == ({}, {GPU: 224})
    assert turn_rows(House(configuration(cluster_queue())).machine.book.view, "cq") == ()


def test_preemption_is_told_what_the_local_queues_used() -> None:
    declared = taking_turns(gpus=4)
    shared = replace(
        declared.cluster_queues["cq"],
        preemption=PreemptionPolicy(within_cluster_queue=WithinClusterQueue.LOWER_PRIORITY),
    )
    house = House(replace(declared, cluster_queues={"cq": shared}))
    house.run(workload("a1", 4, door="a"))
    house.submit(workload("b1", 4, door="b", priority=9))
    (asked,) = house.facts(events.PreemptionRequested)
    assert isinstance(asked, events.PreemptionRequested)
    assert list(asked.used_lately) == [A]
    assert int(asked.used_lately[A][GPU]) == round(consumed(house) * 1000 * FINE)
