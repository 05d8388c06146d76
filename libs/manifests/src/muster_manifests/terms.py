"""Selectors, affinities, taints and tolerations."""

import re

from muster_domain.selectors import (
    Labels,
    NodeAffinity,
    NodeDemand,
    PreferredTerm,
    Requirement,
    Selector,
    SelectorOperator,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from muster_manifests.reader import ObjectReader

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_WEIGHT_MAX = 100
_VALUED = (SelectorOperator.IN, SelectorOperator.NOT_IN)
_COMPARED = (SelectorOperator.GT, SelectorOperator.LT)


def read_label_selector(selector: ObjectReader) -> Selector:
    """Read `matchLabels` and `matchExpressions`; an empty selector matches everything."""
    return Selector(
        requirements=(
            *equalities(selector.text_map("matchLabels")),
            *_requirements(selector, "matchExpressions", compare=False),
        )
    )


def equalities(labels: Labels) -> tuple[Requirement, ...]:
    """Return the requirements that every one of the labels is there."""
    return tuple(
        Requirement(key=key, operator=SelectorOperator.IN, values=(value,))
        for key, value in labels.items()
    )


def read_node_demand(spec: ObjectReader) -> NodeDemand:
    """Read a pod spec's `nodeSelector`, `affinity` and `tolerations`."""
    return NodeDemand(
        node_selector=spec.text_map("nodeSelector"),
        affinity=_affinity(spec),
        tolerations=read_tolerations(spec, "tolerations"),
    )


def read_tolerations(owner: ObjectReader, key: str) -> tuple[Toleration, ...]:
    """Read a list of tolerations."""
    return tuple(_toleration(item) for item in owner.objects(key))


def read_taints(owner: ObjectReader, key: str) -> tuple[Taint, ...]:
    """Read a list of taints."""
    return tuple(_taint(item) for item in owner.objects(key))


def _toleration(item: ObjectReader) -> Toleration:
    item.not_acted_on("tolerationSeconds")
    operator = item.choice("operator", TolerationOperator, TolerationOperator.EQUAL)
    key = item.text("key")
    if not key and operator is TolerationOperator.EQUAL:
        item.problem(
            "key", "a toleration without a key tolerates nothing", "write operator: Exists"
        )
    return Toleration(
        key=key,
        operator=operator,
        value=item.text("value"),
        effect=_effect(item),
    )


def _effect(item: ObjectReader) -> TaintEffect | None:
    if "effect" not in item:
        item.accept("effect")
        return None
    return item.choice("effect", TaintEffect, TaintEffect.NO_SCHEDULE)


def _taint(item: ObjectReader) -> Taint:
    item.accept("timeAdded")
    effect = _effect(item)
    if effect is None:
        item.problem("effect", "missing", "write effect: NoSchedule")
    return Taint(
        key=item.required_text("key"),
        effect=effect or TaintEffect.NO_SCHEDULE,
        value=item.text("value"),
    )


def _affinity(spec: ObjectReader) -> NodeAffinity:
    if spec.raw("affinity") is None:
        return NodeAffinity()
    affinity = spec.object("affinity")
    affinity.not_acted_on("podAffinity", "podAntiAffinity")
    return _node_affinity(affinity.object("nodeAffinity"))


def _node_affinity(affinity: ObjectReader) -> NodeAffinity:
    required = affinity.object("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = affinity.objects("preferredDuringSchedulingIgnoredDuringExecution")
    return NodeAffinity(
        required_terms=tuple(_node_term(term) for term in required.objects("nodeSelectorTerms")),
        preferred_terms=tuple(
            PreferredTerm(
                weight=item.integer("weight", 1, low=1, high=_WEIGHT_MAX),
                term=_node_term(item.object("preference")),
            )
            for item in preferred
        ),
    )


def _node_term(term: ObjectReader) -> Selector:
    if term.objects("matchFields"):
        term.problem(
            "matchFields",
            "nodes are matched by labels only",
            "write matchExpressions with the key kubernetes.io/hostname",
        )
    return Selector(requirements=_requirements(term, "matchExpressions", compare=True))


def _requirements(owner: ObjectReader, key: str, *, compare: bool) -> tuple[Requirement, ...]:
    return tuple(_requirement(item, compare=compare) for item in owner.objects(key))


def _requirement(item: ObjectReader, *, compare: bool) -> Requirement:
    operator = item.choice("operator", SelectorOperator, SelectorOperator.EXISTS)
    if "operator" not in item:
        item.problem("operator", "missing", "write operator: In")
    values = item.texts("values")
    if operator in _VALUED and not values:
        item.problem("values", f"{operator} needs values", 'write values: ["..."]')
    if operator in _COMPARED:
        _check_compared(item, operator, values, allowed=compare)
    if operator not in (*_VALUED, *_COMPARED) and values:
        item.problem("values", f"{operator} takes no values", "remove them")
    return Requirement(key=item.required_text("key"), operator=operator, values=values)


def _check_compared(
    item: ObjectReader, operator: SelectorOperator, values: tuple[str, ...], *, allowed: bool
) -> None:
    if not allowed:
        item.problem("operator", f"{operator} compares node labels only", "write In or Exists")
    elif len(values) != 1 or not _WHOLE.fullmatch(values[0]):
        item.problem("values", f"{operator} compares with one whole number", 'write values: ["8"]')
