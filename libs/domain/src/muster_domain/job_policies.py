"""What a Volcano Job says about its own life: what follows from which event, order, retries, end.

Words and rules are Volcano's (its job controller): an event of a pod, a task or the job leads to
an action; a task's own policy goes before the job's, a named event before `*`.
"""

from dataclasses import dataclass
from enum import StrEnum


class JobEvent(StrEnum):
    """What can happen in a running job."""

    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    POD_PENDING = "PodPending"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    ANY = "*"


class JobAction(StrEnum):
    """What may follow. Restarts are counted against the job's `max_retry`."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPolicy:
    """One event leads to one action, at once or `timeout_ms` after the event.

    It answers to `events`, or to a pod that ended with `exit_code`; never to both. PodPending is
    only an event once `timeout_ms` have passed.
    """

    action: JobAction
    events: tuple[JobEvent, ...] = ()
    exit_code: int | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPolicies:
    """One task, which is one pod set. `max_retry` of None is no limit.

    Its pods start once of the tasks in `depends_on` all (or any) have their minimum running or
    succeeded. Pods of one partition are `partition_size` consecutive ones; 0 is no partitions.
    """

    name: str
    min_available: int
    policies: tuple[JobPolicy, ...] = ()
    max_retry: int | None = 3
    depends_on: tuple[str, ...] = ()
    depends_on_any: bool = False
    partition_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPolicies:
    """The life of a job. It is restarted at most `max_retry` times, then it has failed.

    It has succeeded with `min_success` succeeded pods where that is set, whatever the others do;
    else when all pods have ended and enough of them succeeded.
    """

    min_available: int
    tasks: tuple[TaskPolicies, ...]
    policies: tuple[JobPolicy, ...] = ()
    max_retry: int = 3
    min_success: int | None = None
