from muster_scheduling.placement.failures import LostGang, gangs_on_lost_devices, lost_gangs

from .builders import gang, node, pod_set, seat, table_of


def test_a_node_takes_down_every_gang_with_a_seat_on_it_whole() -> None:
    table = table_of(node("a", gpus=2), node("b", gpus=2), node("c", gpus=2))
    seat(table, gang(pod_set(3, gpus=1), workload="two-nodes"))
    seat(table, gang(pod_set(gpus=1), workload="shares-b"))
    seat(table, gang(pod_set(2, gpus=1), workload="elsewhere"))
    assert lost_gangs(table, "b") == (
        LostGang(workload="shares-b", members_lost=1, members=1, nodes=("b",)),
        LostGang(workload="two-nodes", members_lost=1, members=3, nodes=("a", "b")),
    )


def test_nothing_is_lost_with_a_node_that_is_empty_or_unknown() -> None:
    table = table_of(node("a"))
    assert lost_gangs(table, "a") == ()
    assert lost_gangs(table, "nowhere") == ()


def test_a_removed_node_still_takes_its_gangs_down() -> None:
    table = table_of(node("a"))
    seat(table, gang(pod_set()))
    table.remove_node("a")
    assert [lost.workload for lost in lost_gangs(table, "a")] == ["w"]


def test_a_failed_or_vanished_device_takes_down_the_gang_that_holds_it() -> None:
    table = table_of(node("a", gpus=4))
    for workload in ("zero", "one", "two", "three"):
        seat(table, gang(pod_set(gpus=1), workload=workload))
    table.put_node(node("a", gpus=3, failed=[1]))
    assert [lost.workload for lost in gangs_on_lost_devices(table, "a")] == ["one", "three"]
