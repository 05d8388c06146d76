"""Sizes of a large installation; `make bench ONLY=gang` says what they cost."""

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


def test_a_gang_of_1000_pods_finds_seats_in_one_block_of_10000_nodes() -> None:
    table = cluster(10_000)
    topology = TopologyRequest(mode=TopologyMode.REQUIRED, node_label="block")
    pods = pod_set(1000, cpu=8, gib=64, gpus=1, topology=topology, levels=("block", "rack"))
    nodes = nodes_of(seat(table, gang(pods)))
    assert len(nodes) == 125
    assert len({int(name[1:]) // 256 for name in nodes}) == 1


def test_1000_small_jobs_fill_as_few_of_1000_nodes_as_hold_them() -> None:
    table = cluster(1000)
    for number in range(1000):
        seat(table, gang(pod_set(cpu=8, gpus=1), workload=f"w{number}"))
    assert isinstance(place(table, gang(pod_set(875, gpus=8))), Placed)
