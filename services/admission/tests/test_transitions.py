"""Every state against every fact: what it becomes, and that the same fact again changes nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from muster_contracts import events
from muster_contracts.jobs import Verdict
from muster_domain.conditions import EvictionReason, Outcome
from muster_domain.nodes import Placement
from muster_domain.states import Admitted, Evicting, Finished, Pending
from muster_domain.workload import Workload
from muster_testing.builders import (
    T0_MS,
    cluster_queue,
    configuration,
    placement,
    submitted,
    workload,
)

from .house import NO_SEATS, House

JOB = workload()
EXTERNAL = workload(lease_ms=60_000)


def house() -> House:
    return House(configuration(cluster_queue(gpus=4)))


def pending(house: House) -> None:
    """Waits behind one that holds all quota."""
    house.run(workload("hog", gpus=4))
    house.submit(JOB)


def reserved(house: House) -> None:
    house.submit(JOB)


def admitted(house: House) -> None:
    house.submit(JOB)
    house.place()


def running(house: House) -> None:
    house.run(JOB)


def held(house: House) -> None:
    """An external job that is admitted."""
    house.submit(EXTERNAL)
    house.place()


def evicting(house: House) -> None:
    """Waits again once it is released."""
    house.run(JOB)
    house.say(events.GangLost(workload_id="w1", attempt=1, node="n1"))


def ending(house: House) -> None:
    """Has ended once it is released."""
    house.run(JOB)
    house.cancel()


def finished(house: House) -> None:
    house.run(JOB)
    house.finish()


def moved(job: Workload, where: str) -> Placement:
    """All its seats, after a lost node was replaced."""
    pods = placement(job, where).pods
    return Placement(pods=tuple(replace(pod, replacement=1) for pod in pods))


STATES: dict[str, Callable[[House], None]] = {
    state.__name__: state
    for state in (pending, reserved, admitted, running, held, evicting, ending, finished)
}


def facts(attempt: int) -> dict[str, events.Event]:
    """Every fact that may come about the workload."""
    return {
        "submitted": submitted(JOB),
        "cancel": events.CancelRequested(workload_id="w1"),
        "reported": events.FinishReported(workload_id="w1", outcome=Outcome.FAILED),
        "renewed": events.LeaseRenewed(workload_id="w1"),
        "saved": events.CheckpointReported(workload_id="w1", at_ms=T0_MS + 1, attempt=attempt),
        "placed": events.GangPlaced(
            workload_id="w1", attempt=attempt, placement=placement(JOB, "n2")
        ),
        "reseated": events.GangPlaced(
            workload_id="w1", attempt=attempt, placement=moved(JOB, "n3"), message="n2 is fenced"
        ),
        "unplaceable": events.GangUnplaceable(
            workload_id="w1", attempt=attempt, explanation=NO_SEATS
        ),
        "started": events.GangStarted(workload_id="w1", attempt=attempt),
        "ended": events.GangFinished(workload_id="w1", attempt=attempt, outcome=Outcome.SUCCEEDED),
        "lost": events.GangLost(workload_id="w1", attempt=attempt, node="n1"),
        "released": events.GangReleased(workload_id="w1", attempt=attempt),
        "capacity": events.CapacityChanged(),
    }


OF_GANG = ("placed", "reseated", "unplaceable", "started", "ended", "lost", "released")
BECOMES = {
    ("pending", "cancel"): "finished",
    ("reserved", "cancel"): "evicting",
    ("reserved", "placed"): "admitted",
    ("reserved", "reseated"): "admitted",
    ("reserved", "unplaceable"): "pending",
    ("reserved", "lost"): "evicting",
    ("admitted", "cancel"): "evicting",
    ("admitted", "ended"): "finished",
    ("admitted", "lost"): "evicting",
    ("running", "cancel"): "evicting",
    ("running", "ended"): "finished",
    ("running", "lost"): "evicting",
    ("held", "cancel"): "evicting",
    ("held", "reported"): "evicting",
    ("held", "ended"): "finished",
    ("held", "lost"): "evicting",
    ("evicting", "ended"): "finished",
    ("evicting", "released"): "reserved",
    ("ending", "ended"): "finished",
    ("ending", "released"): "finished",
}
"""What is not here leaves the kind of the state as it is. `evicting` that is released waits again,
and gets quota in the same cycle."""


@pytest.mark.parametrize("name", list(facts(1)))
@pytest.mark.parametrize("state", list(STATES))
def test_what_a_fact_makes_of_a_state(state: str, name: str) -> None:
    place = house()
    STATES[state](place)
    before = place.kind()
    fact = facts(place.attempt())[name]
    place.say(fact)
    assert place.kind() == BECOMES.get((state, name), before)


@pytest.mark.parametrize("name", list(facts(1)))
@pytest.mark.parametrize("state", list(STATES))
def test_the_same_fact_again_changes_nothing(state: str, name: str) -> None:
    place = house()
    STATES[state](place)
    fact = facts(place.attempt())[name]
    place.say(fact)
    records, stored = dict(place.machine.book.records), dict(place.stored)
    changes = place.say(fact)
    assert place.machine.book.records == records
    assert place.stored == stored
    assert changes.outbox == ()


@pytest.mark.parametrize("name", OF_GANG)
@pytest.mark.parametrize("state", [state for state in STATES if state != "pending"])
def test_facts_of_another_attempt_change_nothing(state: str, name: str) -> None:
    place = house()
    STATES[state](place)
    records = dict(place.machine.book.records)
    for attempt in (place.attempt() - 1, place.attempt() + 1):
        changes = place.say(facts(attempt)[name])
        assert place.machine.book.records == records
        assert not changes


def test_nothing_is_said_twice_when_the_whole_log_comes_twice() -> None:
    once, twice = house(), house()
    story = [
        submitted(JOB),
        *(facts(1)[name] for name in ("placed", "started", "lost", "released")),
        *(facts(2)[name] for name in ("placed", "started", "ended")),
    ]
    for fact in story:
        once.say(fact)
        twice.say(fact)
        twice.say(fact)
    for fact in story:
        twice.say(fact)
    assert twice.said == once.said
    assert twice.decisions == once.decisions
    assert twice.stored == once.stored


def test_a_crash_between_any_two_facts_changes_nothing() -> None:
    whole, broken = house(), house()
    story = [
        submitted(JOB),
        *(facts(1)[name] for name in ("placed", "started", "lost", "released")),
        *(facts(2)[name] for name in ("placed", "started", "ended")),
    ]
    for fact in story:
        whole.say(fact)
        broken.say(fact)
        broken.restart()
    assert broken.said == whole.said
    assert broken.stored == whole.stored


def test_a_workload_on_its_way_is_charged_until_its_seats_are_free() -> None:
    place = house()
    place.run(workload(gpus=4))
    place.submit(workload("w2", gpus=4))
    place.cancel()
    assert place.kinds("w1", "w2") == ["evicting", "pending"]
    place.release()
    assert place.kinds("w1", "w2") == ["finished", "reserved"]


def test_a_lost_gang_is_evicted_whole_and_gets_another_attempt() -> None:
    place = house()
    place.run(workload(pods=3))
    place.say(events.GangLost(workload_id="w1", attempt=1, node="n1", message="n1 burns"))
    state = place.state()
    assert isinstance(state, Evicting)
    assert (state.reason, state.message) == (EvictionReason.NODE_FAILURES, "n1 burns")
    place.release()
    assert (place.kind(), place.attempt()) == ("reserved", 2)


def test_a_cancelled_eviction_ends_instead_of_waiting_again() -> None:
    place = house()
    evicting(place)
    place.cancel()
    place.release()
    state = place.state()
    assert isinstance(state, Finished)
    assert state.outcome is Outcome.CANCELLED


def test_what_ended_by_itself_while_it_was_evicted_has_succeeded() -> None:
    place = house()
    evicting(place)
    place.finish()
    state = place.state()
    assert isinstance(state, Finished)
    assert state.outcome is Outcome.SUCCEEDED


def test_a_report_about_a_managed_job_is_not_believed() -> None:
    place = house()
    running(place)
    assert not place.say(events.FinishReported(workload_id="w1", outcome=Outcome.SUCCEEDED))
    assert place.kind() == "admitted"


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED])
def test_an_external_job_ends_as_its_holder_says(outcome: Outcome) -> None:
    place = house()
    held(place)
    place.say(events.FinishReported(workload_id="w1", outcome=outcome))
    place.release()
    state = place.state()
    assert isinstance(state, Finished)
    assert state.outcome is outcome


def test_an_order_from_another_namespace_is_not_obeyed() -> None:
    place = house()
    running(place)
    assert not place.say(events.CancelRequested(workload_id="w1"), namespace="team-b")
    assert place.kind() == "admitted"


def test_no_seats_give_quota_back_and_the_next_try_waits_longer() -> None:
    place = house()
    place.submit(JOB)
    waits: list[int] = []
    for _ in range(8):
        place.refuse_seats()
        state = place.state()
        assert isinstance(state, Pending)
        assert state.requeue_at_ms is not None
        waits.append(state.requeue_at_ms - place.now_ms)
        assert not place.cycle(waits[-1] - 1), "it was tried before its time"
        place.cycle(1)
        assert place.kind() == "reserved"
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_new_capacity_ends_the_wait_for_seats() -> None:
    place = house()
    place.submit(JOB)
    place.refuse_seats()
    place.say(events.CapacityChanged(), "_")
    assert (place.kind(), place.attempt()) == ("reserved", 2)


def test_other_seats_of_one_that_runs_are_said_and_keep_its_time() -> None:
    place = house()
    place.run(JOB)
    before = place.machine.book.records["w1"].state
    place.say(facts(1)["reseated"])
    after = place.machine.book.records["w1"].state
    assert isinstance(before, Admitted)
    assert after == replace(before, placement=moved(JOB, "n3"), seated_because="n2 is fenced")
    assert isinstance(place.said[-1], events.WorkloadAdmitted)
    assert [seat.node for seat in place.decisions[-1].assignments] == ["n3"]


def test_the_first_seats_heard_again_do_not_undo_a_replacement() -> None:
    place = house()
    place.run(JOB)
    place.say(facts(1)["reseated"])
    records = dict(place.machine.book.records)
    assert not place.say(facts(1)["placed"])
    assert place.machine.book.records == records


def test_people_hear_of_an_end_once_and_when_nothing_runs_any_more() -> None:
    place = house()
    running(place)
    told = len(place.decisions)
    place.cancel()
    assert (place.kind(), len(place.decisions)) == ("evicting", told)
    place.release()
    assert [found.decision for found in place.decisions[told:]] == [Verdict.FINISHED]
    assert place.decisions[-1].outcome is Outcome.CANCELLED
