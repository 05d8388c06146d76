"""A Volcano session found who would have to go: all of them leave their seats, or none does."""

from dataclasses import replace

import pytest

from muster_contracts import events
from muster_domain.conditions import EvictionReason, Outcome, PreemptionReason
from muster_domain.job_policies import JobAction, JobEvent, JobPolicies, JobPolicy
from muster_domain.states import End, Evicting, Requeue
from muster_testing.builders import cluster_queue, configuration, workload

from .house import NO_SEATS, House


def proposing(*victims: events.Victim, attempt: int = 1) -> events.GangUnplaceable:
    return events.GangUnplaceable(
        workload_id="w1", attempt=attempt, explanation=NO_SEATS, victims=victims
    )


def victim(identity: str, attempt: int = 1) -> events.Victim:
    return events.Victim(
        workload_id=identity, attempt=attempt, reason=PreemptionReason.IN_COHORT_RECLAMATION
    )


@pytest.fixture
def crowded() -> House:
    """Two run, and a third has quota and no seats."""
    house = House(configuration(cluster_queue(gpus=8)))
    for identity in ("a", "b"):
        house.run(workload(identity, gpus=2))
    house.submit(workload(gpus=2))
    return house


def test_those_in_the_way_leave_their_seats(crowded: House) -> None:
    crowded.say(proposing(victim("a"), victim("b")))
    assert crowded.kinds("a", "b", "w1") == ["evicting", "evicting", "pending"]
    state = crowded.state("a")
    assert isinstance(state, Evicting)
    assert (state.reason, state.preemptor) == (EvictionReason.PREEMPTED, "w1")
    assert state.message == "leaves its seats for team-a/job-w1"


def test_all_of_them_leave_or_none(crowded: House) -> None:
    crowded.say(proposing(victim("a"), victim("b", attempt=2)))
    assert crowded.kinds("a", "b", "w1") == ["admitted", "admitted", "pending"]


def test_a_proposal_that_comes_twice_evicts_once(crowded: House) -> None:
    crowded.say(proposing(victim("a")))
    crowded.say(proposing(victim("a")))
    assert len(crowded.facts(events.WorkloadEvicted)) == 1


def test_nobody_leaves_for_one_that_waits_no_more(crowded: House) -> None:
    crowded.cancel()
    crowded.say(proposing(victim("a")))
    assert crowded.kind("a") == "admitted"


@pytest.mark.parametrize(
    ("action", "then"),
    [
        (JobAction.TERMINATE_JOB, End(outcome=Outcome.FAILED, message="TerminateJob: TOLD")),
        (JobAction.COMPLETE_JOB, End(outcome=Outcome.SUCCEEDED, message="CompleteJob: TOLD")),
        (JobAction.ABORT_JOB, Requeue(active=False)),
        (JobAction.RESTART_JOB, Requeue()),
    ],
)
def test_a_volcano_job_follows_its_policies_when_a_preemptor_takes_its_seats(
    action: JobAction, then: Requeue | End
) -> None:
    policy = JobPolicy(action=action, events=(JobEvent.POD_EVICTED,))
    policies = JobPolicies(min_available=1, tasks=(), policies=(policy,))
    house = House(configuration(cluster_queue(gpus=8)))
    house.run(replace(workload("a", gpus=2), job_policies=policies))
    house.submit(workload(gpus=2))
    house.say(proposing(victim("a")))
    state = house.state("a")
    assert isinstance(state, Evicting)
    if isinstance(then, End):
        then = replace(
            then, message=then.message.replace("TOLD", "leaves its seats for team-a/job-w1")
        )
    assert state.then == then
    house.release("a")
    assert (house.kind("a") == "finished") is isinstance(then, End)
