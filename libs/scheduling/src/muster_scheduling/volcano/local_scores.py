"""Scores that depend on a task's requests and on one node alone, kept from task to task.

Equal tasks score a node alike until something changes on it, so only the changed rows are asked for
again. A gang of a thousand equal pods on ten thousand nodes needs little more than one full pass.
"""

from dataclasses import dataclass, field

import numpy as np

from muster_scheduling.placement.columns import Shape, Vector
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.nodes import NodeLedger
from muster_scheduling.volcano.points import LocalScore, Point


@dataclass(slots=True)
class _Kept:
    scores: Vector
    seen: int


@dataclass(slots=True)
class LocalScores:
    """The sum of the local scores of all plugins, by shape of task."""

    nodes: NodeLedger
    point: Point[LocalScore]
    _kept: dict[Shape, _Kept] = field(default_factory=dict[Shape, _Kept])

    def scores(self, task: Task) -> Vector:
        """The scores of all nodes, in parts of `SCALE`. Not to be changed."""
        log = self.nodes.log
        kept = self._kept.get(task.shape)
        if kept is None:
            everything = np.arange(len(self.nodes))
            kept = self._kept[task.shape] = _Kept(self._ask(task, everything), len(log))
        elif kept.seen < len(log):
            rows = np.unique(np.array(log[kept.seen :], np.int64))
            kept.scores[rows] = self._ask(task, rows)
            kept.seen = len(log)
        return kept.scores

    def _ask(self, task: Task, rows: Vector) -> Vector:
        total: Vector = np.zeros(len(rows), np.int64)
        for score in self.point.all:
            total += score(task, rows)
        return total
