"""Questions about the workloads and quota of one partition, answered from memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, assert_never

from muster_admission.announce import asked_checks, flavors_of, seats_of
from muster_admission.barrier import held_up
from muster_admission.book import Book
from muster_admission.books_check import ledger_report
from muster_admission.conditions import conditions
from muster_admission.eta import latest_starts
from muster_admission.machine import AdmissionMachine
from muster_admission.rows import (
    ahead_row,
    estimate,
    kept_out,
    queue_row,
    quota_rows,
    timeline,
    workload_row,
)
from muster_admission.turns import turn_rows
from muster_admission.ways import ways_of
from muster_contracts import codec
from muster_contracts.budgets import BudgetPage
from muster_contracts.fit import Asked, AskedQuestion
from muster_contracts.queries import (
    PAGE_MAX,
    Plan,
    PlanQuestion,
    PlanVerdict,
    Query,
    QuotaPage,
    QuotaQuestion,
    WorkloadDetail,
    WorkloadPage,
    WorkloadQuestion,
    WorkloadRow,
    WorkloadsQuestion,
    row_order,
)
from muster_contracts.stored import Record
from muster_domain.conditions import Explanation, PendingReason
from muster_domain.errors import InvalidValue, NotFound
from muster_domain.states import Admission, Admitted, Evicting, Finished, Growing, Pending, Reserved
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
_ASKED = Pending(
    explanation=Explanation(reason=PendingReason.PENDING_EVALUATION, message=""), queued_at_ms=0
)
"""What somebody is in who only asks what would become of him."""


def workloads(machine: AdmissionMachine, question: dict[str, Any]) -> bytes:
    """A page of workloads in `row_order`. Raises `InvalidValue` for a page out of reach."""
    book = machine.book
    asked = codec.decode_object(WorkloadsQuestion, question)
    if not 1 <= asked.limit <= PAGE_MAX or asked.offset < 0:
        raise InvalidValue(f"a page has 1 to {PAGE_MAX} rows", field="limit")
    places, at_ms = _places(book), now_ms()
    rows = sorted(
        (
            _with_place(book, record, places)
            for record in book.records.values()
            if _matches(record, asked) and not _gone(record, at_ms)
        ),
        key=row_order,
    )
    chosen = [row for row in rows if not asked.phases or row.phase in asked.phases]
    starts = latest_starts(book)
    page = tuple(
        replace(row, starts_by_ms=starts.get(row.id))
        for row in chosen[asked.offset : asked.offset + asked.limit]
    )
    return codec.encode(WorkloadPage(rows=page, total=len(chosen)))


def workload(machine: AdmissionMachine, question: dict[str, Any]) -> bytes:
    """Everything about one workload. Raises `NotFound`."""
    book = machine.book
    asked = codec.decode_object(WorkloadQuestion, question)
    record = book.records.get(asked.id)
    if record is None:
        raise NotFound(f"no workload {asked.id}")
    state = record.state
    place = standing(book.view, record.workload.id, limit=AHEAD_MAX)
    held = state if isinstance(state, Reserved | Admitted) else None
    why = _explanation(book, record)
    at_ms = now_ms()
    detail = WorkloadDetail(
        row=_with_place(book, record, _places(book)),
        explanation=why,
        ahead=tuple(ahead_row(book.records[w.workload_id], at_ms) for w in place.ahead)
        if place
        else (),
        ahead_total=place.position if place else 0,
        pods_by_set={pod_set.name: pod_set.count for pod_set in record.workload.pod_sets},
        flavors=flavors_of(held) if held is not None else {},
        seats=seats_of(state) if isinstance(state, Admitted) else (),
        topology=state.placement.topology if isinstance(state, Admitted) else {},
        estimate=estimate(book, record) if isinstance(state, Pending) else None,
        timeline=timeline(record),
        turns=turn_rows(book.view, record.cluster_queue),
        conditions=conditions(record, why),
        active=not (isinstance(state, Pending) and not state.active),
        requeue_count=0 if isinstance(state, Finished) else state.requeue_count,
        requeue_at_ms=state.requeue_at_ms if isinstance(state, Pending) else None,
        past_execution_ms=0 if isinstance(state, Finished) else state.past_execution_ms,
        evictions=state.history.evictions,
        admission=None if isinstance(state, Pending | Finished) else state.admission,
        checks=asked_checks(record.state),
        reclaimable=state.reclaimable if isinstance(state, Admitted) else {},
        checkpointed_at_ms=state.checkpointed_at_ms
        if isinstance(state, Admitted | Evicting)
        else None,
        never_checkpoints=record.workload.never_checkpoints,
        lost_work_ms=state.lost_work_ms if isinstance(state, Evicting) else None,
    )
    return codec.encode(detail)


def asked(machine: AdmissionMachine, question: dict[str, Any]) -> bytes:
    """What a workload asks for and the quota it could seek seats with. Raises `NotFound`."""
    book = machine.book
    identity = codec.decode_object(AskedQuestion, question).id
    record = book.records.get(identity)
    if record is None:
        raise NotFound(f"no workload {identity}")
    return codec.encode(Asked(workload=record.workload, admissions=_admissions(book, record)))


def quota(machine: AdmissionMachine, question: dict[str, Any]) -> bytes:
    """The queues of the partition with their quota, sorted by name."""
    book = machine.book
    asked = codec.decode_object(QuotaQuestion, question)
    entries = [
        book.view.catalog.queues[name]
        for name in sorted(book.view.catalog.queues)
        if asked.cluster_queue in ("", name)
    ]
    return codec.encode(
        QuotaPage(
            queues=tuple(queue_row(book, entry) for entry in entries),
            rows=tuple(row for entry in entries for row in quota_rows(book, entry)),
        )
    )


def plan(machine: AdmissionMachine, question: dict[str, Any]) -> bytes:
    """What would happen to a workload submitted now; nothing is changed."""
    asked = codec.decode_object(PlanQuestion, question)
    return codec.encode(_plan(machine.book, asked.workload))


def verify(machine: AdmissionMachine, _question: dict[str, Any]) -> bytes:
    """Whether ledger, states and usage agree."""
    return codec.encode(ledger_report(machine.book))


def budgets(machine: AdmissionMachine, _question: dict[str, Any]) -> bytes:
    """The budgets that are at home in the partition, in their present periods."""
    return codec.encode(BudgetPage(rows=tuple(machine.book.homes.rows(now_ms()))))


ANSWERS: Mapping[str, Reply[AdmissionMachine]] = {
    Query.BUDGETS: budgets,
    Query.WORKLOADS: workloads,
    Query.WORKLOAD: workload,
    Query.ASKED: asked,
    Query.QUOTA: quota,
    Query.PLAN: plan,
    Query.VERIFY: verify,
}


def _admissions(book: Book, record: Record) -> tuple[Admission, ...]:
    """The quota of one that seeks seats; of one that waits, what each flavor could give it."""
    match record.state:
        case Reserved(admission=admission):
            return (admission,)
        case Pending():
            entry = book.view.catalog.queues.get(record.cluster_queue)
            return () if entry is None else ways_of(record.workload, entry)
        case Admitted() | Evicting() | Finished():
            return ()
        case _:
            assert_never(record.state)


def _plan(book: Book, asked: Workload) -> Plan:
    view = book.view
    at_ms = now_ms()
    waiting = prepare(asked, view.policy)
    never = max_possible(view, waiting)
    if never is not None:
        return Plan(verdict=PlanVerdict.NEVER, explanation=never)
    queue = view.add_pending(waiting, at_ms)
    if not queue:
        view.remove_pending(asked.id)
        message = "its queue does not exist here"
        why = Explanation(reason=PendingReason.MISCONFIGURED, message=message)
        return Plan(verdict=PlanVerdict.NEVER, explanation=why)
    book.budgets.guest = Record(workload=asked, cluster_queue=queue, state=_ASKED)
    view.purse = book.budgets.purse(at_ms)
    try:
        decision = decide(view.snapshot(at_ms), Budget())
        place = standing(view, asked.id, limit=0)
        why = decision.explanations.get(asked.id) or explain(view.snapshot(at_ms), asked.id)
    finally:
        view.remove_pending(asked.id)
        book.budgets.guest = None
    why = why or Explanation(reason=PendingReason.PENDING_EVALUATION, message="")
    groups = [group for group in decision.groups if group.workload_id == asked.id]
    for group in groups:
        for effect in group.effects:
            if isinstance(effect, ReserveQuota):
                flavors: dict[str, str] = {}
                for pod_set in effect.admission.pod_sets:
                    flavors.update(pod_set.flavors)
                return Plan(
                    verdict=PlanVerdict.ADMIT,
                    explanation=why,
                    flavors=flavors,
                    admission=effect.admission,
                )
    victims = tuple(
        ahead_row(book.records[effect.workload_id], at_ms)
        for group in groups
        for effect in group.effects
        if effect.workload_id != asked.id
    )
    verdict = PlanVerdict.PREEMPT if victims else PlanVerdict.WAIT
    ahead = place.position if place is not None else 0
    return Plan(verdict=verdict, explanation=why, ahead_total=ahead, victims=victims)


def _places(book: Book) -> dict[str, tuple[int, int]]:
    """For everybody who waits: how many are ahead in the ClusterQueue and in the LocalQueue."""
    places: dict[str, tuple[int, int]] = {}
    for name in sorted(book.view.queues):
        doors: dict[tuple[str, str], int] = {}
        for position, waiting in enumerate(book.view.queues[name].in_order()):
            door = (waiting.namespace, waiting.queue_name)
            places[waiting.id] = (position, doors.get(door, 0))
            doors[door] = doors.get(door, 0) + 1
    return places


def _matches(record: Record, asked: WorkloadsQuestion) -> bool:
    workload = record.workload
    return (
        (not asked.namespaces or workload.namespace in asked.namespaces)
        and asked.name in ("", workload.name)
        and asked.queue in ("", workload.queue.name)
        and asked.cluster_queue in ("", record.cluster_queue)
        and asked.user in ("", workload.user)
        and workload.id.startswith(asked.id_prefix)
    )


def _gone(record: Record, at_ms: int) -> bool:
    """Whether it asked not to be listed so long after its end. It is still known by its id."""
    kept_ms, state = record.workload.keep_finished_ms, record.state
    if kept_ms is None or not isinstance(state, Finished):
        return False
    return at_ms >= state.finished_at_ms + kept_ms


def _with_place(book: Book, record: Record, places: Mapping[str, tuple[int, int]]) -> WorkloadRow:
    row = workload_row(book, record)
    place = places.get(record.workload.id)
    if place is None:
        return row
    return replace(row, position_in_cluster_queue=place[0], position_in_local_queue=place[1])


def _explanation(  # noqa: PLR0911 - one line a state
    book: Book, record: Record
) -> Explanation:
    row = workload_row(book, record)
    said = Explanation(reason=row.reason, message=row.message)
    match record.state:
        case Pending(active=False, explanation=stored):
            return stored
        case Pending() if (why := kept_out(book, record)) is not None:
            return why
        case Pending(unseated=True, explanation=stored):
            return stored
        case Pending() if (waits := held_up(book)) and record.workload.id in waits:
            return waits[record.workload.id]
        case Pending():
            return explain(book.view.snapshot(now_ms()), record.workload.id) or said
        case Admitted(resize=Growing(explanation=stored)):
            why = stored or explain(book.view.snapshot(now_ms()), record.workload.id) or said
            return why if why is said else replace(why, message=f"{row.message}: {why.message}")
        case Admitted(seated_because=message) if message:
            return replace(said, message=message)
        case Finished(explanation=why) if why is not None:
            return why
        case _:
            return said
