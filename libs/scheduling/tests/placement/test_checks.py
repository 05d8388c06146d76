from dataclasses import replace

import pytest

from muster_domain.nodes import Placement, PodAssignment
from muster_scheduling.placement.checks import ViolationKind, violations
from muster_scheduling.placement.outcome import Gang, SeatedPodSet
from muster_scheduling.placement.table import NodeTable

from .builders import GPU, gang, node, pod_set, seat, table_of


def pod(index: int, *devices: int, name: str = "a") -> PodAssignment:
    given = {GPU: devices} if devices else {}
    return PodAssignment(pod_set="main", index=index, rank=index, node=name, devices=given)


def seats(
    *pods: PodAssignment, workload: str = "w", count: int | None = None, gpus: int = 1
) -> Gang:
    seated = SeatedPodSet(
        name="main",
        count=len(pods) if count is None else count,
        requests={"cpu": 1000, GPU: gpus * 1000},
        min_count=1,
    )
    return Gang(workload=workload, pod_sets=(seated,), placement=Placement(pods=pods))


def kinds(table: NodeTable) -> list[ViolationKind]:
    return [violation.kind for violation in violations(table)]


def test_what_was_placed_and_bound_breaks_nothing() -> None:
    table = table_of(node("a", gpus=4, extra={"pods": 4000}), node("b"))
    seat(table, gang(pod_set(3, gpus=1), pod_set(2, name="other")))
    assert violations(table) == ()


@pytest.mark.parametrize(
    ("bound", "kind"),
    [
        pytest.param([seats(pod(0), gpus=3)], ViolationKind.NODE_OVERSUBSCRIBED, id="too much"),
        pytest.param(
            [seats(pod(0, 0)), seats(pod(0, 0), workload="v")],
            ViolationKind.DEVICE_GIVEN_TWICE,
            id="two gangs on a device",
        ),
        pytest.param(
            [seats(pod(0, 1), pod(1, 1))],
            ViolationKind.DEVICE_GIVEN_TWICE,
            id="two pods on a device",
        ),
        pytest.param([seats(pod(0, 7))], ViolationKind.DEVICE_MISSING, id="no such device"),
        pytest.param([seats(pod(0, 0, 1))], ViolationKind.DEVICE_COUNT, id="one device too many"),
        pytest.param(
            [seats(pod(0, 0), count=2)], ViolationKind.GANG_PARTLY_SEATED, id="a pod without a seat"
        ),
        pytest.param(
            [seats(replace(pod(0, 0), rank=1))], ViolationKind.GANG_PARTLY_SEATED, id="rank gap"
        ),
        pytest.param([seats(count=0)], ViolationKind.GANG_PARTLY_SEATED, id="below the least"),
        pytest.param([seats(pod(0, 0, name="x"))], ViolationKind.UNKNOWN_NODE, id="no such node"),
    ],
)
def test_each_broken_rule_is_found(bound: list[Gang], kind: ViolationKind) -> None:
    table = table_of(node("a", gpus=2))
    for one in bound:
        table.restore(one)
    assert kinds(table) == [kind]


def test_too_many_pods_are_found_only_where_the_node_limits_them() -> None:
    table = table_of(node("a", gpus=2))
    table.restore(seats(pod(0, 0), pod(1, 1)))
    assert kinds(table) == []
    table.put_node(node("a", gpus=2, extra={"pods": 1000}))
    assert kinds(table) == [ViolationKind.NODE_OVERSUBSCRIBED]
