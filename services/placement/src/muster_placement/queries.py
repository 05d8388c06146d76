"""What placement answers about nodes, seats and the floor as a whole."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from muster_contracts import codec
from muster_contracts.floor import (
    DOMAINS_PAGE_MAX,
    PODS_ASKED_MAX,
    DomainPage,
    DomainRow,
    DomainsQuestion,
)
from muster_contracts.queries import (
    NODES_PAGE_MAX,
    Ahead,
    CardShare,
    DeviceRow,
    InstanceRow,
    NodePage,
    NodeRow,
    NodesQuestion,
    Seats,
    SeatsQuestion,
)
from muster_domain.conditions import PendingReason
from muster_domain.errors import InvalidValue
from muster_domain.nodes import Device, DeviceHealth, NodeCondition
from muster_domain.quantity import Resources
from muster_placement.domains import Domain, FloorPlan, Path, floor_plan
from muster_placement.machine import PlacementMachine
from muster_placement.record import NodeEntry
from muster_scheduling.placement.columns import CONDITIONS, Vector
from muster_scheduling.placement.largest import fits_by_flavor, largest_gang, usual_pods
from muster_scheduling.placement.outcome import Placed, Unplaceable
from muster_scheduling.placement.record import MILLI, NodeRecord
from muster_scheduling.placement.shares import GPU
from muster_scheduling.volcano.amounts import total_of
from muster_scheduling.volcano.floor import Room

_READY = CONDITIONS.index(NodeCondition.READY)
_ONE_CARD: Resources = {GPU: MILLI}


def nodes(machine: PlacementMachine, question: dict[str, Any]) -> bytes:
    """A page of nodes with who sits on them. Raises `InvalidValue` for a page out of reach."""
    asked = codec.decode_object(NodesQuestion, question)
    _check_page(asked.offset, asked.limit, NODES_PAGE_MAX, "nodes")
    floor = machine.floor
    plan, row = _plan(machine), floor.table.columns.row
    known = floor.nodes.keys() & set(asked.names) if asked.names else floor.nodes
    names = sorted(name for name in known if _is_meant(asked, name, plan.places[row[name]]))
    chosen = names[asked.offset : asked.offset + asked.limit]
    one_card = _fits(machine, _ONE_CARD)
    page = NodePage(
        nodes=tuple(_row(machine, floor.nodes[name], plan.places[row[name]]) for name in chosen),
        largest_gang_of_one_gpu=largest_gang(one_card, plan.domains[0].rows),
        total=len(names),
    )
    return codec.encode(page)


def _is_meant(asked: NodesQuestion, name: str, places: Mapping[str, Path]) -> bool:
    if asked.contains not in name or (asked.outside and places):
        return False
    if not asked.topology:
        return True
    path = places.get(asked.topology)
    return path is not None and path[: len(asked.path)] == asked.path


def domains(machine: PlacementMachine, question: dict[str, Any]) -> bytes:
    """A page of domains with the largest gangs that they would seat. Raises `InvalidValue`."""
    asked = codec.decode_object(DomainsQuestion, question)
    _check_page(asked.offset, asked.limit, DOMAINS_PAGE_MAX, "domains")
    if len(asked.pods) > PODS_ASKED_MAX:
        raise InvalidValue(
            f"{len(asked.pods)} pods are too many", field="pods", fix="ask for fewer"
        )
    if any(quantity < 0 for pod in asked.pods for quantity in pod.values()):
        raise InvalidValue("a pod asks for less than nothing", field="pods", fix="write 0 or more")
    plan = _plan(machine)
    pods = asked.pods or usual_pods(machine.floor.table.columns)
    fits = [_fits(machine, pod) for pod in pods]
    chosen = plan.domains[asked.offset : asked.offset + asked.limit]
    page = DomainPage(
        pods=tuple(dict(pod) for pod in pods),
        domains=tuple(_domain_row(machine, domain, fits) for domain in chosen),
        total=len(plan.domains),
    )
    return codec.encode(page)


def seats(machine: PlacementMachine, question: dict[str, Any]) -> bytes:
    """Where a gang would sit now; nothing is held for it."""
    asked = codec.decode_object(SeatsQuestion, question)
    answer = machine.would_place(asked.workload, asked.admission, asked.without)
    match answer.outcome:
        case Placed(gang=gang):
            return codec.encode(Seats(nodes=gang.placement.nodes))
        case Unplaceable(explanation=explanation):
            why = replace(explanation, reason=PendingReason.TOPOLOGY_PLACEMENT_FAILED)
            if answer.room is None:
                return codec.encode(Seats(explanation=why))
            victims = tuple(_victim(machine, answer.room, name) for name in answer.room.victims)
            nodes = tuple(sorted(answer.room.nodes))
            return codec.encode(Seats(nodes=nodes, explanation=why, victims=victims))


def _victim(machine: PlacementMachine, room: Room, identity: str) -> Ahead:
    """Who would have to give way, and with how much of what it holds."""
    seated = machine.floor.gangs[identity]
    requests = {pod_set.name: pod_set.requests for pod_set in seated.gang.pod_sets}
    ranks = room.surplus.get(identity)
    going = (pod for pod in seated.gang.placement.pods if ranks is None or pod.rank in ranks)
    return Ahead(
        id=identity,
        namespace=seated.workload.namespace,
        name=seated.workload.name,
        user=seated.workload.user,
        priority=seated.workload.priority,
        requests_milli=total_of(requests[pod.pod_set] for pod in going),
        never_checkpoints=seated.workload.never_checkpoints,
    )


def _check_page(offset: int, limit: int, most: int, what: str) -> None:
    if not 1 <= limit <= most or offset < 0:
        raise InvalidValue(f"a page has 1 to {most} {what}", field="limit")


def _plan(machine: PlacementMachine) -> FloorPlan:
    columns = machine.floor.table.columns
    return floor_plan(columns, machine.topologies.values(), machine.volcano.hyper_nodes)


def _fits(machine: PlacementMachine, pod: Resources) -> tuple[Vector, ...]:
    columns, kept = machine.floor.table.columns, machine.floor.claimed_by_others("")
    return fits_by_flavor(columns, pod, machine.seating_flavors, machine.topologies, kept)


def _domain_row(
    machine: PlacementMachine, domain: Domain, fits: list[tuple[Vector, ...]]
) -> DomainRow:
    columns, rows = machine.floor.table.columns, domain.rows
    ready = rows[columns.condition[rows] == _READY]
    return DomainRow(
        topology=domain.topology,
        level=domain.level,
        path=domain.path,
        nodes=len(rows),
        ready=len(ready),
        allocatable_milli=_sums(columns.offered, rows),
        free_milli=_sums(columns.free, ready),
        largest=tuple(largest_gang(each, rows) for each in fits),
    )


def _sums(columns: Mapping[str, Vector], rows: Vector) -> dict[str, int]:
    """What the nodes have together; of a node that shrank under its pods nothing is free."""
    return {
        resource: sum(np.maximum(column[rows], 0).tolist())
        for resource, column in sorted(columns.items())
    }


def _row(machine: PlacementMachine, entry: NodeEntry, places: Mapping[str, Path]) -> NodeRow:
    floor, node = machine.floor, entry.node
    record = floor.table.record(node.name)
    holders = _holders(machine, record)
    seated = (floor.gangs[workload_id] for workload_id in floor.table.gangs_on(node.name))
    return NodeRow(
        name=node.name,
        condition=entry.condition,
        allocatable_milli=node.allocatable,
        free_milli=floor.table.free(node.name),
        labels=node.labels,
        devices=tuple(
            _divided(machine, device, record)
            if device.profiles
            else _device(device, record, holders)
            for device in node.devices
        ),
        workloads=tuple(sorted(gang.workload.key for gang in seated)),
        last_heartbeat_ms=floor.heard_ms.get(node.name, 0),
        simulated=node.simulated,
        domains=places,
    )


def _holders(
    machine: PlacementMachine, record: NodeRecord
) -> dict[tuple[str, int], list[CardShare]]:
    """Who sits on each device of a node, by name; a whole one is all of somebody's."""
    found: dict[tuple[str, int], list[CardShare]] = {}
    largest = machine.floor.table.columns.card_memory
    for workload_id, holding in record.gangs.items():
        holder = machine.floor.gangs[workload_id].workload.key
        for resource, indices in holding.devices.items():
            for index in sorted(indices):
                found.setdefault((resource, index), []).append(
                    CardShare(holder=holder, milli=MILLI)
                )
        for index, share in holding.shares:
            memory = _memory_of(record, index) or largest
            found.setdefault((GPU, index), []).append(
                CardShare(holder=holder, milli=share.milli_of(memory))
            )
    return {
        place: sorted(each, key=lambda one: (one.holder, one.milli))
        for place, each in found.items()
    }


def _memory_of(record: NodeRecord, index: int) -> int:
    devices = record.node.devices if record.node is not None else ()
    return next((d.memory_bytes for d in devices if d.resource == GPU and d.index == index), 0)


def _device(
    device: Device, record: NodeRecord, holders: Mapping[tuple[str, int], list[CardShare]]
) -> DeviceRow:
    held = holders.get((device.resource, device.index), [])
    shared = device.resource == GPU and device.index in record.shared
    left = record.cards().left_milli[record.card_indices.index(device.index)] if shared else 0
    return DeviceRow(
        index=device.index,
        resource=device.resource,
        model=device.model,
        health=device.health,
        holder=held[0].holder if held else "",
        shares=tuple(held) if shared else (),
        left_milli=max(0, int(left)),
    )


def _divided(machine: PlacementMachine, device: Device, record: NodeRecord) -> DeviceRow:
    """A card in MIG instances: who holds which slices, and the idle instances on the others."""
    slices_of = {profile.name: profile.slices for profile in device.profiles}
    total = max(slices_of.values())
    held = [
        (one, machine.floor.gangs[workload_id].workload.key)
        for workload_id, holding in record.gangs.items()
        for one in holding.instances
        if one.card == device.index
    ]
    card = next((card for card in record.divided if card.index == device.index), None)
    idle = [
        one
        for one in device.instances
        if one.health is not DeviceHealth.HEALTHY
        or (card is not None and (one.profile, one.start) in card.idle)
    ]
    rows = [
        InstanceRow(
            profile=one.profile,
            start=one.start,
            slices=slices_of.get(one.profile, total),
            holder=holder,
            health=one.health,
        )
        for one, holder in (*held, *((one, "") for one in idle))
    ]
    rows.sort(key=lambda row: row.start)
    return DeviceRow(
        index=device.index,
        resource=device.resource,
        model=device.model,
        health=device.health,
        holder=next((row.holder for row in rows if row.holder), ""),
        shares=tuple(
            CardShare(holder=row.holder, milli=MILLI * row.slices // total)
            for row in rows
            if row.holder
        ),
        left_milli=0 if card is None else MILLI * (total - card.slices_held) // total,
        slices=total,
        instances=tuple(rows),
    )
