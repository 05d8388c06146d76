"""Where a waiting workload stands: its place, who is ahead, and why it waits right now."""

from dataclasses import dataclass, replace
from itertools import islice

from muster_domain.conditions import Explanation, PendingReason
from muster_domain.queues import (
    QueueingStrategy,
    ReclaimWithinCohort,
    WithinClusterQueue,
)
from muster_scheduling.admission.cycle import Cycle, Entry, Verdict
from muster_scheduling.admission.explain import explain_entry
from muster_scheduling.admission.modes import Mode
from muster_scheduling.preemption.context import Search, reclaim_allows, within_queue_allows
from muster_scheduling.snapshot.catalog import Catalog, QueueEntry, suspension
from muster_scheduling.snapshot.view import AdmissionView, Snapshot
from muster_scheduling.snapshot.volcano import derived_queue_name, shut_by
from muster_scheduling.snapshot.workloads import PendingWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """Somebody who is ahead, and the milli-units that it asks by resource."""

    workload_id: str
    key: str
    asks: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A workload's place in its ClusterQueue, 0 for the first.

    `ahead` holds at most as many as were asked for; `asks_ahead` sums them all up, in milli-units
    by resource.
    """

    cluster_queue: str
    position: int
    ahead: tuple[Waiter, ...]
    asks_ahead: dict[str, int]


def standing(view: AdmissionView, workload_id: str, *, limit: int = 20) -> Standing | None:
    """Its place and who is ahead; `None` when it does not wait in a ClusterQueue."""
    name = view.queue_of.get(workload_id)
    if not name:
        return None
    queue = view.queues[name]
    position = queue.position(workload_id)
    ahead: list[Waiter] = []
    total: dict[str, int] = {}
    for workload in islice(queue.in_order(), position):
        asks = workload.asks()
        for resource, asked in asks.items():
            total[resource] = total.get(resource, 0) + asked
        if len(ahead) < limit:
            ahead.append(Waiter(workload_id=workload.id, key=workload.key, asks=asks))
    return Standing(cluster_queue=name, position=position, ahead=tuple(ahead), asks_ahead=total)


def explain(snapshot: Snapshot, workload_id: str) -> Explanation | None:
    """Why it waits, judged by itself on the usage of the moment; `None` when it does not wait.

    A workload that would fit says who stands in front of it.
    """
    view = snapshot.view
    workload = view.pending(workload_id)
    if workload is None:
        return None
    name = view.queue_of[workload_id]
    entry = view.catalog.queues.get(name)
    if entry is None:
        return _no_queue(workload)
    if not entry.active:
        return closed(view.catalog, entry)
    mark = view.journal.checkpoint()
    judged = Cycle(view, snapshot.now_ms, victims_inline=True).nominate(workload, entry)
    _judge(judged)
    found = explain_entry(judged)
    text = _preemption(snapshot, judged)
    view.journal.rollback(mark)
    if text:
        found = replace(found, preemption=text)
    if judged.assignment.mode is Mode.FIT and judged.verdict is Verdict.NO_LONGER_FITS:
        return _would_fit(snapshot, entry, workload)
    return found


def closed(catalog: Catalog, entry: QueueEntry) -> Explanation:
    """Why nobody of an inactive ClusterQueue is looked at."""
    declared = catalog.configuration.volcano_queues
    name = next((name for name in declared if derived_queue_name(name) == entry.name), "")
    shut = shut_by(name, declared)
    if shut:
        message = f"Volcano queue {shut} is {declared[shut].state}"
    else:
        behind = [found.behind for found in entry.obstructions if found.behind]
        told = "; ".join([", ".join(entry.inactive), *behind])
        message = f"ClusterQueue {entry.name} is inactive: {told}"
    return Explanation(reason=suspension(entry.inactive), message=message)


def _judge(entry: Entry) -> None:
    """Turn a nomination into the verdict that an empty cycle would give."""
    if entry.verdict is not Verdict.NO_FIT:
        return
    match entry.assignment.mode:
        case Mode.FIT | Mode.DEFERRED_FIT:
            entry.verdict = Verdict.NO_LONGER_FITS
        case Mode.PREEMPT:
            entry.verdict = Verdict.PREEMPTING if entry.victims else Verdict.NO_CANDIDATES
        case Mode.NO_FIT:
            entry.reason = entry.assignment.reason or PendingReason.WAITING_FOR_QUOTA


def _no_queue(workload: PendingWorkload) -> Explanation:
    kind = "Volcano queue" if workload.volcano else "LocalQueue"
    name = (
        workload.queue_name if workload.volcano else f"{workload.namespace}/{workload.queue_name}"
    )
    return Explanation(
        reason=PendingReason.MISCONFIGURED,
        message=f"{kind} {name} or its ClusterQueue does not exist",
        remedy=f"create {kind} {name}, or name another queue",
    )


def _would_fit(snapshot: Snapshot, entry: QueueEntry, workload: PendingWorkload) -> Explanation:
    view = snapshot.view
    head = view.queues[entry.name].head()
    if head is None or head.id == workload.id:
        return _among_heads(snapshot, entry, workload)
    strict = entry.queue.queueing_strategy is QueueingStrategy.STRICT_FIFO
    return Explanation(
        reason=PendingReason.WAITING_FOR_QUOTA,
        message=f"It would fit, but {head.key} is ahead"
        + (" and the queue is StrictFIFO" if strict else ""),
        blocked_by=(head.id,),
    )


def _among_heads(snapshot: Snapshot, entry: QueueEntry, workload: PendingWorkload) -> Explanation:
    """What a cycle would say: heads of other queues may keep quota for themselves (R-46)."""
    view = snapshot.view
    heads = [(workload, entry)]
    for other in view.catalog.queues_of_root[entry.root]:
        head = view.queues[other.name].head() if other is not entry and other.active else None
        if head is not None:
            heads.append((head, other))
    mark = view.journal.checkpoint()
    entries = Cycle(view, snapshot.now_ms, victims_inline=True).run(heads)
    view.journal.rollback(mark)
    mine = next(one for one in entries if one.workload is workload)
    if mine.verdict is Verdict.RESERVED:
        return Explanation(
            reason=PendingReason.PENDING_EVALUATION, message="It fits and is looked at next"
        )
    return explain_entry(mine)


def _preemption(snapshot: Snapshot, entry: Entry) -> str:
    """How many could be asked to give way, and why the others could not."""
    if entry.verdict is Verdict.PREEMPTING or not entry.assignment.usage:
        return ""
    policy = entry.queue.queue.preemption
    search = Search(
        snapshot.view,
        snapshot.now_ms,
        entry.workload,
        entry.queue,
        frozenset(entry.assignment.usage),
        entry.assignment.usage,
    )
    own = list(search.holders(entry.queue.name))
    may = sum(
        within_queue_allows(policy.within_cluster_queue, entry.workload, holder) for holder in own
    )
    texts: list[str] = []
    if policy.within_cluster_queue is not WithinClusterQueue.NEVER and len(own) > may:
        texts.append(f"{len(own) - may} candidates are higher or equal priority")
    texts.append(f"policy withinClusterQueue={policy.within_cluster_queue}")
    if entry.queue.node.parent is not None:
        texts.append(_in_cohort(search, policy.reclaim_within_cohort))
    enough = "none" if not may else f"{may} of its own queue, not enough"
    return f"{enough}: {'; '.join(texts)}"


def _in_cohort(search: Search, policy: ReclaimWithinCohort) -> str:
    if policy in (ReclaimWithinCohort.NEVER, ReclaimWithinCohort.UNSET):
        return f"reclaimWithinCohort={policy}"
    borrowers = [
        node
        for node in search.tree.queues.values()
        if node.root is search.node.root
        and node is not search.node
        and not node.within_nominal(search.need)
    ]
    if not borrowers:
        return "nobody in the cohort borrows"
    holders = [holder for node in borrowers for holder in search.holders(node.name)]
    may = sum(reclaim_allows(policy, search.preemptor, holder) for holder in holders)
    return f"{may} of {len(holders)} borrowers' workloads by reclaimWithinCohort={policy}"
