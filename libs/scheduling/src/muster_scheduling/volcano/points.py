"""Where plugins plug in, and how their answers are combined (P1 to P9).

A plugin is a function that is called when the session opens and adds functions to the points it has
an opinion on. A point asks only plugins whose switch is on, in the order of the tiers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, TypeVar

import numpy as np

from muster_domain.queues import VolcanoQueue
from muster_domain.volcano_scheduler import PluginOption, Switch
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.job import Job, SubJob, Task
from muster_scheduling.volcano.plan import Refusal, Verdict


class Vote(IntEnum):
    """One voice on a question that plugins vote on."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@dataclass(slots=True)
class Screening:
    """Which nodes refuse a task, and why.

    `code` is 0 where nobody has refused, else 1 + the index into `reasons`. A refusal that no
    eviction can cure is final.
    """

    code: Vector
    reasons: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])

    def refuse(self, mask: Mask, reason: str, *, final: bool = False) -> None:
        """Refuse the nodes of the mask that nobody has refused yet."""
        fresh = mask & (self.code == 0)
        if fresh.any():
            self.reasons.append((reason, final))
            self.code[fresh] = len(self.reasons)

    @property
    def passed(self) -> Mask:
        """Nodes that nobody refuses."""
        return self.code == 0

    @property
    def curable(self) -> Mask:
        """Nodes that nobody refuses for good."""
        result = self.code == 0
        for number, (_, final) in enumerate(self.reasons, 1):
            if not final:
                result |= self.code == number
        return result

    def refusals(self, among: Mask) -> tuple[Refusal, ...]:
        """How many of some nodes were refused for which reason, most first."""
        counted: dict[str, int] = {}
        numbers, times = np.unique(self.code[among], return_counts=True)
        for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
            if number:
                reason, _ = self.reasons[int(number) - 1]
                counted[reason] = counted.get(reason, 0) + int(count)
        found = [Refusal(reason=reason, nodes=count) for reason, count in counted.items()]
        return tuple(sorted(found, key=lambda refusal: (-refusal.nodes, refusal.reason)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """Why a job cannot be scheduled at all."""

    verdict: Verdict
    message: str


JobCompare = Callable[[Job, Job], int]
QueueCompare = Callable[[VolcanoQueue, VolcanoQueue], int]
VictimQueueCompare = Callable[[VolcanoQueue, VolcanoQueue, VolcanoQueue], int]
TaskCompare = Callable[[Task, Task], int]
SubJobCompare = Callable[[SubJob, SubJob], int]
JobTest = Callable[[Job], bool]
JobVote = Callable[[Job], Vote]
JobHook = Callable[[Job], None]
Validity = Callable[[Job], Invalid | None]
SubJobTest = Callable[[SubJob], bool]
SubJobVote = Callable[[SubJob], Vote]
QueueTest = Callable[[VolcanoQueue], bool]
QueueTaskTest = Callable[[VolcanoQueue, Task], bool]
QueueTasksTest = Callable[[VolcanoQueue, Sequence[Task]], bool]
Choice = Callable[[Task, Sequence[Task]], list[Task] | None]
"""Which of the candidates may be victims of a task, in order; `None` abstains."""
Screen = Callable[[Task, Screening], None]
Precheck = Callable[[Task], str | None]
"""Why no node will do, or `None`."""
NodeScore = Callable[[Task, Mask], Vector]
"""A score for every node in parts of `SCALE`; only nodes of the mask are looked at."""
LocalScore = Callable[[Task, Vector], Vector]
"""A score for some nodes, by row, from what the task requests and what is on each node alone."""
HyperNodeScore = Callable[[SubJob, Mapping[str, Sequence[Task]]], Mapping[str, int]]
"""A score in parts of `SCALE` for each HyperNode, by the tasks that found seats there."""
Gradient = Callable[[Job, SubJob | None, str, bool], list[list[str]]]
"""HyperNodes to try, best group first, inside a HyperNode; the flag says that room is made."""
Bundle = Callable[[Job, Sequence[Task], bool], bool]
"""Whether a job may take this bundle of tasks; the flag says that other queues' are meant."""
VictimTasks = Callable[[], list[Task]]
TaskHook = Callable[[Task], None]

F = TypeVar("F")


@dataclass(slots=True)
class Point(Generic[F]):
    """One extension point. Without a switch every plugin that is configured is asked."""

    switch: Switch | None = None
    _by_plugin: dict[str, list[F]] = field(default_factory=dict[str, list[F]])
    _tiers: list[list[F]] = field(default_factory=list[list[F]])

    def add(self, plugin: PluginOption, function: F) -> None:
        """Register one more function of a plugin; it counts where the plugin's switch is on."""
        if self.switch is None or self.switch in plugin.enabled:
            self._by_plugin.setdefault(plugin.name, []).append(function)

    def arrange(self, tiers: Sequence[Sequence[PluginOption]]) -> None:
        """Put the functions in the order of the tiers."""
        arranged = [
            [function for plugin in tier for function in self._by_plugin.get(plugin.name, ())]
            for tier in tiers
        ]
        self._tiers = [tier for tier in arranged if tier]

    @property
    def tiers(self) -> list[list[F]]:
        """The functions, tier by tier; tiers without any are left out."""
        return self._tiers

    @property
    def all(self) -> list[F]:
        """The functions of every tier, in order."""
        return [function for tier in self._tiers for function in tier]


@dataclass(slots=True)
class Points:
    """Every extension point of a session."""

    job_valid: Point[Validity] = field(default_factory=Point[Validity])
    job_order: Point[JobCompare] = field(default_factory=lambda: Point(Switch.JOB_ORDER))
    job_ready: Point[JobTest] = field(default_factory=lambda: Point(Switch.JOB_READY))
    job_pipelined: Point[JobVote] = field(default_factory=lambda: Point(Switch.JOB_PIPELINED))
    job_starving: Point[JobTest] = field(default_factory=lambda: Point(Switch.JOB_STARVING))
    job_enqueueable: Point[JobVote] = field(default_factory=lambda: Point(Switch.JOB_ENQUEUED))
    job_enqueued: Point[JobHook] = field(default_factory=lambda: Point(Switch.JOB_ENQUEUED))
    sub_job_order: Point[SubJobCompare] = field(default_factory=lambda: Point(Switch.SUB_JOB_ORDER))
    sub_job_ready: Point[SubJobTest] = field(default_factory=lambda: Point(Switch.SUB_JOB_READY))
    sub_job_pipelined: Point[SubJobVote] = field(
        default_factory=lambda: Point(Switch.SUB_JOB_PIPELINED)
    )
    task_order: Point[TaskCompare] = field(default_factory=lambda: Point(Switch.TASK_ORDER))
    queue_order: Point[QueueCompare] = field(default_factory=lambda: Point(Switch.QUEUE_ORDER))
    victim_queue_order: Point[VictimQueueCompare] = field(default_factory=Point[VictimQueueCompare])
    overused: Point[QueueTest] = field(default_factory=lambda: Point(Switch.OVERUSED))
    allocatable: Point[QueueTaskTest] = field(default_factory=lambda: Point(Switch.ALLOCATABLE))
    preemptive: Point[QueueTasksTest] = field(default_factory=lambda: Point(Switch.PREEMPTIVE))
    preemptable: Point[Choice] = field(default_factory=lambda: Point(Switch.PREEMPTABLE))
    reclaimable: Point[Choice] = field(default_factory=lambda: Point(Switch.RECLAIMABLE))
    bundle: Point[Bundle] = field(default_factory=Point[Bundle])
    precheck: Point[Precheck] = field(default_factory=lambda: Point(Switch.PREDICATE))
    screen: Point[Screen] = field(default_factory=lambda: Point(Switch.PREDICATE))
    second_look: Point[Screen] = field(default_factory=lambda: Point(Switch.PREEMPTABLE))
    node_score: Point[NodeScore] = field(default_factory=lambda: Point(Switch.NODE_ORDER))
    local_score: Point[LocalScore] = field(default_factory=lambda: Point(Switch.NODE_ORDER))
    hyper_node_score: Point[HyperNodeScore] = field(
        default_factory=lambda: Point(Switch.HYPER_NODE_ORDER)
    )
    gradient: Point[Gradient] = field(default_factory=lambda: Point(Switch.HYPER_NODE_GRADIENT))
    victim_tasks: Point[VictimTasks] = field(default_factory=lambda: Point(Switch.VICTIM))
    allocated: Point[TaskHook] = field(default_factory=Point[TaskHook])
    deallocated: Point[TaskHook] = field(default_factory=Point[TaskHook])

    def arrange(self, tiers: Sequence[Sequence[PluginOption]]) -> None:
        """Put the functions of every point in the order of the tiers."""
        for name in self.__slots__:
            point: Point[object] = getattr(self, name)
            point.arrange(tiers)
