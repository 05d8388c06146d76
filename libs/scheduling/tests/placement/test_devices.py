import pytest

from muster_domain.nodes import Device
from muster_scheduling.placement.devices import pick_devices

from .builders import GPU, gang, node, pod_set, seat, table_of


def devices(layout: str) -> list[Device]:
    """`0:01 1:45`: NUMA node 0 has 0 and 1 free, NUMA node 1 has 4 and 5."""
    return [
        Device(index=int(index), resource=GPU, numa_node=int(group[0]))
        for group in layout.split()
        for index in group[2:]
    ]


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        pytest.param("0:3120", 2, (0, 1), id="lowest indices"),
        pytest.param("0:012 1:4567", 2, (0, 1), id="the NUMA node with fewer left"),
        pytest.param("0:0 1:4567", 2, (4, 5), id="one NUMA node rather than lowest"),
        pytest.param("0:01 1:45", 2, (0, 1), id="equal NUMA nodes by number"),
        pytest.param("0:0 1:456 2:89", 4, (4, 5, 6, 8), id="few NUMA nodes"),
        pytest.param("0:0123 1:4567", 8, (0, 1, 2, 3, 4, 5, 6, 7), id="all"),
    ],
)
def test_devices_are_near_and_low(free: str, count: int, expected: tuple[int, ...]) -> None:
    assert pick_devices(devices(free), count) == expected


def test_ranks_get_their_devices_in_order() -> None:
    table = table_of(node("a", gpus=8, numa=2))
    placed = seat(table, gang(pod_set(3, gpus=2), pod_set(1, name="extra", gpus=1)))
    given = [pod.devices[GPU] for pod in placed.placement.pods]
    assert given == [(0, 1), (2, 3), (4, 5), (6,)]


def test_failed_devices_are_not_given_out() -> None:
    table = table_of(node("a", gpus=4, failed=[0, 2]))
    placed = seat(table, gang(pod_set(2, gpus=1)))
    assert [pod.devices[GPU] for pod in placed.placement.pods] == [(1,), (3,)]
    assert table.free("a")[GPU] == 0


def test_a_device_that_fails_while_held_does_not_come_back() -> None:
    table = table_of(node("a", gpus=2))
    seat(table, gang(pod_set(gpus=1)))
    table.put_node(node("a", gpus=2, failed=[0]))
    assert table.free("a")[GPU] == 1000
    table.release("w")
    assert table.free("a")[GPU] == 1000
    assert seat(table, gang(pod_set(gpus=1))).placement.pods[0].devices[GPU] == (1,)
