"""From counts per node to a seat for every pod: ranks, indices and devices."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from muster_domain.mig import profile_of
from muster_domain.nodes import Device, MigInstance, Placement, PodAssignment, TopologyAssignment
from muster_domain.queues import PlacementPolicy
from muster_scheduling.placement.columns import Columns
from muster_scheduling.placement.devices import pick_cards, pick_devices
from muster_scheduling.placement.geometry import ask_of
from muster_scheduling.placement.outcome import Gang, SeatedPodSet
from muster_scheduling.placement.packing.mix import kind_of
from muster_scheduling.placement.plan import Plan, Seating
from muster_scheduling.placement.record import MILLI
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.seating import Seats
from muster_scheduling.placement.shares import GPU, Cards, Share, share_of
from muster_scheduling.placement.table import NodeTable
from muster_scheduling.placement.topology.reported import topology_of


def seat_members(
    table: NodeTable, request: GangRequest, plans: Sequence[Plan], seating: Seating
) -> Gang:
    """The gang with every pod in its seat.

    Ranks follow pod sets as written and pod indices within a set. A set's nodes are taken in the
    order of their topology domains, then of their names, so that near ranks sit near each other.
    """
    nodes = [
        nodes_in_order(table.columns, found, seats)
        for found, seats in zip(plans, seating.seats, strict=True)
    ]
    hand_out = FreeDevices(table, request.policy)
    hand_out.divide(zip(request.pod_sets, nodes, strict=True))
    pods: list[PodAssignment] = []
    for pod_set, of_set in zip(request.pod_sets, nodes, strict=True):
        pods += hand_out.seat(pod_set, of_set, first_rank=len(pods))
    return Gang(
        workload=request.workload,
        pod_sets=tuple(
            SeatedPodSet(
                name=pod_set.name,
                count=seats.members,
                requests=pod_set.requests,
                min_count=pod_set.least,
            )
            for pod_set, seats in zip(request.pod_sets, seating.seats, strict=True)
        ),
        placement=Placement(pods=tuple(pods), topology=topologies_of(table, request, pods)),
    )


def topologies_of(
    table: NodeTable, request: GangRequest, pods: Sequence[PodAssignment]
) -> dict[str, TopologyAssignment]:
    """The seats of each pod set that a declared topology seated, in counts."""
    nodes = {name: table.node(name) for name in sorted({pod.node for pod in pods})}
    return {
        pod_set.name: topology_of(
            pod_set.levels, (pod for pod in pods if pod.pod_set == pod_set.name), nodes
        )
        for pod_set in request.pod_sets
        if pod_set.levels
    }


def nodes_in_order(columns: Columns, found: Plan, seats: Seats) -> list[str]:
    """The node of each pod, in the order of the topology domains, then of the nodes' names."""
    order = np.argsort(seats.rows, kind="stable")
    if found.domains.levels:
        order = np.lexsort((seats.rows, found.domains.levels[-1][seats.rows]))
    rows: list[int] = np.repeat(seats.rows[order], seats.counts[order]).tolist()
    return [columns.records[row].name for row in rows]


class FreeDevices:
    """Free devices of the nodes in use, less what this gang has been given.

    A gang takes the cards of one node whole or in shares, not both (`attempt`).
    """

    def __init__(self, table: NodeTable, policy: PlacementPolicy = PlacementPolicy.BINPACK) -> None:
        self._table = table
        self._policy = policy
        self._free: dict[tuple[str, str], list[Device]] = {}
        self._cards: dict[str, Cards] = {}
        self._pinned: dict[str, dict[int, int]] = {}
        self._instances: dict[tuple[str, str], list[MigInstance]] = {}

    def divide(self, seats: Iterable[tuple[PodSetRequest, Sequence[str]]]) -> None:
        """Make MIG instances for all pods to come, each set with the node of each of its pods.

        For all of a node at once, since a small one may be where it leaves no room for a large one.
        """
        asked: dict[str, Counter[str]] = {}
        for pod_set, nodes in seats:
            ask = ask_of(pod_set.requests)
            for node in nodes if ask else ():
                asked.setdefault(node, Counter()).update(dict(ask))
        for node, counts in asked.items():
            given = self._table.record(node).divisible().give(tuple(sorted(counts.items())))
            for instance in given[1] if given is not None else ():
                self._instances.setdefault((node, instance.profile), []).append(instance)

    def seat(
        self, pod_set: PodSetRequest, nodes: Sequence[str], *, first_rank: int
    ) -> list[PodAssignment]:
        """The pods of a set on their nodes, with all that each gets there."""
        pods: list[PodAssignment] = []
        for index, node in enumerate(nodes):
            seat = PodAssignment(
                pod_set=pod_set.name, index=index, rank=first_rank + index, node=node
            )
            pods.append(self.furnish(seat, pod_set))
        return pods

    def furnish(self, seat: PodAssignment, pod_set: PodSetRequest) -> PodAssignment:
        """A seat with one more pod's zones and devices of its node."""
        zones = self._take_zone(seat.node, pod_set)
        devices = self._take(seat.node, pod_set, zones)
        instances = self._take_instances(seat.node, pod_set, devices)
        if not (zones or devices or instances or seat.zones or seat.devices or seat.instances):
            return seat
        return replace(seat, zones=zones, devices=devices, instances=instances)

    def _take_instances(
        self, node: str, pod_set: PodSetRequest, devices: Mapping[str, tuple[int, ...]]
    ) -> tuple[MigInstance, ...]:
        taken: list[MigInstance] = []
        for resource in sorted(pod_set.requests) if self._instances else ():
            made = self._instances.get((node, profile_of(resource)))
            count = pod_set.requests[resource] // MILLI - len(devices.get(resource, ()))
            if made and count > 0:
                taken += made[:count]
                del made[:count]
        return tuple(taken)

    def _take_zone(self, node: str, pod_set: PodSetRequest) -> tuple[int, ...]:
        """The NUMA zone of one more pod on a node: the one with least left over that holds it.

        None where it does not ask for one, or no zone holds it.
        """
        near = pod_set.near
        if near is None:
            return ()
        record = self._table.record(node)
        pinned = self._pinned.setdefault(node, {})
        free = self._free_of(node, GPU)
        found: list[tuple[int, int, int]] = []
        for zone in record.node.zones if record.node is not None else ():
            cards = sum(device.numa_node == zone.number for device in free)
            cpu_milli = record.free_in_zone(zone.number) - pinned.get(zone.number, 0)
            if cards >= near.cards and cpu_milli >= near.cpu_milli:
                found.append((cards, cpu_milli, zone.number))
        if not found:
            return ()
        zone_number = min(found)[2]
        pinned[zone_number] = pinned.get(zone_number, 0) + near.cpu_milli
        return (zone_number,)

    def _free_of(self, node: str, resource: str) -> list[Device]:
        free = self._free.get((node, resource))
        return self._table.record(node).free_devices(resource) if free is None else free

    def _take(
        self, node: str, pod_set: PodSetRequest, zones: tuple[int, ...]
    ) -> dict[str, tuple[int, ...]]:
        share = share_of(pod_set.requests)
        given = {} if share is None else {GPU: self._take_share(node, pod_set, share)}
        for resource in sorted(pod_set.requests):
            count = pod_set.requests[resource] // MILLI
            if not count or not self._table.columns.has_devices(resource):
                continue
            free = self._free_of(node, resource)
            near = [device for device in free if device.numa_node in zones]
            usable = near if len(near) >= count else free
            picked = pick_devices(usable, min(count, len(free))) if free else ()
            self._free[node, resource] = [device for device in free if device.index not in picked]
            if picked:
                given[resource] = picked
        return given

    def _take_share(self, node: str, pod_set: PodSetRequest, share: Share) -> tuple[int, ...]:
        record = self._table.record(node)
        cards = self._cards.setdefault(node, record.cards())
        left = cards.left_milli
        match self._policy:
            case PlacementPolicy.BINPACK:
                loss = left
            case PlacementPolicy.SPREAD:
                loss = -left
            case PlacementPolicy.FRAGMENTATION:
                row = self._table.columns.row[node]
                loss = self._table.losses.of_cards(kind_of(pod_set), row, left)
            case _:
                assert_never(self._policy)
        indices = record.card_indices
        return tuple(indices[position] for position in pick_cards(cards, share, loss))
