"""Workloads that somebody, or a rule, takes out of the line, and that come back to it.

Who was deactivated by a person waits until a person says otherwise. Who was deactivated by a rule
has ended: its submitter waits for an answer, and sends it again if it is to be tried again.
"""

from dataclasses import replace
from typing import assert_never

from muster_admission.book import Book
from muster_admission.ending import evict
from muster_contracts import events
from muster_contracts.stored import Record
from muster_domain.conditions import (
    EvictionReason,
    Explanation,
    Outcome,
    PendingReason,
    RequeuedReason,
    UnderlyingCause,
)
from muster_domain.states import Admitted, End, Evicting, Finished, Pending, Requeue, Reserved

REACTIVATED = Explanation(
    reason=PendingReason.PENDING_EVALUATION, message="was reactivated; waits for its evaluation"
)


def deactivated_by(by: str) -> Explanation:
    """Why a workload that a person took out of the line is not looked at."""
    message = f"was deactivated{f' by {by}' if by else ''}"
    remedy = "muster resume workload NAME"
    return Explanation(reason=PendingReason.DEACTIVATED, message=message, remedy=remedy)


def deactivate(
    book: Book, record: Record, cause: UnderlyingCause, message: str, now_ms: int
) -> None:
    """A rule ends the workload."""
    then = End(outcome=Outcome.DEACTIVATED, message=message)
    evict(book, record, EvictionReason.DEACTIVATED, then, now_ms, message=message, cause=cause)


def activation_requested(book: Book, fact: events.ActivationRequested, now_ms: int) -> None:
    """A person takes a workload out of the line, or puts it back.

    Of several wishes the one with the latest `at_ms` holds, however often and in whatever order
    they come.
    """
    record = book.records.get(fact.workload_id)
    if record is None or isinstance(record.state, Finished):
        return
    if fact.at_ms <= record.state.history.activity_at_ms:
        return
    history = replace(record.state.history, activity_at_ms=fact.at_ms)
    state = replace(record.state, history=history)
    match state:
        case Pending():
            _turn_pending(book, record, state, fact, now_ms)
        case Reserved() | Admitted():
            _turn_holder(book, replace(record, state=state), fact, now_ms)
        case Evicting(then=Requeue() as then):
            after = replace(state, then=replace(then, active=fact.active, at_ms=None))
            book.become(record, after, now_ms)
        case Evicting():
            pass
        case _:
            assert_never(state)


def _turn_pending(
    book: Book, record: Record, state: Pending, fact: events.ActivationRequested, now_ms: int
) -> None:
    after = replace(state, active=fact.active, requeue_at_ms=None, requeue_count=0)
    if state.active == fact.active:
        after = replace(state, active=fact.active)
    elif fact.active:
        after = replace(
            after,
            explanation=REACTIVATED,
            requeued=RequeuedReason.REACTIVATED,
            waiting_since_ms=now_ms,
        )
    else:
        after = replace(after, explanation=deactivated_by(fact.by), requeued=None)
    turned = book.become(record, after, now_ms)
    if state.active != fact.active:
        requeued = events.WorkloadRequeued(
            workload_id=turned.workload.id, version=book.announcer.version, state=after
        )
        book.announcer.event(turned, requeued, now_ms)
        book.announcer.decision(turned, after.explanation, now_ms)


def _turn_holder(book: Book, record: Record, fact: events.ActivationRequested, now_ms: int) -> None:
    if fact.active:
        book.become(record, record.state, now_ms)
        return
    message = deactivated_by(fact.by).message
    then = Requeue(active=False)
    evict(book, record, EvictionReason.DEACTIVATED, then, now_ms, message=message)
