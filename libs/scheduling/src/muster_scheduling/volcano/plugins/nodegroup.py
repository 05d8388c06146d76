"""nodegroup: a queue uses the groups of nodes that it names.

The group of a node is its label `volcano.sh/nodegroup-name`. A group that a queue must or would
rather use is allowed, as is one that it would rather not; any other is refused. With `strict`
(true) a queue that names no groups uses no node at all, and nodes without a group are refused;
without it such nodes are for everybody. With `enableHierarchy` a queue that names none has those of
the queue above.
"""

import numpy as np

from muster_domain.queues import NodeGroups
from muster_domain.volcano_scheduler import PluginOption, Switch
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.amounts import SCALE
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.points import Screening
from muster_scheduling.volcano.session import Session

_LABEL = "volcano.sh/nodegroup-name"
_REQUIRED, _PREFERRED, _UNWELCOME = 100, 50, -1


def open_nodegroup(session: Session, option: PluginOption) -> None:
    """Register the filter and the score."""
    strict = Arguments(option.arguments).flag("strict", default=True)
    inherits = Switch.HIERARCHY in option.enabled
    column = session.nodes.columns.label(_LABEL)

    def screen(task: Task, screening: Screening) -> None:
        groups = _groups_of(session, task.gang.queue, inherits=inherits)
        allowed = [_allowed(group, groups, strict=strict) for group in column.values]
        refused = ~np.array(allowed, np.bool_)[column.codes]
        screening.refuse(
            refused, f"queue {task.gang.queue} does not use the node group", final=True
        )

    def score(task: Task, _: Mask) -> Vector:
        groups = _groups_of(session, task.gang.queue, inherits=inherits) or NodeGroups()
        points = [_points(group, groups) for group in column.values]
        return SCALE * np.array(points, np.int64)[column.codes]

    session.points.screen.add(option, screen)
    session.points.node_score.add(option, score)


def _groups_of(session: Session, name: str, *, inherits: bool) -> NodeGroups | None:
    seen: list[str] = []
    while name in session.queues and name not in seen:
        queue = session.queues[name]
        if queue.node_groups is not None or not inherits:
            return queue.node_groups
        seen.append(name)
        name = queue.parent
    return None


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
