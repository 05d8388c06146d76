"""Volcano's Queue."""

import json
from typing import cast

from muster_domain.errors import InvalidValue
from muster_domain.quantity import Resources, format_quantity, parse_quantity_milli
from muster_domain.queues import DequeueStrategy, NodeGroups, QueueState, VolcanoQueue
from muster_manifests.manifest import Manifest
from muster_manifests.reader import ObjectReader

_WEIGHT_MAX = 65535
_ROOT = "root"
_UNBOUNDED_AT_ZERO = ("cpu", "memory")
_HIERARCHY = "volcano.sh/hierarchy"
_HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
_LIMITS = "volcano.sh/nodegroup-resource-limits"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def read_queue(manifest: Manifest) -> VolcanoQueue:
    """Read a Queue. A capability of zero cpu or memory is no ceiling, as in Volcano."""
    spec = manifest.body.object("spec")
    spec.accept("type", "extendClusters")
    spec.not_acted_on("affinity", "dequeueStrategy")
    for key in (_HIERARCHY, _HIERARCHY_WEIGHTS):
        if key in manifest.metadata.annotations:
            manifest.body.object("metadata").object("annotations").warn(
                key, "not acted upon", "write spec.parent and spec.weight"
            )
    capability = {
        name: value
        for name, value in spec.quantities("capability").items()
        if value or name not in _UNBOUNDED_AT_ZERO
    }
    status = manifest.body.object("status")
    status.accept_all()
    queue = VolcanoQueue(
        name=manifest.metadata.name,
        weight=_read_weight(spec),
        parent="" if manifest.metadata.name == _ROOT else spec.text("parent"),
        capability=capability,
        deserved=spec.quantities("deserved"),
        guarantee=spec.object("guarantee").quantities("resource"),
        reclaimable=spec.flag("reclaimable", default=True),
        priority=spec.integer("priority"),
        state=status.choice("state", QueueState, QueueState.OPEN),
        dequeue_strategy=spec.choice("dequeueStrategy", DequeueStrategy, DequeueStrategy.TRAVERSE),
        node_groups=_read_node_groups(spec.object("affinity"), _read_limits(manifest)),
        hierarchy=manifest.metadata.annotations.get(_HIERARCHY, ""),
        hierarchy_weights=manifest.metadata.annotations.get(_HIERARCHY_WEIGHTS, ""),
        created_at_ms=manifest.metadata.created_at_ms or 0,
    )
    if queue.name == _ROOT and queue.state is not QueueState.OPEN:
        status.rule("state", "the root queue is always open", "close the queues under it")
    _check_order(spec, ("guarantee", queue.guarantee), ("deserved", queue.deserved))
    _check_order(spec, ("guarantee", queue.guarantee), ("capability", queue.capability))
    _check_order(spec, ("deserved", queue.deserved), ("capability", queue.capability))
    return queue


def _read_weight(spec: ObjectReader) -> int:
    weight = spec.integer("weight", 1, low=0, high=_WEIGHT_MAX)
    if not weight:
        spec.rule("weight", "0 is out of range", f"write a number from 1 to {_WEIGHT_MAX}")
    return weight


def _read_limits(manifest: Manifest) -> dict[str, Resources]:
    """How much the queue may hold on the nodes of each group: an annotation of JSON."""
    written = manifest.metadata.annotations.get(_LIMITS)
    if written is None:
        return {}
    try:
        return {
            str(group): {name: parse_quantity_milli(amount) for name, amount in amounts.items()}
            for group, amounts in cast("dict[str, dict[str, str]]", json.loads(written)).items()
        }
    except (ValueError, AttributeError, RecursionError, InvalidValue):
        manifest.body.object("metadata").object("annotations").problem(
            _LIMITS,
            "not a mapping of groups to amounts",
            'write {"<group>": {"cpu": "8", "memory": "32Gi"}}',
        )
        return {}


def _read_node_groups(affinity: ObjectReader, limits: dict[str, Resources]) -> NodeGroups | None:
    if not affinity.present:
        return None
    affinity.accept_all()
    wanted, unwanted = (
        affinity.object("nodeGroupAffinity"),
        affinity.object("nodeGroupAntiAffinity"),
    )
    return NodeGroups(
        required=wanted.texts(_REQUIRED),
        preferred=wanted.texts(_PREFERRED),
        anti_required=unwanted.texts(_REQUIRED),
        anti_preferred=unwanted.texts(_PREFERRED),
        limits=limits,
    )


def _check_order(
    spec: ObjectReader, low: tuple[str, Resources], high: tuple[str, Resources]
) -> None:
    for name in sorted(low[1].keys() & high[1].keys()):
        if low[1][name] > high[1][name]:
            spec.rule(
                low[0],
                f"{name} {format_quantity(low[1][name])} is more than {high[0]} "
                f"{format_quantity(high[1][name])}",
                f"raise {high[0]} or lower {low[0]}",
            )
