"""Victims would free the quota, and there would still be no seats: nobody goes, and it says so."""

import pytest

from muster_contracts import events
from muster_contracts.jobs import Verdict
from muster_domain.conditions import Explanation, PendingReason
from muster_domain.queues import WithinClusterQueue
from muster_testing.builders import cluster_queue, configuration, workload

from .house import House

WHY = Explanation(
    reason=PendingReason.TOPOLOGY_PLACEMENT_FAILED,
    message="the topology fits only 0 out of 1 pods",
    counts={"nodes": 2},
)
ANSWER = events.VictimsNotFound(workload_id="urgent", version=1, explanation=WHY)


@pytest.fixture
def house() -> House:
    """A full queue, and an urgent workload that asked for victims."""
    made = House(configuration(cluster_queue(gpus=4, within=WithinClusterQueue.LOWER_PRIORITY)))
    made.run(workload("small", gpus=4))
    made.submit(workload("urgent", gpus=4, priority=10))
    assert len(made.facts(events.PreemptionRequested)) == 1
    return made


def test_the_reason_is_the_seats(house: House) -> None:
    house.say(ANSWER, "urgent")
    assert house.kinds("small", "urgent") == ["admitted", "pending"]
    decision = house.decisions[-1]
    assert (decision.decision, decision.explanation) == (Verdict.QUEUED, WHY)


def test_the_same_answer_again_says_nothing(house: House) -> None:
    house.say(ANSWER, "urgent")
    stored, said = dict(house.stored), list(house.said)
    house.say(ANSWER, "urgent")
    assert (house.stored, house.said) == (stored, said)


def test_a_new_owner_knows_why_it_waits(house: House) -> None:
    house.say(ANSWER, "urgent")
    before = house.machine.book.records["urgent"]
    house.restart()
    assert house.machine.book.records["urgent"] == before
    assert list(house.machine.book.unseated) == ["urgent"]


def test_it_asks_again_when_seats_come_free(house: House) -> None:
    house.say(ANSWER, "urgent")
    house.say(events.CapacityChanged(message="seats came free"))
    assert len(house.facts(events.PreemptionRequested)) == 2


def test_an_unchanged_answer_to_a_new_question_is_not_said_again(house: House) -> None:
    house.say(ANSWER, "urgent")
    house.say(events.CapacityChanged(message="seats came free"))
    decisions, requeued = len(house.decisions), len(house.facts(events.WorkloadRequeued))
    house.say(ANSWER, "urgent")
    assert (len(house.decisions), len(house.facts(events.WorkloadRequeued))) == (
        decisions,
        requeued,
    )


def test_it_is_admitted_like_any_other_once_there_is_room(house: House) -> None:
    house.say(ANSWER, "urgent")
    house.finish("small")
    assert house.kind("urgent") == "reserved"
    assert list(house.machine.book.unseated) == []
