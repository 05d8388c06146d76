"""What each fact of the log does to the book. Idempotent by workload id and attempt."""

from dataclasses import replace
from typing import assert_never

from muster_admission import resize
from muster_admission.activity import activation_requested, deactivated_by
from muster_admission.book import Book
from muster_admission.checkpoints import checkpointed
from muster_admission.checks import check_answered
from muster_admission.ending import evict, finish
from muster_admission.lifecycle import retry_ms
from muster_admission.settings import NeverFits
from muster_contracts import events
from muster_contracts.stored import Record, Tombstone
from muster_domain.conditions import (
    EvictionReason,
    Explanation,
    Outcome,
    PendingReason,
    RequeuedReason,
)
from muster_domain.states import (
    Admitted,
    End,
    Evicting,
    Finished,
    Pending,
    Requeue,
    Reserved,
    Resizing,
)
from muster_domain.workload import ELASTIC_JOB, External, Workload
from muster_scheduling.admission import max_possible
from muster_scheduling.admission.eligibility import flavors_of, has_other_flavor
from muster_scheduling.ordering.keys import queue_timestamp_ms
from muster_scheduling.snapshot.workloads import REPLACES, prepare

_REQUEUED_AT_ONCE = {
    EvictionReason.PREEMPTED: RequeuedReason.PREEMPTED,
    EvictionReason.NODE_FAILURES: RequeuedReason.NODE_FAILURES,
    EvictionReason.DEACTIVATED: RequeuedReason.REACTIVATED,
}
_NOT_LOOKED_AT = Explanation(
    reason=PendingReason.PENDING_EVALUATION, message="waits for its first evaluation"
)


def submitted(
    book: Book, fact: events.WorkloadSubmitted, traceparent: str, now_ms: int
) -> str | None:
    """A job was accepted at the door. Returns the id if it now waits."""
    workload = fact.workload
    if workload.id in book.records:
        return None
    record = Record(
        workload=workload,
        cluster_queue=fact.cluster_queue,
        state=Pending(
            explanation=_at_first(workload),
            queued_at_ms=workload.created_at_ms,
            active=workload.active and not workload.admission_gates,
        ),
        traceparent=traceparent,
    )
    rival = book.live_names.get(workload.key)
    book.create(record, now_ms)
    tombstone = book.tombstones.get(workload.id)
    if tombstone is not None:
        finish(book, record, tombstone.outcome, tombstone.message, now_ms)
        return None
    if rival is not None:
        message = f"{workload.key} is live under id {rival}; cancel it or choose another name"
        why = Explanation(reason=PendingReason.MISCONFIGURED, message=message)
        book.live_names[workload.key] = rival
        finish(book, record, Outcome.REFUSED, message, now_ms, explanation=why, public=False)
        return None
    return workload.id


def _at_first(workload: Workload) -> Explanation:
    if not workload.active:
        return deactivated_by("")
    gates = workload.admission_gates
    if not gates:
        return _NOT_LOOKED_AT
    message = f"held by the admission gates {', '.join(gates)}"
    remedy = "muster resume workload NAME"
    return Explanation(reason=PendingReason.ADMISSION_GATED, message=message, remedy=remedy)


def refuse_impossible(book: Book, workload_id: str, now_ms: int) -> bool:
    """End a newly arrived workload that its queue could never admit, with the arithmetic.

    A slice of an elastic job (R-110) is none that runs here: its pods would have to join those of
    the slice that it replaces.
    """
    record = book.records[workload_id]
    if isinstance(record.state, Pending) and REPLACES in record.workload.annotations:
        why = _refused_slice(book, record)
        finish(book, record, Outcome.REFUSED, why.message, now_ms, explanation=why)
        return True
    if book.settings.never_fits is NeverFits.HOLD or not isinstance(record.state, Pending):
        return False
    waiting = book.view.pending(workload_id) or prepare(record.workload, book.view.policy)
    never = max_possible(book.view, waiting)
    if never is None:
        return False
    finish(book, record, Outcome.REFUSED, never.message, now_ms, explanation=never)
    return True


def _refused_slice(book: Book, record: Record) -> Explanation:
    replaced = record.workload.annotations[REPLACES]
    live = book.live_names.get(replaced, replaced)
    return Explanation(
        reason=PendingReason.MISCONFIGURED,
        message=f"{REPLACES} names {replaced} ({live}), whose pods are not taken over by another "
        f'workload: annotate {replaced} with {ELASTIC_JOB}: "true", and apply it again under its '
        "own name",
        remedy="apply the job itself again, with another number of pods",
    )


def requested(
    book: Book,
    fact: events.JobWish,
    now_ms: int,
) -> None:
    """A submitter wants something of a workload that is there, or is yet to come."""
    match fact:
        case events.CancelRequested():
            cancelled(book, fact, now_ms)
        case events.FinishReported():
            finish_reported(book, fact, now_ms)
        case events.LeaseRenewed():
            lease_renewed(book, fact, now_ms)
        case events.CheckpointReported():
            checkpointed(book, fact, now_ms)
        case events.ActivationRequested():
            activation_requested(book, fact, now_ms)
        case events.ScaleRequested():
            resize.scale_requested(book, fact, now_ms)
        case events.CheckAnswered():
            check_answered(book, fact, now_ms)
        case _:
            assert_never(fact)


def gang_became(book: Book, fact: events.GangFact, now_ms: int) -> None:
    """Placement says what became of a gang."""
    match fact:
        case events.GangPlaced():
            gang_placed(book, fact, now_ms)
        case events.GangUnplaceable():
            gang_unplaceable(book, fact, now_ms)
        case events.GangStarted():
            gang_started(book, fact, now_ms)
        case events.GangStalled():
            gang_stalled(book, fact, now_ms)
        case events.PodsSucceeded():
            pods_succeeded(book, fact, now_ms)
        case events.GangFinished():
            gang_finished(book, fact, now_ms)
        case events.GangLost():
            gang_lost(book, fact, now_ms)
        case events.GangAborted():
            gang_aborted(book, fact, now_ms)
        case events.GangReleased():
            gang_released(book, fact, now_ms)
        case _:
            assert_never(fact)


def cancelled(book: Book, fact: events.CancelRequested, now_ms: int) -> None:
    """Somebody wants it ended."""
    by = f" by {fact.by}" if fact.by else ""
    message = fact.message or f"cancelled{by}"
    end_workload(book, fact.workload_id, Outcome.CANCELLED, message, now_ms)


def finish_reported(book: Book, fact: events.FinishReported, now_ms: int) -> None:
    """The holder of an external job says that it ended."""
    record = book.records.get(fact.workload_id)
    if record is None or isinstance(record.workload.execution, External):
        end_workload(book, fact.workload_id, fact.outcome, fact.message, now_ms)


def end_workload(book: Book, workload_id: str, outcome: Outcome, message: str, now_ms: int) -> None:
    """End a workload in whatever state it is; a tombstone if it is not known."""
    record = book.records.get(workload_id)
    if record is None:
        book.bury(workload_id, Tombstone(outcome=outcome, at_ms=now_ms, message=message))
        return
    match record.state:
        case Pending():
            finish(book, record, outcome, message, now_ms)
        case Reserved() | Admitted():
            evict(book, record, outcome, End(outcome=outcome, message=message), now_ms)
        case Evicting(then=Requeue()):
            state = replace(record.state, then=End(outcome=outcome, message=message))
            book.become(record, state, now_ms)
        case Evicting() | Finished():
            pass
        case _:
            assert_never(record.state)


def lease_renewed(book: Book, fact: events.LeaseRenewed, now_ms: int) -> None:
    """The holder of an external job is alive."""
    record = book.records.get(fact.workload_id)
    if record is None or not isinstance(record.state, Admitted):
        return
    execution = record.workload.execution
    if isinstance(execution, External):
        state = replace(record.state, lease_until_ms=now_ms + execution.lease_ms)
        book.become(record, state, now_ms)


def gang_placed(book: Book, fact: events.GangPlaced, now_ms: int) -> None:
    """Seats are held: post the quota, and the workload is admitted.

    Of one that is admitted, some seats are others now. Idempotent by (workload id, attempt,
    replacements).
    """
    record = book.records.get(fact.workload_id)
    if record is None:
        return
    if isinstance(record.state, Admitted):
        _reseated(book, record, record.state, fact, now_ms)
        return
    if not isinstance(record.state, Reserved) or record.state.attempt != fact.attempt:
        return
    held = record.state
    execution = record.workload.execution
    external = isinstance(execution, External)
    state = Admitted(
        admission=held.admission,
        placement=fact.placement,
        reserved_at_ms=held.reserved_at_ms,
        admitted_at_ms=now_ms,
        attempt=held.attempt,
        queued_at_ms=held.queued_at_ms,
        ready_at_ms=now_ms if external else None,
        lease_until_ms=now_ms + execution.lease_ms if isinstance(execution, External) else None,
        requeue_count=held.requeue_count,
        past_execution_ms=held.past_execution_ms,
        waiting_since_ms=held.waiting_since_ms,
        checks=held.checks,
        history=replace(held.history, unseated_times=0),
        seated_because=fact.message,
    )
    _become_admitted(book, record, resize.begun(book, record.workload, state, now_ms), now_ms)


def _reseated(
    book: Book, record: Record, before: Admitted, fact: events.GangPlaced, now_ms: int
) -> None:
    newer = fact.placement.generation > before.placement.generation
    if before.attempt == fact.attempt and newer:
        state = resize.seated(book, record.workload, before, fact, now_ms)
        state = replace(state, seated_because=fact.message)
        _become_admitted(book, record, state, now_ms)


def _become_admitted(book: Book, record: Record, state: Admitted, now_ms: int) -> None:
    after = book.become(record, state, now_ms)
    admitted = events.WorkloadAdmitted(
        workload=after.workload, version=book.announcer.version, state=state
    )
    book.announcer.event(after, admitted, now_ms)
    if isinstance(state.resize, Resizing):
        resize.say_resized(book, after, state, now_ms)
    else:
        book.announcer.decision(after, None, now_ms)


def gang_unplaceable(book: Book, fact: events.GangUnplaceable, now_ms: int) -> None:
    """No seats: the quota comes back at once.

    Flavors that are left are tried next; without any it waits until something changes.
    """
    record = book.records.get(fact.workload_id)
    if record is None or not isinstance(record.state, Reserved | Admitted):
        return
    held = record.state
    if held.attempt != fact.attempt:
        return
    if isinstance(held, Admitted):
        resize.unseated(book, record, held, fact, now_ms)
        return
    make_room(book, record, fact.victims, now_ms)
    avoided = (*held.avoided_flavors, *sorted(flavors_of(held.admission)))
    entry = book.view.catalog.queues.get(record.cluster_queue)
    others = (
        book.view.policy.improvements.seats_across_flavors
        and entry is not None
        and has_other_flavor(entry, held.admission, avoided)
    )
    tries = held.history.unseated_times + (not others)
    wait_ms = retry_ms(book.settings, tries)
    state = Pending(
        explanation=replace(fact.explanation, reason=PendingReason.TOPOLOGY_PLACEMENT_FAILED),
        queued_at_ms=held.queued_at_ms,
        attempt=held.attempt,
        requeue_count=held.requeue_count,
        requeue_at_ms=None if others else now_ms + wait_ms,
        past_execution_ms=held.past_execution_ms,
        unseated=True,
        avoided_flavors=avoided if others else (),
        waiting_since_ms=held.waiting_since_ms,
        history=replace(held.history, unseated_times=tries),
    )
    after = book.become(record, state, now_ms)
    requeued = events.WorkloadRequeued(
        workload_id=after.workload.id, version=book.announcer.version, state=state
    )
    book.announcer.event(after, requeued, now_ms)
    book.announcer.decision(after, state.explanation, now_ms)


def make_room(book: Book, record: Record, victims: tuple[events.Victim, ...], now_ms: int) -> None:
    """Evict those who have to leave their seats for this workload: all of them, or none.

    Their attempts tell whether they still sit as placement saw them; if not, it says so anew.
    """
    leaving: list[tuple[Record, events.Victim]] = []
    for victim in victims:
        other = book.records.get(victim.workload_id)
        if other is None or other.state.attempt != victim.attempt:
            return
        if isinstance(other.state, Reserved | Admitted):
            leaving.append((other, victim))
    for other, victim in leaving:
        if victim.ranks and resize.can_do_without(other, victim.ranks):
            resize.give_back(book, other, victim.ranks, now_ms)
            continue
        evict(
            book,
            other,
            EvictionReason.PREEMPTED,
            Requeue(),
            now_ms,
            message=f"leaves its seats for {record.workload.key}",
            preemption_reason=victim.reason,
            preemptor=record.workload.id,
        )


def gang_started(book: Book, fact: events.GangStarted, now_ms: int) -> None:
    """Every member runs, for the first time or again."""
    record = book.records.get(fact.workload_id)
    if record is None or not isinstance(record.state, Admitted):
        return
    held = record.state
    known = held.ready_at_ms is not None and held.unready_since_ms is None
    if held.attempt != fact.attempt or known or fact.times <= held.stalls:
        return
    history = replace(held.history, was_ready=True)
    if held.ready_at_ms is None:
        state = replace(held, ready_at_ms=now_ms, history=history)
    else:
        state = replace(held, unready_since_ms=None, recovered_at_ms=now_ms)
    after = book.become(record, state, now_ms)
    ready = events.PodsBecameReady(
        workload_id=after.workload.id, version=book.announcer.version, state=state
    )
    book.announcer.event(after, ready, now_ms)


def gang_stalled(book: Book, fact: events.GangStalled, now_ms: int) -> None:
    """A member that ran does not, and is to run again (R-103)."""
    record = book.records.get(fact.workload_id)
    if record is None or not isinstance(record.state, Admitted):
        return
    held = record.state
    ran = held.ready_at_ms is not None and held.unready_since_ms is None
    if held.attempt != fact.attempt or not ran or fact.times <= held.stalls:
        return
    state = replace(held, unready_since_ms=now_ms, stalls=fact.times)
    after = book.become(record, state, now_ms)
    unready = events.PodsBecameUnready(
        workload_id=after.workload.id, version=book.announcer.version, state=state
    )
    book.announcer.event(after, unready, now_ms)


def pods_succeeded(book: Book, fact: events.PodsSucceeded, now_ms: int) -> None:
    """Pods that are done give their quota back (R-108). Counts only ever grow within an attempt.

    An evicted gang starts anew with all its pods, so nothing of this outlives the attempt.
    """
    record = book.records.get(fact.workload_id)
    if record is None or not isinstance(record.state, Admitted):
        return
    held = record.state
    if held.attempt != fact.attempt:
        return
    sits = held.placement.counts
    done = {name: min(count, sits.get(name, 0)) for name, count in sorted(fact.counts.items())}
    done = {name: max(count, held.reclaimable.get(name, 0)) for name, count in done.items()}
    left = held.admission.without(done, held.pods)
    if left == held.admission:
        return
    state = replace(held, admission=left, reclaimable={**held.reclaimable, **done})
    after = book.become(record, state, now_ms)
    reclaimed = events.QuotaReclaimed(
        workload_id=after.workload.id, version=book.announcer.version, state=state
    )
    book.announcer.event(after, reclaimed, now_ms)


def gang_finished(book: Book, fact: events.GangFinished, now_ms: int) -> None:
    """The members ended by themselves and their seats are free."""
    record = book.records.get(fact.workload_id)
    if record is None:
        return
    match record.state:
        case Admitted(attempt=fact.attempt):
            finish(book, record, fact.outcome, fact.message, now_ms)
        case Evicting(attempt=fact.attempt):
            finish(book, record, fact.outcome, fact.message, now_ms)
        case _:
            pass


def gang_lost(book: Book, fact: events.GangLost, now_ms: int) -> None:
    """A member's node is gone: evict the gang whole, and let it wait again."""
    record = book.records.get(fact.workload_id)
    if record is None or not isinstance(record.state, Reserved | Admitted):
        return
    if record.state.attempt == fact.attempt:
        message = fact.message or f"node {fact.node} was lost"
        evict(book, record, EvictionReason.NODE_FAILURES, Requeue(), now_ms, message=message)


def gang_aborted(book: Book, fact: events.GangAborted, now_ms: int) -> None:
    """A policy of the job aborts it: it gives everything back and rests until it is resumed."""
    record = book.records.get(fact.workload_id)
    if record is None or not isinstance(record.state, Admitted):
        return
    if record.state.attempt == fact.attempt:
        then = Requeue(active=False)
        evict(book, record, EvictionReason.DEACTIVATED, then, now_ms, message=fact.message)


def gang_released(book: Book, fact: events.GangReleased, now_ms: int) -> None:
    """No member runs any more: the quota comes back, and the workload waits again or has ended."""
    record = book.records.get(fact.workload_id)
    if record is None or not isinstance(record.state, Evicting):
        return
    gone = record.state
    if gone.attempt != fact.attempt:
        return
    match gone.then:
        case End(outcome=outcome, message=message):
            finish(book, record, outcome, message or gone.message, now_ms)
        case Requeue() as then:
            state = _pending_again(book, record, gone, then, now_ms)
            after = book.become(record, state, now_ms)
            requeued = events.WorkloadRequeued(
                workload_id=after.workload.id, version=book.announcer.version, state=state
            )
            book.announcer.event(after, requeued, now_ms)
            book.announcer.decision(after, state.explanation, now_ms)
        case _:
            assert_never(gone.then)


def _pending_again(
    book: Book, record: Record, gone: Evicting, then: Requeue, now_ms: int
) -> Pending:
    """What an evicted workload waits as (R-100): where in the line (R-41), and from when on."""
    reason = gone.reason if isinstance(gone.reason, EvictionReason) else None
    why = Explanation(
        reason=PendingReason.PENDING_EVALUATION, message=f"evicted ({gone.reason}): {gone.message}"
    )
    queued_at_ms = gone.queued_at_ms
    if not then.keeps_place:
        queued_at_ms = queue_timestamp_ms(
            record.workload.created_at_ms,
            reason,
            gone.since_ms,
            gone.preemption_reason,
            book.view.policy,
        )
    at_once = _REQUEUED_AT_ONCE.get(reason) if reason is not None and then.active else None
    return Pending(
        explanation=why if then.active else replace(why, reason=PendingReason.DEACTIVATED),
        queued_at_ms=queued_at_ms,
        attempt=gone.attempt,
        requeue_count=gone.requeue_count if then.active else 0,
        requeue_at_ms=then.at_ms,
        last_eviction=reason,
        past_execution_ms=gone.past_execution_ms,
        active=then.active,
        requeued=at_once,
        waiting_since_ms=now_ms,
        history=gone.history,
    )


def capacity_changed(book: Book, now_ms: int) -> None:
    """Seats came free: whoever found none may try again at once."""
    for workload_id in list(book.unseated):
        record = book.records[workload_id]
        resize.look_again(book, record, now_ms)
        if isinstance(record.state, Pending):
            state = replace(record.state, requeue_at_ms=None, avoided_flavors=())
            book.become(record, state, now_ms)
