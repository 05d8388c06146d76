"""binpack: fuller nodes first.

Score: the mean of what would be used of each resource the task asks for, by weight, times 100 times
`binpack.weight`; 0 where any would be exceeded. What a node does not have at all counts as 0 in the
mean. Arguments: `binpack.weight`, `binpack.cpu`, `binpack.memory` (1 each), `binpack.resources` (a
list of names), `binpack.resources.NAME` (1); less than 0 counts as not written.
"""

import numpy as np

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.placement.columns import Vector
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.parts import parts_of
from muster_scheduling.volcano.session import Session

_HUNDRED = 100


def binpack_weights(arguments: Arguments, prefix: str) -> dict[str, int]:
    """The weight of each resource that counts, in thousandths."""
    names = arguments.names(f"{prefix}.resources")
    weights = {
        name: arguments.milli(f"{prefix}.resources.{name}", 1000, at_least=0) for name in names
    }
    for name in ("cpu", "memory"):
        weights[name] = arguments.milli(f"{prefix}.{name}", 1000, at_least=0)
    return {name: weight for name, weight in sorted(weights.items()) if weight > 0}


def open_binpack(session: Session, option: PluginOption) -> None:
    """Register the score."""
    arguments = Arguments(option.arguments)
    weight_milli = arguments.milli("binpack.weight", 1000, at_least=0)
    weights = binpack_weights(arguments, "binpack")
    nodes = session.nodes

    def score(task: Task, rows: Vector) -> Vector:
        asked = {name: weight for name, weight in weights.items() if task.requests.get(name, 0) > 0}
        total: Vector = np.zeros(len(rows), np.int64)
        if not asked:
            return total
        fits = np.ones(len(rows), np.bool_)
        for name, weight in asked.items():
            number = nodes.dimension[name]
            there = nodes.allocatable[number, rows]
            after = nodes.used[number, rows] + task.requests[name]
            fits &= (after <= there) | (there == 0)
            total += weight * parts_of(after, there)
        mean = total // sum(asked.values())
        return np.where(fits, mean * _HUNDRED * weight_milli // 1000, 0)

    session.points.local_score.add(option, score)
