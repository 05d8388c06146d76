"""Volcano Jobs: which event of a pod leads to what, and that a crash in between changes nothing."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from muster_contracts import events
from muster_domain.conditions import Outcome
from muster_domain.job_policies import (
    JobAction,
    JobEvent,
    JobPolicies,
    JobPolicy,
    TaskPolicies,
)
from muster_domain.workload import PodSet, Workload
from muster_placement.record import GangPhase
from muster_scheduling.jobs.life import PodPhase
from muster_testing.builders import GPU, workload

from .house import House, two_nodes

PS, WORKER = "ps", "worker"
MINUTE_MS = 60_000


def on(
    action: JobAction, *named: JobEvent, code: int | None = None, after_ms: int | None = None
) -> JobPolicy:
    return JobPolicy(action=action, events=named, exit_code=code, timeout_ms=after_ms)


def job(
    *policies: JobPolicy,
    retries: int = 3,
    min_success: int | None = None,
    depends: bool = False,
    partition_size: int = 0,
) -> Workload:
    """One parameter server and three workers, all of which the job needs."""
    sets = (
        PodSet(name=PS, count=1, requests={GPU: 1000}),
        PodSet(name=WORKER, count=3, requests={GPU: 1000}),
    )
    worker = TaskPolicies(
        name=WORKER,
        min_available=3,
        depends_on=(PS,) if depends else (),
        partition_size=partition_size,
    )
    life = JobPolicies(
        min_available=4,
        tasks=(TaskPolicies(name=PS, min_available=1), worker),
        policies=policies,
        max_retry=retries,
        min_success=min_success,
    )
    return replace(workload(), pod_sets=sets, job_policies=life)


@pytest.fixture
def house() -> House:
    return two_nodes()


def finished(house: House) -> tuple[Outcome, str]:
    fact = house.last(events.GangFinished)
    assert isinstance(fact, events.GangFinished)
    return fact.outcome, fact.message


def stop_all(house: House, uids: Iterable[str]) -> None:
    """The agents stop what they were told to."""
    gang = house.gang()
    assert gang is not None
    ranks = {house.uid(seat.rank): seat.rank for seat in gang.gang.placement.pods}
    for uid in uids:
        if uid in ranks:
            house.pod_ended(ranks[uid], code=143, stopped=True)


def test_without_a_policy_the_others_run_on_and_the_minimum_decides(house: House) -> None:
    house.run(job())
    house.pod_ended(1, code=1)
    assert house.phase() is GangPhase.RUNNING
    assert house.stops() == []
    for rank in (0, 2, 3):
        house.pod_ended(rank)
    assert finished(house) == (
        Outcome.FAILED,
        "2 pods of worker succeeded, minAvailable 3",
    )


def test_a_job_whose_pods_all_succeed_has_succeeded(house: House) -> None:
    house.run(job())
    for rank in range(4):
        house.pod_ended(rank)
    assert finished(house) == (Outcome.SUCCEEDED, "4 of 4 pods succeeded, minAvailable 4")
    assert house.gang() is None


def test_what_is_done_is_said_while_the_others_run(house: House) -> None:
    house.run(job())
    house.pod_ended(1)
    fact = house.last(events.PodsSucceeded)
    assert isinstance(fact, events.PodsSucceeded)
    assert fact.counts == {WORKER: 1}


def test_enough_successes_end_the_job_and_stop_the_rest(house: House) -> None:
    house.run(job(min_success=2))
    house.pod_ended(1)
    house.pod_ended(2)
    assert house.phase() is GangPhase.ENDING
    stop_all(house, house.stops())
    assert finished(house) == (Outcome.SUCCEEDED, "2 pods succeeded, minSuccess 2")


@pytest.mark.parametrize(
    ("action", "stopped", "anew"),
    [
        (JobAction.RESTART_POD, [], ["w1-1-2-r1"]),
        (JobAction.RESTART_PARTITION, [], ["w1-1-2-r1"]),
        (JobAction.RESTART_TASK, ["w1-1-3"], ["w1-1-2-r1", "w1-1-3-r1"]),
        (JobAction.RESTART_JOB, ["w1-1-0", "w1-1-3"], ["w1-1-0-r1", "w1-1-2-r1", "w1-1-3-r1"]),
    ],
)
def test_a_restart_runs_anew_what_it_names_in_the_same_seats(
    house: House, action: JobAction, stopped: list[str], anew: list[str]
) -> None:
    house.run(job(on(action, JobEvent.POD_FAILED)))
    seats = house.gang()
    house.pod_ended(1)
    house.commands.clear()
    house.pod_ended(2, code=1)
    assert house.stops() == stopped
    stop_all(house, stopped)
    assert sorted(house.starts()) == anew
    gang = house.gang()
    assert gang is not None
    assert seats is not None
    assert gang.gang == seats.gang
    assert (gang.retries, gang.renewing) == (1, ())
    assert events.GangLost not in {type(fact) for fact in house.said}


def test_a_partition_restarts_together(house: House) -> None:
    policy = on(JobAction.RESTART_PARTITION, JobEvent.POD_FAILED)
    house.run(job(policy, partition_size=2))
    house.commands.clear()
    house.pod_ended(2, code=1)
    stop_all(house, house.stops())
    assert sorted(house.starts()) == ["w1-1-1-r1", "w1-1-2-r1"]


def test_a_job_that_is_restarted_stalls_and_starts_again(house: House) -> None:
    house.run(job(on(JobAction.RESTART_POD, JobEvent.POD_FAILED)))
    house.pod_ended(2, code=1)
    assert house.count(events.GangStalled) == 1
    house.pod_started(2)
    assert house.count(events.GangStarted) == 2


def test_a_job_fails_when_it_was_restarted_as_often_as_it_may(house: House) -> None:
    house.run(job(on(JobAction.RESTART_POD, JobEvent.POD_FAILED), retries=2))
    for _ in range(2):
        house.pod_ended(2, code=1)
        house.pod_started(2)
    house.pod_ended(2, code=1)
    assert house.phase() is GangPhase.ENDING
    stop_all(house, house.stops())
    outcome, message = finished(house)
    assert outcome is Outcome.FAILED
    assert message.endswith("restarted 2 times of at most 2 (maxRetry)")


def test_a_pod_restarted_by_its_runtime_too_often_fails_its_task(house: House) -> None:
    house.run(job(on(JobAction.TERMINATE_JOB, JobEvent.TASK_FAILED)))
    for times in (1, 2):
        house.pod_restarts(1, times)
        house.pod_runs_again(1, times + 1)
    assert house.phase() is GangPhase.RUNNING
    house.pod_restarts(1, 3)
    assert house.phase() is GangPhase.ENDING


def test_a_task_that_has_completed_may_complete_the_job(house: House) -> None:
    house.run(job(on(JobAction.COMPLETE_JOB, JobEvent.TASK_COMPLETED)))
    house.pod_ended(0)
    stop_all(house, house.stops())
    assert finished(house)[0] is Outcome.SUCCEEDED


def test_an_exit_code_leads_to_its_own_action(house: House) -> None:
    policies = (
        on(JobAction.RESTART_POD, JobEvent.ANY),
        on(JobAction.TERMINATE_JOB, code=3),
    )
    house.run(job(*policies))
    house.pod_ended(1, code=3)
    assert house.phase() is GangPhase.ENDING


def test_an_aborted_job_is_said_to_admission_once(house: House) -> None:
    house.run(job(on(JobAction.ABORT_JOB, JobEvent.POD_FAILED)))
    house.pod_ended(1, code=1)
    house.pod_ended(2, code=1)
    assert house.count(events.GangAborted) == 1
    house.evict()
    stop_all(house, house.stops())
    assert house.count(events.GangReleased) == 1
    assert house.count(events.GangFinished) == 0


def test_a_pod_that_pends_too_long_is_an_event(house: House) -> None:
    policy = on(JobAction.RESTART_POD, JobEvent.POD_PENDING, after_ms=MINUTE_MS)
    house.reserve(job(policy))
    house.confirm()
    for rank in (0, 1, 3):
        house.pod_started(rank)
    assert house.machine.wake_at_ms() is not None
    house.beat("n1", "n2")
    house.commands.clear()
    house.now_ms += MINUTE_MS
    house.beat("n1", "n2")
    house.cycle()
    assert house.stops() == ["w1-1-2"]
    stop_all(house, house.stops())
    assert house.starts() == ["w1-1-2-r1"]


def test_a_delayed_action_comes_when_its_time_has_come(house: House) -> None:
    policy = on(JobAction.TERMINATE_JOB, JobEvent.POD_FAILED, after_ms=MINUTE_MS)
    house.run(job(policy))
    house.pod_ended(1, code=1)
    assert house.phase() is GangPhase.RUNNING
    house.restart()
    house.now_ms += MINUTE_MS
    house.beat("n1", "n2")
    house.cycle()
    assert house.phase() is GangPhase.ENDING


def test_a_task_waits_for_those_that_it_depends_on(house: House) -> None:
    house.reserve(job(depends=True))
    house.confirm()
    assert house.starts() == ["w1-1-0"]
    assert house.pods() == [PodPhase.ASSIGNED, *[PodPhase.HELD] * 3]
    house.restart()
    house.pod_started(0)
    assert house.starts() == ["w1-1-0", "w1-1-1", "w1-1-2", "w1-1-3"]
    assert house.count(events.GangStarted) == 0
    for rank in (1, 2, 3):
        house.pod_started(rank)
    assert house.count(events.GangStarted) == 1


def test_what_never_started_is_not_waited_for(house: House) -> None:
    house.reserve(job(depends=True))
    house.confirm()
    house.evict()
    assert house.stops() == ["w1-1-0"]
    house.pod_ended(0, code=143, stopped=True)
    assert house.count(events.GangReleased) == 1


def test_a_job_that_loses_its_seats_waits_again_and_counts_no_retry(house: House) -> None:
    house.run(job(on(JobAction.RESTART_JOB, JobEvent.POD_EVICTED, JobEvent.POD_FAILED)))
    house.pod_ended(1, code=143, stopped=True)
    assert house.count(events.GangLost) == 1
    gang = house.gang()
    assert gang is not None
    assert gang.retries == 0


@pytest.mark.parametrize(
    ("action", "outcome"),
    [(JobAction.TERMINATE_JOB, Outcome.FAILED), (JobAction.COMPLETE_JOB, Outcome.SUCCEEDED)],
)
def test_a_job_may_want_to_end_when_it_loses_its_seats(
    house: House, action: JobAction, outcome: Outcome
) -> None:
    house.run(job(on(action, JobEvent.POD_EVICTED)))
    house.pod_ended(1, code=143, stopped=True)
    stop_all(house, house.stops())
    assert house.count(events.GangLost) == 0
    assert finished(house)[0] is outcome


def _fails(house: House) -> None:
    house.pod_ended(2, code=1)


def _restarts(house: House) -> None:
    house.pod_ended(2, code=1)
    stop_all(house, house.stops())


@pytest.mark.parametrize("act", [_fails, _restarts])
def test_every_word_twice_and_a_crash_after_each_change_nothing(
    act: Callable[[House], None],
) -> None:
    def said(*, twice: bool) -> tuple[list[str], list[str], list[str]]:
        house = two_nodes()
        house.run(job(on(JobAction.RESTART_JOB, JobEvent.POD_FAILED)))
        act(house)
        if twice:
            house.restart()
            _repeat(house)
        return house.names(), house.starts(), house.stops()

    assert said(twice=True) == said(twice=False)


def _repeat(house: House) -> None:
    """The agent says again that the pod failed, under the id that it had."""
    fact = events.PodFinished(
        pod_uid="w1-1-2", workload_id="w1", attempt=1, node=house.seat_of(2, "w1"), exit_code=1
    )
    house.hear_node(fact, fact.node)
