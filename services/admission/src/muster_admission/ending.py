"""The two ways down: out of quota and seats, and out for ever."""

from muster_admission.book import Book
from muster_admission.checkpoints import lost_work_ms
from muster_contracts import events
from muster_contracts.stored import Record
from muster_domain.conditions import (
    EvictionReason,
    Explanation,
    Outcome,
    PreemptionReason,
    UnderlyingCause,
)
from muster_domain.states import Admitted, End, Evicting, Finished, Requeue, Reserved


def finish(  # noqa: PLR0913 - an end and all that is said about it
    book: Book,
    record: Record,
    outcome: Outcome,
    message: str,
    now_ms: int,
    *,
    explanation: Explanation | None = None,
    public: bool = True,
) -> Record:
    """The workload has ended, once and for ever; what it held comes back now.

    Not `public` where the last decision under its name belongs to another workload.
    """
    state = Finished(
        outcome=outcome,
        finished_at_ms=now_ms,
        attempt=record.state.attempt,
        message=message,
        explanation=explanation,
        history=record.state.history,
    )
    after = book.become(record, state, now_ms)
    finished = events.WorkloadFinished(
        workload_id=after.workload.id, version=book.announcer.version, state=state
    )
    book.announcer.event(after, finished, now_ms)
    if public:
        book.announcer.decision(after, explanation, now_ms)
    return after


def evict(  # noqa: PLR0913 - an eviction and all that is said about it
    book: Book,
    record: Record,
    reason: EvictionReason | Outcome,
    then: Requeue | End,
    now_ms: int,
    *,
    message: str = "",
    preemption_reason: PreemptionReason | None = None,
    preemptor: str = "",
    cause: UnderlyingCause = UnderlyingCause.NONE,
) -> Record:
    """The workload must give everything back. Its quota stays charged until it has (R-100)."""
    held = record.state
    if not isinstance(held, Reserved | Admitted):
        return record
    ran_ms = max(0, now_ms - held.admitted_at_ms) if isinstance(held, Admitted) else 0
    state = Evicting(
        admission=held.admission,
        reason=reason,
        then=then,
        since_ms=now_ms,
        attempt=held.attempt,
        queued_at_ms=held.queued_at_ms,
        message=message or (then.message if isinstance(then, End) else ""),
        preemption_reason=preemption_reason,
        preemptor=preemptor,
        cause=cause,
        requeue_count=held.requeue_count,
        past_execution_ms=held.past_execution_ms + ran_ms,
        admitted_at_ms=held.admitted_at_ms if isinstance(held, Admitted) else None,
        ready_at_ms=held.ready_at_ms if isinstance(held, Admitted) else None,
        checkpointed_at_ms=held.checkpointed_at_ms if isinstance(held, Admitted) else None,
        lost_work_ms=lost_work_ms(held, now_ms),
        history=held.history.evicted(str(reason), str(cause)),
    )
    after = book.become(record, state, now_ms)
    evicted = events.WorkloadEvicted(
        workload_id=after.workload.id, version=book.announcer.version, state=state
    )
    book.announcer.event(after, evicted, now_ms)
    book.announcer.decision(after, None, now_ms)
    return after
