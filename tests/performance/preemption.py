"""One preemptor, 700 possible victims, 2,000 nodes: who must go so that a gang finds one block.

Kueue needed 40 s for a cycle of that size (kueue #13148), nine tenths of it inside placement, once
for each candidate. Here the quota of the first victims is free after a few; most of the search is
for seats, since the victims' pods are scattered over all blocks.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from muster_domain.nodes import Device, DomainCount, Node, NodeCondition, TopologyAssignment
from muster_domain.queues import (
    ClusterQueue,
    FlavorQuotas,
    LocalQueue,
    PreemptionPolicy,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    Topology,
    WithinClusterQueue,
)
from muster_domain.selectors import Selector
from muster_domain.states import Admission, PodSetAdmission
from muster_domain.workload import (
    LocalQueueRef,
    Owner,
    PodSet,
    TopologyMode,
    TopologyRequest,
    Workload,
)
from muster_scheduling import AdmissionView, Configuration, hold, prepare
from muster_scheduling.admission import Budget, EvictWorkload, decide
from muster_scheduling.placement.topology.snapshot import topology_snapshot
from muster_scheduling.snapshot.board import Seats, TopologyBoard

GPU = "nvidia.com/gpu"
FLAVOR = "h100"
QUEUE = "training"
BLOCK, RACK, HOST = "block", "rack", "kubernetes.io/hostname"
LEVELS = (BLOCK, RACK, HOST)
GPUS = 8
BLOCKS = 10
RACKS_OF_BLOCK = 10
KUEUE_S = 40.0
PREEMPTOR = "preemptor"

Figures = dict[str, Any]


def measure(nodes: int, victims: int, times: int, say: Callable[[str], None]) -> Figures:
    """Decide about the preemptor several times; every time it needs the same victims."""
    view = _crowded(nodes, victims)
    taken: list[float] = []
    chosen: set[int] = set()
    for _ in range(times):
        start = time.process_time()
        decision = decide(view.snapshot(1), Budget(cycles=1))
        taken.append(time.process_time() - start)
        effects = [effect for group in decision.groups for effect in group.effects]
        chosen.add(sum(isinstance(effect, EvictWorkload) for effect in effects))
    (evicted,) = chosen
    say(f"  {evicted} of {victims} must go: {median(taken) * 1000:.0f} ms")
    return {
        "nodes": nodes,
        "candidates": victims,
        "victims": evicted,
        "decision_cpu_ms": round(median(taken) * 1000, 1),
        "kueue_s": KUEUE_S,
    }


def _crowded(nodes: int, victims: int) -> AdmissionView:
    """Every GPU is taken: by the candidates, two whole nodes each, else by those above them."""
    names = [f"node-{number:05}" for number in range(nodes)]
    topology = Topology(name="network", levels=LEVELS)
    flavor = ResourceFlavor(name=FLAVOR, topology_name=topology.name)
    view = AdmissionView(_configuration(nodes, flavor, topology))
    ready = ((_node(number, name), NodeCondition.READY) for number, name in enumerate(names))
    view.use_board(TopologyBoard({FLAVOR: topology_snapshot(topology, flavor, ready)}))
    stride = 2 * victims
    for number in range(victims):
        _seat(view, f"candidate-{number:04}", (names[number], names[number + victims]), number)
    for number, name in enumerate(names[stride:]):
        _seat(view, f"above-{number:04}", (name,), number, priority=10)
    view.add_pending(prepare(_gang(nodes // BLOCKS // 2), view.policy), 0)
    return view


def _seat(
    view: AdmissionView, name: str, nodes: tuple[str, ...], age: int, *, priority: int = 0
) -> None:
    workload = _workload(name, len(nodes), priority, topology=None)
    admission = Admission(
        cluster_queue=QUEUE,
        pod_sets=(
            PodSetAdmission(
                name="main",
                count=len(nodes),
                flavors={GPU: FLAVOR},
                usage={GPU: len(nodes) * GPUS * 1000},
            ),
        ),
    )
    assignment = TopologyAssignment(
        levels=(HOST,), domains=tuple(DomainCount(values=(node,), count=1) for node in nodes)
    )
    requests = {GPU: GPUS * 1000}
    seats = Seats(flavor=FLAVOR, pod_set="main", assignment=assignment, requests=requests)
    view.charge(
        hold(workload, admission, view.policy, reserved_at_ms=age, admitted=True, seats=(seats,))
    )


def _gang(pods: int) -> Workload:
    request = TopologyRequest(mode=TopologyMode.REQUIRED, node_label=BLOCK)
    return _workload(PREEMPTOR, pods, 5, topology=request)


def _workload(name: str, pods: int, priority: int, *, topology: TopologyRequest | None) -> Workload:
    pod_set = PodSet(name="main", count=pods, requests={GPU: GPUS * 1000}, topology=topology)
    return Workload(
        id=name,
        namespace="ns",
        name=name,
        queue=LocalQueueRef(name=QUEUE),
        pod_sets=(pod_set,),
        owner=Owner(api_version="batch/v1", kind="Job", name=name),
        created_at_ms=0,
        priority=priority,
    )


def _node(number: int, name: str) -> Node:
    """Neighbours by name are in different blocks, so that every block has a part of the victims."""
    block = number % BLOCKS
    rack = number // BLOCKS % RACKS_OF_BLOCK
    return Node(
        name=name,
        allocatable={GPU: GPUS * 1000},
        labels={BLOCK: f"b{block}", RACK: f"b{block}-r{rack}", HOST: name},
        devices=tuple(Device(index=index, resource=GPU) for index in range(GPUS)),
    )


def _configuration(nodes: int, flavor: ResourceFlavor, topology: Topology) -> Configuration:
    quota = FlavorQuotas(
        flavor=FLAVOR, resources={GPU: ResourceQuota(nominal_milli=nodes * GPUS * 1000)}
    )
    queue = ClusterQueue(
        name=QUEUE,
        resource_groups=(ResourceGroup(covered_resources=(GPU,), flavors=(quota,)),),
        namespace_selector=Selector(),
        preemption=PreemptionPolicy(within_cluster_queue=WithinClusterQueue.LOWER_PRIORITY),
    )
    return Configuration(
        cluster_queues={QUEUE: queue},
        flavors={FLAVOR: flavor},
        local_queues={f"ns/{QUEUE}": LocalQueue(namespace="ns", name=QUEUE, cluster_queue=QUEUE)},
        topologies={topology.name: topology},
    )
