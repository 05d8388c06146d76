"""Capacity from what nodes reported."""

from dataclasses import replace

import pytest

from muster_domain.nodes import NodeCondition
from muster_domain.queues import ResourceFlavor
from muster_rating.attempts import Attempt, Charge, Seat, Seating
from muster_rating.capacity import (
    CapacitySpan,
    FlavorMap,
    NodeFact,
    NodeReport,
    NodeTurn,
    capacity_spans,
    with_node_flavors,
)

GPU = "nvidia.com/gpu"
LABELS = {"gpu": "h100", "zone": "a"}
FLAVORS = FlavorMap(
    from_ms=0,
    flavors=(
        ResourceFlavor(name="default"),
        ResourceFlavor(name="h100", node_labels={"gpu": "h100"}),
        ResourceFlavor(name="h100-b", node_labels={"gpu": "h100"}),
        ResourceFlavor(name="other", node_labels={"gpu": "a100", "zone": "a"}),
    ),
    covered=frozenset({("default", "cpu"), ("h100", GPU), ("h100-b", GPU), ("default", GPU)}),
)


def report(
    at_ms: int, gpus: int = 4, *, node: str = "n1", labels: dict[str, str] = LABELS
) -> NodeReport:
    return NodeReport(
        node=node,
        at_ms=at_ms,
        id=f"{node}-{at_ms}-{gpus}",
        allocatable={GPU: gpus * 1000, "cpu": 8000, "memory": 1},
        labels=labels,
        devices=frozenset({GPU, "nic"}),
    )


def turn(at_ms: int, condition: NodeCondition) -> NodeTurn:
    return NodeTurn(node="n1", at_ms=at_ms, id=f"c-{at_ms}", condition=condition)


def gpus(facts: list[NodeFact], *maps: FlavorMap) -> list[tuple[str, int, int, int | None, bool]]:
    return [
        (span.flavor, span.quantity_milli // 1000, span.start_ms, span.end_ms, span.usable)
        for span in capacity_spans(facts, maps)
        if span.resource == GPU
    ]


@pytest.mark.parametrize(
    ("labels", "resource", "flavor"),
    [
        pytest.param(LABELS, GPU, "h100", id="most labels, then first name"),
        pytest.param({}, GPU, "default", id="a flavor without labels takes any node"),
        pytest.param(LABELS, "cpu", "default", id="only flavors that cover the resource"),
        pytest.param(LABELS, "memory", "", id="covered by none"),
        pytest.param(LABELS, "nic", "rest", id="a device that no flavor covers"),
        pytest.param({}, "disk", "rest", id="covered for the fallback"),
    ],
)
def test_the_flavor_of_a_resource(labels: dict[str, str], resource: str, flavor: str) -> None:
    flavors = replace(FLAVORS, fallback="rest", covered=FLAVORS.covered | {("rest", "disk")})

    assert flavors.flavor_of(report(0, labels=labels), resource) == flavor


def test_a_node_counts_from_its_first_report() -> None:
    assert gpus([report(10)], FLAVORS) == [("h100", 4, 10, None, True)]
    assert [span.resource for span in capacity_spans([report(10)], [FLAVORS])] == ["cpu", GPU]


def test_the_same_report_again_changes_nothing() -> None:
    facts = [report(10), report(10), report(50)]

    assert gpus(facts, FLAVORS) == [("h100", 4, 10, None, True)]


def test_a_changed_report_starts_a_new_span() -> None:
    assert gpus([report(50, 2), report(10, 4)], FLAVORS) == [
        ("h100", 4, 10, 50, True),
        ("h100", 2, 50, None, True),
    ]


def test_a_node_without_the_resource_has_no_capacity_of_it() -> None:
    assert gpus([report(10, 4), report(50, 0)], FLAVORS) == [("h100", 4, 10, 50, True)]


def test_only_a_ready_node_is_usable() -> None:
    facts = [
        report(10),
        turn(20, NodeCondition.SUSPECT),
        turn(30, NodeCondition.FENCED),
        turn(60, NodeCondition.READY),
        turn(90, NodeCondition.CORDONED),
    ]

    assert gpus(facts, FLAVORS) == [
        ("h100", 4, 10, 20, True),
        ("h100", 4, 20, 60, False),
        ("h100", 4, 60, 90, True),
        ("h100", 4, 90, None, False),
    ]


def test_a_condition_before_the_first_report_counts_from_the_report() -> None:
    assert gpus([turn(5, NodeCondition.CORDONED), report(10)], FLAVORS) == [
        ("h100", 4, 10, None, False)
    ]


def test_a_change_of_flavors_moves_capacity_from_then_on() -> None:
    later = FlavorMap(
        from_ms=200, flavors=(ResourceFlavor(name="fast"),), covered=frozenset({("fast", GPU)})
    )

    assert gpus([report(10)], FLAVORS, later) == [
        ("h100", 4, 10, 200, True),
        ("fast", 4, 200, None, True),
    ]


def test_nothing_counts_before_flavors_are_declared() -> None:
    assert gpus([report(10)], replace(FLAVORS, from_ms=100)) == [("h100", 4, 100, None, True)]
    assert gpus([report(10)]) == []


def test_a_charge_without_a_flavor_counts_where_its_node_does() -> None:
    spans = capacity_spans([report(10), report(10, node="n2", labels={})], [FLAVORS])
    seats = tuple(
        Seat(
            node=node,
            pods=1,
            devices=1,
            charges=(
                Charge(flavor="", resource=GPU, quantity_milli=1000),
                Charge(flavor="", resource="memory", quantity_milli=5),
                Charge(flavor="own", resource="cpu", quantity_milli=7),
            ),
        )
        for node in ("n1", "n2", "unknown")
    )
    attempt = Attempt(workload_id="w", number=1, seating=Seating(at_ms=20, version=1, seats=seats))

    [found] = with_node_flavors([attempt], spans)

    assert found.seating is not None
    assert [[(c.flavor, c.resource) for c in seat.charges] for seat in found.seating.seats] == [
        [("h100", GPU), ("own", "cpu")],
        [("default", GPU), ("own", "cpu")],
        [("own", "cpu")],
    ]


def test_the_order_of_facts_does_not_matter() -> None:
    facts = [report(10), turn(20, NodeCondition.FENCED), report(50, 2), report(10, node="n2")]

    assert capacity_spans(facts, [FLAVORS]) == capacity_spans(reversed(facts), [FLAVORS])
    assert isinstance(capacity_spans(facts, [FLAVORS])[0], CapacitySpan)
