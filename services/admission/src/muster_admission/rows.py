"""Records as the rows that people read."""

from muster_admission.announce import lacks, unready
from muster_admission.book import Book, door_of
from muster_admission.checkpoints import lost_work_ms
from muster_admission.turns import turn_rows
from muster_contracts.queries import (
    Ahead,
    Phase,
    QueueRow,
    QuotaRow,
    WaitEstimate,
    WorkloadRow,
)
from muster_contracts.stored import Record
from muster_domain.checks import all_ready
from muster_domain.conditions import Explanation, PendingReason, UnadmittedReason
from muster_domain.states import Admitted, Evicting, Finished, Pending, Reserved
from muster_scheduling.admission import closed
from muster_scheduling.quota import FlavorResource, QuotaNode
from muster_scheduling.snapshot.activity import condition
from muster_scheduling.snapshot.catalog import QueueEntry

EVERYTHING_MILLI = 2**63 - 1
"""Stands for "no limit" in rows, as an upper bound that JSON readers can hold."""


def workload_row(book: Book, record: Record) -> WorkloadRow:
    """One line about a workload, without its positions."""
    workload, state = record.workload, record.state
    phase, reason, message = _words(book, record)
    return WorkloadRow(
        id=workload.id,
        namespace=workload.namespace,
        name=workload.name,
        kind=workload.owner.kind,
        queue=workload.queue.name,
        cluster_queue=record.cluster_queue,
        phase=phase,
        reason=reason,
        message=message,
        priority=workload.priority,
        requests_milli=workload.total_requests,
        pods=sum(pod_set.count for pod_set in workload.pod_sets),
        pods_now=_pods_now(record),
        created_at_ms=workload.created_at_ms,
        attempt=state.attempt,
        user=workload.user,
        partition=book.partition,
        admitted_at_ms=state.admitted_at_ms if isinstance(state, Admitted) else None,
        finished_at_ms=state.finished_at_ms if isinstance(state, Finished) else None,
        outcome=state.outcome if isinstance(state, Finished) else None,
        nodes=state.placement.nodes if isinstance(state, Admitted) else (),
    )


def _words(  # noqa: PLR0911 - one line a state
    book: Book, record: Record
) -> tuple[Phase, str, str]:
    match record.state:
        case Pending(explanation=stored):
            found = book.explanations.get(record.workload.id, stored)
            why = kept_out(book, record) or found
            return Phase.PENDING, why.reason, why.message
        case Reserved(checks=checks) if not all_ready(checks):
            reason = UnadmittedReason.UNSATISFIED_ADMISSION_CHECKS
            return Phase.RESERVED, reason, unready(checks)
        case Reserved():
            return Phase.RESERVED, "UnsatisfiedAdmissionChecks", "placement looks for seats"
        case Admitted(ready_at_ms=None) as state:
            lacking = lacks(record.workload, state)
            return Phase.ADMITTED, "Admitted", lacking or "its pods are starting"
        case Admitted() as state:
            return Phase.RUNNING, "PodsReady", lacks(record.workload, state)
        case Evicting(reason=reason, message=message):
            return Phase.EVICTING, reason, message
        case Finished(outcome=outcome, message=message):
            return Phase.FINISHED, outcome, message


def _pods_now(record: Record) -> int | None:
    """With how many pods it runs, where that is another number than it is to have."""
    if not isinstance(record.state, Admitted):
        return None
    seats = len(record.state.placement.pods)
    wanted = sum(pod_set.count for pod_set in record.workload.pod_sets)
    return None if seats == wanted else seats


def kept_out(book: Book, record: Record) -> Explanation | None:
    """By what a workload is kept from being looked at, whatever it waited for before."""
    if door_of(record) in book.stopped_doors:
        message = f"LocalQueue {door_of(record)} is stopped"
        return Explanation(reason=PendingReason.SUSPENDED, message=message)
    entry = book.view.catalog.queues.get(record.cluster_queue)
    if entry is None or entry.active:
        return None
    return closed(book.view.catalog, entry)


def ahead_row(record: Record, now_ms: int) -> Ahead:
    """Somebody who is in front, or who would have to give way."""
    workload, state = record.workload, record.state
    return Ahead(
        id=workload.id,
        namespace=workload.namespace,
        name=workload.name,
        user=workload.user,
        priority=workload.priority,
        requests_milli=workload.total_requests,
        lost_work_ms=lost_work_ms(state, now_ms) if isinstance(state, Admitted) else None,
        never_checkpoints=workload.never_checkpoints,
    )


def timeline(record: Record) -> tuple[tuple[str, int], ...]:
    """What happened when, as far as the present state remembers."""
    steps = [("submitted", record.workload.created_at_ms)]
    match record.state:
        case Reserved(reserved_at_ms=at_ms):
            steps.append(("quota reserved", at_ms))
        case Admitted() as state:
            steps.append(("quota reserved", state.reserved_at_ms))
            steps.append(("admitted", state.admitted_at_ms))
            if state.ready_at_ms is not None:
                steps.append(("running", state.ready_at_ms))
        case Evicting(since_ms=at_ms):
            steps.append(("evicted", at_ms))
        case Finished(finished_at_ms=at_ms):
            steps.append(("finished", at_ms))
        case Pending():
            pass
    return tuple(steps)


def estimate(book: Book, record: Record) -> WaitEstimate | None:
    """How long until quota, from the middle half of the last waits in the same queue."""
    waits = sorted(book.waits_ms.get(record.cluster_queue, ()))
    if not waits:
        return None
    low, high = waits[len(waits) // 4], waits[(3 * len(waits)) // 4]
    return WaitEstimate(low_ms=low, high_ms=high, samples=len(waits))


def queue_row(book: Book, entry: QueueEntry) -> QueueRow:
    """A ClusterQueue with its counts."""
    queue = book.view.queues[entry.name]
    holders = [book.records[holder] for holder in book.view.admitted.get(entry.name, {})]
    admitted = sum(isinstance(record.state, Admitted) for record in holders)
    doors = book.view.catalog.configuration.local_queues.values()
    aside = sum(name == entry.name for name in book.aside.values())
    behind = [found.behind for found in entry.obstructions if found.behind]
    return QueueRow(
        name=entry.name,
        cohort=entry.queue.cohort,
        strategy=entry.queue.queueing_strategy,
        active=entry.active,
        reason=", ".join(entry.inactive) or "Ready",
        pending=len(queue) + aside,
        inadmissible=len(queue) - queue.active + aside,
        reserving=len(holders),
        admitted=admitted,
        local_queues=tuple(sorted(d.key for d in doors if d.cluster_queue == entry.name)),
        message=" ".join([condition(entry.obstructions)[1], *behind]),
        turns=turn_rows(book.view, entry.name),
    )


def quota_rows(book: Book, entry: QueueEntry) -> list[QuotaRow]:
    """One row for each flavor and resource of a ClusterQueue."""
    return [
        _quota_row(book, entry, (flavors.flavor, resource))
        for group in entry.queue.resource_groups
        for flavors in group.flavors
        for resource in flavors.resources
    ]


def _quota_row(book: Book, entry: QueueEntry, fr: FlavorResource) -> QuotaRow:
    node, tree = entry.node, book.view.tree
    nominal, used = node.nominal(fr), node.used(fr)
    quota = node.quotas[fr]
    balance = book.ledger.balance(entry.name, *fr)
    return QuotaRow(
        cluster_queue=entry.name,
        cohort=entry.queue.cohort,
        flavor=fr[0],
        resource=fr[1],
        nominal_milli=_bounded(nominal),
        used_milli=used,
        reserved_milli=balance.reserved_milli,
        borrowed_milli=max(0, used - nominal) if entry.queue.cohort else 0,
        lent_milli=_lent(node, fr),
        available_milli=_bounded(max(0, tree.free(node, fr))),
        max_milli=_bounded(node.potential.get(fr, 0)),
        borrowing_limit_milli=quota.borrowing_limit,
        lending_limit_milli=quota.lending_limit,
    )


def _lent(node: QuotaNode, fr: FlavorResource) -> int:
    """What others in the cohort use of this queue's unused nominal quota.

    The cohort's borrowed total is laid to the lenders in the order of their names, each up to what
    it leaves unused and lends.
    """
    parent = node.parent
    if parent is None:
        return 0
    members = sorted([*parent.queues, *parent.cohorts], key=lambda member: member.name)
    borrowed = sum(max(0, member.used(fr) - member.nominal(fr)) for member in members)
    for member in members:
        spare = max(0, member.nominal(fr) - member.used(fr))
        quota = member.quotas.get(fr)
        limit = quota.lending_limit if quota is not None else None
        share = min(borrowed, spare if limit is None else min(spare, limit))
        if member is node:
            return share
        borrowed -= share
    return 0


def _bounded(quantity_milli: int) -> int:
    return min(quantity_milli, EVERYTHING_MILLI)
