"""Nodes, their devices, and who sits where."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster_domain.quantity import Resources
from muster_domain.selectors import Labels, Taint


class DeviceHealth(StrEnum):
    """Whether a device may be given out."""

    HEALTHY = "healthy"
    FAILED = "failed"
    HELD_BY_OTHERS = "held_by_others"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """A size of MIG instances: so many slices of a card's memory, from one of these starts."""

    name: str
    slices: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """A part of a card in MIG mode: the card's index, the profile, and the first slice.

    `health` is of one that exists: HELD_BY_OTHERS where somebody else computes on it.
    """

    card: int
    profile: str
    start: int
    health: DeviceHealth = DeviceHealth.HEALTHY


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator. `index` is what a runtime makes visible, `resource` what it counts as.

    `pci_bus` is its address on the bus, `links` the indices of devices of the same resource that
    it reaches without the bus (NVLink). A card with `profiles` is given out in MIG instances, which
    its agent makes and removes as pods need them; `instances` are those that exist.
    """

    index: int
    resource: str
    model: str = ""
    memory_bytes: int = 0
    numa_node: int = 0
    health: DeviceHealth = DeviceHealth.HEALTHY
    pci_bus: str = ""
    links: tuple[int, ...] = ()
    profiles: tuple[MigProfile, ...] = ()
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaZone:
    """Processors and memory of a node that are near each other. `number` as devices name it."""

    number: int
    cpus: tuple[int, ...]
    memory_bytes: int = 0


class NumaPolicy(StrEnum):
    """How near a pod's processors and devices must be, in Kubernetes' words.

    SINGLE_NUMA_NODE: in one zone, or not on this node. RESTRICTED: in one zone wherever one zone of
    the node could serve the pod when empty. BEST_EFFORT: in one zone if there is room in one.
    """

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class NodeCondition(StrEnum):
    """What placement thinks of a node.

    READY takes pods. SUSPECT has been silent too long for new pods. FENCED has been silent so long
    that its agent has stopped its own pods. CORDONED is kept empty by a person (drain).
    """

    READY = "ready"
    SUSPECT = "suspect"
    FENCED = "fenced"
    CORDONED = "cordoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine as its agent reported it, in milli-units."""

    name: str
    allocatable: Resources
    labels: Labels = field(default_factory=dict[str, str])
    taints: tuple[Taint, ...] = ()
    devices: tuple[Device, ...] = ()
    simulated: bool = False
    zones: tuple[NumaZone, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAssignment:
    """One pod's seat. `rank` counts all pods of the gang from 0, in pod set order.

    `devices` gives the indices by resource name for resources that have devices. `replacement` is 0
    for a first seat, else the number of the lost node, from 1, whose seats this one replaced.
    `zones` are the NUMA zones that its processors and devices are in, where it wants them near.
    `instances` are its parts of cards that are divided as pods need them.
    `resize` is 0 for a first seat, else the number of the resize that the gang grew by.
    """

    pod_set: str
    index: int
    rank: int
    node: str
    devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    replacement: int = 0
    zones: tuple[int, ...] = ()
    instances: tuple[MigInstance, ...] = ()
    resize: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainCount:
    """`count` pods in the domain with these values of the assignment's levels."""

    values: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyAssignment:
    """Counts by domain, in path order. `levels` are node labels; hostnames stand alone (R-87)."""

    levels: tuple[str, ...]
    domains: tuple[DomainCount, ...]

    @property
    def pods(self) -> int:
        """How many pods are assigned."""
        return sum(domain.count for domain in self.domains)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The seats of one gang, in rank order.

    `topology` is the same in counts, for the pod sets that a topology seated. There the ranks of
    first seats follow the order of the domains (R-90); a replaced pod keeps its rank, and so do the
    others when a gang grows or shrinks. `resizes` is the number of the last resize that led here.
    """

    pods: tuple[PodAssignment, ...]
    topology: Mapping[str, TopologyAssignment] = field(
        default_factory=dict[str, TopologyAssignment]
    )
    resizes: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """Pods by pod set."""
        counts: dict[str, int] = {}
        for pod in self.pods:
            counts[pod.pod_set] = counts.get(pod.pod_set, 0) + 1
        return counts

    @property
    def generation(self) -> tuple[int, int]:
        """Grows with every change of the seats within an attempt."""
        return self.resizes, self.replacements

    @property
    def replacements(self) -> int:
        """How many lost nodes' seats were replaced since the gang was first seated."""
        return max((pod.replacement for pod in self.pods), default=0)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes in use, sorted."""
        return tuple(sorted({pod.node for pod in self.pods}))
