"""Admission checks: who else has to agree, after quota and before seats (R-102, R-109).

Somebody outside answers for each check. Seats are looked for once all have agreed; one that asks
for another try sends the workload back to the line, one that rejects it ends it.
"""

from collections.abc import Mapping
from dataclasses import replace

from muster_admission.activity import deactivate
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
    ProvisioningRequestConfig,
    all_ready,
    conflict_of,
    updated,
)
from muster_domain.conditions import EvictionReason, UnderlyingCause
from muster_domain.states import Admission, Admitted, Requeue, Reserved
from muster_domain.workload import Workload


def checks_for(
    book: Book, record: Record, admission: Admission, retries: Mapping[str, int], now_ms: int
) -> tuple[CheckStatus, ...]:
    """The checks that the ClusterQueue wants for the flavors that were granted.

    None is answered, but for capacity of which the workload wants nothing.
    """
    entry = book.view.catalog.queues[record.cluster_queue]
    flavors = {flavor for pod_set in admission.pod_sets for flavor in pod_set.flavors.values()}
    asked = (
        CheckStatus(name=rule.name, since_ms=now_ms, retry_count=retries.get(rule.name, 0))
        for rule in entry.queue.admission_checks
        if not rule.on_flavors or not flavors.isdisjoint(rule.on_flavors)
    )
    counts = {pod_set.name: pod_set.count for pod_set in admission.pod_sets}
    return tuple(_asking_for(book, record.workload, check, counts) for check in asked)


def _asking_for(
    book: Book, workload: Workload, check: CheckStatus, counts: Mapping[str, int]
) -> CheckStatus:
    """The check with the pods that it asks capacity for, if it asks for any."""
    config = _provisioning(book, check.name)
    if config is None:
        return check
    groups = config.asked_together(workload)
    pods = {group[0]: sum(counts.get(name, 0) for name in group) for group in groups}
    pods = {name: count for name, count in pods.items() if count}
    if pods:
        return replace(check, pods=pods)
    message = f"asks for none of {', '.join(config.managed_resources)}"
    return replace(check, state=CheckState.READY, message=message)


def _provisioning(book: Book, check: str) -> ProvisioningRequestConfig | None:
    """How a capacity check asks, where it follows a configuration of Kueue's that is declared."""
    configuration = book.view.catalog.configuration
    declared = (configuration.admission_checks or {}).get(check)
    if declared is None or declared.controller not in CAPACITY_CHECK:
        return None
    if declared.parameters.get("kind") != "ProvisioningRequestConfig":
        return None
    return (configuration.provisioning or {}).get(declared.parameters.get("name", ""))


def check_answered(book: Book, fact: events.CheckAnswered, now_ms: int) -> None:
    """Somebody answered for a check. Idempotent by (workload, attempt, check, state).

    An answer to an old attempt, and one for a check that the workload does not have, change
    nothing.
    """
    record = book.records.get(fact.workload_id)
    if record is None or not isinstance(record.state, Reserved | Admitted):
        return
    held = record.state
    known = {check.name: check for check in held.checks}
    before = known.get(fact.check)
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
    checks = tuple(answer if check.name == answer.name else check for check in held.checks)
    _apply(book, replace(record, state=replace(held, checks=checks)), answer, now_ms)


def _updates(
    book: Book, workload: Workload, fact: events.CheckAnswered
) -> tuple[PodSetUpdate, ...]:
    """What the answer wants of which pods: of pod sets that were asked for as one, of them all."""
    config = _provisioning(book, fact.check)
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
    told = f"admission check {answer.name}: {answer.message or answer.state}"
    match answer.state:
        case CheckState.REJECTED:
            deactivate(book, record, UnderlyingCause.ADMISSION_CHECK, told, now_ms)
        case CheckState.RETRY:
            retries = {**dict(held.history.check_retries), answer.name: answer.retry_count + 1}
            history = replace(held.history, check_retries=tuple(sorted(retries.items())))
            state = replace(held, history=history)
            again = Requeue(at_ms=now_ms + (answer.requeue_after_ms or 0))
            reason = EvictionReason.ADMISSION_CHECK
            evict(book, replace(record, state=state), reason, again, now_ms, message=told)
        case CheckState.READY | CheckState.PENDING:
            if isinstance(held, Reserved) and all_ready(held.checks):
                _pass(book, record, replace(held, checked_at_ms=now_ms), now_ms)
                return
            after = book.become(record, held, now_ms)
            book.announcer.decision(after, None, now_ms)


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
    config = _provisioning(book, answer.name)
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
        update for check in held.checks if check.name != answer.name for update in check.updates
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
