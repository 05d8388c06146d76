"""How much of each resource there was in each flavor, from what nodes reported.

A node's resource counts for one flavor only: of the flavors whose labels the node carries and that
have quota or a price for the resource, the one with the most labels; among equals the first by
name.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from muster_domain.nodes import NodeCondition
from muster_domain.quantity import Resources
from muster_domain.queues import ResourceFlavor
from muster_domain.selectors import Labels
from muster_rating.attempts import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """From `at_ms` on the node is this machine. `id` tells reports apart."""

    node: str
    at_ms: int
    id: str
    allocatable: Resources = field(default_factory=dict[str, int])
    labels: Labels = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTurn:
    """From `at_ms` on the node is in this condition."""

    node: str
    at_ms: int
    id: str
    condition: NodeCondition


NodeFact = NodeReport | NodeTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorMap:
    """From `from_ms` on these flavors exist; `covered` pairs have quota or a price."""

    from_ms: int
    flavors: tuple[ResourceFlavor, ...]
    covered: frozenset[Pair]

    def flavor_of(self, labels: Labels, resource: str) -> str | None:
        """The flavor for which a node's resource counts, or None."""
        fitting = [
            flavor
            for flavor in self.flavors
            if (flavor.name, resource) in self.covered
            and all(labels.get(name) == value for name, value in flavor.node_labels.items())
        ]
        best = min(
            fitting, key=lambda flavor: (-len(flavor.node_labels), flavor.name), default=None
        )
        return None if best is None else best.name


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySpan:
    """A node had this much of a resource in `[start_ms, end_ms)`. `usable`: it took pods."""

    node: str
    flavor: str
    resource: str
    quantity_milli: int
    start_ms: int
    end_ms: int | None
    usable: bool


def capacity_spans(facts: Iterable[NodeFact], maps: Sequence[FlavorMap]) -> list[CapacitySpan]:
    """The capacity over time, sorted by node and time.

    `maps` are in order of time; the first one holds before its time too, since hardware is there
    before somebody declares what it is called. A node that was reported takes pods until it is
    said not to.
    """
    spans: list[CapacitySpan] = []
    ordered = sorted(facts, key=lambda fact: (fact.node, fact.at_ms, fact.id))
    for _, of_node in groupby(ordered, key=lambda fact: fact.node):
        spans += _node_spans(list(of_node), maps)
    return spans


@dataclass(frozen=True, slots=True)
class _Phase:
    start_ms: int
    report: NodeReport
    usable: bool
    flavors: FlavorMap


def _node_spans(facts: list[NodeFact], maps: Sequence[FlavorMap]) -> Iterator[CapacitySpan]:
    phases = list(_phases(facts, maps))
    ends: list[int | None] = [following.start_ms for _, following in pairwise(phases)]
    open_spans: dict[Pair, CapacitySpan] = {}
    for phase, end_ms in zip(phases, [*ends, None], strict=True):
        current = {
            (flavor, resource): quantity
            for flavor, resource, quantity in _attributed(phase.report, phase.flavors)
        }
        merged: dict[Pair, CapacitySpan] = {}
        for pair, quantity in current.items():
            before = open_spans.pop(pair, None)
            if before is not None and _continues(before, quantity, phase):
                start_ms = before.start_ms
            else:
                start_ms = phase.start_ms
                if before is not None:
                    yield before
            merged[pair] = CapacitySpan(
                node=phase.report.node,
                flavor=pair[0],
                resource=pair[1],
                quantity_milli=quantity,
                start_ms=start_ms,
                end_ms=end_ms,
                usable=phase.usable,
            )
        yield from open_spans.values()
        open_spans = merged
    yield from open_spans.values()


def _continues(before: CapacitySpan, quantity_milli: int, phase: _Phase) -> bool:
    return (
        before.end_ms == phase.start_ms
        and before.quantity_milli == quantity_milli
        and before.usable == phase.usable
    )


def _phases(facts: list[NodeFact], maps: Sequence[FlavorMap]) -> Iterator[_Phase]:
    steps: list[tuple[int, int, NodeFact | FlavorMap]] = []
    for number, fact in enumerate(facts):
        steps.append((fact.at_ms, number, fact))
    for flavors in maps[1:]:
        insort(steps, (flavors.from_ms, -1, flavors), key=lambda step: step[:2])
    report: NodeReport | None = None
    usable = True
    known = maps[0] if maps else FlavorMap(from_ms=0, flavors=(), covered=frozenset())
    for at_ms, _, step in steps:
        match step:
            case NodeReport():
                report = step
            case NodeTurn(condition=condition):
                usable = condition is NodeCondition.READY
            case FlavorMap():
                known = step
        if report is not None:
            yield _Phase(at_ms, report, usable, known)


def _attributed(report: NodeReport, flavors: FlavorMap) -> Iterator[tuple[str, str, int]]:
    for resource in sorted(report.allocatable):
        flavor = flavors.flavor_of(report.labels, resource)
        if flavor is not None and report.allocatable[resource] > 0:
            yield flavor, resource, report.allocatable[resource]
