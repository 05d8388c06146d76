"""Nodes, requests and tables for the placement tests."""

from collections.abc import Iterable, Mapping

from muster_domain.nodes import Device, DeviceHealth, Node
from muster_domain.selectors import Taint, TaintEffect
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.table import NodeTable

GPU = "nvidia.com/gpu"
GIB = 2**30 * 1000
DEDICATED = Taint(key="dedicated", value="ml", effect=TaintEffect.NO_SCHEDULE)


def node(  # noqa: PLR0913 - one keyword for each thing a test may say of a node
    name: str,
    *,
    cpu: int = 16,
    gib: int = 64,
    gpus: int = 0,
    failed: Iterable[int] = (),
    numa: int = 1,
    extra: Mapping[str, int] | None = None,
    **fields: object,
) -> Node:
    """A node whose GPUs are split evenly over `numa` NUMA nodes; `failed` indices are broken."""
    allocatable = {"cpu": cpu * 1000, "memory": gib * GIB} | ({GPU: gpus * 1000} if gpus else {})
    return Node(
        name=name,
        allocatable=allocatable | dict(extra or {}),
        devices=tuple(
            Device(
                index=index,
                resource=GPU,
                numa_node=index * numa // gpus,
                health=DeviceHealth.FAILED if index in failed else DeviceHealth.HEALTHY,
            )
            for index in range(gpus)
        ),
        **fields,
    )


def pod_set(
    count: int = 1,
    *,
    name: str = "main",
    cpu: int = 1,
    gib: int = 0,
    gpus: int = 0,
    extra: Mapping[str, int] | None = None,
    **fields: object,
) -> PodSetRequest:
    """`count` pods of that many cores, GiB and GPUs."""
    requests = {"cpu": cpu * 1000, "memory": gib * GIB, GPU: gpus * 1000}
    asked = {resource: quantity for resource, quantity in requests.items() if quantity}
    return PodSetRequest(name=name, count=count, requests=asked | dict(extra or {}), **fields)


def gang(*pod_sets: PodSetRequest, workload: str = "w", **fields: object) -> GangRequest:
    """A request of these pod sets."""
    return GangRequest(workload=workload, pod_sets=pod_sets, **fields)


def table_of(*nodes: Node) -> NodeTable:
    """A table of ready nodes."""
    table = NodeTable()
    for one in nodes:
        table.put_node(one)
    return table


def seat(table: NodeTable, request: GangRequest) -> Placed:
    """Place and bind, where that must succeed."""
    outcome = place(table, request)
    assert isinstance(outcome, Placed), outcome
    table.bind(outcome.gang)
    return outcome


def nodes_of(outcome: Placed) -> dict[str, int]:
    """Members by node."""
    found: dict[str, int] = {}
    for pod in outcome.placement.pods:
        found[pod.node] = found.get(pod.node, 0) + 1
    return found
