"""Which gangs a lost node or device takes down. A gang is lost whole."""

from dataclasses import dataclass

from muster_domain.mig import MIG_CARD
from muster_domain.nodes import DeviceHealth, PodAssignment
from muster_scheduling.placement.table import NodeTable


@dataclass(frozen=True, slots=True, kw_only=True)
class LostGang:
    """A gang with members on a lost node or device; all its members must be stopped and moved."""

    workload: str
    members_lost: int
    members: int
    nodes: tuple[str, ...]


def lost_gangs(table: NodeTable, node: str) -> tuple[LostGang, ...]:
    """Gangs with a seat on this node, by workload id: what fencing or draining it takes down."""
    return tuple(
        LostGang(
            workload=gang.workload,
            members_lost=sum(pod.node == node for pod in gang.placement.pods),
            members=len(gang.placement.pods),
            nodes=gang.placement.nodes,
        )
        for gang in (table.gang(workload) for workload in table.gangs_on(node))
        if gang is not None
    )


def gangs_on_lost_devices(table: NodeTable, node: str) -> tuple[LostGang, ...]:
    """Gangs that hold a device of this node which failed or is not reported any more."""
    healthy = {
        (device.resource, device.index)
        for device in table.node(node).devices
        if device.health is not DeviceHealth.FAILED
    }
    found: list[LostGang] = []
    for gang in (table.gang(workload) for workload in table.gangs_on(node)):
        if gang is None:
            continue
        lost = sum(
            any(device not in healthy for device in _devices_of(pod))
            for pod in gang.placement.pods
            if pod.node == node
        )
        if lost:
            found.append(
                LostGang(
                    workload=gang.workload,
                    members_lost=lost,
                    members=len(gang.placement.pods),
                    nodes=gang.placement.nodes,
                )
            )
    return tuple(found)


def _devices_of(pod: PodAssignment) -> list[tuple[str, int]]:
    whole = [(resource, index) for resource, indices in pod.devices.items() for index in indices]
    return whole + [(MIG_CARD, instance.card) for instance in pod.instances]
