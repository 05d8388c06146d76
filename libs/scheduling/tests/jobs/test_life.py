from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.conditions import Outcome
from muster_domain.job_policies import (
    JobAction,
    JobEvent,
    JobPolicies,
    JobPolicy,
    TaskPolicies,
)
from muster_scheduling.jobs.life import (
    Pod,
    PodPhase,
    after_eviction,
    end_of,
    policy_for,
    restarted,
    retries_end,
    startable,
    task_event,
)

PS, WORKER = "ps", "worker"
PHASES = {
    "h": PodPhase.HELD,
    "a": PodPhase.ASSIGNED,
    "r": PodPhase.STARTED,
    "s": PodPhase.SUCCEEDED,
    "f": PodPhase.FAILED,
    "g": PodPhase.GONE,
}


def pods(**tasks: str) -> tuple[Pod, ...]:
    """One letter for each pod: held, assigned, running, succeeded, failed, gone."""
    found: list[Pod] = []
    for task, letters in tasks.items():
        for index, letter in enumerate(letters):
            found.append(Pod(rank=len(found), task=task, index=index, phase=PHASES[letter]))
    return tuple(found)


def policies(
    *listed: JobPolicy,
    ps: TaskPolicies | None = None,
    worker: TaskPolicies | None = None,
    minimum: int = 3,
    min_success: int | None = None,
) -> JobPolicies:
    return JobPolicies(
        min_available=minimum,
        tasks=(
            ps or TaskPolicies(name=PS, min_available=1),
            worker or TaskPolicies(name=WORKER, min_available=2),
        ),
        policies=listed,
        min_success=min_success,
    )


RESTART = JobPolicy(action=JobAction.RESTART_JOB, events=(JobEvent.POD_FAILED,))
ABORT_ON_3 = JobPolicy(action=JobAction.ABORT_JOB, exit_code=3)
OTHERWISE = JobPolicy(action=JobAction.TERMINATE_JOB, events=(JobEvent.ANY,))


@pytest.mark.parametrize(
    ("given_", "event", "exit_code", "action"),
    [
        ((), JobEvent.POD_FAILED, 1, None),
        ((RESTART,), JobEvent.POD_FAILED, 1, JobAction.RESTART_JOB),
        ((RESTART,), JobEvent.POD_EVICTED, None, None),
        ((OTHERWISE, RESTART), JobEvent.POD_FAILED, 1, JobAction.RESTART_JOB),
        ((OTHERWISE, RESTART), JobEvent.POD_EVICTED, None, JobAction.TERMINATE_JOB),
        ((ABORT_ON_3,), JobEvent.POD_FAILED, 3, JobAction.ABORT_JOB),
        ((ABORT_ON_3,), JobEvent.POD_FAILED, 4, None),
        ((ABORT_ON_3,), JobEvent.TASK_COMPLETED, None, None),
    ],
)
def test_an_event_leads_to_the_policy_that_names_it(
    given_: tuple[JobPolicy, ...],
    event: JobEvent,
    exit_code: int | None,
    action: JobAction | None,
) -> None:
    found = policy_for(policies(*given_), WORKER, event, exit_code)
    assert (found.action if found is not None else None) is action


def test_a_tasks_own_policy_goes_before_the_jobs() -> None:
    own = JobPolicy(action=JobAction.RESTART_POD, events=(JobEvent.ANY,))
    worker = TaskPolicies(name=WORKER, min_available=2, policies=(own,))
    both = policies(RESTART, worker=worker)
    assert policy_for(both, WORKER, JobEvent.POD_FAILED, 1) == own
    assert policy_for(both, PS, JobEvent.POD_FAILED, 1) == RESTART


@pytest.mark.parametrize(
    ("members", "restarts", "limit", "event"),
    [
        (pods(worker="ss"), 0, 3, JobEvent.TASK_COMPLETED),
        (pods(worker="sr"), 0, 3, None),
        (pods(worker="rr"), 2, 4, JobEvent.TASK_FAILED),
        (pods(worker="rr"), 2, 5, None),
        (pods(worker="rr"), 9, None, None),
        (pods(worker="ff"), 2, 4, None),
        (pods(worker="rr"), 0, 0, None),
    ],
)
def test_the_pods_of_a_task_amount_to_an_event(
    members: tuple[Pod, ...], restarts: int, limit: int | None, event: JobEvent | None
) -> None:
    worker = TaskPolicies(name=WORKER, min_available=2, max_retry=limit)
    each = [
        Pod(rank=pod.rank, task=pod.task, index=pod.index, phase=pod.phase, restarts=restarts)
        for pod in members
    ]
    assert task_event(policies(worker=worker), each, WORKER) is event


@pytest.mark.parametrize(
    ("members", "any_of", "ranks"),
    [
        (pods(ps="a", worker="hh"), False, ()),
        (pods(ps="r", worker="hh"), False, (1, 2)),
        (pods(ps="s", worker="hh"), False, (1, 2)),
        (pods(ps="f", worker="hh"), False, ()),
        (pods(ps="ra", worker="hh"), False, (2, 3)),
        (pods(ps="r", worker="rr"), False, ()),
        (pods(worker="hh"), False, (0, 1)),
        (pods(ps="a", other="r", worker="h"), True, (2,)),
        (pods(ps="a", other="r", worker="h"), False, ()),
    ],
)
def test_a_task_starts_once_those_it_depends_on_are_ready(
    members: tuple[Pod, ...], *, any_of: bool, ranks: tuple[int, ...]
) -> None:
    worker = TaskPolicies(
        name=WORKER, min_available=2, depends_on=(PS, "other"), depends_on_any=any_of
    )
    found = startable(policies(worker=worker), members)
    assert tuple(pod.rank for pod in found) == ranks


@pytest.mark.parametrize(
    ("action", "ranks"),
    [
        (JobAction.RESTART_JOB, [0, 2, 3, 4]),
        (JobAction.RESTART_TASK, [2, 3, 4]),
        (JobAction.RESTART_PARTITION, [3, 4]),
        (JobAction.RESTART_POD, [3]),
        (JobAction.ABORT_JOB, []),
        (JobAction.TERMINATE_JOB, []),
        (JobAction.COMPLETE_JOB, []),
    ],
)
def test_an_action_restarts_the_pods_that_it_names(action: JobAction, ranks: list[int]) -> None:
    worker = TaskPolicies(name=WORKER, min_available=2, partition_size=2)
    members = pods(ps="r", worker="srfr")
    found = restarted(policies(worker=worker), action, members[3], members)
    assert [pod.rank for pod in found] == ranks


def test_without_partitions_a_partition_is_one_pod() -> None:
    members = pods(worker="rf")
    found = restarted(policies(), JobAction.RESTART_PARTITION, members[1], members)
    assert [pod.rank for pod in found] == [1]


def test_a_job_is_restarted_as_often_as_it_says() -> None:
    assert retries_end(policies(), 2, "x failed") is None
    end = retries_end(policies(), 3, "x failed")
    assert end is not None
    assert end.outcome is Outcome.FAILED
    assert end.message == "x failed; restarted 3 times of at most 3 (maxRetry)"


@pytest.mark.parametrize(
    ("members", "minimum", "min_success", "outcome"),
    [
        (pods(ps="s", worker="ss"), 3, None, Outcome.SUCCEEDED),
        (pods(ps="s", worker="sr"), 3, None, None),
        (pods(ps="s", worker="sg"), 3, None, None),
        (pods(ps="s", worker="ssf"), 3, None, Outcome.SUCCEEDED),
        (pods(ps="f", worker="sss"), 3, None, Outcome.FAILED),
        (pods(ps="f", worker="sss"), 2, None, Outcome.SUCCEEDED),
        (pods(ps="s", worker="sf"), 3, None, Outcome.FAILED),
        (pods(ps="r", worker="sr"), 3, 1, Outcome.SUCCEEDED),
        (pods(ps="s", worker="ss"), 3, 4, Outcome.FAILED),
    ],
)
def test_a_job_ends_as_its_minima_say(
    members: tuple[Pod, ...], minimum: int, min_success: int | None, outcome: Outcome | None
) -> None:
    end = end_of(policies(minimum=minimum, min_success=min_success), members)
    assert (end.outcome if end is not None else None) is outcome


@given(st.text("harsfg", min_size=1, max_size=6), st.text("harsfg", min_size=1, max_size=6))
def test_a_job_with_a_pod_that_runs_ends_only_by_enough_successes(first: str, second: str) -> None:
    members = pods(ps=first, worker=second)
    end = end_of(policies(), members)
    runs = _count(members, (PodPhase.SUCCEEDED, PodPhase.FAILED)) < len(members)
    assert (end is None) == runs


def _count(members: Iterable[Pod], phases: tuple[PodPhase, ...]) -> int:
    return sum(pod.phase in phases for pod in members)


@pytest.mark.parametrize(
    ("listed", "action"),
    [
        ((), None),
        ((RESTART,), None),
        ((OTHERWISE,), JobAction.TERMINATE_JOB),
        (
            (JobPolicy(action=JobAction.RESTART_JOB, events=(JobEvent.POD_EVICTED,)), OTHERWISE),
            None,
        ),
        (
            (JobPolicy(action=JobAction.ABORT_JOB, events=(JobEvent.POD_EVICTED,)),),
            JobAction.ABORT_JOB,
        ),
        ((JobPolicy(action=JobAction.ABORT_JOB, events=(JobEvent.POD_FAILED,)),), None),
    ],
)
def test_an_eviction_ends_a_job_only_where_its_policies_say_so(
    listed: tuple[JobPolicy, ...], action: JobAction | None
) -> None:
    assert after_eviction(policies(*listed), [WORKER, PS]) is action
