"""Concurrent admission: variants of one workload, each in a flavor of its own (R-111).

A flavor is better than those after it in the first resource group of the ClusterQueue. Which
variants there are, and which of them may preempt, is not decided here.
"""

from muster_domain.queues import MigrationMode
from muster_scheduling.snapshot.catalog import QueueEntry
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.workloads import AdmittedWorkload, PendingWorkload


def admitted_sibling(
    view: AdmissionView, workload: PendingWorkload, queue: QueueEntry, *, better: bool
) -> AdmittedWorkload | None:
    """A variant of the same parent that is admitted in a better flavor, or in a worse one.

    The first by id where there are several; nobody for a workload that is no variant. Costs
    O(holders of the queue).
    """
    mine = workload.variant
    place = _place(queue, mine.flavor) if mine is not None else None
    if mine is None or place is None:
        return None
    found: list[AdmittedWorkload] = []
    for holder in view.admitted.get(queue.name, {}).values():
        other = holder.variant
        if other is None or other.parent != mine.parent or not holder.admitted:
            continue
        theirs = _place(queue, other.flavor)
        if theirs is not None and (theirs < place if better else theirs > place):
            found.append(holder)
    return min(found, key=lambda holder: holder.id, default=None)


def may_migrate(workload: PendingWorkload, queue: QueueEntry) -> bool:
    """Whether the ClusterQueue lets a job move into the variant's flavor."""
    rule = queue.queue.concurrent_admission
    if rule.mode is MigrationMode.RETAIN_FIRST_ADMISSION:
        return False
    if not rule.last_acceptable_flavor or workload.variant is None:
        return True
    place = _place(queue, workload.variant.flavor)
    last = _place(queue, rule.last_acceptable_flavor)
    return place is not None and last is not None and place <= last


def _place(queue: QueueEntry, flavor: str) -> int | None:
    flavors = queue.groups[0].flavors if queue.groups else ()
    return flavors.index(flavor) if flavor in flavors else None
