import pytest

from muster_domain.errors import Conflict, NotFound
from muster_domain.nodes import NodeCondition, Placement, PodAssignment
from muster_domain.selectors import NodeDemand
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Gang, Placed, SeatedPodSet
from muster_scheduling.placement.table import NodeTable

from .builders import DEDICATED, GIB, GPU, gang, node, nodes_of, pod_set, seat, table_of


def seats_on(name: str, *, devices: tuple[int, ...] = (0,), workload: str = "w") -> Gang:
    """One pod with these GPUs of a node, made by hand."""
    requests = {"cpu": 1000, GPU: 1000 * len(devices)}
    pod = PodAssignment(pod_set="main", index=0, rank=0, node=name, devices={GPU: devices})
    pod_sets = (SeatedPodSet(name="main", count=1, requests=requests, min_count=1),)
    return Gang(workload=workload, pod_sets=pod_sets, placement=Placement(pods=(pod,)))


def test_binding_takes_and_releasing_gives_back() -> None:
    table = table_of(node("a", cpu=8, gib=32, gpus=4))
    before = table.free("a")
    placed = seat(table, gang(pod_set(2, cpu=2, gib=4, gpus=1)))
    assert table.free("a") == {"cpu": 4000, "memory": 24 * GIB, GPU: 2000}
    assert table.gangs_on("a") == ("w",)
    assert table.release("w") == placed.gang
    assert table.free("a") == before
    assert table.gangs() == ()
    assert table.gangs_on("a") == ()


def test_binding_twice_changes_nothing() -> None:
    table = table_of(node("a", gpus=2))
    placed = seat(table, gang(pod_set(gpus=1)))
    table.bind(placed.gang)
    assert table.free("a")[GPU] == 1000


def test_other_seats_for_a_bound_workload_are_a_conflict() -> None:
    table = table_of(node("a", gpus=2))
    table.bind(seats_on("a"))
    with pytest.raises(Conflict, match="already has other seats"):
        table.bind(seats_on("a", devices=(1,)))
    with pytest.raises(Conflict, match="already has other seats"):
        table.restore(seats_on("a", devices=(1,)))


def test_seats_that_were_taken_meanwhile_are_a_conflict_and_nothing_is_bound() -> None:
    table = table_of(node("a", gpus=2), node("b", gpus=2))
    first = place(table, gang(pod_set(4, gpus=1), workload="first"))
    seat(table, gang(pod_set(gpus=1), workload="second"))
    assert isinstance(first, Placed)
    with pytest.raises(Conflict, match=r"node a has not enough nvidia\.com/gpu left"):
        table.bind(first.gang)
    assert [bound.workload for bound in table.gangs()] == ["second"]
    assert table.free("b")[GPU] == 2000


def test_a_device_that_is_held_is_a_conflict() -> None:
    table = table_of(node("a", gpus=2))
    table.bind(seats_on("a"))
    with pytest.raises(Conflict, match=r"a device of nvidia\.com/gpu is not free"):
        table.bind(seats_on("a", workload="other"))


def test_unknown_nodes_and_workloads_are_not_found() -> None:
    table = NodeTable()
    for call in (
        lambda: table.bind(seats_on("a")),
        lambda: table.release("w"),
        lambda: table.remove_node("a"),
        lambda: table.set_condition("a", NodeCondition.FENCED),
        lambda: table.free("a"),
        lambda: table.node("a"),
        lambda: table.condition("a"),
    ):
        with pytest.raises(NotFound):
            call()


def test_a_restored_gang_counts_as_soon_as_its_node_reports() -> None:
    table = NodeTable()
    table.restore(seats_on("a", devices=(1,)))
    assert table.nodes() == ()
    assert table.gangs_on("a") == ("w",)
    table.put_node(node("a", gpus=2))
    assert table.free("a")[GPU] == 1000
    assert seat(table, gang(pod_set(gpus=1), workload="v")).placement.pods[0].devices[GPU] == (0,)


def test_a_removed_node_keeps_its_seats_until_they_are_released() -> None:
    table = table_of(node("a", gpus=2))
    table.bind(seats_on("a"))
    table.remove_node("a")
    assert table.gangs_on("a") == ("w",)
    table.put_node(node("a", gpus=2))
    assert table.free("a")[GPU] == 1000
    table.remove_node("a")
    table.release("w")
    assert table.gangs_on("a") == ()
    table.put_node(node("a", gpus=2))
    assert table.free("a")[GPU] == 2000


def test_a_node_that_shrinks_under_its_pods_has_less_than_nothing_left() -> None:
    table = table_of(node("a", cpu=8))
    seat(table, gang(pod_set(6)))
    table.put_node(node("a", cpu=4))
    assert table.free("a")["cpu"] == -2000
    assert not isinstance(place(table, gang(pod_set(), workload="v")), Placed)


def test_only_ready_nodes_take_pods_and_bound_ones_stay() -> None:
    table = table_of(node("a"), node("b"))
    seat(table, gang(pod_set()))
    for condition in (NodeCondition.CORDONED, NodeCondition.SUSPECT, NodeCondition.FENCED):
        table.set_condition("a", condition)
        assert table.condition("a") is condition
        assert table.gangs_on("a") == ("w",)
        outcome = place(table, gang(pod_set(), workload="v"))
        assert isinstance(outcome, Placed)
        assert nodes_of(outcome) == {"b": 1}
    table.set_condition("a", NodeCondition.READY)
    outcome = place(table, gang(pod_set(), workload="v"))
    assert isinstance(outcome, Placed)
    assert nodes_of(outcome) == {"a": 1}


def test_a_report_keeps_the_condition_and_may_set_it() -> None:
    table = table_of(node("a"))
    table.set_condition("a", NodeCondition.CORDONED)
    table.put_node(node("a", cpu=32))
    assert table.condition("a") is NodeCondition.CORDONED
    table.put_node(node("a", cpu=32), NodeCondition.READY)
    assert table.condition("a") is NodeCondition.READY


def test_new_labels_count_at_once() -> None:
    table = table_of(node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"}))
    in_x = pod_set(demand=NodeDemand(node_selector={"zone": "x"}))
    assert nodes_of(seat(table, gang(in_x, workload="first"))) == {"a": 1}
    table.put_node(node("a", labels={"zone": "y"}))
    table.put_node(node("b", labels={"zone": "x"}))
    assert nodes_of(seat(table, gang(in_x, workload="second"))) == {"b": 1}


def test_new_taints_count_at_once() -> None:
    table = table_of(node("a"), node("b"))
    assert nodes_of(seat(table, gang(pod_set(), workload="first"))) == {"a": 1}
    table.put_node(node("a", taints=(DEDICATED,)))
    assert nodes_of(seat(table, gang(pod_set(), workload="second"))) == {"b": 1}


def test_a_node_that_joins_later_is_used() -> None:
    table = table_of(node("b"))
    assert not isinstance(place(table, gang(pod_set(17))), Placed)
    table.put_node(node("a"))
    assert nodes_of(seat(table, gang(pod_set(17)))) == {"a": 16, "b": 1}


def test_a_node_that_comes_back_after_its_removal_is_ready() -> None:
    table = table_of(node("a"))
    seat(table, gang(pod_set()))
    table.set_condition("a", NodeCondition.FENCED)
    table.remove_node("a")
    table.put_node(node("a"))
    assert table.condition("a") is NodeCondition.READY
