"""Volcano's objects beyond queues and HyperNodes: gangs, their pods, and what guards them.

Quantities are integer milli-units by resource name, times integer milliseconds since 1970.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster_domain.nodes import MigInstance
from muster_domain.quantity import Resources
from muster_domain.selectors import Labels, NodeDemand, Selector
from muster_domain.workload import NetworkTopology


class PodGroupPhase(StrEnum):
    """How far a PodGroup is. `NONE` is one that no scheduler has looked at."""

    NONE = ""
    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubGroupPolicy:
    """Splits the pods of a gang into groups, each a gang of `size` with its own topology.

    Pods that the selector matches and that agree in the values of `match_label_keys` are one group;
    `min_groups` of the groups must be there.
    """

    name: str
    selector: Selector | None = None
    match_label_keys: tuple[str, ...] = ()
    size: int = 1
    min_groups: int = 0
    network_topology: NetworkTopology | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A gang. `min_member` pods start together or none does.

    `min_task_member` counts by role; `min_resources` are milli-units of the whole gang.
    """

    namespace: str
    name: str
    min_member: int = 1
    min_task_member: Mapping[str, int] = field(default_factory=dict[str, int])
    min_resources: Mapping[str, int] = field(default_factory=dict[str, int])
    queue: str = ""
    priority_class: str = ""
    network_topology: NetworkTopology | None = None
    sub_groups: tuple[SubGroupPolicy, ...] = ()
    phase: PodGroupPhase = PodGroupPhase.NONE
    created_at_ms: int = 0
    labels: Labels = field(default_factory=dict[str, str])
    annotations: Labels = field(default_factory=dict[str, str])

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class PodPhase(StrEnum):
    """What a node says of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAffinityTerm:
    """Pods near which (or away from which) a pod wants to be, in one topology domain.

    `weight` 0 is a requirement, 1 to 100 a preference. Without namespaces its own is meant.
    """

    topology_key: str
    selector: Selector
    namespaces: tuple[str, ...] = ()
    weight: int = 0
    anti: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadConstraint:
    """Matching pods may differ by `max_skew` between domains; a preference unless `required`."""

    topology_key: str
    selector: Selector
    max_skew: int = 1
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod of a gang as it stands.

    `requests` is what it is charged for, `init_requests` (never less) what its node must have free
    when it starts. `containers` are the requests of each, in order; `pod_group` the gang's name in
    its own namespace. `priority` `None` was never set. `devices` are the indices of those it holds,
    `instances` and `zones` its MIG instances and NUMA zones. Others of its gang depend on one that
    `leads`.
    """

    namespace: str
    name: str
    pod_group: str = ""
    role: str = ""
    leads: bool = False
    phase: PodPhase = PodPhase.PENDING
    node: str = ""
    nominated_node: str = ""
    deleting: bool = False
    gated: bool = False
    priority: int | None = None
    priority_class: str = ""
    may_preempt: bool = True
    requests: Resources = field(default_factory=dict[str, int])
    init_requests: Resources = field(default_factory=dict[str, int])
    containers: tuple[Resources, ...] = ()
    guaranteed: bool = False
    demand: NodeDemand = NodeDemand()
    affinity: tuple[PodAffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[str, ...] = ()
    volume_claims: tuple[str, ...] = ()
    resource_claims: tuple[str, ...] = ()
    devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    instances: tuple[MigInstance, ...] = ()
    zones: tuple[int, ...] = ()
    labels: Labels = field(default_factory=dict[str, str])
    annotations: Labels = field(default_factory=dict[str, str])
    created_at_ms: int = 0
    scheduled_at_ms: int | None = None

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """How many of the pods it matches may be disturbed now. Matches nothing without a selector."""

    namespace: str
    name: str
    selector: Selector | None
    disruptions_allowed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceQuota:
    """A Kubernetes ResourceQuota: `hard` is the ceiling, `used` what is charged."""

    namespace: str
    name: str
    hard: Resources = field(default_factory=dict[str, int])
    used: Resources = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClaim:
    """A ResourceClaim: how many devices of which classes it asks for. Pods may share one."""

    namespace: str
    name: str
    devices: Mapping[str, int]

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """Devices of one driver. `unreadable` is a selector that says more than which driver."""

    name: str
    driver: str = ""
    unreadable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSlice:
    """So many devices of one driver on one node."""

    node: str
    driver: str
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPlace:
    """Where one processor sits."""

    cpu: int
    core: int
    socket: int
    numa: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaTopology:
    """What a node reports of its processors (Numatopology). Policies are kubelet's words."""

    node: str
    cpu_manager_policy: str = ""
    topology_manager_policy: str = ""
    cpus: tuple[CpuPlace, ...] = ()
    free_cpus: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    """Measured use of a node in thousandths of what it has; `at_ms` is when it was measured."""

    node: str
    cpu_milli: int
    memory_milli: int
    at_ms: int | None = None
