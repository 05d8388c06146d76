"""`decide`: as many admission cycles as the budget allows, in one decision.

Cohort trees do not touch each other, so each is decided by itself, unless workloads are seated here
and share machines; every inner cycle is one cycle of Kueue. The state is left as it was found.
"""

from dataclasses import dataclass, field, replace
from typing import assert_never

from muster_domain.errors import Conflict
from muster_domain.states import Admission
from muster_scheduling.admission.cycle import Cycle, Entry, Verdict
from muster_scheduling.admission.decision import (
    Budget,
    Decision,
    EffectGroup,
    EvictUnseated,
    EvictVariant,
    EvictWorkload,
    FinishReplaced,
    Place,
    RequestPreemption,
    Requeued,
    ReserveQuota,
    Seating,
    SeatWorkload,
    Step,
    StopReason,
    perform,
    requeue,
    reseat,
)
from muster_scheduling.admission.explain import Explanations
from muster_scheduling.admission.flavors import PreemptionOracle
from muster_scheduling.preemption.message import preemption_message
from muster_scheduling.snapshot.catalog import QueueEntry
from muster_scheduling.snapshot.view import AdmissionView, Snapshot
from muster_scheduling.snapshot.workloads import PendingWorkload

Head = tuple[PendingWorkload, QueueEntry]


@dataclass(slots=True)
class _Draft:
    """A decision while it is made."""

    steps: list[Step] = field(default_factory=list["Step"])
    explanations: Explanations = field(default_factory=Explanations)
    settled: list[str] = field(default_factory=list[str])
    cycles: dict[str, int] = field(default_factory=dict[str, int])
    seen_again: list[str] = field(default_factory=list[str])
    requested: set[str] = field(default_factory=set[str])
    looked_at: int = 0
    reserved: int = 0

    def is_over(self, budget: Budget) -> bool:
        """Whether nobody else may get anything."""
        return self.looked_at >= budget.workloads or self.is_full(budget)

    def is_full(self, budget: Budget) -> bool:
        """Whether as many got quota as may."""
        return budget.reservations is not None and self.reserved >= budget.reservations


def decide(
    snapshot: Snapshot,
    budget: Budget | None = None,
    *,
    victims_inline: bool = True,
    oracle: PreemptionOracle | None = None,
) -> Decision:
    """Who gets quota now, who must give way, and why the others wait.

    With `victims_inline` victims are chosen here, as Kueue does; without, a workload that needs
    somebody to give way yields `RequestPreemption` and its claim counts for the rest of the cycle.
    Raises `Conflict` when the view has changed since the snapshot.
    """
    view = snapshot.view
    if view.version != snapshot.version:
        raise Conflict("the snapshot is older than the view it was taken from")
    budget = budget or Budget()
    draft = _Draft()
    stopped = StopReason.COMPLETED
    mark = view.journal.checkpoint()
    try:
        together = view.board is not None
        trees = [tuple(view.dirty)] if together else [(root,) for root in view.dirty]
        for roots in trees:
            cycle = Cycle(view, snapshot.now_ms, victims_inline=victims_inline, oracle=oracle)
            if not _decide_trees(snapshot, roots, cycle, budget, draft):
                stopped = StopReason.BUDGET_EXHAUSTED
                if draft.is_over(budget):
                    break
    finally:
        undone = view.journal.take_back(mark)
    steps = tuple(draft.steps)
    view.undone = (view.version, steps, undone)
    groups: list[EffectGroup] = []
    requeues: list[Requeued] = []
    seatings: list[Seating] = []
    migrations: list[EvictVariant] = []
    for step in steps:
        match step:
            case EffectGroup():
                groups.append(step)
            case Requeued():
                requeues.append(step)
            case SeatWorkload() | EvictUnseated():
                seatings.append(step)
            case EvictVariant():
                migrations.append(step)
            case _:
                assert_never(step)
    return Decision(
        groups=tuple(groups),
        explanations=draft.explanations,
        requeues=tuple(requeues),
        seatings=tuple(seatings),
        migrations=tuple(migrations),
        steps=steps,
        settled=tuple(draft.settled),
        cycles=draft.cycles,
        looked_at=draft.looked_at,
        stopped=stopped,
        now_ms=snapshot.now_ms,
        seen_again=tuple(draft.seen_again),
    )


def _decide_trees(
    snapshot: Snapshot, roots: tuple[str, ...], cycle: Cycle, budget: Budget, draft: _Draft
) -> bool:
    """Cycle until nothing moves; false when the budget ended first."""
    view = snapshot.view
    seen: set[tuple[object, ...]] = set()
    queues = view.catalog.queues_of_root
    lines = [entry for root in roots for entry in queues.get(root, ()) if entry.active]
    for _ in range(budget.cycles):
        heads = _heads(view, lines)
        lines = [entry for _, entry in heads]
        if view.second_pass:
            heads = _again(view, roots) + heads
        state = _state(view, heads)
        if not heads or state in seen:
            draft.settled += roots
            return True
        if draft.looked_at + len(heads) > budget.workloads and draft.looked_at:
            return False
        seen.add(state)
        _one_cycle(snapshot, cycle.again(), heads, draft, budget)
        if draft.is_full(budget):
            return False
    return False


def _again(view: AdmissionView, roots: tuple[str, ...]) -> list[Head]:
    """Holders of the trees that come back for seats."""
    queues = view.catalog.queues
    return [
        (workload, queues[workload.granted.cluster_queue])
        for workload in view.second_pass.values()
        if workload.granted is not None and queues[workload.granted.cluster_queue].root in roots
    ]


def _heads(view: AdmissionView, lines: list[QueueEntry]) -> list[Head]:
    """Whose turn it is in each queue; nobody joins a line while a decision is made."""
    heads: list[Head] = []
    for entry in lines:
        head = view.queues[entry.name].head()
        if head is not None:
            heads.append((head, entry))
    return heads


def _state(view: AdmissionView, heads: list[Head]) -> tuple[object, ...]:
    """Everything that makes the next cycle differ from one before, as long as nobody gets in."""
    marks: list[object] = [len(view.evicting), len(view.holders)]
    for workload, entry in heads:
        bookmark = view.queues[entry.name].bookmarks.get(workload.id)
        if bookmark is None:
            marks.append(workload.id)
        else:
            tried = (tuple(sorted(t.items())) for t in bookmark.tried)
            marks.append((workload.id, *tried))
    return tuple(marks)


def _one_cycle(
    snapshot: Snapshot, cycle: Cycle, heads: list[Head], draft: _Draft, budget: Budget
) -> None:
    view = snapshot.view
    for root in sorted({entry.root for _, entry in heads}):
        view.journal.put(view.cycles, root, view.cycles.get(root, 0) + 1)
        draft.cycles[root] = view.cycles[root]
    mark = view.journal.checkpoint()
    entries = cycle.run(heads)
    view.journal.rollback(mark)
    draft.looked_at += len(entries)
    for entry in entries:
        if draft.is_full(budget):
            break
        draft.reserved += entry.verdict is Verdict.RESERVED
        granted = entry.workload.granted
        if granted is not None:
            _seen_again(view, entry, granted, draft)
        else:
            _decided(view, entry, draft, snapshot.now_ms)
        draft.explanations.put(entry)


def _decided(view: AdmissionView, entry: Entry, draft: _Draft, now_ms: int) -> None:
    group = _group(view, entry, draft)
    if group is not None:
        draft.steps.append(group)
        for effect in group.effects:
            perform(view, effect, now_ms)
    leaves = entry.sibling
    if entry.verdict is Verdict.MIGRATING and leaves and not view.is_evicting(leaves.id):
        eviction = EvictVariant(
            workload_id=leaves.id, attempt=leaves.attempt, migrant_id=entry.workload.id
        )
        draft.steps.append(eviction)
        view.evict(leaves.id)
    if entry.verdict is not Verdict.RESERVED:
        step = _requeued(entry, by_shape=view.policy.equivalence_classes)
        draft.steps.append(step)
        requeue(view, step)


def _seen_again(view: AdmissionView, entry: Entry, granted: Admission, draft: _Draft) -> None:
    seating = _seating(view, entry, granted)
    if seating is not None:
        draft.steps.append(seating)
        reseat(view, seating)
    view.second_pass_done(entry.workload.id)
    draft.seen_again.append(entry.workload.id)


def _group(view: AdmissionView, entry: Entry, draft: _Draft) -> EffectGroup | None:
    match entry.verdict:
        case Verdict.RESERVED:
            return _reservation(entry)
        case Verdict.PREEMPTING if entry.victims:
            return _evictions(view, entry)
        case Verdict.PREEMPTING if entry.workload.id not in draft.requested:
            draft.requested.add(entry.workload.id)
            return _request(entry)
        case _:
            return None


def _reservation(entry: Entry) -> EffectGroup:
    workload = entry.workload
    reserve = ReserveQuota(
        workload_id=workload.id,
        admission=entry.assignment.admission(entry.queue.name),
        usage=entry.assignment.usage,
        attempt=workload.attempt + (not workload.grows),
        seats=entry.assignment.seats,
        borrowing=entry.assignment.borrowing,
    )
    replaced = entry.assignment.replaced
    if not replaced or workload.grows:
        return EffectGroup(workload_id=workload.id, effects=(reserve,))
    finish = FinishReplaced(workload_id=replaced, replaced_by=workload.id)
    return EffectGroup(workload_id=workload.id, effects=(reserve, finish))


def _seating(view: AdmissionView, entry: Entry, granted: Admission) -> Seating | None:
    """All seats of a holder, those it keeps and those it gets; or that it must go."""
    workload, placed = entry.workload, entry.assignment.placed
    if entry.verdict is not Verdict.RESERVED:
        if not (workload.lost_node and view.policy.evict_when_unseated):
            return None
        return EvictUnseated(workload_id=workload.id, lost_node=workload.lost_node)
    held = {seats.pod_set: seats for seats in (*workload.seats, *entry.assignment.seats)}
    return SeatWorkload(
        workload_id=workload.id,
        admission=granted,
        placed=placed,
        seats=tuple(
            replace(held[name], assignment=assignment)
            for name, assignment in placed.items()
            if name in held
        ),
    )


def _request(entry: Entry) -> EffectGroup:
    request = RequestPreemption(
        workload_id=entry.workload.id,
        admission=entry.assignment.asked(entry.queue.name),
        need=tuple(sorted(entry.assignment.need)),
    )
    return EffectGroup(workload_id=entry.workload.id, effects=(request,))


def _evictions(view: AdmissionView, entry: Entry) -> EffectGroup | None:
    """Evictions of those victims that are not going already."""
    workload = entry.workload
    evictions = tuple(
        EvictWorkload(
            workload_id=victim.id,
            attempt=victim.workload.attempt,
            reason=victim.reason,
            preemptor_id=workload.id,
            message=preemption_message(workload, entry.queue, victim),
        )
        for victim in entry.victims
        if not view.is_evicting(victim.id)
    )
    if not evictions:
        return None
    wanted = entry.assignment.wanted(entry.queue.name)
    return EffectGroup(
        workload_id=workload.id,
        effects=evictions,
        wanted=wanted,
        by_quota_alone=not (entry.recomputed or entry.assignment.wanted_seats),
    )


def _requeued(entry: Entry, *, by_shape: bool) -> Requeued:
    if entry.stays_in_line:
        place = Place.IN_LINE
    elif by_shape and entry.shape_has_no_chance:
        place = Place.PARKED_WITH_SHAPE
    else:
        place = Place.PARKED
    return Requeued(
        workload_id=entry.workload.id,
        cluster_queue=entry.queue.name,
        place=place,
        sticky=entry.sticks,
        bookmark=entry.assignment.bookmark if entry.keeps_bookmark else None,
    )
