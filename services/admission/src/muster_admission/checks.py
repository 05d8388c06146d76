"""Admission checks: who else has to agree, after quota and before seats (R-102, R-109).

Somebody outside answers for each check. Seats are looked for once all have agreed; one that asks
for another try sends the workload back to the line, one that rejects it ends it. Of a workload that
runs and is to get more pods they send back and reject these pods alone.
"""

from dataclasses import replace

from muster_admission import resize
from muster_admission.activity import deactivate
from muster_admission.asking import checks_for, kept_answers, provisioning_of
from muster_admission.book import Book
from muster_admission.ending import evict
from muster_contracts import events
from muster_contracts.stored import Record
from muster_domain.checks import (
    CAPACITY_CHECK,
    CapacityRetry,
    CheckState,
    CheckStatus,
    PodSetUpdate,
    all_ready,
    conflict_of,
    updated,
)
from muster_domain.conditions import EvictionReason, UnderlyingCause
from muster_domain.states import Admitted, History, Requeue, Reserved, Resizing
from muster_domain.workload import Workload


def check_answered(book: Book, fact: events.CheckAnswered, now_ms: int) -> None:
    """Somebody answered for a check. Idempotent by (workload, attempt, resize, check, state).

    An answer to an old attempt or size, and one for a check that the workload does not have, change
    nothing.
    """
    record = book.records.get(fact.workload_id)
    if record is None or not isinstance(record.state, Reserved | Admitted):
        return
    held = record.state
    before = next(
        (c for c in _asked(held) if (c.name, c.resize) == (fact.check, fact.resize)), None
    )
    if before is None or held.attempt != fact.attempt or before.state is fact.state:
        return
    answer = replace(
        before,
        state=fact.state,
        message=fact.message,
        since_ms=now_ms,
        requeue_after_ms=fact.requeue_after_ms,
        updates=_updates(book, record.workload, fact),
    )
    answer = _checked_updates(book, record, held, _bounded_retry(book, answer))
    if before in held.checks:
        state = replace(held, checks=_with(held.checks, answer))
        _apply(book, replace(record, state=state), answer, now_ms)
    elif isinstance(held, Admitted) and isinstance(held.resize, Resizing):
        step = replace(held.resize, checks=_with(held.resize.checks, answer))
        _apply_to_more(book, record, replace(held, resize=step), answer, now_ms)


def follow_queues(book: Book, now_ms: int) -> None:
    """Ask those who still wait for checks about what their queues want now, and about no more.

    Answers that were given hold. Who waits for nothing any more goes on.
    """
    for workload_id in sorted(book.view.holders):
        record = book.records[workload_id]
        if record.cluster_queue not in book.view.catalog.queues:
            continue
        held = record.state
        if isinstance(held, Reserved) and not all_ready(held.checks):
            pods = {pod_set.name: pod_set.count for pod_set in held.admission.pod_sets}
            wanted = checks_for(book, record, held.admission, pods, now_ms)
            checks = kept_answers(held.checks, wanted)
            if checks != held.checks:
                _go_on(book, record, replace(held, checks=checks), now_ms)
        elif isinstance(held, Admitted) and isinstance(held.resize, Resizing):
            resize.follow_queue(book, record, held, held.resize, now_ms)


def _go_on(book: Book, record: Record, held: Reserved, now_ms: int) -> None:
    if all_ready(held.checks):
        _pass(book, record, replace(held, checked_at_ms=now_ms), now_ms)
        return
    after = book.become(record, held, now_ms)
    book.announcer.decision(after, None, now_ms)


def _asked(held: Reserved | Admitted) -> tuple[CheckStatus, ...]:
    """Every check of the attempt, and of the pods that it is to have besides."""
    more = held.resize if isinstance(held, Admitted) else None
    return (*held.checks, *(more.checks if isinstance(more, Resizing) else ()))


def _with(checks: tuple[CheckStatus, ...], answer: CheckStatus) -> tuple[CheckStatus, ...]:
    return tuple(answer if check.name == answer.name else check for check in checks)


def _updates(
    book: Book, workload: Workload, fact: events.CheckAnswered
) -> tuple[PodSetUpdate, ...]:
    """What the answer wants of which pods: of pod sets that were asked for as one, of them all."""
    config = provisioning_of(book, fact.check)
    if config is None:
        return fact.updates
    groups = config.asked_together(workload)
    together = {group[0]: group for group in groups}
    spread = tuple(
        replace(update, name=name)
        for update in fact.updates
        for name in together.get(update.name, (update.name,))
    )
    selector = config.selector(fact.provisioning_class_details)
    if fact.state is not CheckState.READY or not selector:
        return spread
    told = (PodSetUpdate(name=n, node_selector=selector) for group in groups for n in group)
    return (*spread, *told)


def _apply(book: Book, record: Record, answer: CheckStatus, now_ms: int) -> None:
    held = record.state
    if not isinstance(held, Reserved | Admitted):
        raise AssertionError(f"{record.workload.key} is {held.kind}")  # noqa: TRY004 - a defect
    told = _told(answer)
    match answer.state:
        case CheckState.REJECTED:
            deactivate(book, record, UnderlyingCause.ADMISSION_CHECK, told, now_ms)
        case CheckState.RETRY:
            state = replace(held, history=_tried_again(held.history, answer))
            again = Requeue(at_ms=now_ms + (answer.requeue_after_ms or 0))
            reason = EvictionReason.ADMISSION_CHECK
            evict(book, replace(record, state=state), reason, again, now_ms, message=told)
        case CheckState.READY | CheckState.PENDING:
            if isinstance(held, Reserved):
                _go_on(book, record, held, now_ms)
                return
            after = book.become(record, held, now_ms)
            book.announcer.decision(after, None, now_ms)


def _apply_to_more(
    book: Book, record: Record, held: Admitted, answer: CheckStatus, now_ms: int
) -> None:
    match answer.state:
        case CheckState.REJECTED:
            resize.give_up(book, record, held, _told(answer), now_ms)
        case CheckState.RETRY:
            state = replace(held, history=_tried_again(held.history, answer))
            again_ms = now_ms + (answer.requeue_after_ms or 0)
            resize.send_back(book, record, state, _told(answer), again_ms, now_ms)
        case CheckState.READY | CheckState.PENDING:
            resize.checked(book, record, held, now_ms)


def _told(answer: CheckStatus) -> str:
    return f"admission check {answer.name}: {answer.message or answer.state}"


def _tried_again(history: History, answer: CheckStatus) -> History:
    retries = {**dict(history.check_retries), answer.name: answer.retry_count + 1}
    return replace(history, check_retries=tuple(sorted(retries.items())))


def _pass(book: Book, record: Record, state: Reserved, now_ms: int) -> None:
    """All agree: placement may look for seats for the pods as the checks want them."""
    after = book.become(record, state, now_ms)
    passed = events.ChecksPassed(
        workload=updated(after.workload, state.checks),
        version=book.announcer.version,
        state=state,
    )
    book.announcer.event(after, passed, now_ms)
    book.announcer.decision(after, None, now_ms)


def _bounded_retry(book: Book, answer: CheckStatus) -> CheckStatus:
    """A capacity check that says no more than "try again" backs off, and rejects at last."""
    if answer.state is not CheckState.RETRY or answer.requeue_after_ms is not None:
        return answer
    declared = (book.view.catalog.configuration.admission_checks or {}).get(answer.name)
    if declared is None or declared.controller not in CAPACITY_CHECK:
        return answer
    config = provisioning_of(book, answer.name)
    strategy = CapacityRetry.of(declared.parameters) if config is None else config.retry
    times = answer.retry_count + 1
    if times > strategy.limit:
        message = f"{answer.message or 'no capacity'}; tried {times} times"
        return replace(answer, state=CheckState.REJECTED, message=message)
    return replace(answer, requeue_after_ms=strategy.pause_ms(times))


def _checked_updates(
    book: Book, record: Record, held: Reserved | Admitted, answer: CheckStatus
) -> CheckStatus:
    """Updates that contradict pods, flavors or each other cannot be carried out: a rejection."""
    if answer.state is not CheckState.READY or not answer.updates:
        return answer
    others = (
        update
        for check in _asked(held)
        if check.name != answer.name and check.resize == answer.resize
        for update in check.updates
    )
    flavors = book.view.catalog.flavors
    node_labels = {
        pod_set.name: {
            key: value
            for flavor in pod_set.flavors.values()
            if flavor in flavors
            for key, value in flavors[flavor].node_labels.items()
        }
        for pod_set in held.admission.pod_sets
    }
    conflict = conflict_of(record.workload, (*others, *answer.updates), node_labels)
    if not conflict:
        return answer
    return replace(answer, state=CheckState.REJECTED, message=conflict, updates=())
