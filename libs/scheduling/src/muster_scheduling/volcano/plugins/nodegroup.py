"""nodegroup: a queue uses the groups of nodes that it names.

The group of a node is its label `volcano.sh/nodegroup-name`. A group that a queue must or would
rather use is allowed, as is one that it would rather not; any other is refused. With `strict`
(true) a queue that names no groups uses no node at all, and nodes without a group are refused;
without it such nodes are for everybody. With `enableHierarchy` a queue that names none has those of
the queue above. What a queue, and those that have its groups from it, hold on the nodes of a group
is bounded by its annotation `volcano.sh/nodegroup-resource-limits`.
"""

import numpy as np

from muster_domain.queues import NodeGroups
from muster_domain.volcano_scheduler import PluginOption, Switch
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.amounts import SCALE, add_to, take_from, total_of
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.job import HELD, Task
from muster_scheduling.volcano.points import Screening
from muster_scheduling.volcano.session import Session

_LABEL = "volcano.sh/nodegroup-name"
_REQUIRED, _PREFERRED, _UNWELCOME = 100, 50, -1


def open_nodegroup(session: Session, option: PluginOption) -> None:
    """Register the filter and the score, and count what queues hold on limited groups."""
    plugin = _NodeGroups(session, option)
    session.points.screen.add(option, plugin.screen)
    session.points.node_score.add(option, plugin.score)
    session.points.allocated.add(option, lambda task: plugin.count(task, 1))
    session.points.deallocated.add(option, lambda task: plugin.count(task, -1))


class _NodeGroups:
    def __init__(self, session: Session, option: PluginOption) -> None:
        self._session = session
        self._strict = Arguments(option.arguments).flag("strict", default=True)
        self._inherits = Switch.HIERARCHY in option.enabled
        self._column = session.nodes.columns.label(_LABEL)
        self._held: dict[tuple[str, str], dict[str, int]] = {}
        for job in session.jobs.values():
            for task in job.in_status(*sorted(HELD)):
                self.count(task, 1)

    def screen(self, task: Task, screening: Screening) -> None:
        """Refuse groups that the queue does not use, or of which it holds all that it may."""
        queue = task.gang.queue
        owner = self._owner(queue)
        groups = self._session.queues[owner].node_groups if owner else None
        allowed = [_allowed(group, groups, strict=self._strict) for group in self._column.values]
        refused = ~np.array(allowed, np.bool_)[self._column.codes]
        screening.refuse(refused, f"queue {queue} does not use the node group", final=True)
        if groups is not None and groups.limits:
            full = [self._full(owner, group, groups, task) for group in self._column.values]
            reason = f"queue {queue} holds all that it may of the node group"
            screening.refuse(np.array(full, np.bool_)[self._column.codes], reason, final=True)

    def score(self, task: Task, _: Mask) -> Vector:
        """Groups that the queue must use before those that it would rather use."""
        owner = self._owner(task.gang.queue)
        groups = (self._session.queues[owner].node_groups if owner else None) or NodeGroups()
        points = [_points(group, groups) for group in self._column.values]
        return SCALE * np.array(points, np.int64)[self._column.codes]

    def count(self, task: Task, sign: int) -> None:
        """Count what a task gets or gives back on the group of its node."""
        row = self._session.nodes.row.get(task.node)
        group = self._column.values[int(self._column.codes[row])] if row is not None else None
        if group is not None:
            held = self._held.setdefault((self._owner(task.gang.queue), group), {})
            (add_to if sign > 0 else take_from)(held, task.requests)

    def _full(self, owner: str, group: str | None, groups: NodeGroups, task: Task) -> bool:
        if group is None or group not in groups.limits:
            return False
        limit, asked = groups.limits[group], task.requests
        after = total_of((self._held.get((owner, group), {}), asked))
        return any(asked.get(name, 0) and after[name] > most for name, most in limit.items())

    def _owner(self, name: str) -> str:
        """The queue whose groups one uses: itself, or the nearest above it that names some."""
        queues, seen = self._session.queues, [name]
        while self._inherits and name in queues and queues[name].node_groups is None:
            name = queues[name].parent
            if name in seen:
                return ""
            seen.append(name)
        return name if name in queues else ""


def _allowed(group: str | None, groups: NodeGroups | None, *, strict: bool) -> bool:
    if group is None:
        return not strict
    if groups is None:
        return False
    if group in (*groups.required, *groups.preferred, *groups.anti_preferred):
        return True
    names_none = not (groups.required or groups.preferred)
    return names_none and group not in groups.anti_required


def _points(group: str | None, groups: NodeGroups) -> int:
    return (
        _REQUIRED * (group in groups.required)
        + _PREFERRED * (group in groups.preferred)
        + _UNWELCOME * (group in groups.anti_preferred)
    )
