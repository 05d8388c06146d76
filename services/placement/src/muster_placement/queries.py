"""What placement answers about nodes."""

from dataclasses import replace
from typing import Any

from muster_contracts import codec
from muster_contracts.queries import (
    NODES_PAGE_MAX,
    DeviceRow,
    NodePage,
    NodeRow,
    NodesQuestion,
    Seats,
    SeatsQuestion,
)
from muster_domain.conditions import PendingReason
from muster_domain.errors import InvalidValue
from muster_domain.nodes import NodeCondition
from muster_placement.machine import PlacementMachine
from muster_placement.record import NodeEntry
from muster_scheduling.placement.outcome import Placed, Unplaceable

GPU = "nvidia.com/gpu"


def nodes(machine: PlacementMachine, question: dict[str, Any]) -> bytes:
    """A page of nodes with who sits on them. Raises `InvalidValue` for a page out of reach."""
    asked = codec.decode_object(NodesQuestion, question)
    if not 1 <= asked.limit <= NODES_PAGE_MAX or asked.offset < 0:
        raise InvalidValue(f"a page has 1 to {NODES_PAGE_MAX} nodes", field="limit")
    floor = machine.floor
    names = sorted(floor.nodes)
    chosen = names[asked.offset : asked.offset + asked.limit]
    free = sum(
        max(0, floor.table.free(name).get(GPU, 0)) // 1000
        for name in names
        if floor.nodes[name].condition is NodeCondition.READY
    )
    page = NodePage(
        nodes=tuple(_row(machine, floor.nodes[name]) for name in chosen),
        largest_gang_of_one_gpu=free,
        total=len(names),
    )
    return codec.encode(page)


def seats(machine: PlacementMachine, question: dict[str, Any]) -> bytes:
    """Where a gang would sit now; nothing is held for it."""
    asked = codec.decode_object(SeatsQuestion, question)
    outcome = machine.would_place(asked.workload, asked.admission, asked.without)
    match outcome:
        case Placed(gang=gang):
            return codec.encode(Seats(nodes=gang.placement.nodes))
        case Unplaceable(explanation=explanation):
            why = replace(explanation, reason=PendingReason.TOPOLOGY_PLACEMENT_FAILED)
            return codec.encode(Seats(explanation=why))


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
