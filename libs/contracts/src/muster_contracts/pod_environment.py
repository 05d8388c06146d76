"""The variables that a pod finds in its environment.

Placement computes them for each seat (`pod_environment`) and puts them into `RunPod`; the agent
merges them with the container's own (`container_environment`) and expands references in its
command line (`command_line`).

| variable | value |
|---|---|
| `MUSTER_WORKLOAD` | `namespace/name` |
| `MUSTER_WORKLOAD_ID`, `MUSTER_NAMESPACE` | as submitted |
| `MUSTER_ATTEMPT` | counts admissions from 1 |
| `MUSTER_POD_SET`, `MUSTER_POD_INDEX` | the role, and the number in it from 0 |
| `MUSTER_NODE` | the node that the seat is on |
| `MUSTER_POD_UID` | set by the agent |
| `MUSTER_NUMA_NODES` | for pods that want to be near: the NUMA zones of the seat |
| `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE` | for pods that share cards: their `volcano.sh/vgpu-cores` |
| `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT` | for them: their `volcano.sh/vgpu-memory` on each card |
| `RANK`, `WORLD_SIZE` | number among all pods of the gang from 0, and their count |
| `LOCAL_RANK` | 0: a pod sees only devices of its own, so its first device is number 0 |
| `MASTER_ADDR` | address of the node of rank 0; loopback where all seats are on one node |
| `MASTER_PORT` | derived from workload and attempt, 12000 to 19999 |
| `NVIDIA_VISIBLE_DEVICES` | indices of the seat's GPUs, `void` for none |
| `CUDA_VISIBLE_DEVICES` | the same, empty for none |
| `CUDA_DEVICE_ORDER` | `PCI_BUS_ID`, so that CUDA counts as the agent does |
| `JOB_COMPLETION_INDEX` | for `batch/v1` Jobs: the pod's index |
| `VC_TASK_INDEX`, `VK_TASK_INDEX` | for Volcano Jobs: the pod's index in its task |
| `VC_<TASK>_NUM`, `VC_<TASK>_HOSTS` | for Volcano Jobs: pods of each task, and their addresses |

The container's own variables win, except over `MUSTER_*` and the device variables. It may set
`MUSTER_URL`, `MUSTER_TOKEN` and `MUSTER_TOKEN_FILE`, by which the `muster` command in it calls.
"""

import re
from collections.abc import Mapping

from muster_contracts.envelope import derived_id
from muster_domain.nodes import Node, Placement, PodAssignment
from muster_domain.workload import Container, Workload

ADDRESS_LABEL = "muster.dev/address"
"""Node label with the address under which its pods reach each other, if not the node's name."""

GPU_RESOURCE = "nvidia.com/gpu"
MASTER_PORTS = range(12_000, 20_000)
"""Below the ports that systems give to outgoing connections."""

DEVICE_VARIABLES = frozenset(
    {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}
)
OWN_PREFIX = "MUSTER_"
CLIENT_VARIABLES = frozenset({"MUSTER_URL", "MUSTER_TOKEN", "MUSTER_TOKEN_FILE"})
"""How the command in a pod finds Muster and says who it is: the container's own to set."""


_LOOPBACK = "127.0.0.1"
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_VOLCANO_GROUP = "batch.volcano.sh/"


def pod_environment(
    workload: Workload,
    placement: Placement,
    seat: PodAssignment,
    attempt: int,
    addresses: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The variables of one seat of a placed gang, as the module says.

    `addresses` gives the address of a node by its name where it is not the name itself.
    """
    addresses = addresses or {}
    return {
        "MUSTER_WORKLOAD": workload.key,
        "MUSTER_WORKLOAD_ID": workload.id,
        "MUSTER_NAMESPACE": workload.namespace,
        "MUSTER_ATTEMPT": str(attempt),
        "MUSTER_POD_SET": seat.pod_set,
        "MUSTER_POD_INDEX": str(seat.index),
        "MUSTER_NODE": seat.node,
        "RANK": str(seat.rank),
        "WORLD_SIZE": str(len(placement.pods)),
        "LOCAL_RANK": "0",
        "MASTER_ADDR": _master_address(placement, addresses),
        "MASTER_PORT": str(_master_port(workload.id, attempt)),
        **device_variables(tuple(str(index) for index in seat.devices.get(GPU_RESOURCE, ()))),
        **_of_zones(seat),
        **_of_share(workload, seat),
        **_of_owner(workload, placement, seat, addresses),
    }


def _of_zones(seat: PodAssignment) -> dict[str, str]:
    zones = ",".join(str(zone) for zone in seat.zones)
    return {"MUSTER_NUMA_NODES": zones} if zones else {}


def _of_share(workload: Workload, seat: PodAssignment) -> dict[str, str]:
    """What keeps a pod within its share of cards, where NVIDIA's MPS serves them."""
    asked: dict[str, int] = {}
    for pod_set in workload.pod_sets:
        if pod_set.name == seat.pod_set:
            asked.update(pod_set.requests)
    cores = asked.get("volcano.sh/vgpu-cores", 0) // 1000
    mebibytes = asked.get("volcano.sh/vgpu-memory", 0) // 1000
    variables: dict[str, str] = {}
    if cores:
        variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(cores)
    if mebibytes:
        cards = range(len(seat.devices.get(GPU_RESOURCE, ())))
        limits = ",".join(f"{card}={mebibytes}M" for card in cards)
        variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = limits
    return variables


def device_variables(identifiers: tuple[str, ...]) -> dict[str, str]:
    """What makes exactly these GPUs visible, by index or UUID; none hides all."""
    listed = ",".join(identifiers)
    return {
        "NVIDIA_VISIBLE_DEVICES": listed or "void",
        "CUDA_VISIBLE_DEVICES": listed,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def node_address(node: Node) -> str:
    """Where pods on the node are reached."""
    return node.labels.get(ADDRESS_LABEL, node.name)


def container_environment(given: Mapping[str, str], container: Container) -> dict[str, str]:
    """The given variables and the container's own, each expanded with those before it."""
    variables = dict(given)
    for variable in container.environment:
        given_to_it = variable.name in DEVICE_VARIABLES or variable.name.startswith(OWN_PREFIX)
        if not given_to_it or variable.name in CLIENT_VARIABLES:
            variables[variable.name] = expand(variable.value, variables)
    return variables


def command_line(container: Container, variables: Mapping[str, str]) -> tuple[str, ...]:
    """The container's command and arguments with their references expanded."""
    return tuple(expand(word, variables) for word in (*container.command, *container.args))


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` as Kubernetes does: `$$` is a dollar, an unknown name stays as written."""
    return _REFERENCE.sub(
        lambda match: "$" if match[1] is None else variables.get(match[1], match[0]), text
    )


def _master_address(placement: Placement, addresses: Mapping[str, str]) -> str:
    nodes = placement.nodes
    if len(nodes) <= 1:
        return _LOOPBACK
    first = min(placement.pods, key=lambda pod: pod.rank)
    return addresses.get(first.node, first.node)


def _master_port(workload_id: str, attempt: int) -> int:
    number = int(derived_id("master port", workload_id, attempt), 16)
    return MASTER_PORTS[number % len(MASTER_PORTS)]


def _of_owner(
    workload: Workload, placement: Placement, seat: PodAssignment, addresses: Mapping[str, str]
) -> dict[str, str]:
    index = str(seat.index)
    if (workload.owner.api_version, workload.owner.kind) == ("batch/v1", "Job"):
        return {"JOB_COMPLETION_INDEX": index}
    if not workload.owner.api_version.startswith(_VOLCANO_GROUP):
        return {}
    variables = {"VC_TASK_INDEX": index, "VK_TASK_INDEX": index}
    for task in sorted({pod.pod_set for pod in placement.pods}):
        hosts = [
            addresses.get(pod.node, pod.node)
            for pod in sorted(placement.pods, key=lambda pod: pod.index)
            if pod.pod_set == task
        ]
        name = task.upper().replace("-", "_")
        variables[f"VC_{name}_NUM"] = str(len(hosts))
        variables[f"VC_{name}_HOSTS"] = ",".join(hosts)
    return variables
