"""What placement answers about nodes."""

from typing import Any

from muster_contracts import codec
from muster_contracts.queries import DeviceRow, NodePage, NodeRow
from muster_domain.nodes import NodeCondition
from muster_placement.machine import PlacementMachine
from muster_placement.record import NodeEntry

GPU = "nvidia.com/gpu"


def nodes(machine: PlacementMachine, _question: dict[str, Any]) -> bytes:
    """All nodes with who sits on them."""
    floor = machine.floor
    rows = tuple(_row(machine, floor.nodes[name]) for name in sorted(floor.nodes))
    free = sum(
        max(0, floor.table.free(row.name).get(GPU, 0)) // 1000
        for row in rows
        if row.condition is NodeCondition.READY
    )
    return codec.encode(NodePage(nodes=rows, largest_gang_of_one_gpu=free))


def _row(machine: PlacementMachine, entry: NodeEntry) -> NodeRow:
    floor, node = machine.floor, entry.node
    holders: dict[tuple[str, int], str] = {}
    names: list[str] = []
    for workload_id in floor.table.gangs_on(node.name):
        seated = floor.gangs[workload_id]
        names.append(seated.workload.key)
        for seat in seated.gang.placement.pods:
            if seat.node == node.name:
                for resource, indices in seat.devices.items():
                    holders.update(
                        dict.fromkeys(((resource, i) for i in indices), seated.workload.key)
                    )
    return NodeRow(
        name=node.name,
        condition=entry.condition,
        allocatable_milli=node.allocatable,
        free_milli=floor.table.free(node.name),
        labels=node.labels,
        devices=tuple(
            DeviceRow(
                index=device.index,
                resource=device.resource,
                model=device.model,
                health=device.health,
                holder=holders.get((device.resource, device.index), ""),
            )
            for device in node.devices
        ),
        workloads=tuple(sorted(names)),
        last_heartbeat_ms=floor.heard_ms.get(node.name, 0),
        simulated=node.simulated,
    )
