"""Which nodes a pod may use at all, whatever is free on them, and which it would rather use.

Every check is evaluated once per distinct label value or list of taints, then spread over the rows.
As in Kubernetes, an affinity term without requirements matches no node.
"""

from dataclasses import dataclass, replace

import numpy as np

from muster_domain.nodes import NodeCondition
from muster_domain.selectors import (
    Requirement,
    Selector,
    SelectorOperator,
    Taint,
    TaintEffect,
    Toleration,
    untolerated,
)
from muster_scheduling.placement.columns import CONDITIONS, Columns, Mask, TaintColumn, Vector
from muster_scheduling.placement.outcome import Predicate
from muster_scheduling.placement.record import is_extended
from muster_scheduling.placement.request import PodSetRequest

_SOFT_TAINT_WEIGHT = 100
"""An untolerated PreferNoSchedule taint outweighs any one preferred affinity term."""


@dataclass(slots=True)
class Eligibility:
    """`code` is 0 on a usable node, else 1 + the index into `refusals` of what refused it first.

    `tier` orders usable nodes before packing does, lower first: the pod's own preference (affinity
    weights, soft taints), then whether the node has extended resources that the pod leaves idle.
    """

    code: Vector
    refusals: list[tuple[Predicate, str]]
    tier: Vector

    @property
    def usable(self) -> Mask:
        """Rows that no check refused."""
        return self.code == 0

    def refuse(self, mask: Mask, predicate: Predicate, detail: str) -> None:
        """Mark usable rows of the mask as refused."""
        fresh = mask & (self.code == 0)
        if fresh.any():
            self.refusals.append((predicate, detail))
            self.code[fresh] = len(self.refusals)


@dataclass(frozen=True, slots=True)
class NodeRules:
    """All that a pod set says about nodes, apart from quantities."""

    labels: tuple[tuple[str, str], ...] = ()
    required: tuple[Selector, ...] = ()
    preferred: tuple[tuple[int, Selector], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    levels: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()

    @property
    def required_only(self) -> "NodeRules":
        """Without what only prefers some nodes to others."""
        return replace(self, preferred=(), extended=())


def eligibility(columns: Columns, pod_set: PodSetRequest, excluded: frozenset[str]) -> Eligibility:
    """What the checks say about every node. Not to be changed."""
    return eligible_under(columns, node_rules(pod_set), excluded)


def eligible_under(
    columns: Columns, rules: NodeRules, excluded: frozenset[str] = frozenset()
) -> Eligibility:
    """As `eligibility`, for rules. Not to be changed."""
    key = (Eligibility, rules, excluded)
    return columns.remembered(key, lambda: _check_all(columns, rules, excluded))


def node_rules(pod_set: PodSetRequest) -> NodeRules:
    """The rules of a pod set: its own demand and that of its flavors."""
    labels = set(pod_set.demand.node_selector.items())
    tolerations = list(pod_set.demand.tolerations)
    for flavor in pod_set.flavors:
        labels.update(flavor.node_labels.items())
        tolerations += flavor.tolerations
    affinity = pod_set.demand.affinity
    requests = pod_set.requests
    return NodeRules(
        labels=tuple(sorted(labels)),
        required=affinity.required_terms,
        preferred=tuple((term.weight, term.term) for term in affinity.preferred_terms),
        tolerations=tuple(tolerations),
        levels=pod_set.topology_levels,
        extended=tuple(sorted(r for r in requests if requests[r] and is_extended(r))),
    )


def _check_all(columns: Columns, rules: NodeRules, excluded: frozenset[str]) -> Eligibility:
    nothing = np.zeros(len(columns), np.int64)
    found = Eligibility(nothing, [], nothing.copy())
    _check_excluded(found, columns, excluded)
    _check_conditions(found, columns)
    for key, value in rules.labels:
        wanted = Requirement(key=key, operator=SelectorOperator.IN, values=(value,))
        found.refuse(~_where(columns, wanted), Predicate.NODE_SELECTOR, f"{key}={value}")
    if rules.required:
        matching = np.zeros(len(columns), np.bool_)
        for term in rules.required:
            matching |= _where_all(columns, term)
        found.refuse(~matching, Predicate.NODE_AFFINITY, "no required term matches")
    taints = columns.taints
    _check_taints(found, taints, rules.tolerations)
    for key in rules.levels:
        lacking = Requirement(key=key, operator=SelectorOperator.DOES_NOT_EXIST)
        found.refuse(_where(columns, lacking), Predicate.TOPOLOGY_LABEL, key)
    for weight, term in rules.preferred:
        found.tier[_where_all(columns, term)] -= 2 * weight
    _rank_soft_taints(found, taints, rules.tolerations)
    found.tier += columns.offers_other(rules.extended)
    return found


def _check_excluded(found: Eligibility, columns: Columns, excluded: frozenset[str]) -> None:
    mask = np.zeros(len(columns), np.bool_)
    mask[[columns.row[name] for name in sorted(excluded) if name in columns.row]] = True
    found.refuse(mask, Predicate.EXCLUDED, "by the request")


def _check_conditions(found: Eligibility, columns: Columns) -> None:
    for code, condition in enumerate(CONDITIONS):
        if condition is not NodeCondition.READY:
            found.refuse(columns.condition == code, Predicate.NOT_READY, condition.value)


def _check_taints(
    found: Eligibility, taints: TaintColumn, tolerations: tuple[Toleration, ...]
) -> None:
    for code, on_node in enumerate(taints.values):
        refusing = untolerated(on_node, tolerations)
        if refusing is not None:
            found.refuse(taints.codes == code, Predicate.TAINT, _describe(refusing))


def _rank_soft_taints(
    found: Eligibility, taints: TaintColumn, tolerations: tuple[Toleration, ...]
) -> None:
    for code, on_node in enumerate(taints.values):
        unwelcome = sum(
            taint.effect is TaintEffect.PREFER_NO_SCHEDULE
            and not any(toleration.tolerates(taint) for toleration in tolerations)
            for taint in on_node
        )
        if unwelcome:
            found.tier[taints.codes == code] += 2 * _SOFT_TAINT_WEIGHT * unwelcome


def _where(columns: Columns, requirement: Requirement) -> Mask:
    column = columns.label(requirement.key)
    labels = ({} if value is None else {requirement.key: value} for value in column.values)
    return np.array([requirement.matches(found) for found in labels], np.bool_)[column.codes]


def _where_all(columns: Columns, term: Selector) -> Mask:
    if not term.requirements:
        return np.zeros(len(columns), np.bool_)
    mask = np.ones(len(columns), np.bool_)
    for requirement in term.requirements:
        mask &= _where(columns, requirement)
    return mask


def _describe(taint: Taint) -> str:
    return (
        f"{taint.key}={taint.value}:{taint.effect}"
        if taint.value
        else f"{taint.key}:{taint.effect}"
    )
