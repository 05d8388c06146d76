"""Decisions of Volcano's job controller (J2 to J5, J9), as functions of the pods.

A pod is known by its rank in the gang. Nothing here counts what a scheduler evicts: a gang that
loses its seats waits again as a whole, and that is no retry.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from muster_domain.conditions import Outcome
from muster_domain.job_policies import (
    JobAction,
    JobEvent,
    JobPolicies,
    JobPolicy,
    TaskPolicies,
)

_ENDING = (JobAction.TERMINATE_JOB, JobAction.COMPLETE_JOB, JobAction.ABORT_JOB)


class PodPhase(StrEnum):
    """What is known about one pod. A held one has its seat and waits for tasks before it."""

    HELD = "held"
    ASSIGNED = "assigned"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    GONE = "gone"

    @property
    def over(self) -> bool:
        """Whether nothing of it runs any more."""
        return self in (PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One member of a running gang. `restarts` counts restarts of its containers in place."""

    rank: int
    task: str
    index: int
    phase: PodPhase
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The job is over, and why."""

    outcome: Outcome
    message: str


def task_of(policies: JobPolicies, name: str) -> TaskPolicies:
    """What the job says about one of its tasks; nothing special for one that it does not name."""
    return next(
        (task for task in policies.tasks if task.name == name),
        TaskPolicies(name=name, min_available=0),
    )


def policy_for(
    policies: JobPolicies, task: str, event: JobEvent, exit_code: int | None = None
) -> JobPolicy | None:
    """What follows from an event of a task's pod: the task's policies first, `*` last (J2)."""
    for listed in (task_of(policies, task).policies, policies.policies):
        named = [
            policy
            for policy in listed
            if event in policy.events or (exit_code and policy.exit_code == exit_code)
        ]
        anything = [policy for policy in listed if JobEvent.ANY in policy.events]
        for policy in (*named, *anything):
            return policy
    return None


def after_eviction(policies: JobPolicies, tasks: Iterable[str]) -> JobAction | None:
    """What ends or aborts a job whose pods of these tasks were evicted; None: it waits again.

    A restart is what an eviction comes to anyway, and is not counted as one.
    """
    for task in sorted(set(tasks)):
        policy = policy_for(policies, task, JobEvent.POD_EVICTED)
        if policy is not None and policy.action in _ENDING:
            return policy.action
    return None


def task_event(policies: JobPolicies, pods: Iterable[Pod], task: str) -> JobEvent | None:
    """What the pods of a task amount to: all succeeded, or restarted too often in place."""
    own = [pod for pod in pods if pod.task == task]
    if own and all(pod.phase is PodPhase.SUCCEEDED for pod in own):
        return JobEvent.TASK_COMPLETED
    limit = task_of(policies, task).max_retry
    restarts = sum(pod.restarts for pod in own if not pod.phase.over)
    if limit is not None and restarts and restarts >= limit:
        return JobEvent.TASK_FAILED
    return None


def startable(policies: JobPolicies, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Held pods whose time has come: the tasks that theirs depends on are ready (J9).

    A task is ready when its minimum, or all of its pods where fewer were seated, run or succeeded.
    """
    members = tuple(pods)
    by_task: dict[str, list[Pod]] = {}
    for pod in members:
        by_task.setdefault(pod.task, []).append(pod)
    ready = {name: _is_ready(policies, name, own) for name, own in by_task.items()}
    return tuple(
        pod
        for pod in members
        if pod.phase is PodPhase.HELD and _may_start(task_of(policies, pod.task), ready)
    )


def _is_ready(policies: JobPolicies, name: str, own: list[Pod]) -> bool:
    up = sum(pod.phase in (PodPhase.STARTED, PodPhase.SUCCEEDED) for pod in own)
    return up >= min(task_of(policies, name).min_available, len(own))


def _may_start(task: TaskPolicies, ready: Mapping[str, bool]) -> bool:
    if not task.depends_on:
        return True
    answers = [ready.get(name, True) for name in task.depends_on]
    return any(answers) if task.depends_on_any else all(answers)


def restarted(
    policies: JobPolicies, action: JobAction, pod: Pod, pods: Iterable[Pod]
) -> tuple[Pod, ...]:
    """The pods that an action makes run anew; empty where it restarts none.

    A pod that has succeeded has done its part: it never runs again.
    """
    left = tuple(other for other in pods if other.phase is not PodPhase.SUCCEEDED)
    match action:
        case JobAction.RESTART_JOB:
            return left
        case JobAction.RESTART_TASK:
            return tuple(other for other in left if other.task == pod.task)
        case JobAction.RESTART_PARTITION:
            size = task_of(policies, pod.task).partition_size
            return tuple(
                other
                for other in left
                if other.task == pod.task
                and (other.rank == pod.rank if not size else _part(other, size) == _part(pod, size))
            )
        case JobAction.RESTART_POD:
            return tuple(other for other in left if other.rank == pod.rank)
        case (
            JobAction.ABORT_JOB
            | JobAction.TERMINATE_JOB
            | JobAction.COMPLETE_JOB
            | JobAction.RESUME_JOB
        ):
            return ()
        case _:
            assert_never(action)


def _part(pod: Pod, size: int) -> int:
    return pod.index // size


def retries_end(policies: JobPolicies, retries: int, cause: str) -> End | None:
    """The end of a job that was restarted as often as it may (J5)."""
    if retries < policies.max_retry:
        return None
    message = f"{cause}; restarted {retries} times of at most {policies.max_retry} (maxRetry)"
    return End(outcome=Outcome.FAILED, message=message)


def end_of(policies: JobPolicies, pods: Iterable[Pod]) -> End | None:
    """How the job has ended, if it has (J4).

    A pod that is gone was stopped by somebody else: it has not ended the job.
    """
    members = tuple(pods)
    succeeded = sum(pod.phase is PodPhase.SUCCEEDED for pod in members)
    wanted = policies.min_success
    if wanted is not None and succeeded >= wanted:
        return End(
            outcome=Outcome.SUCCEEDED, message=f"{succeeded} pods succeeded, minSuccess {wanted}"
        )
    if not all(pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED) for pod in members):
        return None
    lacking = _lacking(policies, members)
    if lacking:
        return End(outcome=Outcome.FAILED, message=lacking)
    if wanted is not None:
        return End(
            outcome=Outcome.FAILED, message=f"{succeeded} pods succeeded, minSuccess {wanted}"
        )
    if succeeded >= policies.min_available:
        return End(
            outcome=Outcome.SUCCEEDED,
            message=f"{succeeded} of {len(members)} pods succeeded, "
            f"minAvailable {policies.min_available}",
        )
    return End(
        outcome=Outcome.FAILED,
        message=f"{succeeded} of {len(members)} pods succeeded, "
        f"minAvailable {policies.min_available}",
    )


def _lacking(policies: JobPolicies, members: tuple[Pod, ...]) -> str:
    """The first task with fewer successes than its minimum, where the job's minimum covers all."""
    if policies.min_available < sum(task.min_available for task in policies.tasks):
        return ""
    for task in policies.tasks:
        done = sum(pod.task == task.name and pod.phase is PodPhase.SUCCEEDED for pod in members)
        if done < task.min_available:
            return f"{done} pods of {task.name} succeeded, minAvailable {task.min_available}"
    return ""
