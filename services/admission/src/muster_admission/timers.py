"""What the time ends by itself."""

from dataclasses import replace
from typing import assert_never

from muster_admission.book import Book
from muster_admission.ending import evict
from muster_contracts.stored import Record
from muster_domain.conditions import DeactivationCause, EvictionReason, Outcome
from muster_domain.states import Admitted, End, Evicting, Finished, Pending, Requeue, Reserved


def expire(book: Book, record: Record, now_ms: int) -> None:
    """Carry out the deadline of a workload's present state."""
    match record.state:
        case Pending() as state:
            book.become(record, replace(state, requeue_at_ms=None), now_ms)
        case Reserved():
            message = "placement did not answer in time"
            evict(book, record, EvictionReason.ADMISSION_CHECK, Requeue(), now_ms, message=message)
        case Admitted() as state:
            _expire_admitted(book, record, state, now_ms)
        case Evicting() | Finished():
            pass
        case _:
            assert_never(record.state)


def _expire_admitted(book: Book, record: Record, state: Admitted, now_ms: int) -> None:
    limit = record.workload.max_execution_time_ms
    ran_ms = state.past_execution_ms + now_ms - state.admitted_at_ms
    if limit is not None and ran_ms >= limit:
        message = f"ran {ran_ms // 1000} s, its limit is {limit // 1000} s"
        cause = DeactivationCause.MAXIMUM_EXECUTION_TIME_EXCEEDED
        _deactivate(book, record, cause, message, now_ms)
    elif state.lease_until_ms is not None:
        message = "its holder did not renew the lease"
        then = End(outcome=Outcome.LEASE_EXPIRED, message=message)
        evict(book, record, Outcome.LEASE_EXPIRED, then, now_ms)
    else:
        _not_ready(book, record, state, now_ms)


def _not_ready(book: Book, record: Record, state: Admitted, now_ms: int) -> None:
    """Evict with back-off (R-103, R-104); deactivate when the limit of back-offs is passed."""
    settings = book.settings
    count = state.requeue_count + 1
    message = f"not all pods ran within {settings.pods_ready_timeout_ms // 1000} s"
    if settings.requeue_limit is not None and count > settings.requeue_limit:
        cause = DeactivationCause.REQUEUING_LIMIT_EXCEEDED
        _deactivate(book, record, cause, f"{message}, {count} times", now_ms)
        return
    backoff_ms = min(
        settings.requeue_backoff_max_ms, settings.requeue_backoff_base_ms * 2 ** min(count - 1, 20)
    )
    counted = replace(record, state=replace(state, requeue_count=count))
    evict(
        book,
        counted,
        EvictionReason.PODS_READY_TIMEOUT,
        Requeue(at_ms=now_ms + backoff_ms),
        now_ms,
        message=message,
    )


def _deactivate(
    book: Book, record: Record, cause: DeactivationCause, message: str, now_ms: int
) -> None:
    then = End(outcome=Outcome.DEACTIVATED, message=message)
    evict(book, record, EvictionReason.DEACTIVATED, then, now_ms, message=message, cause=cause)
