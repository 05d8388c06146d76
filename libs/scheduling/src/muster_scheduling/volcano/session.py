"""One session: the cluster as it would be, and the questions that actions ask plugins about it."""

from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key
from typing import TypeVar

import numpy as np

from muster_domain.queues import QueueState, VolcanoQueue
from muster_domain.volcano import PodGroupPhase
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.job import Job, SubJob, Task
from muster_scheduling.volcano.local_scores import LocalScores
from muster_scheduling.volcano.nodes import NodeLedger
from muster_scheduling.volcano.plan import Bind, Eviction, Verdict
from muster_scheduling.volcano.points import (
    Choice,
    Invalid,
    Point,
    Points,
    Screening,
    TaskHook,
    Vote,
)
from muster_scheduling.volcano.snapshot import SessionSnapshot
from muster_scheduling.volcano.tree import HyperNodeTree

NOT_LET_IN = (PodGroupPhase.PENDING, PodGroupPhase.NONE)
"""Phases of jobs that no action but enqueue looks at."""

S = TypeVar("S", Job, SubJob)
T = TypeVar("T")


class Session:
    """A private, mutable view of a snapshot. Only statements and phases change it.

    `total` is what nodes that take pods have together. Orders are total and end in the name, so two
    sessions over one snapshot make one plan.
    """

    def __init__(
        self,
        snapshot: SessionSnapshot,
        configuration: SchedulerConfiguration,
        nodes: NodeLedger,
        queues: dict[str, VolcanoQueue],
        jobs: dict[str, Job],
        tree: HyperNodeTree,
    ) -> None:
        self.snapshot = snapshot
        self.configuration = configuration
        self.nodes = nodes
        self.queues = queues
        self.jobs = jobs
        self.tree = tree
        self.total = nodes.total()
        self.anyone_leads = any(pod.leads for pod in snapshot.pods)
        self.points = Points()
        self._local = LocalScores(nodes, self.points.local_score)
        self.binds: list[Bind] = []
        self.evictions: list[Eviction] = []
        self.warnings: list[str] = []
        self.cards: dict[str, tuple[int, ...]] = {}
        """The cards that tasks share, by index; kept by the plugin that gives them out."""

    @property
    def now_ms(self) -> int:
        """The only time there is."""
        return self.snapshot.now_ms

    @property
    def options(self) -> Iterable[PluginOption]:
        """Every configured plugin, in the order of the tiers."""
        return (plugin for tier in self.configuration.tiers for plugin in tier)

    @property
    def own_shard(self) -> Mask | None:
        """The nodes that are used first; `None` where none are. A hard shard refuses all others."""
        shard = self.snapshot.shard
        if shard is None or shard.hard:
            return None
        return np.array([name in shard.nodes for name in self.nodes.names], np.bool_)

    def tell(self, point: Point[TaskHook], task: Task) -> None:
        """Tell plugins that a task got or lost its place."""
        for hook in point.all:
            hook(task)

    def queue_of(self, job: Job) -> VolcanoQueue:
        """The queue of a job of this session."""
        return self.queues[job.queue]

    def job_invalid(self, job: Job) -> Invalid | None:
        """Why a job cannot be scheduled at all; the first plugin's word counts."""
        if job.blocked is not None:
            return Invalid(verdict=job.blocked[0], message=job.blocked[1])
        for validity in self.points.job_valid.all:
            found = validity(job)
            if found is not None:
                return found
        return None

    def job_ready(self, job: Job) -> bool:
        """Whether a job's allocated tasks may be bound."""
        return all(ready(job) for ready in self.points.job_ready.all)

    def sub_job_ready(self, sub_job: SubJob) -> bool:
        """Whether a sub-job has enough; the one sub-job of a job without sub-groups is the job."""
        if not sub_job.job.has_sub_groups:
            return self.job_ready(sub_job.job)
        return all(ready(sub_job) for ready in self.points.sub_job_ready.all)

    def job_pipelined(self, job: Job) -> bool:
        """Whether a job will be ready once its pipelined tasks have come."""
        return _voted(self.points.job_pipelined, job)

    def sub_job_pipelined(self, sub_job: SubJob) -> bool:
        """Whether a sub-job will have enough."""
        if not sub_job.job.has_sub_groups:
            return self.job_pipelined(sub_job.job)
        return _voted(self.points.sub_job_pipelined, sub_job)

    def job_enqueueable(self, job: Job) -> bool:
        """Whether a job may leave Pending."""
        return _voted(self.points.job_enqueueable, job)

    def job_starving(self, job: Job) -> bool:
        """Whether others may be evicted for a job: the first tier with an opinion decides (P4)."""
        tiers = self.points.job_starving.tiers
        return bool(tiers) and all(starving(job) for starving in tiers[0])

    def overused(self, queue: VolcanoQueue) -> bool:
        """Whether a queue gets nothing more in this session."""
        return any(overused(queue) for overused in self.points.overused.all)

    def allocatable(self, queue: VolcanoQueue, task: Task) -> bool:
        """Whether a queue may hold this task too."""
        return all(may(queue, task) for may in self.points.allocatable.all)

    def preemptive(self, queue: VolcanoQueue, tasks: Sequence[Task]) -> bool:
        """Whether a queue may take from others for these tasks."""
        return all(may(queue, tasks) for may in self.points.preemptive.all)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Who may be evicted for a task of the same queue: the first tier with an opinion decides.

        Within a tier a victim must suit every plugin. Nobody is an answer too (P7, fixed).
        """
        for tier in self.points.preemptable.tiers:
            found = _intersection(tier, preemptor, candidates)
            if found is not None:
                return found
        return []

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Who may be evicted for a task of another queue: a victim must suit every plugin.

        Tiers do not matter here: who guards a gang and who guards a quota are both heard (P7,
        fixed).
        """
        return _intersection(self.points.reclaimable.all, reclaimer, candidates) or []

    def bundle_allowed(self, job: Job, tasks: Sequence[Task], *, reclaim: bool) -> bool:
        """Whether a job may take a bundle of tasks as a whole."""
        return all(allowed(job, tasks, reclaim) for allowed in self.points.bundle.all)

    def compare_jobs(self, left: Job, right: Job) -> int:
        """Job order; the older job first, then by name (P1)."""
        return (
            _first(self.points.job_order, left, right)
            or _compare(left.group.created_at_ms, right.group.created_at_ms)
            or _compare(left.key, right.key)
        )

    def compare_queues(self, left: VolcanoQueue, right: VolcanoQueue) -> int:
        """Queue order; the older queue first, then by name (P1)."""
        return (
            _first(self.points.queue_order, left, right)
            or _compare(left.created_at_ms, right.created_at_ms)
            or _compare(left.name, right.name)
        )

    def compare_tasks(self, left: Task, right: Task) -> int:
        """Task order; by the number in the name, then the older, then by name (P1)."""
        numbered = left.number >= 0 and right.number >= 0
        return (
            _first(self.points.task_order, left, right)
            or (_compare(left.number, right.number) if numbered else 0)
            or _compare(left.pod.created_at_ms, right.pod.created_at_ms)
            or _compare(left.key, right.key)
        )

    def compare_sub_jobs(self, left: SubJob, right: SubJob) -> int:
        """Sub-job order; by where its values were first seen, then by name (P1)."""
        return (
            _first(self.points.sub_job_order, left, right)
            or _compare(left.match_index, right.match_index)
            or _compare(left.key, right.key)
        )

    def compare_victims(self, preemptor: Job, left: Task, right: Task) -> int:
        """Who of two victims goes first (P8); of one gang, who leads it goes last."""
        if left.job is None or right.job is None:
            return _compare(left.job is not None, right.job is not None) or _compare(
                left.key, right.key
            )
        if left.job is right.job:
            return left.pod.leads - right.pod.leads or -self.compare_tasks(left, right)
        if left.job.queue == right.job.queue:
            return -self.compare_jobs(left.job, right.job)
        queues = self.queue_of(left.job), self.queue_of(right.job)
        for order in self.points.victim_queue_order.all:
            found = order(*queues, self.queue_of(preemptor))
            if found:
                return found
        return -self.compare_queues(*queues)

    def in_order(self, things: Iterable[T], compare: Callable[[T, T], int]) -> list[T]:
        """The things, first first."""
        return sorted(things, key=cmp_to_key(compare))

    def precheck(self, task: Task) -> str | None:
        """Why no node will do for a task."""
        for check in self.points.precheck.all:
            found = check(task)
            if found is not None:
                return found
        return None

    def screen(self, task: Task) -> Screening:
        """Which nodes refuse a task, whatever is free on them."""
        found = Screening(np.zeros(len(self.nodes), np.int64))
        shard = self.snapshot.shard
        if shard is not None and shard.hard:
            outside = np.array([name not in shard.nodes for name in self.nodes.names], np.bool_)
            found.refuse(outside, "node(s) belong to another scheduler", final=True)
        for screen in self.points.screen.all:
            screen(task, found)
        return found

    def node_scores(self, task: Task, among: Mask) -> Vector:
        """The sum of all scores, in parts of `SCALE`."""
        total = self._local.scores(task).copy()
        for score in self.points.node_score.all:
            total += score(task, among)
        return total

    def enqueue(self, job: Job) -> None:
        """Let a job leave Pending."""
        job.phase = PodGroupPhase.INQUEUE
        for hook in self.points.job_enqueued.all:
            hook(job)

    def is_open(self, queue: VolcanoQueue) -> bool:
        """Whether a queue takes work."""
        return queue.state is QueueState.OPEN

    def schedulable(self, job: Job) -> bool:
        """Whether actions look at a job: it left Pending, has a queue, and is valid."""
        return (
            job.phase not in NOT_LET_IN
            and job.queue in self.queues
            and self.job_invalid(job) is None
        )

    def block(self, job: Job, verdict: Verdict, message: str) -> None:
        """Leave a job alone in this session, and say why."""
        job.blocked = job.blocked or (verdict, message)


def _voted(point: Point[Callable[[S], Vote]], subject: S) -> bool:
    """In a tier one rejection decides, else one permission; else the next tier is asked (P3)."""
    for tier in point.tiers:
        votes = [vote(subject) for vote in tier]
        if Vote.REJECT in votes:
            return False
        if Vote.PERMIT in votes:
            return True
    return True


def _intersection(
    plugins: Sequence[Choice], actor: Task, candidates: Sequence[Task]
) -> list[Task] | None:
    """The candidates that every plugin allows that has an opinion; `None` if none has one."""
    allowed: dict[str, Task] | None = None
    for choose in plugins:
        chosen = choose(actor, candidates)
        if chosen is None:
            continue
        keys = {task.key: task for task in chosen}
        allowed = keys if allowed is None else {k: t for k, t in allowed.items() if k in keys}
    return None if allowed is None else list(allowed.values())


def _first(point: Point[Callable[[T, T], int]], left: T, right: T) -> int:
    for compare in point.all:
        found = compare(left, right)
        if found:
            return found
    return 0


def _compare(left: int | str, right: int | str) -> int:
    if isinstance(left, str) or isinstance(right, str):
        return (str(left) > str(right)) - (str(left) < str(right))
    return (left > right) - (left < right)
