"""A workload that is not active holds nothing and is not looked at; said twice is said once."""

import pytest

from muster_admission.rows import queue_row
from muster_contracts import events
from muster_contracts.jobs import Verdict
from muster_domain.conditions import EvictionReason, PendingReason, RequeuedReason
from muster_domain.states import Evicting, Pending, Requeue
from muster_domain.workload import ADMISSION_GATES
from muster_testing.builders import cluster_queue, configuration, workload

from .house import House


@pytest.fixture
def house() -> House:
    return House(configuration(cluster_queue(gpus=4)))


def wish(active: bool, at_ms: int, identity: str = "w1") -> events.ActivationRequested:  # noqa: FBT001 - what is wished
    return events.ActivationRequested(workload_id=identity, active=active, at_ms=at_ms, by="ann")


def pending(house: House, identity: str = "w1") -> Pending:
    state = house.state(identity)
    assert isinstance(state, Pending)
    return state


def test_what_runs_gives_everything_back_and_then_waits_for_a_person(house: House) -> None:
    house.run()
    house.say(wish(active=False, at_ms=1))
    state = house.state()
    assert isinstance(state, Evicting)
    assert (state.reason, state.then) == (EvictionReason.DEACTIVATED, Requeue(active=False))
    house.release()
    assert not pending(house).active
    assert house.decisions[-1].reason == PendingReason.DEACTIVATED
    house.submit(workload("w2", 4))
    assert house.kinds("w1", "w2") == ["pending", "reserved"]


def test_it_comes_back_when_it_is_active_again(house: House) -> None:
    house.run()
    house.say(wish(active=False, at_ms=1))
    house.release()
    house.restart()
    house.say(wish(active=True, at_ms=2))
    assert house.kind() == "reserved"
    requeued = [fact for fact in house.said if isinstance(fact, events.WorkloadRequeued)]
    assert requeued[-1].state.requeued is RequeuedReason.REACTIVATED


def test_the_same_wish_twice_is_one_wish(house: House) -> None:
    house.submit()
    house.say(wish(active=False, at_ms=1))
    assert not house.say(wish(active=False, at_ms=1))


def test_a_wish_that_comes_late_does_not_undo_a_later_one(house: House) -> None:
    house.submit(workload(active=False))
    house.say(wish(active=True, at_ms=2))
    assert not house.say(wish(active=False, at_ms=1))
    assert house.kind() == "reserved"


def test_who_was_asked_back_while_leaving_waits_in_line(house: House) -> None:
    house.run()
    house.say(wish(active=False, at_ms=1))
    house.say(wish(active=True, at_ms=2))
    house.release()
    assert (house.kind(), house.attempt()) == ("reserved", 2)


def test_a_job_may_be_sent_inactive(house: House) -> None:
    asked = workload(active=False)
    house.submit(asked)
    assert pending(house).explanation.reason == PendingReason.DEACTIVATED
    assert house.decisions[-1].decision is Verdict.QUEUED
    house.say(wish(active=True, at_ms=1))
    assert house.kind() == "reserved"


def test_back_offs_are_forgotten_by_a_deactivation(house: House) -> None:
    house.submit()
    house.place()
    house.cycle(house.settings.pods_ready_timeout_ms)
    house.release()
    assert pending(house).requeue_count == 1
    house.say(wish(active=False, at_ms=1))
    assert pending(house).requeue_count == 0


def test_one_that_has_ended_stays_ended(house: House) -> None:
    house.run()
    house.finish()
    assert not house.say(wish(active=True, at_ms=1))


def test_cancelling_ends_one_that_is_not_active(house: House) -> None:
    house.submit(workload(active=False))
    house.cancel()
    assert house.kind() == "finished"


def test_a_strange_namespace_may_not(house: House) -> None:
    house.submit()
    assert not house.say(wish(active=False, at_ms=1), namespace="team-b")


def test_the_count_of_those_who_wait_has_those_who_are_not_active(house: House) -> None:
    house.submit(workload(active=False))
    book = house.machine.book
    row = queue_row(book, book.view.catalog.queues["cq"])
    assert (row.pending, row.inadmissible) == (1, 1)


def test_a_gated_job_waits_until_somebody_opens_its_gates(house: House) -> None:
    gates = {ADMISSION_GATES: "example.com/data, example.com/review"}
    house.submit(workload(annotations=gates))
    last = house.decisions[-1]
    assert last.reason == PendingReason.ADMISSION_GATED
    assert last.message == "held by the admission gates example.com/data, example.com/review"
    house.restart()
    assert not house.cycle(10**6)
    house.say(wish(active=True, at_ms=house.now_ms))
    assert house.kind() == "reserved"


def test_no_gate_between_commas_is_no_gate(house: House) -> None:
    house.submit(workload(annotations={ADMISSION_GATES: " , "}))
    assert house.kind() == "reserved"
