"""Everything a session may depend on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster_domain.nodes import Node, NodeCondition
from muster_domain.queues import HyperNode, PriorityClass, VolcanoQueue
from muster_domain.volcano import (
    DeviceClaim,
    DeviceClass,
    DeviceSlice,
    DisruptionBudget,
    NamespaceQuota,
    NodeUsage,
    NumaTopology,
    Pod,
    PodGroup,
)
from muster_scheduling.placement.columns import Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShard:
    """The nodes of this scheduler. A hard shard uses no others, a soft one these first."""

    nodes: frozenset[str]
    hard: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSnapshot:
    """The cluster at `now_ms`.

    Only nodes that are READY count as capacity; a node missing in `conditions` is. Pods whose gang
    is not among `pod_groups` hold their nodes and are left alone, and so are gangs whose queue is
    unknown. `revoked_at_ms` is when shuffle last evicted. `columns` are the
    vectors of exactly these nodes, where somebody keeps them; they only save time.
    """

    now_ms: int
    nodes: tuple[Node, ...] = ()
    conditions: Mapping[str, NodeCondition] = field(default_factory=dict[str, NodeCondition])
    queues: tuple[VolcanoQueue, ...] = ()
    pod_groups: tuple[PodGroup, ...] = ()
    pods: tuple[Pod, ...] = ()
    hyper_nodes: tuple[HyperNode, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    disruption_budgets: tuple[DisruptionBudget, ...] = ()
    namespace_quotas: tuple[NamespaceQuota, ...] = ()
    numa: tuple[NumaTopology, ...] = ()
    usage: tuple[NodeUsage, ...] = ()
    device_claims: tuple[DeviceClaim, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    device_slices: tuple[DeviceSlice, ...] = ()
    shard: NodeShard | None = None
    revoked_at_ms: int | None = None
    columns: Columns | None = field(default=None, compare=False)
