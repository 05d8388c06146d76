"""Placement alone, in processor time: a large gang in one block of four levels, and small jobs."""

import time
from collections.abc import Callable
from typing import Any

from muster_domain.nodes import Device, Node
from muster_domain.workload import TopologyMode, TopologyRequest
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.table import NodeTable

from . import meter

GPU = "nvidia.com/gpu"
GIB_MILLI = 2**30 * 1000
GPUS = 8
LEVELS = ("zone", "block", "rack", "host")
NODES_IN_RACK, RACKS_IN_BLOCK, BLOCKS_IN_ZONE = 16, 16, 8

Figures = dict[str, Any]


def measure_gang(nodes: int, pods: int, times: int, say: Callable[[str], None]) -> Figures:
    """Seat and free a gang again and again among half-used nodes."""
    table = _cluster(nodes)
    _use_every_other(table, nodes)
    request = _gang(pods)
    seated = _timed_gang(table, request)[1]
    taken = []
    for _ in range(times):
        seconds, seated = _timed_gang(table, request)
        taken.append(seconds)
    figures = {
        "nodes": nodes,
        "pods": pods,
        "levels": len(LEVELS),
        "nodes_used": len(seated.gang.placement.nodes),
        **meter.spread_ms(taken),
    }
    say(f"  {pods} pods on {nodes:,} nodes: p50 {figures['p50_ms']} ms")
    return figures


def measure_small(nodes: int, jobs: int, say: Callable[[str], None]) -> Figures:
    """Seat one-pod jobs of one GPU, each bound before the next."""
    table = _cluster(nodes)
    requests = [_small(number) for number in range(jobs)]
    _timed(table, requests[0])
    start = time.process_time()
    for request in requests[1:]:
        _timed(table, request)
    per_second = round((jobs - 1) / (time.process_time() - start))
    say(f"  one-pod jobs on {nodes:,} nodes: {per_second}/s")
    return {"nodes": nodes, "jobs": jobs, "pods_per_second": per_second}


def _timed_gang(table: NodeTable, request: GangRequest) -> tuple[float, Placed]:
    taken = _timed(table, request)
    table.release(request.workload)
    return taken


def _timed(table: NodeTable, request: GangRequest) -> tuple[float, Placed]:
    start = time.process_time()
    outcome = place(table, request)
    if not isinstance(outcome, Placed):
        raise TypeError(f"{request.workload} finds no seats: {outcome.explanation.message}")
    table.bind(outcome.gang)
    return time.process_time() - start, outcome


def _cluster(nodes: int) -> NodeTable:
    table = NodeTable()
    for number in range(nodes):
        table.put_node(_node(number))
    return table


def _use_every_other(table: NodeTable, nodes: int) -> None:
    """Put one small job on every other rack's first node, so that domains differ."""
    for number in range(nodes // (2 * NODES_IN_RACK)):
        _timed(table, _small(number, workload=f"before{number}"))


def _node(number: int) -> Node:
    rack = number // NODES_IN_RACK
    block = rack // RACKS_IN_BLOCK
    name = f"n{number:05}"
    return Node(
        name=name,
        allocatable={"cpu": 96_000, "memory": 768 * GIB_MILLI, GPU: GPUS * 1000},
        labels={
            "zone": f"z{block // BLOCKS_IN_ZONE}",
            "block": f"b{block:03}",
            "rack": f"r{rack:04}",
            "host": name,
        },
        devices=tuple(
            Device(index=index, resource=GPU, numa_node=index * 2 // GPUS) for index in range(GPUS)
        ),
    )


def _gang(pods: int) -> GangRequest:
    topology = TopologyRequest(mode=TopologyMode.REQUIRED, node_label="block")
    requests = {"cpu": 8_000, "memory": 64 * GIB_MILLI, GPU: 1000}
    pod_set = PodSetRequest(
        name="main", count=pods, requests=requests, topology=topology, levels=LEVELS
    )
    return GangRequest(workload="gang", pod_sets=(pod_set,))


def _small(number: int, *, workload: str = "") -> GangRequest:
    pod_set = PodSetRequest(
        name="main", count=1, requests={"cpu": 4_000, "memory": 16 * GIB_MILLI, GPU: 1000}
    )
    return GangRequest(workload=workload or f"small{number}", pod_sets=(pod_set,))
