"""Volcano's Queue."""

from muster_domain.quantity import Resources, format_quantity
from muster_domain.queues import VolcanoQueue
from muster_manifests.manifest import Manifest
from muster_manifests.reader import ObjectReader

_WEIGHT_MAX = 65535
_ROOT = "root"
_UNBOUNDED_AT_ZERO = ("cpu", "memory")
_HIERARCHY_ANNOTATIONS = ("volcano.sh/hierarchy", "volcano.sh/hierarchy-weights")


def read_queue(manifest: Manifest) -> VolcanoQueue:
    """Read a Queue. A capability of zero cpu or memory is no ceiling, as in Volcano."""
    spec = manifest.body.object("spec")
    spec.accept("type", "extendClusters")
    spec.not_acted_on("affinity", "dequeueStrategy")
    for key in _HIERARCHY_ANNOTATIONS:
        if key in manifest.metadata.annotations:
            manifest.body.object("metadata").object("annotations").warn(
                key, "not acted upon", "write spec.parent and spec.weight"
            )
    capability = {
        name: value
        for name, value in spec.quantities("capability").items()
        if value or name not in _UNBOUNDED_AT_ZERO
    }
    queue = VolcanoQueue(
        name=manifest.metadata.name,
        weight=spec.integer("weight", 1, low=1, high=_WEIGHT_MAX),
        parent="" if manifest.metadata.name == _ROOT else spec.text("parent"),
        capability=capability,
        deserved=spec.quantities("deserved"),
        guarantee=spec.object("guarantee").quantities("resource"),
        reclaimable=spec.flag("reclaimable", default=True),
        priority=spec.integer("priority"),
    )
    _check_order(spec, ("guarantee", queue.guarantee), ("deserved", queue.deserved))
    _check_order(spec, ("guarantee", queue.guarantee), ("capability", queue.capability))
    _check_order(spec, ("deserved", queue.deserved), ("capability", queue.capability))
    return queue


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
