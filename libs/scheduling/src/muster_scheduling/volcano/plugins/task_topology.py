"""task-topology: which roles of a gang want to share a node, and which do not (2.17).

Annotations of the PodGroup: `volcano.sh/task-topology-affinity` and `-anti-affinity` as
`ps,worker;ps,chief` (a role alone means pods of that role among each other), and
`volcano.sh/task-topology-task-order` as `ps,worker`. Annotations that name an unknown role have no
effect, and the plan warns of them. Argument `task-topology.weight` (1).

Tasks are put into buckets once, when the session opens; a bucket is what should sit on one node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.amounts import SCALE, add_to
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.job import HELD, Job, Task
from muster_scheduling.volcano.session import Session

_AFFINITY = "volcano.sh/task-topology-affinity"
_ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
_ORDER = "volcano.sh/task-topology-task-order"
_MEBI_MILLI = (1 << 20) * 1000
_SELF_APART, _TOGETHER, _SELF_TOGETHER, _APART, _NONE = 4, 3, 2, 1, 0


@dataclass(frozen=True, slots=True)
class Relations:
    """Which roles want to be together or apart, by pairs; and in which order roles go."""

    together: frozenset[tuple[str, str]]
    apart: frozenset[tuple[str, str]]
    order: tuple[str, ...]

    def strength(self, role: str) -> int:
        """How much a role's strongest relation matters for the order of placing."""
        kinds = [_NONE]
        for pairs, alone, others in (
            (self.apart, _SELF_APART, _APART),
            (self.together, _SELF_TOGETHER, _TOGETHER),
        ):
            kinds += [alone if pair[0] == pair[1] else others for pair in pairs if role in pair]
        return max(kinds)

    def related(self, left: str, right: str) -> int:
        """1 for together, -1 for apart, 0 for neither or both."""
        pair = (min(left, right), max(left, right))
        return (pair in self.together) - (pair in self.apart)


@dataclass(slots=True)
class Bucket:
    """Tasks that should sit on one node, in the order in which they were put in."""

    number: int
    tasks: list[Task] = field(default_factory=list[Task])
    node: str = ""

    @property
    def waiting(self) -> list[Task]:
        """Those that have no node yet."""
        return [task for task in self.tasks if task.status not in HELD]

    def size(self) -> int:
        """How much its tasks ask for: milli-cpu, MiB and pieces in one sum."""
        asked: dict[str, int] = {}
        for task in self.tasks:
            add_to(asked, task.pod.requests)
        return sum(
            quantity // _MEBI_MILLI if name == "memory" else quantity
            for name, quantity in asked.items()
        )


def open_task_topology(session: Session, option: PluginOption) -> None:
    """Register the order of tasks and the score of nodes."""
    weight = Arguments(option.arguments).integer("task-topology.weight", 1)
    plugin = _TaskTopology(session, weight)
    session.points.task_order.add(option, plugin.order)
    session.points.node_score.add(option, plugin.score)


class _TaskTopology:
    def __init__(self, session: Session, weight: int) -> None:
        self._session = session
        self._weight = weight
        self._bucket_of: dict[str, Bucket] = {}
        self._relations: dict[str, Relations] = {}
        for job in session.jobs.values():
            found, problem = read_relations(job)
            if problem:
                session.warnings.append(f"{job.key}: {problem}")
            if found is not None:
                self._relations[job.key] = found
                for bucket in fill_buckets(job, found):
                    self._bucket_of.update({task.key: bucket for task in bucket.tasks})

    def order(self, left: Task, right: Task) -> int:
        """Tasks in buckets first, of the fullest bucket first, in its own order."""
        mine, other = self._bucket_of.get(left.key), self._bucket_of.get(right.key)
        if mine is None or other is None:
            return (mine is None) - (other is None)
        if mine is not other:
            return len(other.waiting) - len(mine.waiting) or mine.number - other.number
        return mine.tasks.index(left) - mine.tasks.index(right)

    def score(self, task: Task, among: Mask) -> Vector:
        """By what of a task's bucket is on a node or would still fit there."""
        points: Vector = np.zeros(len(self._session.nodes), np.int64)
        bucket = self._bucket_of.get(task.key)
        if bucket is None:
            return points
        relations = self._relations[task.gang.key]
        for row in np.flatnonzero(among).tolist():
            points[row] = _points(self._session, task, bucket, relations, row)
        largest = max(len(found.tasks) for found in self._bucket_of.values())
        return points * (self._weight * 100 * SCALE) // largest


def read_relations(job: Job) -> tuple[Relations | None, str]:
    """What a PodGroup's annotations say, or why they are left aside; both empty for nothing."""
    annotations = job.group.annotations
    if not any(key in annotations for key in (_AFFINITY, _ANTI_AFFINITY)):
        return None, ""
    together = _groups(annotations, _AFFINITY)
    apart = _groups(annotations, _ANTI_AFFINITY)
    order = [role.strip() for role in annotations.get(_ORDER, "").split(",") if role.strip()]
    known = {task.role for task in job.tasks.values()}
    for roles in (*together, *apart, order):
        for role in roles:
            if role not in known:
                return None, f"task {role} of the task topology does not exist"
            if roles.count(role) > 1:
                return None, f"task {role} is named twice in one group of the task topology"
    return Relations(_pairs(together), _pairs(apart), tuple(order)), ""


def _groups(annotations: Mapping[str, str], key: str) -> list[list[str]]:
    groups = (group.split(",") for group in annotations.get(key, "").split(";"))
    named = [[role.strip() for role in group if role.strip()] for group in groups]
    return [group for group in named if group]


def _pairs(groups: Sequence[Sequence[str]]) -> frozenset[tuple[str, str]]:
    pairs: set[tuple[str, str]] = set()
    for group in groups:
        if len(group) == 1:
            pairs.add((group[0], group[0]))
        for number, left in enumerate(group):
            for right in group[number + 1 :]:
                pairs.add((min(left, right), max(left, right)))
    return frozenset(pairs)


def fill_buckets(job: Job, relations: Relations) -> list[Bucket]:
    """Put the tasks of a job into buckets; roles without a relation stay outside."""
    buckets: list[Bucket] = []
    for task in _in_turn(job, relations):
        bucket = _of_node(buckets, task) if task.status in HELD else _best(buckets, task, relations)
        if bucket is None:
            bucket = Bucket(len(buckets), node=task.node if task.status in HELD else "")
            buckets.append(bucket)
        bucket.tasks.append(task)
    return buckets


def _in_turn(job: Job, relations: Relations) -> list[Task]:
    """Those with a node first; then by the order given, by the strength of relations, by name."""

    def key(task: Task) -> tuple[bool, int, int, int, str]:
        given = (
            relations.order.index(task.role)
            if task.role in relations.order
            else len(relations.order)
        )
        return (
            task.status not in HELD,
            given,
            -relations.strength(task.role),
            task.number,
            task.key,
        )

    related = (task for task in job.tasks.values() if relations.strength(task.role))
    return sorted(related, key=key)


def _of_node(buckets: Sequence[Bucket], task: Task) -> Bucket | None:
    return next((bucket for bucket in buckets if bucket.node == task.node), None)


def _best(buckets: Sequence[Bucket], task: Task, relations: Relations) -> Bucket | None:
    """The bucket with most of what a task wants near; the smaller of equal ones."""
    scored = [
        (sum(relations.related(task.role, other.role) for other in bucket.tasks), bucket)
        for bucket in buckets
        if not any(
            other.role == task.role and relations.related(task.role, task.role) < 0
            for other in bucket.tasks
        )
    ]
    if not scored:
        return None
    points, bucket = max(scored, key=lambda found: (found[0], -found[1].size(), -found[1].number))
    return bucket if points >= 0 else None


def _points(session: Session, task: Task, bucket: Bucket, relations: Relations, row: int) -> int:
    """Tasks of the bucket on a node, less the conflicts there, plus those that would still fit."""
    on_node = session.nodes.tasks[row].values()
    mine = sum(other in bucket.tasks for other in on_node)
    conflicts = sum(
        other.job is task.job and relations.related(task.role, other.role) < 0
        for other in on_node
        if other not in bucket.tasks
    )
    left = {
        name: int(session.nodes.future[number, row])
        for name, number in session.nodes.dimension.items()
    }
    fitting = 0
    for other in bucket.waiting:
        if all(quantity <= left[name] for name, quantity in other.requests.items()):
            fitting += 1
            for name, quantity in other.requests.items():
                left[name] -= quantity
    return mine - conflicts + fitting
