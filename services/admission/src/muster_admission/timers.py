"""What the time ends by itself."""

from dataclasses import replace
from typing import assert_never

from muster_admission.activity import deactivate
from muster_admission.book import Book
from muster_admission.ending import evict
from muster_admission.lifecycle import backoff_ms
from muster_admission.resize import look_again, withdraw
from muster_contracts.stored import Record
from muster_domain.conditions import EvictionReason, Outcome, RequeuedReason, UnderlyingCause
from muster_domain.states import (
    Admitted,
    End,
    Evicting,
    Finished,
    Growing,
    Pending,
    Requeue,
    Reserved,
    Resizing,
)


def expire(book: Book, record: Record, now_ms: int) -> None:
    """Carry out the deadline of a workload's present state."""
    match record.state:
        case Pending() as state:
            book.become(record, _backoff_finished(state, now_ms), now_ms)
        case Reserved():
            message = "placement did not answer in time"
            then = Requeue(keeps_place=True)
            evict(book, record, EvictionReason.ADMISSION_CHECK, then, now_ms, message=message)
        case Admitted() as state:
            _expire_admitted(book, record, state, now_ms)
        case Evicting() | Finished():
            pass
        case _:
            assert_never(record.state)


def _backoff_finished(state: Pending, now_ms: int) -> Pending:
    return replace(
        state,
        requeue_at_ms=None,
        requeued=RequeuedReason.BACKOFF_FINISHED,
        waiting_since_ms=now_ms,
    )


def _expire_admitted(book: Book, record: Record, state: Admitted, now_ms: int) -> None:
    step = state.resize
    if isinstance(step, Growing) and (step.requeue_at_ms or now_ms + 1) <= now_ms:
        look_again(book, record, now_ms)
        return
    if isinstance(step, Resizing) and (book.seats_due_ms(step) or now_ms + 1) <= now_ms:
        withdraw(book, record, state, now_ms)
        return
    limit = record.workload.max_execution_time_ms
    ran_ms = state.past_execution_ms + now_ms - state.admitted_at_ms
    if limit is not None and ran_ms >= limit:
        message = f"ran {ran_ms // 1000} s, its limit is {limit // 1000} s"
        cause = UnderlyingCause.MAXIMUM_EXECUTION_TIME_EXCEEDED
        deactivate(book, record, cause, message, now_ms)
    elif state.lease_until_ms is not None:
        message = "its holder did not renew the lease"
        then = End(outcome=Outcome.LEASE_EXPIRED, message=message)
        evict(book, record, Outcome.LEASE_EXPIRED, then, now_ms)
    else:
        _not_ready(book, record, state, now_ms)


def _not_ready(book: Book, record: Record, state: Admitted, now_ms: int) -> None:
    """Evict with back-off (R-103, R-104); deactivate when the limit of back-offs is passed."""
    lifecycle = book.lifecycle
    count = state.requeue_count + 1
    if state.ready_at_ms is None:
        cause, waited_ms = UnderlyingCause.WAIT_FOR_START, now_ms - state.admitted_at_ms
        message = f"not all pods ran within {waited_ms // 1000} s"
    else:
        cause = UnderlyingCause.WAIT_FOR_RECOVERY
        waited_ms = now_ms - (state.unready_since_ms or now_ms)
        message = f"not all pods ran again within {waited_ms // 1000} s"
    if lifecycle.requeue_limit is not None and count > lifecycle.requeue_limit:
        limit = UnderlyingCause.REQUEUING_LIMIT_EXCEEDED
        deactivate(book, record, limit, f"{message}, {count} times", now_ms)
        return
    evict(
        book,
        replace(record, state=replace(state, requeue_count=count)),
        EvictionReason.PODS_READY_TIMEOUT,
        Requeue(at_ms=now_ms + backoff_ms(lifecycle, count)),
        now_ms,
        message=message,
        cause=cause,
    )
