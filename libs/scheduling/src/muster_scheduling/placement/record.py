"""One node and what sits on it, in exact integers."""

from dataclasses import dataclass, field

from muster_domain.mig import MIG_PREFIX, profile_of
from muster_domain.nodes import Device, DeviceHealth, MigInstance, Node, NodeCondition
from muster_domain.quantity import Resources
from muster_scheduling.placement.geometry import Card, Divisible, card_of
from muster_scheduling.placement.outcome import Gang
from muster_scheduling.placement.shares import (
    GPU,
    PODS_ON_A_CARD_MAX,
    SHARE_RESOURCES,
    WHOLE,
    Cards,
    Share,
    share_of,
)
from muster_scheduling.placement.zones import Zones

PODS = "pods"
HOSTNAME = "kubernetes.io/hostname"
MILLI = 1000


@dataclass(slots=True)
class Holding:
    """What one gang holds on one node: milli-units and device indices, by resource.

    `shares` are parts of cards, by the card's index; `pinned` milli-units of cpu by NUMA zone;
    `instances` parts of cards that are divided as pods need them.
    """

    usage: dict[str, int] = field(default_factory=dict[str, int])
    devices: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    shares: list[tuple[int, Share]] = field(default_factory=list[tuple[int, Share]])
    pinned: dict[int, int] = field(default_factory=dict[int, int])
    instances: list[MigInstance] = field(default_factory=list[MigInstance])


@dataclass(slots=True)
class NodeRecord:
    """A node's own report, and the sum of the seats bound to it.

    `node` is `None` while gangs are seated on a node that has not reported or was removed.
    `card_indices` are those of its cards, by their position among the node's `Cards`. `divided` are
    the cards that are given out in MIG instances, made as pods need them.
    """

    name: str
    node: Node | None = None
    condition: NodeCondition = NodeCondition.READY
    used: dict[str, int] = field(default_factory=dict[str, int])
    taken: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    shared: dict[int, list[Share]] = field(default_factory=dict[int, list[Share]])
    pinned: dict[int, int] = field(default_factory=dict[int, int])
    gangs: dict[str, Holding] = field(default_factory=dict[str, Holding])
    card_indices: tuple[int, ...] = ()
    divided: tuple[Card, ...] = ()
    _healthy: dict[str, list[Device]] = field(default_factory=dict[str, list[Device]])

    def report(self, node: Node | None) -> None:
        """Take over what the node says of itself, or that it is gone."""
        self.node = node
        self._healthy = {}
        devices = node.devices if node is not None else ()
        self.card_indices = tuple(device.index for device in devices if device.resource == GPU)
        for device in devices:
            of_resource = self._healthy.setdefault(device.resource, [])
            if device.health is DeviceHealth.HEALTHY:
                of_resource.append(device)
        self._divide()

    def add(self, workload: str, holding: Holding) -> None:
        """Seat a gang's pods here."""
        self.gangs[workload] = holding
        for resource, quantity in holding.usage.items():
            self.used[resource] = self.used.get(resource, 0) + quantity
        self._count_devices(holding)
        self._divide()

    def remove(self, workload: str) -> None:
        """Take a gang's pods away; the record is then as if they had never been here."""
        holding = self.gangs.pop(workload)
        for resource, quantity in holding.usage.items():
            left = self.used[resource] - quantity
            if left:
                self.used[resource] = left
            else:
                del self.used[resource]
        if holding.devices or holding.shares or holding.pinned:
            self.taken, self.shared, self.pinned = {}, {}, {}
            for other in self.gangs.values():
                self._count_devices(other)
        self._divide()

    def free_milli(self, resource: str) -> int:
        """What is left, below zero where a node shrank under its pods.

        A resource with devices is limited by the healthy ones that are free, too.
        """
        if self.node is None:
            return 0
        left = self.node.allocatable.get(resource, 0) - self.used.get(resource, 0)
        if self.divided and resource.startswith(MIG_PREFIX):
            return min(left, MILLI * self.divisible().room(profile_of(resource)))
        if resource in self._healthy:
            left = min(left, MILLI * len(self.free_devices(resource)))
        return left

    def divisible(self) -> Divisible:
        """What there is for pods that ask for MIG instances."""
        fixed = {
            profile_of(resource): len(self.free_devices(resource))
            for resource in self._healthy
            if resource.startswith(MIG_PREFIX)
        }
        return Divisible(fixed, self.divided)

    def free_devices(self, resource: str) -> list[Device]:
        """Healthy devices that nobody holds, in the node's order."""
        taken = self.taken.get(resource, ())
        shared = self.shared if resource == GPU else ()
        return [
            device
            for device in self._healthy.get(resource, ())
            if device.index not in taken and device.index not in shared
        ]

    def write_cards(self, cards: Cards, row: int) -> None:
        """Write down what is left of each card: nothing of one that is given out whole."""
        cards.pods[row] = PODS_ON_A_CARD_MAX
        taken = self.taken.get(GPU, ())
        usable = {d.index: d for d in self._healthy.get(GPU, ()) if d.index not in taken}
        for position, index in enumerate(self.card_indices):
            if index in usable:
                memory = usable[index].memory_bytes or WHOLE
                cards.memory[row, position] = cards.free_memory[row, position] = memory
                cards.cores_milli[row, position] = cards.pods[row, position] = 0
                for share in self.shared.get(index, ()):
                    cards.give((row, position), share)

    def cards(self) -> Cards:
        """What is left of each card."""
        found = Cards.none(1, len(self.card_indices))
        self.write_cards(found, 0)
        return found.at(0)

    def write_zones(self, zones: Zones, row: int) -> None:
        """Write down what each NUMA zone has and what is left of it."""
        of_node = self.node.zones if self.node is not None else ()
        all_cards = [device.numa_node for device in self._healthy.get(GPU, ())]
        free_cards = [device.numa_node for device in self.free_devices(GPU)] if of_node else []
        for column, zone in enumerate(of_node):
            cpu_milli = MILLI * len(zone.cpus)
            zones.cpu_milli[row, column] = cpu_milli
            zones.free_cpu_milli[row, column] = self.free_in_zone(zone.number)
            zones.cards[row, column] = all_cards.count(zone.number)
            zones.free_cards[row, column] = free_cards.count(zone.number)

    def free_in_zone(self, number: int) -> int:
        """Milli-units of cpu in a NUMA zone that no pod holds which wants to be near."""
        zones = self.node.zones if self.node is not None else ()
        of_zone = sum(MILLI * len(zone.cpus) for zone in zones if zone.number == number)
        return of_zone - self.pinned.get(number, 0)

    def _divide(self) -> None:
        cards = [d for d in self.node.devices if d.profiles] if self.node is not None else []
        if not cards:
            self.divided = ()
            return
        held: dict[int, list[MigInstance]] = {}
        for holding in self.gangs.values():
            for instance in holding.instances:
                held.setdefault(instance.card, []).append(instance)
        self.divided = tuple(
            card_of(device, held.get(device.index, ()))
            for device in cards
            if device.health is DeviceHealth.HEALTHY
        )

    def _count_devices(self, holding: Holding) -> None:
        for resource, indices in holding.devices.items():
            self.taken.setdefault(resource, set()).update(indices)
        for index, share in holding.shares:
            self.shared.setdefault(index, []).append(share)
        for zone, cpu_milli in holding.pinned.items():
            self.pinned[zone] = self.pinned.get(zone, 0) + cpu_milli


def pod_usage(requests: Resources) -> dict[str, int]:
    """Milli-units that one pod takes from its node: what it asks for, and one of `pods`.

    Without what is taken from single cards (`shares`).
    """
    usage = {
        resource: quantity
        for resource, quantity in requests.items()
        if quantity and resource not in SHARE_RESOURCES
    }
    usage.setdefault(PODS, MILLI)
    return usage


def holdings(gang: Gang) -> dict[str, Holding]:
    """What a gang holds, by node name."""
    usage_of = {pod_set.name: pod_usage(pod_set.requests) for pod_set in gang.pod_sets}
    share_by_set = {pod_set.name: share_of(pod_set.requests) for pod_set in gang.pod_sets}
    by_node: dict[str, Holding] = {}
    for pod in gang.placement.pods:
        holding = by_node.setdefault(pod.node, Holding())
        for resource, quantity in usage_of[pod.pod_set].items():
            holding.usage[resource] = holding.usage.get(resource, 0) + quantity
        share = share_by_set[pod.pod_set]
        for resource, indices in pod.devices.items():
            if share is not None and resource == GPU:
                holding.shares += [(index, share) for index in indices]
            else:
                holding.devices.setdefault(resource, set()).update(indices)
        holding.instances += pod.instances
        for zone in pod.zones:
            cpu_milli = usage_of[pod.pod_set].get("cpu", 0)
            holding.pinned[zone] = holding.pinned.get(zone, 0) + cpu_milli
    return by_node


def device_resources(node: Node) -> list[str]:
    """Resources that the node counts in devices, sorted."""
    return sorted({device.resource for device in node.devices})


def label_of(node: Node, key: str) -> str | None:
    """A node's label; its hostname is its name unless it says otherwise."""
    value = node.labels.get(key)
    return node.name if value is None and key == HOSTNAME else value


def is_extended(resource: str) -> bool:
    """Whether a resource is counted in pieces, as Kubernetes has it: its name has a domain."""
    return "/" in resource
