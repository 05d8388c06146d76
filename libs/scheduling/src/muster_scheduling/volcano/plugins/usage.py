"""usage: nodes whose measured load is high take no more, and those with little are preferred.

Arguments: `thresholds` (`cpu` 80, `mem` 80, in percent), `usage.weight` 5, `cpu.weight` 1,
`memory.weight` 1. What was measured more than five minutes ago, or never, says nothing.
"""

import numpy as np

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.amounts import SCALE
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.points import Screening
from muster_scheduling.volcano.session import Session

_FRESH_MS = 5 * 60_000
_FULL_MILLI = 1000


def open_usage(session: Session, option: PluginOption) -> None:
    """Register the filter and the score."""
    arguments = Arguments(option.arguments)
    thresholds = Arguments(arguments.mapping("thresholds"))
    limits = {
        "cpu": thresholds.milli("cpu", 80_000) // 100,
        "memory": thresholds.milli("mem", 80_000) // 100,
    }
    weights = {
        "cpu": arguments.integer("cpu.weight", 1),
        "memory": arguments.integer("memory.weight", 1),
    }
    weight = arguments.integer("usage.weight", 5)
    loads, known = _loads(session)

    def screen(_: Task, screening: Screening) -> None:
        for name, limit in limits.items():
            screening.refuse(known & (loads[name] > limit), f"{name} load is above its threshold")

    def score(_: Task, __: Mask) -> Vector:
        total: Vector = np.zeros(len(session.nodes), np.int64)
        for name, own in weights.items():
            total = total + own * (_FULL_MILLI - np.minimum(loads[name], _FULL_MILLI))
        part = 100 * SCALE * total // (_FULL_MILLI * max(1, sum(weights.values())))
        return np.where(known, weight * part, 0)

    session.points.screen.add(option, screen)
    session.points.node_score.add(option, score)


def _loads(session: Session) -> tuple[dict[str, Vector], Mask]:
    """Each node's load in thousandths, and whether it was measured lately."""
    cpu = np.zeros(len(session.nodes), np.int64)
    memory = np.zeros(len(session.nodes), np.int64)
    known = np.zeros(len(session.nodes), np.bool_)
    for found in session.snapshot.usage:
        row = session.nodes.row.get(found.node)
        fresh = found.at_ms is not None and session.now_ms - found.at_ms <= _FRESH_MS
        if row is not None and fresh:
            cpu[row], memory[row], known[row] = found.cpu_milli, found.memory_milli, True
    return {"cpu": cpu, "memory": memory}, known
