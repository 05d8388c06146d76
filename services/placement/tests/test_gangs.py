"""What becomes of a gang: every phase against every fact, and that a fact again changes nothing."""

from collections.abc import Callable

import pytest

from muster_contracts import events
from muster_domain.conditions import Outcome, UnplaceableReason
from muster_placement.record import GangPhase, PodPhase
from muster_testing.builders import node, workload

from .house import House, two_nodes

PAIR = workload(gpus=4, pods=2)
"""Two pods, each of which fills a node."""


def bound(house: House) -> None:
    house.reserve(PAIR)


def starting(house: House) -> None:
    house.reserve(PAIR)
    house.confirm()


def running(house: House) -> None:
    house.run(PAIR)


def half_done(house: House) -> None:
    running(house)
    house.pod_ended(0)


def ending(house: House) -> None:
    """One pod failed; the other is being stopped."""
    running(house)
    house.pod_ended(0, code=1)


def stopping(house: House) -> None:
    running(house)
    house.evict()


def half_stopped(house: House) -> None:
    stopping(house)
    house.pod_ended(0, code=143, stopped=True)


def lost(house: House) -> None:
    """The first pod was stopped by its node; admission has not evicted the gang yet."""
    running(house)
    house.pod_ended(0, code=143, stopped=True)


def gone(house: House) -> None:
    running(house)
    house.pod_ended(0)
    house.pod_ended(1)


PHASES: dict[str, Callable[[House], None]] = {
    phase.__name__: phase
    for phase in (
        bound,
        starting,
        running,
        half_done,
        ending,
        stopping,
        half_stopped,
        lost,
        gone,
    )
}
FACTS: dict[str, Callable[[House], object]] = {
    "reserved": lambda house: house.reserve(PAIR),
    "confirmed": lambda house: house.confirm(),
    "evicted": lambda house: house.evict(),
    "ended": lambda house: house.end(),
    "started 0": lambda house: house.pod_started(0),
    "started 1": lambda house: house.pod_started(1),
    "succeeded 1": lambda house: house.pod_ended(1),
    "failed 1": lambda house: house.pod_ended(1, code=3),
    "stopped 1": lambda house: house.pod_ended(1, code=143, stopped=True),
}
FREE = "seats are free"
BECOMES = {
    ("bound", "confirmed"): GangPhase.RUNNING,
    ("bound", "evicted"): FREE,
    ("bound", "ended"): FREE,
    ("starting", "evicted"): GangPhase.STOPPING,
    ("starting", "ended"): GangPhase.STOPPING,
    ("starting", "failed 1"): GangPhase.ENDING,
    ("running", "evicted"): GangPhase.STOPPING,
    ("running", "ended"): GangPhase.STOPPING,
    ("running", "failed 1"): GangPhase.ENDING,
    ("half_done", "evicted"): GangPhase.STOPPING,
    ("half_done", "ended"): GangPhase.STOPPING,
    ("half_done", "succeeded 1"): FREE,
    ("half_done", "failed 1"): FREE,
    ("ending", "evicted"): GangPhase.STOPPING,
    ("ending", "ended"): GangPhase.STOPPING,
    ("ending", "succeeded 1"): FREE,
    ("ending", "failed 1"): FREE,
    ("ending", "stopped 1"): FREE,
    ("half_stopped", "succeeded 1"): FREE,
    ("half_stopped", "failed 1"): FREE,
    ("half_stopped", "stopped 1"): FREE,
    ("lost", "evicted"): GangPhase.STOPPING,
    ("lost", "ended"): GangPhase.STOPPING,
}


def phase_of(house: House) -> GangPhase | str:
    return house.phase() or FREE


@pytest.mark.parametrize("fact", list(FACTS))
@pytest.mark.parametrize("phase", list(PHASES))
def test_what_a_fact_makes_of_a_phase(phase: str, fact: str) -> None:
    house = two_nodes()
    PHASES[phase](house)
    before = phase_of(house)
    FACTS[fact](house)
    assert phase_of(house) == BECOMES.get((phase, fact), before)


@pytest.mark.parametrize("fact", list(FACTS))
@pytest.mark.parametrize("phase", list(PHASES))
def test_the_same_fact_again_says_nothing_new(phase: str, fact: str) -> None:
    house = two_nodes()
    PHASES[phase](house)
    FACTS[fact](house)
    stored, said, commands = dict(house.stored), list(house.said), list(house.commands)
    FACTS[fact](house)
    released = [each for each in house.said[len(said) :] if not is_release(each)]
    assert released == []
    assert house.commands == commands
    assert house.stored == stored


def is_release(fact: events.Event) -> bool:
    """Who asks for a gang that is gone is told so again."""
    return isinstance(fact, events.GangReleased)


@pytest.mark.parametrize("phase", list(PHASES))
def test_a_crash_in_any_phase_loses_nothing(phase: str) -> None:
    house = two_nodes()
    PHASES[phase](house)
    gangs, free = dict(house.machine.floor.gangs), house.free("n1")
    house.restart()
    assert not house.cycle()
    assert dict(house.machine.floor.gangs) == gangs
    assert house.free("n1") == free


def test_all_members_are_seated_or_none() -> None:
    house = two_nodes()
    house.reserve(workload("large", gpus=4, pods=3))
    assert house.gang("large") is None
    assert (house.free("n1"), house.free("n2")) == (4, 4)
    refused = house.last(events.GangUnplaceable)
    assert isinstance(refused, events.GangUnplaceable)
    assert refused.explanation.reason == UnplaceableReason.GANG_INCOMPLETE
    assert "2 of 3 members" in refused.explanation.message


def test_no_pod_is_started_before_admission_confirms() -> None:
    house = two_nodes()
    house.reserve(PAIR)
    assert house.commands == []
    house.confirm()
    assert house.starts() == ["w1-1-0", "w1-1-1"]
    assert {where for where, _ in house.commands} == {"n1", "n2"}


def test_a_gang_is_said_to_run_once_all_of_it_does() -> None:
    house = two_nodes()
    starting(house)
    house.pod_started(0)
    assert house.count(events.GangStarted) == 0
    house.pod_started(1)
    assert house.count(events.GangStarted) == 1


def test_pods_that_end_before_they_were_seen_to_run_have_ended_all_the_same() -> None:
    house = two_nodes()
    starting(house)
    house.pod_ended(0)
    house.pod_ended(1)
    done = house.last(events.GangFinished)
    assert isinstance(done, events.GangFinished)
    assert done.outcome is Outcome.SUCCEEDED
    assert (house.free("n1"), house.free("n2")) == (4, 4)


def test_one_failure_ends_the_others_and_is_the_reason() -> None:
    house = two_nodes()
    ending(house)
    assert house.stops() == ["w1-1-1"]
    house.pod_ended(1, code=143, stopped=True)
    done = house.last(events.GangFinished)
    assert isinstance(done, events.GangFinished)
    assert done.outcome is Outcome.FAILED
    assert "w1-1-0" in done.message
    assert "1" in done.message


def test_seats_are_free_only_when_nothing_runs_any_more() -> None:
    house = two_nodes()
    stopping(house)
    assert house.stops() == ["w1-1-0", "w1-1-1"]
    assert (house.free("n1"), house.free("n2")) == (0, 0)
    house.pod_ended(0, code=143, stopped=True)
    assert house.count(events.GangReleased) == 0
    house.pod_ended(1, code=143, stopped=True)
    assert house.count(events.GangReleased) == 1
    assert (house.free("n1"), house.free("n2")) == (4, 4)


def test_a_pod_that_its_node_stopped_loses_the_gang_once() -> None:
    house = two_nodes()
    lost(house)
    assert house.count(events.GangLost) == 1
    house.pod_ended(1, code=143, stopped=True)
    assert house.count(events.GangLost) == 1
    house.evict()
    assert house.count(events.GangReleased) == 1
    assert house.gang() is None


def test_a_gang_that_lost_a_member_does_not_fail_by_what_that_does_to_the_others() -> None:
    house = two_nodes()
    lost(house)
    house.pod_ended(1, code=1)
    assert house.count(events.GangFinished) == 0
    house.evict()
    assert house.count(events.GangReleased) == 1
    assert house.count(events.GangFinished) == 0


def test_a_gang_that_was_to_leave_and_succeeded_first_has_succeeded() -> None:
    house = two_nodes()
    running(house)
    house.hear_node(events.DrainRequested(node="n1", drained=True), "n1")
    house.pod_ended(0)
    house.pod_ended(1)
    done = house.last(events.GangFinished)
    assert isinstance(done, events.GangFinished)
    assert done.outcome is Outcome.SUCCEEDED


def test_a_pod_is_over_for_ever() -> None:
    house = two_nodes()
    half_done(house)
    house.pod_started(0)
    house.pod_ended(0, code=9)
    assert house.pods() == [PodPhase.SUCCEEDED, PodPhase.STARTED]


def test_an_external_job_has_seats_and_no_pods() -> None:
    house = two_nodes()
    house.reserve(workload(gpus=4, pods=2, lease_ms=5_000))
    house.confirm()
    assert house.commands == []
    assert (house.free("n1"), house.free("n2")) == (0, 0)
    house.evict()
    assert house.count(events.GangReleased) == 1
    assert (house.free("n1"), house.free("n2")) == (4, 4)


def test_an_old_attempt_means_nothing_to_the_present_one() -> None:
    house = two_nodes()
    house.run(PAIR)
    house.evict()
    for rank in (0, 1):
        house.pod_ended(rank, code=143, stopped=True)
    house.reserve(PAIR, attempt=2)
    house.confirm(attempt=2)
    before = house.pods()
    house.pod_ended(0, code=1, attempt=1)
    house.pod_started(1, attempt=1)
    house.confirm(attempt=1)
    assert house.pods() == before
    house.evict(attempt=1)
    assert house.phase() is GangPhase.RUNNING


@pytest.mark.parametrize("how", ["evicted", "finished", "unplaceable"])
def test_a_late_echo_of_a_reservation_seats_nobody(how: str) -> None:
    house = two_nodes()
    asked = workload("late", gpus=4, pods=3 if how == "unplaceable" else 1)
    house.reserve(asked)
    if how == "evicted":
        house.evict("late")
    if how == "finished":
        house.confirm("late")
        house.pod_ended(0, identity="late")
    assert house.gang("late") is None
    placed = house.count(events.GangPlaced)
    house.restart()
    house.reserve(asked)
    assert house.gang("late") is None
    assert house.count(events.GangPlaced) == placed
    house.reserve(asked, attempt=2)
    assert (house.gang("late") is None) == (how == "unplaceable")


def test_an_eviction_that_comes_before_its_reservation_is_remembered() -> None:
    house = two_nodes()
    house.evict("w1")
    assert house.count(events.GangReleased) == 1
    house.reserve(PAIR)
    assert house.gang() is None


def test_capacity_that_came_free_is_said_when_somebody_found_none() -> None:
    house = two_nodes()
    house.run(PAIR)
    house.reserve(workload("next", gpus=1))
    assert house.count(events.GangUnplaceable) == 1
    assert house.count(events.CapacityChanged) == 0
    house.pod_ended(0)
    house.pod_ended(1)
    assert house.count(events.CapacityChanged) == 1
    house.run(workload("w2"))
    house.pod_ended(0, identity="w2")
    assert house.count(events.CapacityChanged) == 1, "nobody waits for it"


def test_requests_are_seated_in_the_order_of_asking() -> None:
    house = House()
    house.knows_flavors = False
    house.restart()
    house.register(node("n1", 2))
    for identity in ("b", "c", "a"):
        house.reserve(workload(identity, gpus=1))
    assert house.machine.floor.gangs == {}
    house.learn_flavors()
    assert set(house.machine.floor.gangs) == {"b", "c"}


def test_who_waits_for_a_flavor_does_not_keep_placement_busy() -> None:
    house = House()
    house.knows_flavors = False
    house.restart()
    house.register(node("n1", 4))
    house.reserve(workload("w1"))
    wake_ms = house.machine.wake_at_ms()
    assert wake_ms is not None
    assert wake_ms > house.now_ms
    house.evict("w1")
    assert house.machine.floor.requests == {}
    house.learn_flavors()
    assert house.gang("w1") is None


def test_a_burst_is_seated_over_several_commits() -> None:
    house = House()
    house.settings = house.settings.model_copy(update={"placements_max": 3})
    house.restart()
    house.register(node("n1", 8))
    house.knows_flavors = False
    house.restart()
    for number in range(8):
        house.reserve(workload(f"w{number}", gpus=1))
    house.learn_flavors()
    assert len(house.machine.floor.gangs) == 3
    assert house.machine.wake_at_ms() == 0
    house.cycle()
    house.cycle()
    assert len(house.machine.floor.gangs) == 8
    assert house.machine.wake_at_ms() != 0
