"""One cycle: the time's due, the proposals of preemption, the decision, and what it makes true."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from muster_admission.asking import checks_for
from muster_admission.attempts import Attempts
from muster_admission.barrier import held_up
from muster_admission.book import Book
from muster_admission.budget_turn import close_purse, open_purse
from muster_admission.ending import evict
from muster_admission.intake import refuse_impossible
from muster_admission.resize import granted
from muster_admission.rows import kept_out
from muster_admission.standing import waits
from muster_admission.timers import expire
from muster_admission.turns import used_lately
from muster_contracts import events
from muster_contracts.stored import Record
from muster_domain.conditions import EvictionReason, Explanation, PendingReason
from muster_domain.states import Admitted, Evicting, Pending, Requeue, Reserved
from muster_scheduling.admission import (
    Budget,
    Decision,
    EvictWorkload,
    FinishReplaced,
    Refusal,
    RequestPreemption,
    ReserveQuota,
    StopReason,
    apply_proposal,
    decide,
)
from muster_scheduling.preemption import Proposal, ProposedVictim, Wanted

ASK_AGAIN_AFTER_MS = 5_000

_BEHIND_OTHERS = Explanation(
    reason=PendingReason.PENDING_EVALUATION, message="others are ahead in its queue"
)


@dataclass(slots=True)
class Turn:
    """What lasts from one cycle to the next besides the book; all of it may be lost."""

    arrived: dict[str, None] = field(default_factory=dict[str, None])
    proposals: list[events.VictimsProposed] = field(default_factory=list[events.VictimsProposed])
    asked: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    exhausted: bool = False
    attempts: Attempts = field(default_factory=Attempts)


def run_cycle(book: Book, turn: Turn, now_ms: int) -> None:
    """Decide on everything that is known, and make it true in the book."""
    turn.attempts.begin()
    for workload_id in list(turn.arrived):
        if refuse_impossible(book, workload_id, now_ms):
            del turn.arrived[workload_id]
    for record in book.due(now_ms):
        expire(book, record, now_ms)
    book.turns.sample(now_ms)
    for proposal in turn.proposals:
        _consider(book, turn, proposal, now_ms)
    turn.proposals.clear()
    book.claims.review(now_ms)
    _ask_again(book, turn, now_ms)
    held = held_up(book)
    if held is None:
        _decide(book, turn, now_ms)
    else:
        turn.exhausted = False
        _explain(book, turn, held, now_ms)
    turn.attempts.end(book.records)
    book.forget_old(now_ms)


def _decide(book: Book, turn: Turn, now_ms: int) -> None:
    """Let in whom there is quota for: all of them, or one where each must start first."""
    open_purse(book, now_ms)
    one_by_one = 1 if book.lifecycle.block_admission else None
    budget = Budget(workloads=book.settings.decisions_max, reservations=one_by_one)
    decision = decide(book.view.snapshot(now_ms), budget, victims_inline=False)
    book.view.apply(decision)
    turn.attempts.decided(decision)
    turn.exhausted = decision.stopped is StopReason.BUDGET_EXHAUSTED
    _make_true(book, turn, decision, now_ms)
    _explain(book, turn, decision.explanations, now_ms)
    close_purse(book, decision.explanations, now_ms)


def no_victims(book: Book, turn: Turn, fact: events.VictimsNotFound, now_ms: int) -> None:
    """Nobody who may be preempted would help: look again when the tree changes.

    Where seats are what lacks, also when seats come free.
    """
    record = book.records.get(fact.workload_id)
    asked = turn.asked.pop(fact.workload_id, None)
    if record is None or not waits(record.state) or asked is None:
        return
    turn.attempts.without_victims(record)
    if fact.explanation is not None and isinstance(record.state, Pending):
        _stay_unseated(book, record, record.state, fact.explanation, now_ms)
    book.view.park(fact.workload_id)


def _stay_unseated(
    book: Book, record: Record, before: Pending, why: Explanation, now_ms: int
) -> None:
    state = replace(before, explanation=why, unseated=True)
    if state == before:
        return
    after = book.become(record, state, now_ms)
    requeued = events.WorkloadRequeued(
        workload_id=after.workload.id, version=book.announcer.version, state=state
    )
    book.announcer.event(after, requeued, now_ms)
    book.announcer.decision(after, why, now_ms)


def _consider(book: Book, turn: Turn, proposal: events.VictimsProposed, now_ms: int) -> None:
    """Check a proposal against the books: all victims go, or none (and it is asked again)."""
    turn.asked.pop(proposal.workload_id, None)
    record = book.records.get(proposal.workload_id)
    if record is None or not waits(record.state):
        return
    victims = tuple(
        ProposedVictim(workload_id=victim.workload_id, attempt=victim.attempt, reason=victim.reason)
        for victim in proposal.victims
    )
    wanted = Wanted(
        cluster_queue=proposal.admission.cluster_queue,
        usage=proposal.admission.usage,
        need=frozenset(proposal.need),
    )
    outcome = apply_proposal(
        book.view.snapshot(now_ms),
        Proposal(preemptor_id=proposal.workload_id, wanted=wanted, victims=victims),
    )
    if isinstance(outcome, Refusal):
        turn.attempts.refused(record)
        book.view.retry(proposal.workload_id)
        return
    turn.attempts.preempting(record)
    for effect in outcome.effects:
        if isinstance(effect, EvictWorkload):
            _preempt(book, effect, now_ms)
    book.claims.make(proposal.workload_id, wanted, now_ms)


def _ask_again(book: Book, turn: Turn, now_ms: int) -> None:
    """Look again at those whose question nobody answered: question or answer was lost."""
    for workload_id, (_, asked_ms) in list(turn.asked.items()):
        if book.view.pending(workload_id) is None:
            del turn.asked[workload_id]
        elif now_ms - asked_ms >= ASK_AGAIN_AFTER_MS:
            del turn.asked[workload_id]
            book.view.retry(workload_id)


def _make_true(book: Book, turn: Turn, decision: Decision, now_ms: int) -> None:
    for group in decision.groups:
        for effect in group.effects:
            match effect:
                case ReserveQuota():
                    _reserve(book, turn, effect, now_ms)
                case EvictWorkload():
                    _preempt(book, effect, now_ms)
                case RequestPreemption():
                    _introduce(book, turn, decision, effect.workload_id, now_ms)
                    _request_preemption(book, turn, effect, now_ms)
                case FinishReplaced():
                    pass
                case _:
                    assert_never(effect)


def _reserve(book: Book, turn: Turn, effect: ReserveQuota, now_ms: int) -> None:
    record = book.records[effect.workload_id]
    waiting = record.state
    turn.asked.pop(effect.workload_id, None)
    if isinstance(waiting, Admitted):
        granted(book, record, effect.admission, now_ms)
        return
    if not isinstance(waiting, Pending):
        raise AssertionError(f"{record.workload.key} was decided on while {waiting.kind}")  # noqa: TRY004
    pods = {pod_set.name: pod_set.count for pod_set in effect.admission.pod_sets}
    state = Reserved(
        admission=effect.admission,
        reserved_at_ms=now_ms,
        attempt=effect.attempt,
        queued_at_ms=waiting.queued_at_ms,
        requeue_count=waiting.requeue_count,
        past_execution_ms=waiting.past_execution_ms,
        avoided_flavors=waiting.avoided_flavors,
        waiting_since_ms=waiting.waiting_since_ms,
        checks=checks_for(book, record, effect.admission, pods, now_ms),
        history=waiting.history,
    )
    after = book.become(record, state, now_ms, in_view=True)
    reserved = events.QuotaReserved(
        workload=after.workload, version=book.announcer.version, state=state
    )
    book.announcer.event(after, reserved, now_ms)
    if state.checks:
        book.announcer.decision(after, None, now_ms)
    turn.asked.pop(effect.workload_id, None)


def _preempt(book: Book, effect: EvictWorkload, now_ms: int) -> None:
    record = book.records[effect.workload_id]
    if not isinstance(record.state, Reserved | Admitted) or record.state.attempt != effect.attempt:
        return
    evict(
        book,
        record,
        EvictionReason.PREEMPTED,
        Requeue(),
        now_ms,
        message=effect.message,
        preemption_reason=effect.reason,
        preemptor=effect.preemptor_id,
    )


def _introduce(book: Book, turn: Turn, decision: Decision, workload_id: str, now_ms: int) -> None:
    """Say that a new workload waits before victims are asked for on its behalf.

    Who answers reads in this order, and answers only for those it knows.
    """
    if workload_id in turn.arrived:
        explanation = decision.explanations[workload_id]
        book.explanations[workload_id] = explanation
        _announce_waiting(book, turn, book.records[workload_id], explanation, now_ms)


def _request_preemption(book: Book, turn: Turn, effect: RequestPreemption, now_ms: int) -> None:
    """Ask for victims, once per state of the tree, and again if nobody answers for long."""
    record = book.records[effect.workload_id]
    entry = book.view.catalog.queues[record.cluster_queue]
    generation = book.view.generation(entry)
    asked = turn.asked.get(effect.workload_id)
    waits_for_victims = any(
        isinstance(other.state, Evicting) and other.state.preemptor == effect.workload_id
        for other in _evicting(book)
    )
    if waits_for_victims:
        return
    if asked is not None and asked[0] == generation and now_ms - asked[1] < ASK_AGAIN_AFTER_MS:
        return
    turn.asked[effect.workload_id] = (generation, now_ms)
    request = events.PreemptionRequested(
        workload_id=effect.workload_id,
        version=book.announcer.version,
        admission=effect.admission,
        need=effect.need,
        used_lately=used_lately(book.view, record.cluster_queue),
    )
    book.announcer.event(record, request, now_ms)


def _evicting(book: Book) -> list[Record]:
    return [book.records[workload_id] for workload_id in book.view.evicting]


def _explain(book: Book, turn: Turn, explanations: Mapping[str, Explanation], now_ms: int) -> None:
    """Say to the outside who waits, whenever somebody arrives or the reason changes."""
    for workload_id, explanation in explanations.items():
        record = book.records.get(workload_id)
        if record is None or not waits(record.state):
            continue
        before = book.explanations.get(workload_id)
        book.explanations[workload_id] = explanation
        if before is None or before.reason != explanation.reason:
            _announce_waiting(book, turn, record, explanation, now_ms)
    for workload_id in list(turn.arrived):
        record = book.records.get(workload_id)
        if record is not None and isinstance(record.state, Pending):
            waits_for = _BEHIND_OTHERS if record.state.active else record.state.explanation
            explanation = kept_out(book, record) or waits_for
            _announce_waiting(book, turn, record, explanation, now_ms)
    turn.arrived.clear()


def _announce_waiting(
    book: Book, turn: Turn, record: Record, explanation: Explanation, now_ms: int
) -> None:
    state = record.state
    if record.workload.id in turn.arrived and isinstance(state, Pending):
        del turn.arrived[record.workload.id]
        queued = events.WorkloadQueued(
            workload=record.workload,
            cluster_queue=record.cluster_queue,
            version=book.announcer.version,
            state=state,
        )
        book.announcer.event(record, queued, now_ms)
    book.announcer.decision(record, explanation, now_ms)
