"""How much of each resource there was in each flavor, from what nodes reported.

A node's resource counts for one flavor only: of the flavors whose labels the node carries and that
have quota or a price for the resource, the one with the most labels; among equals the first by
name. Where there is none, devices still count, for the fallback flavor if there is one.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

from muster_domain.nodes import NodeCondition
from muster_domain.quantity import Resources
from muster_domain.queues import ResourceFlavor
from muster_domain.selectors import Labels
from muster_rating.attempts import Attempt, Charge, Pair, Seat, Seating, sum_charges


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """From `at_ms` on the node is this machine. `id` tells reports apart."""

    node: str
    at_ms: int
    id: str
    allocatable: Resources = field(default_factory=dict[str, int])
    labels: Labels = field(default_factory=dict[str, str])
    devices: frozenset[str] = frozenset()
    """The resources that have devices."""


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
    fallback: str = ""

    def flavor_of(self, report: NodeReport, resource: str) -> str:
        """The flavor for which a node's resource counts; empty for none."""
        labels = report.labels
        fitting = [
            flavor
            for flavor in self.flavors
            if (flavor.name, resource) in self.covered
            and all(labels.get(name) == value for name, value in flavor.node_labels.items())
        ]
        if fitting:
            return min(fitting, key=lambda flavor: (-len(flavor.node_labels), flavor.name)).name
        falls_back = resource in report.devices or (self.fallback, resource) in self.covered
        return self.fallback if falls_back else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySpan:
    """A node had this much of a resource in `[start_ms, end_ms)`. `usable`: it took pods.

    `labels` are the node's; spans that meet are told apart where they differ.
    """

    node: str
    flavor: str
    resource: str
    quantity_milli: int
    start_ms: int
    end_ms: int | None
    usable: bool
    labels: Labels = field(default_factory=dict[str, str], compare=False)


def capacity_spans(facts: Iterable[NodeFact], maps: Sequence[FlavorMap]) -> list[CapacitySpan]:
    """The capacity over time, sorted by node and time.

    `maps` are in order of time; before the first one nothing counts. A node that was reported takes
    pods until it is said not to.
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
                labels=phase.report.labels,
            )
        yield from open_spans.values()
        open_spans = merged
    yield from open_spans.values()


def _continues(before: CapacitySpan, quantity_milli: int, phase: _Phase) -> bool:
    return (
        before.end_ms == phase.start_ms
        and before.quantity_milli == quantity_milli
        and before.usable == phase.usable
        and before.labels == phase.report.labels
    )


def _phases(facts: list[NodeFact], maps: Sequence[FlavorMap]) -> Iterator[_Phase]:
    steps: list[tuple[int, int, NodeFact | FlavorMap]] = []
    for number, fact in enumerate(facts):
        steps.append((fact.at_ms, number, fact))
    for flavors in maps:
        insort(steps, (flavors.from_ms, -1, flavors), key=lambda step: step[:2])
    report: NodeReport | None = None
    usable = True
    known = FlavorMap(from_ms=0, flavors=(), covered=frozenset())
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
        flavor = flavors.flavor_of(report, resource)
        if flavor and report.allocatable[resource] > 0:
            yield flavor, resource, report.allocatable[resource]


def with_node_flavors(
    attempts: Iterable[Attempt], spans: Iterable[CapacitySpan]
) -> Iterator[Attempt]:
    """The attempts, each charge without a flavor put where the node's resource counted.

    What counted is taken at the moment the seats were bound; a charge for a resource that counted
    nowhere is dropped.
    """
    by_node: dict[tuple[str, str], list[CapacitySpan]] = {}
    for span in spans:
        by_node.setdefault((span.node, span.resource), []).append(span)
    for attempt in attempts:
        seating = attempt.seating
        yield replace(
            attempt,
            seating=None if seating is None else _with_flavors(seating, by_node),
            resizes=tuple(_with_flavors(each, by_node) for each in attempt.resizes),
        )


def _with_flavors(
    seating: Seating, by_node: Mapping[tuple[str, str], Sequence[CapacitySpan]]
) -> Seating:
    if all(charge.flavor for charge in seating.charges):
        return seating
    seats = tuple(_put(seat, seating.at_ms, by_node) for seat in seating.seats)
    return replace(seating, seats=seats)


def _put(seat: Seat, at_ms: int, by_node: Mapping[tuple[str, str], Sequence[CapacitySpan]]) -> Seat:
    charges: list[Charge] = []
    for charge in seat.charges:
        if charge.flavor:
            charges.append(charge)
            continue
        spans = by_node.get((seat.node, charge.resource), ())
        counted = [span for span in spans if span.start_ms <= at_ms]
        if counted:
            charges.append(replace(charge, flavor=counted[-1].flavor))
    return replace(seat, charges=sum_charges(charges))
