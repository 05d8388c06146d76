"""resource-strategy-fit: each resource is packed or spread in its own way.

Arguments: `resourceStrategyFitWeight` (10) and `resources`, a mapping of a name, or of a prefix as
`example.com/*`, to `type` (`MostAllocated` or `LeastAllocated`) and `weight` (1). A pod's
annotations `volcano.sh/resource-strategy-scoring-type` and `volcano.sh/resource-strategy-weight`
win over type and weights.

`sra` (`enable`, `resources`, `weight`, `resourceWeight`, a mapping by name) prefers nodes that lack
scarce resources. `proportional` (`enable`, `resources`, `resourceProportion`, a mapping of
`NAME.cpu` and `NAME.memory`) keeps so many processors and GB back for each idle device.
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
_GB = 10**9


@dataclass(frozen=True, slots=True)
class _Strategy:
    most: bool
    weight: int


def open_resource_strategy_fit(session: Session, option: PluginOption) -> None:
    """Register the scores, and the filter where `proportional` is on."""
    arguments = Arguments(option.arguments)
    weight = arguments.integer("resourceStrategyFitWeight", 10, at_least=0)
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
        found[name] = _Strategy(most=most, weight=entry.integer("weight", 1, at_least=1))
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
    """The mean over what the pod asks for, by weight, times 100; 0 where any would overflow.

    A resource that a node does not have at all counts as 0 in the mean.
    """
    total: Vector = np.zeros(len(session.nodes), np.int64)
    fits = np.ones(len(session.nodes), np.bool_)
    weights = 0
    for name, quantity in sorted(task.requests.items()):
        strategy = _strategy_of(name, strategies)
        if not quantity or strategy is None:
            continue
        weights += strategy.weight
        number = session.nodes.dimension[name]
        there = session.nodes.allocatable[number]
        after = session.nodes.used[number] + quantity
        fits &= (after <= there) | (there == 0)
        part = parts_of(after, there)
        total = total + strategy.weight * np.where(
            there > 0, part if strategy.most else SCALE - part, 0
        )
    return np.where(fits, 100 * total // weights, 0) if weights else total


def _scarcity_score(session: Session, task: Task, scarce: Arguments) -> Vector:
    """More for nodes that lack scarce resources; nothing where what a pod asks for is lacking."""
    nodes = session.nodes
    by_name = Arguments(scarce.mapping("resourceWeight"))
    total: Vector = np.zeros(len(nodes), np.int64)
    weights = 0
    for name in scarce.names("resources"):
        weight = by_name.integer(name, 1, at_least=0)
        weights += weight
        number = nodes.dimension.get(name)
        there = nodes.allocatable[number] if number is not None else np.zeros_like(total)
        total = total + weight * np.where(there > 0, 0, SCALE)
    asked, _ = nodes.ask(task.requests)
    able = np.all(nodes.allocatable[asked] > 0, axis=0)
    mean = 100 * total // weights if weights else total
    return np.where(able, mean * scarce.integer("weight", 1, at_least=0), 0)


def _keep_back(session: Session, task: Task, screening: Screening, kept: Arguments) -> None:
    """Refuse a pod without a device on a node where it would eat into the idle devices' share."""
    nodes = session.nodes
    devices = kept.names("resources")
    if any(task.requests.get(device) for device in devices):
        return
    by_name = Arguments(kept.mapping("resourceProportion"))
    for device in devices:
        if device not in nodes.dimension:
            continue
        idle_milli = nodes.idle[nodes.dimension[device]]
        for name, unit in (("cpu", 1), ("memory", _GB)):
            ratio_milli = by_name.milli(f"{device}.{name}", 0)
            needed_milli = idle_milli * ratio_milli // 1000 * unit
            left = nodes.idle[nodes.dimension[name]] - task.requests.get(name, 0)
            short = (nodes.allocatable[nodes.dimension[device]] > 0) & (left < needed_milli)
            screening.refuse(short, f"{name} is kept for idle {device}", final=True)
