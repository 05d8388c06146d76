"""nodeorder: the sum of Kubernetes' own scores, each 0 to 100, by weight.

Arguments and their defaults: `leastrequested.weight` 1, `mostrequested.weight` 0,
`nodeaffinity.weight` 2, `podaffinity.weight` 2, `balancedresource.weight` 1,
`tainttoleration.weight` 3, `podtopologyspread.weight` 2. `imagelocality.weight` is accepted; nodes
do not say which images they have.
"""

from collections.abc import Callable

import numpy as np

from muster_domain.selectors import TaintEffect
from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.amounts import SCALE
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.neighbours import (
    count_by_domain,
    holders,
    in_domain_of,
    labelled,
    meets,
    nodes_matching,
)
from muster_scheduling.volcano.parts import parts_of
from muster_scheduling.volcano.session import Session

_FULL = 100 * SCALE
_COMPUTE = ("cpu", "memory")
_BALANCED = (*_COMPUTE, "nvidia.com/gpu")

Scorer = Callable[[Session, Task, Mask], Vector]
LocalScorer = Callable[[Session, Task, Vector], Vector]


def open_nodeorder(session: Session, option: PluginOption) -> None:
    """Register the scores whose weight is not zero."""
    arguments = Arguments(option.arguments)
    weighed = [
        (scorer, weight)
        for scorer, key, default in _SCORERS
        if (weight := arguments.integer(f"{key}.weight", default))
    ]
    local = [
        (scorer, weight)
        for scorer, key, default in _LOCAL_SCORERS
        if (weight := arguments.integer(f"{key}.weight", default))
    ]

    def score(task: Task, among: Mask) -> Vector:
        total: Vector = np.zeros(len(session.nodes), np.int64)
        for scorer, weight in weighed:
            total += weight * scorer(session, task, among)
        return total

    def local_score(task: Task, rows: Vector) -> Vector:
        total: Vector = np.zeros(len(rows), np.int64)
        for scorer, weight in local:
            total += weight * scorer(session, task, rows)
        return total

    session.points.node_score.add(option, score)
    session.points.local_score.add(option, local_score)


def _after(session: Session, task: Task, name: str, rows: Vector) -> tuple[Vector, Vector]:
    """What of a resource would be used on some nodes, and what there is."""
    nodes = session.nodes
    number = nodes.dimension[name]
    return nodes.used[number, rows] + task.requests.get(name, 0), nodes.allocatable[number, rows]


def _known(session: Session, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in session.nodes.dimension]


def _most_requested(session: Session, task: Task, rows: Vector) -> Vector:
    names = _known(session, _COMPUTE)
    total: Vector = np.zeros(len(rows), np.int64)
    for name in names:
        after, there = _after(session, task, name, rows)
        total += np.where(after <= there, 100 * parts_of(after, there), 0)
    return total // max(1, len(names))


def _least_requested(session: Session, task: Task, rows: Vector) -> Vector:
    names = _known(session, _COMPUTE)
    total: Vector = np.zeros(len(rows), np.int64)
    for name in names:
        after, there = _after(session, task, name, rows)
        total += 100 * parts_of(np.maximum(there - after, 0), there)
    return total // max(1, len(names))


def _balanced(session: Session, task: Task, rows: Vector) -> Vector:
    """100 less the standard deviation of the parts in use of cpu, memory and GPUs.

    The root of a whole number is exact enough in binary and the same everywhere.
    """
    known = _known(session, _BALANCED)
    names = [name for name in known if name in _COMPUTE or task.requests.get(name)]
    if not names:
        return np.zeros(len(rows), np.int64)
    parts = np.array([parts_of(*_after(session, task, name, rows)) for name in names], np.int64)
    mean = parts.sum(axis=0) // len(names)
    variance = ((parts - mean) ** 2).sum(axis=0) // len(names)
    return _FULL - 100 * np.sqrt(variance).astype(np.int64)


def _node_affinity(session: Session, task: Task, among: Mask) -> Vector:
    total: Vector = np.zeros(len(session.nodes), np.int64)
    if not task.pod.demand.affinity.preferred_terms:
        return total
    for preferred in task.pod.demand.affinity.preferred_terms:
        total = total + preferred.weight * nodes_matching(session, preferred.term)
    return _of_largest(total, among)


def _taint_toleration(session: Session, task: Task, among: Mask) -> Vector:
    tolerations = task.pod.demand.tolerations
    column = session.nodes.columns.taints
    unwelcome = np.array(
        [
            sum(
                taint.effect is TaintEffect.PREFER_NO_SCHEDULE
                and not any(toleration.tolerates(taint) for toleration in tolerations)
                for taint in taints
            )
            for taints in column.values
        ],
        np.int64,
    )
    return _FULL - _of_largest(unwelcome[column.codes], among)


def _pod_affinity(session: Session, task: Task, among: Mask) -> Vector:
    total: Vector = np.zeros(len(session.nodes), np.int64)
    if not task.pod.affinity and not session.nodes.affine:
        return total
    for term in task.pod.affinity:
        if term.weight:
            found = count_by_domain(session, term.topology_key, lambda o, t=term: meets(t, task, o))
            total = total + (-term.weight if term.anti else term.weight) * found
    for anti in (False, True):
        for other, term in holders(session, anti=anti, required=False):
            if meets(term, other, task):
                near = in_domain_of(session, term.topology_key, other.node)
                total = total + (-term.weight if anti else term.weight) * near
    return _between(total, among)


def _topology_spread(session: Session, task: Task, among: Mask) -> Vector:
    total: Vector = np.zeros(len(session.nodes), np.int64)
    preferences = [constraint for constraint in task.pod.spread if not constraint.required]
    if not preferences:
        return total
    for constraint in preferences:
        found = count_by_domain(
            session,
            constraint.topology_key,
            lambda other, s=constraint.selector: (
                other.pod.namespace == task.pod.namespace and s.matches(other.pod.labels)
            ),
        )
        total = total + np.where(labelled(session, constraint.topology_key), found, 0)
    return _FULL - _between(total, among)


def _of_largest(total: Vector, among: Mask) -> Vector:
    largest = int(total[among].max(initial=0))
    return total * _FULL // largest if largest else np.zeros_like(total)


def _between(total: Vector, among: Mask) -> Vector:
    if not among.any():
        return np.zeros_like(total)
    low, high = int(total[among].min()), int(total[among].max())
    return (total - low) * _FULL // (high - low) if high > low else np.zeros_like(total)


_SCORERS: tuple[tuple[Scorer, str, int], ...] = (
    (_node_affinity, "nodeaffinity", 2),
    (_pod_affinity, "podaffinity", 2),
    (_taint_toleration, "tainttoleration", 3),
    (_topology_spread, "podtopologyspread", 2),
)
_LOCAL_SCORERS: tuple[tuple[LocalScorer, str, int], ...] = (
    (_least_requested, "leastrequested", 1),
    (_most_requested, "mostrequested", 0),
    (_balanced, "balancedresource", 1),
)
