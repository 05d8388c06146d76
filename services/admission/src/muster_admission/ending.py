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
from muster_domain.job_policies import JobAction
from muster_domain.states import Admitted, End, Evicting, Finished, Requeue, Reserved
from muster_scheduling.jobs import life


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
    """The workload must give everything back. Its quota stays charged until it has (R-100).

    Of one that is to end, people hear once nothing of it runs any more: that it has.
    """
    held = record.state
    if not isinstance(held, Reserved | Admitted):
        return record
    if reason is EvictionReason.PREEMPTED and isinstance(held, Admitted):
        then, message = _by_policies(record, then, message)
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
    if isinstance(then, Requeue):
        book.announcer.decision(after, None, now_ms)
    return after


def _by_policies(record: Record, then: Requeue | End, message: str) -> tuple[Requeue | End, str]:
    """What a Volcano Job makes of its eviction by a preemptor, if its policies say (J3)."""
    policies = record.workload.job_policies
    if policies is None or isinstance(then, End):
        return then, message
    action = life.after_eviction(policies, (pod_set.name for pod_set in record.workload.pod_sets))
    told = f"{action}: {message}"
    match action:
        case JobAction.TERMINATE_JOB:
            return End(outcome=Outcome.FAILED, message=told), told
        case JobAction.COMPLETE_JOB:
            return End(outcome=Outcome.SUCCEEDED, message=told), told
        case JobAction.ABORT_JOB:
            return Requeue(active=False), told
        case _:
            return then, message
