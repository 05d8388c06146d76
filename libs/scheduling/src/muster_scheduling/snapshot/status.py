"""What is reserved and used of a queue, as its status shows it (section 1.2 of Kueue's API)."""

from collections.abc import Iterable
from dataclasses import dataclass

from muster_domain.queues import ClusterQueue
from muster_scheduling.quota import FlavorResource, QuotaNode
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.workloads import AdmittedWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTotal:
    """Milli-units of one resource; `borrowed` is what exceeds the nominal quota."""

    resource: str
    total_milli: int
    borrowed_milli: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorTotals:
    """What is used of one flavor."""

    flavor: str
    resources: tuple[ResourceTotal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUsage:
    """`reserved` counts everybody who holds quota, `used` those whose quota is posted."""

    reserving_workloads: int
    admitted_workloads: int
    reserved: tuple[FlavorTotals, ...]
    used: tuple[FlavorTotals, ...]


def cluster_queue_usage(view: AdmissionView, name: str) -> QueueUsage | None:
    """What the workloads of a ClusterQueue hold; `None` when there is no such queue."""
    return _usage(view, name, list(view.admitted.get(name, {}).values()))


def local_queue_usage(view: AdmissionView, key: str) -> QueueUsage | None:
    """What the workloads of a LocalQueue hold; `None` when its ClusterQueue does not exist."""
    local = view.catalog.configuration.local_queues.get(key)
    if local is None:
        return None
    holders = view.admitted.get(local.cluster_queue, {}).values()
    return _usage(view, local.cluster_queue, [h for h in holders if h.local_queue == key])


def _usage(view: AdmissionView, name: str, holders: list[AdmittedWorkload]) -> QueueUsage | None:
    entry = view.catalog.queues.get(name)
    if entry is None:
        return None
    admitted = [holder for holder in holders if holder.admitted]
    return QueueUsage(
        reserving_workloads=len(holders),
        admitted_workloads=len(admitted),
        reserved=_totals(entry.queue, entry.node, holders),
        used=_totals(entry.queue, entry.node, admitted),
    )


def _totals(
    queue: ClusterQueue, node: QuotaNode, holders: Iterable[AdmittedWorkload]
) -> tuple[FlavorTotals, ...]:
    used: dict[FlavorResource, int] = {}
    for holder in holders:
        for fr, amount in holder.usage.items():
            used[fr] = used.get(fr, 0) + amount
    return tuple(
        FlavorTotals(
            flavor=flavor.flavor,
            resources=tuple(
                _total(node, (flavor.flavor, resource), used) for resource in flavor.resources
            ),
        )
        for group in queue.resource_groups
        for flavor in group.flavors
    )


def _total(node: QuotaNode, fr: FlavorResource, used: dict[FlavorResource, int]) -> ResourceTotal:
    total = used.get(fr, 0)
    borrowed = max(0, total - node.nominal(fr)) if node.parent is not None else 0
    return ResourceTotal(resource=fr[1], total_milli=total, borrowed_milli=borrowed)
