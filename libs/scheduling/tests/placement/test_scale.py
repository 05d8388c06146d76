"""Bounds of processor time far above what was measured: only a change of order of growth fails."""

from time import process_time

from muster_domain.workload import TopologyMode, TopologyRequest
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed
from muster_scheduling.placement.table import NodeTable

from .builders import gang, node, nodes_of, pod_set, seat


def cluster(nodes: int) -> NodeTable:
    table = NodeTable()
    for number in range(nodes):
        labels = {"block": f"b{number // 256:03}", "rack": f"r{number // 16:04}"}
        table.put_node(node(f"n{number:05}", cpu=96, gib=768, gpus=8, numa=2, labels=labels))
    return table


def test_a_gang_of_1000_pods_finds_seats_on_10000_nodes_within_a_second() -> None:
    table = cluster(10_000)
    topology = TopologyRequest(mode=TopologyMode.REQUIRED, node_label="block")
    pods = pod_set(1000, cpu=8, gib=64, gpus=1, topology=topology, levels=("block", "rack"))
    _ = table.columns
    start = process_time()
    placed = seat(table, gang(pods))
    assert process_time() - start < 1
    assert len(nodes_of(placed)) == 125


def test_small_jobs_are_placed_by_the_thousand_per_second_on_1000_nodes() -> None:
    table = cluster(1000)
    _ = table.columns
    start = process_time()
    for number in range(1000):
        seat(table, gang(pod_set(cpu=8, gpus=1), workload=f"w{number}"))
    assert process_time() - start < 1
    assert isinstance(place(table, gang(pod_set(875, gpus=8))), Placed)
