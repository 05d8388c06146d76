import pytest

from muster_domain.queues import PlacementPolicy
from muster_domain.selectors import (
    NodeAffinity,
    NodeDemand,
    PreferredTerm,
    Requirement,
    Selector,
    SelectorOperator,
    Taint,
    TaintEffect,
    Toleration,
)
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed

from .builders import GPU, gang, node, nodes_of, pod_set, seat, table_of

SPREAD = PlacementPolicy.SPREAD


def test_a_small_job_goes_to_the_fullest_node_that_fits() -> None:
    table = table_of(node("a", gpus=8), node("b", gpus=8), node("c", gpus=8))
    seat(table, gang(pod_set(gpus=5), workload="first"))
    seat(table, gang(pod_set(gpus=6), workload="second"))
    assert nodes_of(seat(table, gang(pod_set(gpus=2), workload="third"))) == {"b": 1}
    assert nodes_of(seat(table, gang(pod_set(gpus=2), workload="fourth"))) == {"a": 1}


def test_equal_nodes_are_taken_by_name() -> None:
    table = table_of(node("b", gpus=1), node("a", gpus=1), node("c", gpus=1))
    assert nodes_of(seat(table, gang(pod_set(gpus=1)))) == {"a": 1}


def test_pods_without_gpus_leave_gpu_nodes_alone() -> None:
    table = table_of(node("a-gpu", cpu=64, gpus=8), node("b-plain", cpu=8), node("c-plain", cpu=8))
    assert nodes_of(seat(table, gang(pod_set(14)))) == {"b-plain": 8, "c-plain": 6}


def test_pods_without_gpus_take_a_gpu_node_when_nothing_else_is_left() -> None:
    table = table_of(node("a-gpu", cpu=64, gpus=8), node("b-plain", cpu=8))
    assert nodes_of(seat(table, gang(pod_set(10)))) == {"a-gpu": 2, "b-plain": 8}


def test_small_jobs_leave_whole_nodes_for_big_ones() -> None:
    table = table_of(*(node(f"n{i}", cpu=64, gpus=8) for i in range(4)))
    for number in range(16):
        seat(table, gang(pod_set(gpus=1), workload=f"small-{number}"))
    assert isinstance(place(table, gang(pod_set(2, gpus=8))), Placed)


def test_a_small_idle_node_is_broken_before_a_large_one() -> None:
    table = table_of(node("large", gpus=8), node("small", gpus=2))
    assert nodes_of(seat(table, gang(pod_set(gpus=1)))) == {"small": 1}


def test_a_gang_sits_on_as_few_nodes_as_possible() -> None:
    table = table_of(
        *(node(f"n{i}", gpus=2) for i in range(4)), node("z", gpus=8), node("y", gpus=3)
    )
    assert nodes_of(seat(table, gang(pod_set(8, gpus=1)))) == {"z": 8}
    assert nodes_of(seat(table, gang(pod_set(5, gpus=1), workload="v"))) == {"y": 3, "n0": 2}


def test_the_rest_of_a_gang_goes_to_the_tightest_node() -> None:
    table = table_of(node("a", gpus=8), node("b", gpus=4), node("c", gpus=2), node("d", gpus=8))
    assert nodes_of(seat(table, gang(pod_set(10, gpus=1)))) == {"a": 8, "c": 2}


def test_sets_of_a_gang_share_nodes() -> None:
    table = table_of(node("a", cpu=8), node("b", cpu=16), node("c", cpu=16))
    placed = seat(table, gang(pod_set(12, name="worker"), pod_set(2, name="server")))
    assert nodes_of(placed) == {"b": 14}


def test_spread_takes_many_nodes_evenly_and_the_emptiest_first() -> None:
    table = table_of(*(node(name, cpu=4) for name in "abc"))
    seat(table, gang(pod_set(), workload="first"))
    placed = seat(table, gang(pod_set(5), policy=SPREAD))
    assert nodes_of(placed) == {"a": 1, "b": 2, "c": 2}


def test_spread_fills_what_is_left_when_small_nodes_are_full() -> None:
    table = table_of(node("a", cpu=1), node("b", cpu=6), node("c", cpu=5))
    assert nodes_of(seat(table, gang(pod_set(9), policy=SPREAD))) == {"a": 1, "b": 4, "c": 4}


def _prefers(weight: int, zone: str) -> PreferredTerm:
    requirement = Requirement(key="zone", operator=SelectorOperator.IN, values=(zone,))
    return PreferredTerm(weight=weight, term=Selector(requirements=(requirement,)))


def test_preferred_affinity_comes_before_packing() -> None:
    table = table_of(
        node("a", gpus=1), node("b", gpus=8, labels={"zone": "x"}), node("c", labels={"zone": "y"})
    )
    affinity = NodeAffinity(preferred_terms=(_prefers(10, "y"), _prefers(5, "x")))
    demand = NodeDemand(affinity=affinity)
    assert nodes_of(seat(table, gang(pod_set(gpus=1, demand=demand)))) == {"b": 1}


@pytest.mark.parametrize(("weight", "chosen"), [(20, "a"), (30, "b")])
def test_preferred_weights_add_up(weight: int, chosen: str) -> None:
    table = table_of(node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"}))
    terms = (_prefers(50, "x"), _prefers(weight, "y"), _prefers(weight, "y"))
    demand = NodeDemand(affinity=NodeAffinity(preferred_terms=terms))
    assert nodes_of(seat(table, gang(pod_set(demand=demand)))) == {chosen: 1}


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param((), {"b": 1}, id="avoided"),
        pytest.param((Toleration(key="old", value=""),), {"a": 1}, id="tolerated"),
    ],
)
def test_soft_taints_are_avoided_where_possible(
    tolerations: tuple[Toleration, ...], expected: dict[str, int]
) -> None:
    soft = Taint(key="old", effect=TaintEffect.PREFER_NO_SCHEDULE)
    table = table_of(node("a", gpus=1, taints=(soft,)), node("b", gpus=8))
    request = gang(pod_set(gpus=1, demand=NodeDemand(tolerations=tolerations)))
    assert nodes_of(seat(table, request)) == expected


def test_pods_are_counted_where_the_node_reports_a_limit() -> None:
    table = table_of(node("a", extra={"pods": 2000}), node("b", extra={"pods": 110_000}))
    assert nodes_of(seat(table, gang(pod_set(18)))) == {"a": 2, "b": 16}


def test_absurd_quantities_saturate_and_give_nothing_away() -> None:
    huge = node("a", extra={"memory": 2**80})
    table = table_of(huge)
    assert nodes_of(seat(table, gang(pod_set(4, extra={"memory": 2**60})))) == {"a": 4}
    assert table.free("a")["memory"] == 2**80 - 4 * 2**60
    assert not isinstance(place(table, gang(pod_set(extra={"memory": 2**70}))), Placed)


def test_a_resource_without_devices_is_counted_without_indices() -> None:
    table = table_of(node("a", extra={GPU: 4000}))
    placed = seat(table, gang(pod_set(2, gpus=2)))
    assert [dict(pod.devices) for pod in placed.placement.pods] == [{}, {}]
    assert table.free("a")[GPU] == 0
