from collections.abc import Iterable
from dataclasses import replace

import pytest

from muster_domain.nodes import Device
from muster_domain.queues import PlacementPolicy
from muster_scheduling.placement.devices import pick_devices
from muster_scheduling.placement.explain import seated_message

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


def replica(index: int) -> Device:
    """One of three replicas of a card."""
    return Device(index=index, resource="nvidia.com/gpu.shared", pci_bus=f"card {index // 3}")


@pytest.mark.parametrize(
    ("free", "count", "picked"),
    [
        (range(6), 1, (0,)),
        (range(1, 6), 1, (1,)),
        (range(6), 2, (0, 3)),
        (range(6), 3, (0, 1, 3)),
        ((1, 2, 5), 2, (1, 5)),
        ((1, 2), 2, (1, 2)),
    ],
)
def test_replicas_of_one_pod_are_of_different_cards_while_there_are_any(
    free: Iterable[int], count: int, picked: tuple[int, ...]
) -> None:
    assert pick_devices([replica(index) for index in free], count) == picked


def test_who_takes_turns_is_told_with_how_many() -> None:
    labels = {"nvidia.com/gpu.replicas": "3", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    shared = "nvidia.com/gpu.shared"
    machine = node("a", extra={shared: 6000}, labels=labels)
    table = table_of(replace(machine, devices=tuple(replica(index) for index in range(6))))
    seated = seat(table, gang(pod_set(extra={shared: 2000})))
    assert seated.placement.pods[0].devices == {shared: (0, 3)}
    assert seated_message(table, seated.gang, PlacementPolicy.BINPACK) == (
        "binpack: a: leaves 4 whole nvidia.com/gpu.shared; "
        "up to 3 pods take turns on each card and share its memory unguarded"
    )
