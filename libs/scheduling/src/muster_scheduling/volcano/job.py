"""Jobs, their sub-jobs and tasks within one session, and the arithmetic of gangs (G1 to G7).

A task is a pod, a job its gang, a sub-job the pods of one sub-group or, without sub-groups, the
whole job. All three change while a session tries things; only statements change them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from muster_domain.selectors import Labels
from muster_domain.volcano import Pod, PodGroup, PodGroupPhase, PodPhase
from muster_scheduling.placement.columns import Shape
from muster_scheduling.volcano.amounts import PODS, add_to, is_empty, take_from
from muster_scheduling.volcano.plan import Refusal, TaskStatus, Verdict

ALLOCATED = frozenset({
    TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING,
})  # fmt: skip
"""Statuses that count as having their node."""

HELD = ALLOCATED | {TaskStatus.PIPELINED}
"""Statuses that count against a share: what has its node or is promised one."""

VICTIM_STATUSES = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})
FINISHED = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})

_DEFAULT_TASK_PRIORITY = 1
_PREEMPTABLE = "volcano.sh/preemptable"
_ONE_POD = 1000


@dataclass(slots=True, eq=False)
class Task:
    """One pod. `requests` and `init_requests` count the pod itself as one of `pods`."""

    pod: Pod
    job: "Job | None" = None
    sub_job: "SubJob | None" = None
    status: TaskStatus = TaskStatus.PENDING
    node: str = ""
    requests: dict[str, int] = field(init=False)
    init_requests: dict[str, int] = field(init=False)
    best_effort: bool = field(init=False)
    number: int = field(init=False)
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        self.requests = {**self.pod.requests, PODS: _ONE_POD}
        self.init_requests = {**(self.pod.init_requests or self.pod.requests), PODS: _ONE_POD}
        self.best_effort = is_empty(self.init_requests)
        self.shape = tuple(sorted(self.requests.items()))
        tail = self.pod.name.rpartition("-")[2]
        self.number = int(tail) if tail.isascii() and tail.isdecimal() else -1
        self.status = _status(self.pod)
        self.node = self.pod.node

    @property
    def key(self) -> str:
        """`namespace/name` of the pod."""
        return self.pod.key

    @property
    def role(self) -> str:
        """The task of the job that the pod belongs to; may be empty."""
        return self.pod.role

    @property
    def priority(self) -> int:
        """Higher goes first, and is taken last."""
        return _DEFAULT_TASK_PRIORITY if self.pod.priority is None else self.pod.priority

    @property
    def gang(self) -> "Job":
        """Its job. Raises `LookupError` for a pod that belongs to none."""
        if self.job is None:
            raise LookupError(f"{self.key} belongs to no job")
        return self.job

    @property
    def preemptable(self) -> bool:
        """Whether it may be a victim: what the pod says, else its gang, else yes."""
        said = _says(self.pod.annotations, self.pod.labels)
        if said is None and self.job is not None:
            group = self.job.group
            said = _says(group.annotations, group.labels)
        return said is not False


def _says(annotations: Labels, labels: Labels) -> bool | None:
    said = annotations.get(_PREEMPTABLE, labels.get(_PREEMPTABLE))
    return None if said is None else said == "true"


def _status(pod: Pod) -> TaskStatus:
    match pod.phase:
        case PodPhase.RUNNING:
            return TaskStatus.RELEASING if pod.deleting else TaskStatus.RUNNING
        case PodPhase.PENDING:
            if pod.deleting:
                return TaskStatus.RELEASING
            return TaskStatus.BOUND if pod.node else TaskStatus.PENDING
        case PodPhase.SUCCEEDED:
            return TaskStatus.SUCCEEDED
        case PodPhase.FAILED:
            return TaskStatus.FAILED
        case PodPhase.UNKNOWN:
            return TaskStatus.UNKNOWN


@dataclass(slots=True, eq=False)
class Limit:
    """How high in the tree of HyperNodes a job or sub-job may span. `tier` `None` is no limit."""

    hard: bool
    tier: int | None


@dataclass(slots=True, eq=False)
class SubJob:
    """Pods of a job that are a gang of their own.

    `policy` is empty for the one sub-job of a job without sub-groups. `hyper_node` is the smallest
    HyperNode around what is placed of it.
    """

    key: str
    job: "Job"
    policy: str
    min_member: int
    match_index: int
    limit: Limit | None = None
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    counts: dict[TaskStatus, int] = field(default_factory=dict[TaskStatus, int])
    hyper_node: str = ""
    nominated: str = ""

    def count(self, statuses: Iterable[TaskStatus]) -> int:
        """How many of its pods are in one of the statuses."""
        return sum(self.counts.get(status, 0) for status in statuses)

    @property
    def priority(self) -> int:
        """The highest priority of its pods."""
        return max((task.priority for task in self.tasks.values()), default=0)

    @property
    def ready(self) -> bool:
        """Whether enough of it has nodes to start."""
        return _ready(self.counts) + _pending_best_effort(self.tasks) >= self.min_member

    @property
    def pipelined(self) -> bool:
        """Whether enough of it has or will have nodes."""
        waiting = self.counts.get(TaskStatus.PIPELINED, 0)
        return _ready(self.counts) + waiting + _pending_best_effort(self.tasks) >= self.min_member

    @property
    def valid(self) -> bool:
        """Whether it has enough pods at all."""
        return _valid(self.counts) >= self.min_member


@dataclass(slots=True, eq=False)
class Job:
    """A gang. `allocated` is what its tasks with nodes are charged for, `held` that and promises.

    `free_pending` counts pending tasks that ask for nothing, `failed` are those that found no node
    in this attempt, `refusals` why the first of them did not; `kept_out` says why the job stays
    Pending, `held_back` why tasks were not tried.
    """

    group: PodGroup
    priority: int
    phase: PodGroupPhase
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    by_status: dict[TaskStatus, dict[str, Task]] = field(
        default_factory=dict[TaskStatus, dict[str, Task]]
    )
    sub_jobs: dict[str, SubJob] = field(default_factory=dict[str, SubJob])
    allocated: dict[str, int] = field(default_factory=dict[str, int])
    held: dict[str, int] = field(default_factory=dict[str, int])
    limit: Limit | None = None
    hyper_node: str = ""
    free_pending: int = 0
    failed: dict[str, Task] = field(default_factory=dict[str, Task])
    refusals: tuple[Refusal, ...] = ()
    blocked: tuple[Verdict, str] | None = None
    kept_out: str = ""
    held_back: str = ""

    @property
    def key(self) -> str:
        """`namespace/name` of the PodGroup."""
        return self.group.key

    @property
    def queue(self) -> str:
        """The queue it is charged to."""
        return self.group.queue

    @property
    def min_member(self) -> int:
        """How many pods start together."""
        return self.group.min_member

    @property
    def preemptable(self) -> bool:
        """Whether it may be taken as a gang; what one of its pods says does not matter here."""
        return _says(self.group.annotations, self.group.labels) is not False

    @property
    def has_sub_groups(self) -> bool:
        """Whether its pods are split by a policy."""
        return bool(self.group.sub_groups)

    @property
    def hard_topology(self) -> bool:
        """Whether it is bound to HyperNodes at all; a soft wish is a limit at the very top."""
        return self.limit is not None

    def in_status(self, *statuses: TaskStatus) -> Iterator[Task]:
        """Its tasks in some statuses."""
        for status in statuses:
            yield from self.by_status.get(status, {}).values()

    def count(self, statuses: Iterable[TaskStatus]) -> int:
        """How many of its tasks are in one of the statuses."""
        return sum(len(self.by_status.get(status, ())) for status in statuses)

    @property
    def counts(self) -> dict[TaskStatus, int]:
        """Tasks by status."""
        return {status: len(tasks) for status, tasks in self.by_status.items() if tasks}

    @property
    def pending(self) -> list[Task]:
        """Tasks without a node that ask for something, and are not held back by a gate."""
        return [
            task
            for task in self.in_status(TaskStatus.PENDING)
            if not task.best_effort and not task.pod.gated
        ]

    @property
    def waiting(self) -> list[Task]:
        """Tasks without a node that no gate holds back, best-effort ones included."""
        return [task for task in self.in_status(TaskStatus.PENDING) if not task.pod.gated]

    @property
    def ready_count(self) -> int:
        """Tasks that have their node or did their work."""
        return self.count((*ALLOCATED, TaskStatus.SUCCEEDED))

    @property
    def allocated_count(self) -> int:
        """Tasks that have their node."""
        return self.count(ALLOCATED)

    @property
    def waiting_count(self) -> int:
        """Tasks that wait on their node for others to leave."""
        return self.count((TaskStatus.PIPELINED,))

    @property
    def ready(self) -> bool:
        """Whether enough of the gang has nodes to start (G1)."""
        return self.ready_count + self.free_pending >= self.min_member

    @property
    def pipelined(self) -> bool:
        """Whether enough of the gang has or will have nodes (G1)."""
        held = self.ready_count + self.waiting_count + self.free_pending
        return held >= self.min_member

    @property
    def starving(self) -> bool:
        """Whether the gang lacks members and nobody is making room for them (G1)."""
        return self.ready_count + self.waiting_count < self.min_member

    @property
    def valid_count(self) -> int:
        """Tasks that could make up the gang."""
        return _valid(self.counts)

    @property
    def roles_counted(self) -> bool:
        """Whether minimums by role hold: not where they are more than the gang itself (G2)."""
        return self.min_member >= sum(self.group.min_task_member.values())

    def role_shortage(self, statuses: frozenset[TaskStatus]) -> tuple[str, int, int] | None:
        """The first role with fewer tasks than its minimum: its name, how many, how many needed.

        Pending best-effort tasks count as well, since they need nothing (G2).
        """
        if not self.group.min_task_member or not self.roles_counted:
            return None
        counted: dict[str, int] = {}
        for task in self.tasks.values():
            pending_free = task.status is TaskStatus.PENDING and task.best_effort
            if task.status in statuses or pending_free:
                counted[task.role] = counted.get(task.role, 0) + 1
        for role, least in sorted(self.group.min_task_member.items()):
            if counted.get(role, 0) < least:
                return role, counted.get(role, 0), least
        return None

    def sub_group_shortage(self, counts: Callable[["SubJob"], bool]) -> tuple[str, int, int] | None:
        """The first policy with fewer sub-jobs that count than it needs (G3)."""
        for policy in self.group.sub_groups:
            found = sum(
                counts(sub_job)
                for sub_job in self.sub_jobs.values()
                if sub_job.policy == policy.name
            )
            if found < policy.min_groups:
                return policy.name, found, policy.min_groups
        return None

    def may_continue_without(self) -> bool:
        """Whether the gang can still be complete after some tasks found no node (A5)."""
        if self.min_member == len(self.tasks):
            return False
        failed_roles = {task.role for task in self.failed.values()}
        if not self.roles_counted:
            left = sum(task.role not in failed_roles for task in self.in_status(TaskStatus.PENDING))
            return self.ready_count + left >= self.min_member
        held: dict[str, int] = {}
        for task in self.in_status(*sorted(ALLOCATED)):
            held[task.role] = held.get(task.role, 0) + 1
        return all(
            held.get(role, 0) >= self.group.min_task_member.get(role, 0)
            for role in sorted(failed_roles)
        )

    def add(self, task: Task) -> None:
        """Take in a task, in the status it has."""
        task.job = self
        self.tasks[task.key] = task
        self._count(task, task.status)

    def set_status(self, task: Task, status: TaskStatus) -> None:
        """Move a task to another status."""
        before = task.status
        del self.by_status[before][task.key]
        if before is TaskStatus.PENDING:
            self.free_pending -= task.best_effort
        if before in ALLOCATED:
            take_from(self.allocated, task.requests)
        if before in HELD:
            take_from(self.held, task.requests)
        if task.sub_job is not None:
            task.sub_job.counts[before] -= 1
        task.status = status
        self._count(task, status)
        if task.sub_job is not None:
            counts = task.sub_job.counts
            counts[status] = counts.get(status, 0) + 1

    def hold_back(self, reason: str) -> None:
        """Note why a task was not even tried; the first reason stays."""
        self.held_back = self.held_back or reason

    def _count(self, task: Task, status: TaskStatus) -> None:
        self.by_status.setdefault(status, {})[task.key] = task
        if status is TaskStatus.PENDING:
            self.free_pending += task.best_effort
        if status in ALLOCATED:
            add_to(self.allocated, task.requests)
        if status in HELD:
            add_to(self.held, task.requests)


def _ready(counts: dict[TaskStatus, int]) -> int:
    return sum(counts.get(status, 0) for status in (*ALLOCATED, TaskStatus.SUCCEEDED))


def _valid(counts: dict[TaskStatus, int]) -> int:
    more = (TaskStatus.PIPELINED, TaskStatus.PENDING)
    return _ready(counts) + sum(counts.get(status, 0) for status in more)


def _pending_best_effort(tasks: dict[str, Task]) -> int:
    return sum(task.best_effort and task.status is TaskStatus.PENDING for task in tasks.values())
