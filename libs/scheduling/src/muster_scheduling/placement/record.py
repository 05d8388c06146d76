"""One node and what sits on it, in exact integers."""

from dataclasses import dataclass, field

from muster_domain.nodes import Device, DeviceHealth, Node, NodeCondition
from muster_domain.quantity import Resources
from muster_scheduling.placement.outcome import Gang

PODS = "pods"
HOSTNAME = "kubernetes.io/hostname"
MILLI = 1000


@dataclass(slots=True)
class Holding:
    """What one gang holds on one node: milli-units and device indices, by resource."""

    usage: dict[str, int] = field(default_factory=dict[str, int])
    devices: dict[str, set[int]] = field(default_factory=dict[str, set[int]])


@dataclass(slots=True)
class NodeRecord:
    """A node's own report, and the sum of the seats bound to it.

    `node` is `None` while gangs are seated on a node that has not reported or was removed.
    """

    name: str
    node: Node | None = None
    condition: NodeCondition = NodeCondition.READY
    used: dict[str, int] = field(default_factory=dict[str, int])
    taken: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    gangs: dict[str, Holding] = field(default_factory=dict[str, Holding])
    _healthy: dict[str, list[Device]] = field(default_factory=dict[str, list[Device]])

    def report(self, node: Node | None) -> None:
        """Take over what the node says of itself, or that it is gone."""
        self.node = node
        self._healthy = {}
        for device in node.devices if node is not None else ():
            of_resource = self._healthy.setdefault(device.resource, [])
            if device.health is DeviceHealth.HEALTHY:
                of_resource.append(device)

    def add(self, workload: str, holding: Holding) -> None:
        """Seat a gang's pods here."""
        self.gangs[workload] = holding
        for resource, quantity in holding.usage.items():
            self.used[resource] = self.used.get(resource, 0) + quantity
        self._count_devices(holding.devices)

    def remove(self, workload: str) -> None:
        """Take a gang's pods away; the record is then as if they had never been here."""
        holding = self.gangs.pop(workload)
        for resource, quantity in holding.usage.items():
            left = self.used[resource] - quantity
            if left:
                self.used[resource] = left
            else:
                del self.used[resource]
        self.taken = {}
        for other in self.gangs.values():
            self._count_devices(other.devices)

    def free_milli(self, resource: str) -> int:
        """What is left, below zero where a node shrank under its pods.

        A resource with devices is limited by the healthy ones that are free, too.
        """
        if self.node is None:
            return 0
        left = self.node.allocatable.get(resource, 0) - self.used.get(resource, 0)
        if resource in self._healthy:
            left = min(left, MILLI * len(self.free_devices(resource)))
        return left

    def free_devices(self, resource: str) -> list[Device]:
        """Healthy devices that nobody holds, in the node's order."""
        taken = self.taken.get(resource, ())
        return [device for device in self._healthy.get(resource, ()) if device.index not in taken]

    def _count_devices(self, devices: dict[str, set[int]]) -> None:
        for resource, indices in devices.items():
            self.taken.setdefault(resource, set()).update(indices)


def pod_usage(requests: Resources) -> dict[str, int]:
    """Milli-units that one pod takes from its node: what it asks for, and one of `pods`."""
    usage = {resource: quantity for resource, quantity in requests.items() if quantity}
    usage.setdefault(PODS, MILLI)
    return usage


def holdings(gang: Gang) -> dict[str, Holding]:
    """What a gang holds, by node name."""
    usage_of = {pod_set.name: pod_usage(pod_set.requests) for pod_set in gang.pod_sets}
    by_node: dict[str, Holding] = {}
    for pod in gang.placement.pods:
        holding = by_node.setdefault(pod.node, Holding())
        for resource, quantity in usage_of[pod.pod_set].items():
            holding.usage[resource] = holding.usage.get(resource, 0) + quantity
        for resource, indices in pod.devices.items():
            holding.devices.setdefault(resource, set()).update(indices)
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
