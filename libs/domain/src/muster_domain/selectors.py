"""Labels, taints and the rules that match them, as Kubernetes defines them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

Labels = Mapping[str, str]


class SelectorOperator(StrEnum):
    """How one requirement compares a label's value."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One line of `matchExpressions`. `Gt` and `Lt` compare integers."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether the labels meet this requirement."""
        value = labels.get(self.key)
        match self.operator:
            case SelectorOperator.IN:
                return value in self.values
            case SelectorOperator.NOT_IN:
                return value not in self.values
            case SelectorOperator.EXISTS:
                return value is not None
            case SelectorOperator.DOES_NOT_EXIST:
                return value is None
            case SelectorOperator.GT:
                return value is not None and _is_int(value) and int(value) > int(self.values[0])
            case SelectorOperator.LT:
                return value is not None and _is_int(value) and int(value) < int(self.values[0])
            case _:
                assert_never(self.operator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """All requirements must hold; an empty selector matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether the labels meet every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredTerm:
    """A node affinity term that adds `weight` (1 to 100) to a matching node's score."""

    weight: int
    term: Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinity:
    """Required terms are alternatives; an empty tuple asks for nothing."""

    required_terms: tuple[Selector, ...] = ()
    preferred_terms: tuple[PreferredTerm, ...] = ()


class TaintEffect(StrEnum):
    """What a taint does to a pod that does not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A mark on a node that keeps pods away."""

    key: str
    effect: TaintEffect
    value: str = ""


class TolerationOperator(StrEnum):
    """How a toleration compares a taint's value."""

    EQUAL = "Equal"
    EXISTS = "Exists"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """What a pod puts up with. An empty key with `Exists` tolerates everything."""

    key: str = ""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers the taint."""
        if self.effect is not None and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case TolerationOperator.EXISTS:
                return True
            case TolerationOperator.EQUAL:
                return bool(self.key) and self.value == taint.value
            case _:
                assert_never(self.operator)


def untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that would keep the pod off the node, if any."""
    for taint in taints:
        if taint.effect is TaintEffect.PREFER_NO_SCHEDULE:
            continue
        if not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDemand:
    """What a pod asks of the node it runs on, besides resources."""

    node_selector: Labels = field(default_factory=dict[str, str])
    affinity: NodeAffinity = NodeAffinity()
    tolerations: tuple[Toleration, ...] = ()


def _is_int(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
