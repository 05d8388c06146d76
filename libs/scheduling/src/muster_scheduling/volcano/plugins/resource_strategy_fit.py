"""resource-strategy-fit: each resource is packed or spread in its own way.

Arguments: `resourceStrategyFitWeight` (10) and `resources`, a mapping of a name, or of a prefix as
`example.com/*`, to `type` (`MostAllocated` or `LeastAllocated`) and `weight` (1). A pod's
annotations `volcano.sh/resource-strategy-scoring-type` and `volcano.sh/resource-strategy-weight`
win over type and weights.

`sra` (`enable`, `resources`, `weight`, `resourceWeight.NAME`) prefers nodes that lack scarce
resources a pod does not ask for. `proportional` (`enable`, `resources`,
`resourceProportion.NAME.cpu`, `.memory`) keeps cpu and memory back for idle devices.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.amounts import SCALE
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.parts import parts_of
from muster_scheduling.volcano.points import Screening
from muster_scheduling.volcano.session import Session

_MOST = "MostAllocated"
_LEAST = "LeastAllocated"
_TYPE = "volcano.sh/resource-strategy-scoring-type"
_WEIGHTS = "volcano.sh/resource-strategy-weight"
_ANY = "/*"


@dataclass(frozen=True, slots=True)
class _Strategy:
    most: bool
    weight: int


def open_resource_strategy_fit(session: Session, option: PluginOption) -> None:
    """Register the scores, and the filter where `proportional` is on."""
    arguments = Arguments(option.arguments)
    weight = arguments.integer("resourceStrategyFitWeight", 10)
    strategies = _strategies(arguments)

    def score(task: Task, _: Mask) -> Vector:
        return weight * _fit_score(session, task, _own(task, strategies))

    session.points.node_score.add(option, score)
    scarce = Arguments(arguments.mapping("sra"))
    if scarce.flag("enable"):
        session.points.node_score.add(
            option, lambda task, _: _scarcity_score(session, task, scarce)
        )
    kept = Arguments(arguments.mapping("proportional"))
    if kept.flag("enable"):
        session.points.screen.add(
            option, lambda task, found: _keep_back(session, task, found, kept)
        )


def _strategies(arguments: Arguments) -> dict[str, _Strategy]:
    written = arguments.mapping("resources")
    found: dict[str, _Strategy] = {}
    for name, value in written.items():
        entry = Arguments(value if isinstance(value, Mapping) else {})
        most = entry.text("type", _LEAST) == _MOST
        found[name] = _Strategy(most=most, weight=max(0, entry.integer("weight", 1)))
    return found or {name: _Strategy(most=False, weight=1) for name in ("cpu", "memory")}


def _own(task: Task, strategies: Mapping[str, _Strategy]) -> Mapping[str, _Strategy]:
    """What a pod's annotations make of the strategies; what cannot be read changes nothing."""
    annotations = task.pod.annotations
    kind = annotations.get(_TYPE, "")
    weights = _weights(annotations.get(_WEIGHTS, ""))
    if kind not in (_MOST, _LEAST) or not weights:
        return strategies
    return {name: _Strategy(most=kind == _MOST, weight=weight) for name, weight in weights.items()}


def _weights(written: str) -> dict[str, int]:
    try:
        value: object = json.loads(written) if written else {}
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    pairs = cast("dict[str, object]", value).items()
    return {name: weight for name, weight in pairs if isinstance(weight, int) and weight > 0}


def _strategy_of(name: str, strategies: Mapping[str, _Strategy]) -> _Strategy | None:
    """The strategy of a resource: by its own name, else by the longest prefix."""
    if name in strategies:
        return strategies[name]
    prefixes = [
        key for key in strategies if key.endswith(_ANY) and name.startswith(key.removesuffix("*"))
    ]
    return strategies[max(prefixes, key=len)] if prefixes else None


def _fit_score(session: Session, task: Task, strategies: Mapping[str, _Strategy]) -> Vector:
    """The mean over what the pod asks for, by weight, times 100; what overflows counts as 0."""
    total: Vector = np.zeros(len(session.nodes), np.int64)
    weights = 0
    for name, quantity in sorted(task.requests.items()):
        strategy = _strategy_of(name, strategies)
        if not quantity or strategy is None:
            continue
        weights += strategy.weight
        number = session.nodes.dimension[name]
        there = session.nodes.allocatable[number]
        after = session.nodes.used[number] + quantity
        part = parts_of(after, there)
        fits = (after <= there) & (there > 0)
        total = total + strategy.weight * np.where(fits, part if strategy.most else SCALE - part, 0)
    return 100 * total // weights if weights else total


def _scarcity_score(session: Session, task: Task, scarce: Arguments) -> Vector:
    """More for nodes that lack the scarce resources a pod does not ask for."""
    total: Vector = np.zeros(len(session.nodes), np.int64)
    weights = 0
    for name in scarce.names("resources"):
        weight = scarce.integer(f"resourceWeight.{name}", 1)
        weights += weight
        if task.requests.get(name):
            continue
        number = session.nodes.dimension.get(name)
        there = session.nodes.allocatable[number] if number is not None else total * 0
        total = total + weight * np.where(there > 0, 0, SCALE)
    return 100 * total // weights * scarce.integer("weight", 1) if weights else total


def _keep_back(session: Session, task: Task, screening: Screening, kept: Arguments) -> None:
    """Refuse a pod without a device on a node where it would eat into the idle devices' share."""
    nodes = session.nodes
    for device in kept.names("resources"):
        if device not in nodes.dimension or task.requests.get(device):
            continue
        idle = nodes.idle[nodes.dimension[device]]
        for name in ("cpu", "memory"):
            ratio = kept.integer(f"resourceProportion.{device}.{name}", 0)
            unit = 1 if name == "cpu" else 1 << 30
            needed = idle * ratio * unit
            left = nodes.idle[nodes.dimension[name]] - task.requests.get(name, 0)
            short = (nodes.allocatable[nodes.dimension[device]] > 0) & (left < needed)
            screening.refuse(short, f"{name} is kept for idle {device}")
