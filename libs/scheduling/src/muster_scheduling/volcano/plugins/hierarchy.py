"""Hierarchical DRF: queues as leaves of a weighted tree of groups (2.13).

A queue's path and weights are those of its annotations, `root/eng/dev` and `1/50/50`. A leaf is a
job under its queue. A node that cannot use more is saturated and goes last; an inner node's share
is the dominant share of its children, those that are not saturated scaled down to the smallest of
them, so that a blocked child does not block its brothers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster_domain.queues import VolcanoQueue
from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.amounts import (
    PODS,
    SCALE,
    add_to,
    dominant_share,
    minus,
    total_of,
)
from muster_scheduling.volcano.job import Job, Task
from muster_scheduling.volcano.plan import TaskStatus
from muster_scheduling.volcano.session import Session

_SEPARATOR = "/"


@dataclass(slots=True)
class _Group:
    """A node of the tree. `request` is set for leaves alone."""

    name: str
    weight: int = 1
    children: dict[str, "_Group"] = field(default_factory=dict[str, "_Group"])
    allocated: dict[str, int] = field(default_factory=dict[str, int])
    request: dict[str, int] | None = None
    share: int = 0
    saturated: bool = False


def open_hierarchy(session: Session, option: PluginOption) -> None:
    """Register the order of queues and the rule for reclaiming."""
    tree = _Tree(session)

    def order(left: VolcanoQueue, right: VolcanoQueue) -> int:
        return tree.compare(tree.build({}), left, right)

    def victims(reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        moved = {reclaimer.gang.key: dict(reclaimer.requests)}
        chosen: list[Task] = []
        for task in candidates:
            job = task.gang
            tried = {**moved, job.key: minus(moved.get(job.key, {}), task.requests)}
            mine, other = session.queue_of(reclaimer.gang), session.queue_of(job)
            if tree.compare(tree.build(tried), mine, other) < 0:
                moved = tried
                chosen.append(task)
        return chosen

    session.points.queue_order.add(option, order)
    session.points.reclaimable.add(option, victims)


class _Tree:
    """The tree as it would be after some amounts have moved between jobs."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def build(self, moved: Mapping[str, Mapping[str, int]]) -> _Group:
        """The whole tree, shares and saturation included."""
        session = self._session
        root = _Group("root")
        used: dict[str, int] = {}
        for job in session.jobs.values():
            if job.queue not in session.queues:
                continue
            group = _descend(root, session.queues[job.queue])
            leaf = _Group(job.key)
            leaf.allocated = total_of((job.held, moved.get(job.key, {})))
            leaf.request = _request(job)
            group.children[job.key] = leaf
            add_to(used, leaf.allocated)
        demanding = {name for name, there in session.total.items() if used.get(name, 0) < there}
        _settle(root, session.total, demanding)
        return root

    def compare(self, root: _Group, left: VolcanoQueue, right: VolcanoQueue) -> int:
        """Which of two queues goes first: down both paths to where they part."""
        mine, other = root, root
        for step, rival in zip(_path(left), _path(right), strict=False):
            mine, other = mine.children.get(step), other.children.get(rival)
            if mine is None or other is None:
                return 0
            if mine is other:
                continue
            if mine.saturated != other.saturated:
                return mine.saturated - other.saturated
            return _sign(mine.share * other.weight, other.share * mine.weight)
        return 0


def _path(queue: VolcanoQueue) -> list[str]:
    return queue.hierarchy.split(_SEPARATOR)[1:]


def _descend(root: _Group, queue: VolcanoQueue) -> _Group:
    weights = queue.hierarchy_weights.split(_SEPARATOR)[1:]
    group = root
    for number, step in enumerate(_path(queue)):
        group = group.children.setdefault(step, _Group(step))
        if number < len(weights) and weights[number].isdecimal():
            group.weight = max(1, int(weights[number]))
    return group


def _request(job: Job) -> dict[str, int]:
    pending = (task.requests for task in job.in_status(TaskStatus.PENDING))
    return total_of((job.held, *pending))


def _settle(group: _Group, total: Mapping[str, int], demanding: set[str]) -> None:
    """Shares and saturation from the leaves up."""
    if group.request is not None:
        asked = {name for name, quantity in group.request.items() if quantity and name != PODS}
        full = any(group.allocated.get(name, 0) >= group.request[name] for name in asked)
        group.saturated = full or not asked & demanding
        group.share = dominant_share(group.allocated, total)
        return
    children = list(group.children.values())
    for child in children:
        _settle(child, total, demanding)
    growing = [child.share for child in children if not child.saturated and child.share > 0]
    smallest = min(growing, default=SCALE)
    group.allocated = {}
    for child in children:
        scaled = not child.saturated and child.share > 0
        add_to(
            group.allocated,
            {
                name: quantity * smallest // child.share if scaled else quantity
                for name, quantity in child.allocated.items()
            },
        )
    group.share = dominant_share(group.allocated, total)
    group.saturated = all(child.saturated for child in children)


def _sign(left: int, right: int) -> int:
    return (left > right) - (left < right)
