"""Questions about the workloads and quota of one partition, answered from memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster_admission.announce import flavors_of, seats_of
from muster_admission.book import Book
from muster_admission.books_check import ledger_report
from muster_admission.machine import AdmissionMachine
from muster_admission.rows import (
    ahead_row,
    estimate,
    queue_row,
    quota_rows,
    timeline,
    workload_row,
)
from muster_contracts import codec
from muster_contracts.queries import (
    PAGE_MAX,
    Phase,
    Plan,
    PlanVerdict,
    QuotaPage,
    WorkloadDetail,
    WorkloadPage,
    WorkloadRow,
)
from muster_contracts.stored import Record
from muster_domain.conditions import Explanation, PendingReason
from muster_domain.errors import InvalidValue, NotFound
from muster_domain.states import Admitted, Finished, Pending, Reserved
from muster_domain.workload import Workload
from muster_runtime.clock import now_ms
from muster_runtime.owner import Reply
from muster_scheduling.admission import (
    Budget,
    ReserveQuota,
    decide,
    explain,
    max_possible,
    standing,
)
from muster_scheduling.snapshot.workloads import prepare

AHEAD_MAX = 20


def workloads(machine: AdmissionMachine, question: dict[str, Any]) -> bytes:
    """A page of workloads: pending first in queue order, then the others, newest first."""
    book = machine.book
    limit = min(int(question.get("limit", PAGE_MAX)), PAGE_MAX)
    offset = int(question.get("offset", 0))
    if limit < 1 or offset < 0:
        raise InvalidValue("a page needs a limit above 0 and an offset of 0 or more", field="limit")
    chosen = [record for record in _ordered(book) if _matches(book, record, question)]
    rows = tuple(_with_position(book, record) for record in chosen[offset : offset + limit])
    return codec.encode(WorkloadPage(rows=rows, total=len(chosen)))


def workload(machine: AdmissionMachine, question: dict[str, Any]) -> bytes:
    """Everything about one workload, by `id`, or by `namespace` and `name`."""
    book = machine.book
    record = _find(book, question)
    state = record.state
    place = standing(book.view, record.workload.id, limit=AHEAD_MAX)
    held = state if isinstance(state, Reserved | Admitted) else None
    detail = WorkloadDetail(
        row=_with_position(book, record),
        explanation=_explanation(book, record),
        ahead=tuple(ahead_row(book.records[w.workload_id]) for w in place.ahead) if place else (),
        ahead_total=place.position if place else 0,
        pods_by_set={pod_set.name: pod_set.count for pod_set in record.workload.pod_sets},
        flavors=flavors_of(held) if held is not None else {},
        seats=seats_of(state) if isinstance(state, Admitted) else (),
        estimate=estimate(book, record) if isinstance(state, Pending) else None,
        timeline=timeline(record),
    )
    return codec.encode(detail)


def quota(machine: AdmissionMachine, _question: dict[str, Any]) -> bytes:
    """All queues of the partition with their quota."""
    book = machine.book
    entries = [book.view.catalog.queues[name] for name in sorted(book.view.catalog.queues)]
    return codec.encode(
        QuotaPage(
            queues=tuple(queue_row(book, entry) for entry in entries),
            rows=tuple(row for entry in entries for row in quota_rows(book, entry)),
        )
    )


def plan(machine: AdmissionMachine, question: dict[str, Any]) -> bytes:
    """What would happen to a workload submitted now; nothing is changed."""
    book = machine.book
    asked = codec.decode_object(Workload, question["workload"])
    return codec.encode(_plan(book, asked))


def ledger(machine: AdmissionMachine, _question: dict[str, Any]) -> bytes:
    """Whether ledger, states and usage agree."""
    return codec.encode(ledger_report(machine.book))


ANSWERS: Mapping[str, Reply[AdmissionMachine]] = {
    "workloads": workloads,
    "workload": workload,
    "quota": quota,
    "plan": plan,
    "ledger": ledger,
}


def _plan(book: Book, asked: Workload) -> Plan:
    view = book.view
    at_ms = now_ms()
    waiting = prepare(asked, view.policy)
    never = max_possible(view, waiting)
    if never is not None:
        return Plan(verdict=PlanVerdict.NEVER, explanation=never)
    if not view.add_pending(waiting, at_ms):
        view.remove_pending(asked.id)
        message = "its queue does not exist here"
        why = Explanation(reason=PendingReason.MISCONFIGURED, message=message)
        return Plan(verdict=PlanVerdict.NEVER, explanation=why)
    try:
        decision = decide(view.snapshot(at_ms), Budget())
        place = standing(view, asked.id, limit=0)
        why = decision.explanations.get(asked.id) or explain(view.snapshot(at_ms), asked.id)
    finally:
        view.remove_pending(asked.id)
    why = why or Explanation(reason=PendingReason.PENDING_EVALUATION, message="")
    groups = [group for group in decision.groups if group.workload_id == asked.id]
    for group in groups:
        for effect in group.effects:
            if isinstance(effect, ReserveQuota):
                flavors: dict[str, str] = {}
                for pod_set in effect.admission.pod_sets:
                    flavors.update(pod_set.flavors)
                return Plan(verdict=PlanVerdict.ADMIT, explanation=why, flavors=flavors)
    victims = tuple(
        ahead_row(book.records[effect.workload_id])
        for group in groups
        for effect in group.effects
        if effect.workload_id != asked.id
    )
    verdict = PlanVerdict.PREEMPT if victims else PlanVerdict.WAIT
    ahead = place.position if place is not None else 0
    return Plan(verdict=verdict, explanation=why, ahead_total=ahead, victims=victims)


def _ordered(book: Book) -> list[Record]:
    waiting = [
        book.records[workload.id]
        for name in sorted(book.view.queues)
        for workload in book.view.queues[name].in_order()
    ]
    waiting += [book.records[workload_id] for workload_id in book.view.orphans]
    others = [record for record in book.records.values() if not isinstance(record.state, Pending)]
    others.sort(key=lambda record: (-record.workload.created_at_ms, record.workload.id))
    others.sort(key=lambda record: isinstance(record.state, Finished))
    return waiting + others


def _matches(book: Book, record: Record, question: Mapping[str, Any]) -> bool:
    workload = record.workload
    phases: list[str] = question.get("phases") or []
    facts = {
        "namespace": workload.namespace,
        "queue": workload.queue.name,
        "cluster_queue": record.cluster_queue,
        "user": workload.user,
    }
    if any(question.get(name) not in (None, "", value) for name, value in facts.items()):
        return False
    namespaces = question.get("namespaces")
    if namespaces is not None and workload.namespace not in namespaces:
        return False
    if not phases:
        return True
    return workload_row(book, record).phase in {Phase(phase) for phase in phases}


def _with_position(book: Book, record: Record) -> WorkloadRow:
    row = workload_row(book, record)
    queue = book.view.queues.get(book.view.queue_of.get(record.workload.id, ""))
    if queue is None:
        return row
    local = 0
    for waiting in queue.in_order():
        if waiting.id == record.workload.id:
            break
        local += (waiting.namespace, waiting.queue_name) == (
            record.workload.namespace,
            record.workload.queue.name,
        )
    return replace(
        row,
        position_in_cluster_queue=queue.position(record.workload.id),
        position_in_local_queue=local,
    )


def _find(book: Book, question: Mapping[str, Any]) -> Record:
    identity = question.get("id", "")
    if identity:
        record = book.records.get(identity)
        if record is not None:
            return record
        matching = [key for key in book.records if key.startswith(identity)]
        if len(matching) == 1:
            return book.records[matching[0]]
        if matching:
            raise InvalidValue(
                f"{len(matching)} workloads begin with {identity}",
                field="id",
                fix="write more of it",
            )
        raise NotFound(f"no workload {identity}")
    key = f"{question.get('namespace', '')}/{question.get('name', '')}"
    live = book.live_names.get(key)
    if live is not None:
        return book.records[live]
    ended = [record for record in book.records.values() if record.workload.key == key]
    if not ended:
        raise NotFound(f"no workload {key}")
    return max(ended, key=lambda record: (record.workload.created_at_ms, record.workload.id))


def _explanation(book: Book, record: Record) -> Explanation:
    row = workload_row(book, record)
    match record.state:
        case Pending(unseated=True, explanation=stored):
            return stored
        case Pending():
            found = explain(book.view.snapshot(now_ms()), record.workload.id)
            return found or Explanation(reason=row.reason, message=row.message)
        case Finished(explanation=why) if why is not None:
            return why
        case _:
            return Explanation(reason=row.reason, message=row.message)
