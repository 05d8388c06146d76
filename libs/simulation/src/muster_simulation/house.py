"""The decision core and the placement core in one process, in virtual time.

Nothing travels: a decision is true at once, its victims are gone as soon as their pods end. That is
what admission, preemption and placement come to together when nothing fails on the way, and it is
fast enough for months of jobs.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from muster_domain.conditions import (
    EvictionReason,
    Outcome,
    PendingReason,
    PreemptionReason,
    RefusalReason,
)
from muster_domain.nodes import Node, NodeCondition
from muster_domain.states import Admission
from muster_domain.workload import Workload
from muster_scheduling.admission import (
    Budget,
    Decision,
    EffectGroup,
    EvictWorkload,
    ReserveQuota,
    decide,
    explain,
    max_possible,
    violations,
)
from muster_scheduling.admission.eligibility import flavors_of, has_other_flavor
from muster_scheduling.ordering.keys import queue_timestamp_ms
from muster_scheduling.placement.outcome import Placed
from muster_scheduling.placement.replacement import replace_node
from muster_scheduling.snapshot.view import Snapshot
from muster_scheduling.snapshot.workloads import prepare
from muster_scheduling.volcano.floor import Room
from muster_simulation.manifests import DURATION, STOP_DURATION
from muster_simulation.premises import Guest, Happening, Phase, Premises, What
from muster_simulation.seating import CLAIM_MS
from muster_simulation.sizes import ask, give_back, grow, scale, settle

RETRY_BASE_MS = 1_000
RETRY_MAX_MS = 60_000
NODE_LOST_AFTER_MS = 25_000
"""A node that is silent for so long is given up, with everything on it."""


@dataclass(slots=True, kw_only=True)
class House(Premises):
    """Everything there is. `tell` gets every happening in order; `checked` proves each decision.

    `looked_at` counts the workloads that were decided about, as often as they were. Where somebody
    takes those who have `ended`, they are forgotten here. Who wants to see deciding from outside
    gives a `decide` of their own around it.
    """

    tell: Callable[[Happening], None]
    checked: bool = False
    decide: Callable[[Snapshot, Budget], Decision] = decide
    ended: Callable[[Guest], None] | None = None
    looked_at: int = 0
    _live: dict[str, str] = field(default_factory=dict[str, str])
    _places: bool = False
    _arrivals: Iterator[Workload] = iter(())
    _next_arrival: Workload | None = None
    _claimed_ms: dict[str, int] = field(default_factory=dict[str, int])
    _unseated: dict[str, None] = field(default_factory=dict[str, None])
    _silent: dict[str, int] = field(default_factory=dict[str, int])

    def add_nodes(self, nodes: Iterable[Node]) -> None:
        """Let gangs be seated on nodes. Without any node quota alone decides."""
        for node in nodes:
            self._places = True
            self.table.put_node(node)

    def expect(self, arrivals: Iterator[Workload]) -> None:
        """Let jobs arrive at their creation, before whatever else happens at that moment.

        They must come in the order of their creation; each is drawn when the one before it is in.
        """
        self._arrivals = arrivals
        self._next_arrival = next(arrivals, None)

    def run(self, until_ms: int) -> None:
        """Let time pass; who waits is looked at after each moment in which something happened."""
        self._settle()
        while (moment := self._next_ms()) is not None and moment <= until_ms:
            self.now_ms = moment
            self._let_in(moment)
            while self._events and self._events[0][0] <= moment:
                heapq.heappop(self._events)[2]()
            self._settle()
        self.now_ms = max(self.now_ms, until_ms)

    def drain(self) -> None:
        """Run until nothing is planned any more."""
        self._settle()
        while (moment := self._next_ms()) is not None:
            self.run(moment)

    def submit(self, workload: Workload) -> None:
        """A job arrives; one whose name is in use or that could never fit ends at once."""
        if workload.key in self._live:
            self._apply_again(self.guests[self._live[workload.key]], workload)
            return
        annotations = workload.pod_sets[0].annotations
        pending = prepare(workload, self.view.policy)
        never = max_possible(self.view, pending)
        guest = self.guests[workload.id] = Guest(
            workload=workload,
            cluster_queue="",
            submitted_ms=self.now_ms,
            run_ms=int(annotations.get(DURATION, "0")),
            stop_ms=int(annotations.get(STOP_DURATION, "0")),
        )
        if never is not None:
            self._finish(guest, Outcome.REFUSED, never.reason)
            return
        self._live[workload.key] = workload.id
        guest.cluster_queue = self.view.add_pending(pending, self.now_ms)
        self._say(What.SUBMITTED, guest)

    def _apply_again(self, guest: Guest, workload: Workload) -> None:
        """A job whose name is in use: an elastic one is scaled."""
        if not (guest.workload.is_scalable and workload.is_scalable):
            self.tell(_refusal(workload, self.now_ms))
        elif guest.runs:
            scale(self, guest, workload)
        else:
            guest.workload = guest.workload.scaled({p.name: p.count for p in workload.pod_sets})
            if self.view.remove_pending(guest.workload.id) is not None:
                self._wait(guest, None)

    def end(self, workload_id: str, outcome: Outcome) -> None:
        """A job has ended by itself, or is no longer wanted."""
        guest = self.guests[workload_id]
        match guest.phase:
            case Phase.PENDING:
                self.view.remove_pending(workload_id)
                self._unseated.pop(workload_id, None)
                self._finish(guest, outcome, "")
            case Phase.ADMITTED if outcome is Outcome.SUCCEEDED:
                self._leave(guest)
                self._finish(guest, outcome, "")
            case Phase.ADMITTED:
                guest.then = outcome
                self.view.mark_evicting(workload_id)
                self._go(guest, str(outcome), "")
            case Phase.EVICTING:
                guest.then = outcome
            case Phase.FINISHED:
                pass

    def fail_node(self, name: str) -> None:
        """A node falls silent. Nothing is given up before it was silent for long enough."""
        self._silent[name] = self.now_ms
        self.table.set_condition(name, NodeCondition.SUSPECT)
        self.at(self.now_ms + NODE_LOST_AFTER_MS, lambda: self._give_up(name))

    def recover_node(self, name: str) -> None:
        """A node speaks again."""
        self._silent.pop(name, None)
        self.table.set_condition(name, NodeCondition.READY)
        self._grew = True
        self.tell(Happening(at_ms=self.now_ms, what=What.NODE_BACK, workload="", nodes=(name,)))

    def reason(self, workload_id: str) -> str:
        """Why a workload waits."""
        guest = self.guests[workload_id]
        if guest.unseated:
            return PendingReason.TOPOLOGY_PLACEMENT_FAILED
        explanation = explain(self.view.snapshot(self.now_ms), workload_id)
        return "" if explanation is None else explanation.reason

    def _let_in(self, moment_ms: int) -> None:
        while (arrival := self._next_arrival) is not None and arrival.created_at_ms <= moment_ms:
            self.submit(arrival)
            self._next_arrival = next(self._arrivals, None)

    def _next_ms(self) -> int | None:
        """The next moment; between those that are planned, who waits may get another turn."""
        arrival = self._next_arrival
        planned = (
            self.view.next_due_ms,
            self._events[0][0] if self._events else None,
            max(self.now_ms, arrival.created_at_ms) if arrival is not None else None,
        )
        moments = [at_ms for at_ms in planned if at_ms is not None]
        turn_ms = self.turns.next_ms()
        if moments and turn_ms is not None and self.view.queue_of:
            moments.append(turn_ms)
        return min(moments, default=None)

    def _settle(self) -> None:
        """Decide until nothing moves."""
        while True:
            if self._grew:
                self._grew = False
                self._retry_unseated()
            self.view.release_due(self.now_ms)
            self.turns.sample(self.now_ms)
            self._review_claims()
            if not self.view.dirty:
                return
            snapshot = self.view.snapshot(self.now_ms)
            decision = self.decide(snapshot, Budget())
            if self.checked:
                self._check(snapshot, decision)
            self.view.apply(decision)
            self.looked_at += decision.looked_at
            for group in decision.groups:
                self._make_true(group)

    def _check(self, snapshot: Snapshot, decision: Decision) -> None:
        found = violations(snapshot, decision)
        if found:
            raise AssertionError(f"at {self.now_ms} ms: {found[0]}")

    def _make_true(self, group: EffectGroup) -> None:
        evicted = False
        for effect in group.effects:
            match effect:
                case ReserveQuota():
                    self._admit(effect)
                case EvictWorkload():
                    evicted = True
                    victim = self.guests[effect.workload_id]
                    self._go(victim, str(effect.reason), effect.preemptor_id)
                case _:
                    pass
        claims = evicted and self.view.policy.improvements.preemptor_claims
        if claims and group.wanted is not None and group.workload_id not in self.view.holders:
            self.view.claim(group.workload_id, group.wanted.cluster_queue, group.wanted.usage)
            self._claimed_ms[group.workload_id] = self.now_ms

    def _admit(self, effect: ReserveQuota) -> None:
        guest = self.guests[effect.workload_id]
        if guest.runs:
            grow(self, guest, effect.admission)
            return
        guest.attempt = effect.attempt
        guest.admission = effect.admission
        self._unseated.pop(effect.workload_id, None)
        if self._places and not self._seat(guest, effect.admission):
            return
        guest.phase, guest.unseated, guest.tries = Phase.ADMITTED, "", 0
        guest.avoided = ()
        guest.admitted_ms = self.now_ms
        if guest.first_admitted_ms is None:
            guest.first_admitted_ms = self.now_ms
        self.view.mark_admitted(effect.workload_id)
        self.view.mark_saved(effect.workload_id, self.now_ms)
        self._count(guest)
        self._say(What.ADMITTED, guest, nodes=guest.nodes)
        settle(self, guest)
        attempt = guest.attempt
        self.at(self.now_ms + guest.run_ms, lambda: self._run_out(guest, attempt))

    def _seat(self, guest: Guest, admission: Admission) -> bool:
        request = self.request(guest, admission)
        answer = self.seating.seat(guest.workload, request, self.standing(), self.now_ms)
        outcome = answer.outcome
        if isinstance(outcome, Placed):
            guest.nodes = outcome.placement.nodes
            return True
        tried = (*guest.avoided, *sorted(flavors_of(admission)))
        others = self.view.policy.improvements.seats_across_flavors and has_other_flavor(
            self.view.catalog.queues[guest.cluster_queue], admission, tried
        )
        guest.avoided = tried if others else ()
        guest.tries += not others
        guest.unseated = outcome.explanation.message
        self.view.release(guest.workload.id)
        self._count(guest)
        self._unseated[guest.workload.id] = None
        wait_ms = min(RETRY_MAX_MS, RETRY_BASE_MS * 2 ** min(max(0, guest.tries - 1), 16))
        self._wait(guest, None if others else self.now_ms + wait_ms)
        self._say(What.UNSEATED, guest, reason=str(outcome.reason))
        if answer.room is not None:
            self._make_room(guest, answer.room)
        return False

    def _make_room(self, guest: Guest, room: Room) -> None:
        """Evict those who have to leave their seats; nobody else gets these before their time."""
        self.at(self.now_ms + CLAIM_MS, self.capacity_grew)
        for workload_id, reason in sorted(room.victims.items()):
            victim = self.guests[workload_id]
            if victim.runs and workload_id in room.surplus:
                give_back(self, victim, room.surplus[workload_id])
            elif victim.runs:
                self.view.mark_evicting(workload_id)
                self._go(victim, str(reason), guest.workload.id)

    def _run_out(self, guest: Guest, attempt: int) -> None:
        if guest.phase is Phase.ADMITTED and guest.attempt == attempt:
            self.end(guest.workload.id, Outcome.SUCCEEDED)

    def _go(self, guest: Guest, reason: str, by: str) -> None:
        """It must go: what it holds comes back when its pods have ended."""
        self.view.remove_pending(guest.workload.id)
        guest.phase = Phase.EVICTING
        guest.evictions += guest.then is None
        if by:
            guest.queued_at_ms = queue_timestamp_ms(
                guest.workload.created_at_ms,
                None,
                self.now_ms,
                PreemptionReason(reason),
                self.view.policy,
            )
        rival = self.guests[by].workload.name if by else ""
        what = What.EVICTED if guest.then is None else What.STOPPING
        self._say(what, guest, reason=reason, by=rival)
        if guest.stop_ms:
            self.at(self.now_ms + guest.stop_ms, lambda: self._gone(guest))
        else:
            self._gone(guest)

    def _gone(self, guest: Guest) -> None:
        if guest.phase is not Phase.EVICTING:
            return
        self._leave(guest)
        if guest.then is not None:
            self._finish(guest, guest.then, "")
            return
        guest.phase = Phase.PENDING
        self._wait(guest, None)
        self._say(What.REQUEUED, guest)

    def _leave(self, guest: Guest) -> None:
        identity = guest.workload.id
        self.view.remove_pending(identity)
        guest.held_ms += self.now_ms - guest.admitted_ms
        self.view.release(identity)
        self._count(guest)
        if self._places and self.table.gang(identity) is not None:
            self.table.release(identity)
            self._grew = True
        guest.nodes = ()

    def _count(self, guest: Guest) -> None:
        workload = guest.workload
        self.turns.moved(workload.id, f"{workload.namespace}/{workload.queue.name}", self.now_ms)

    def _wait(self, guest: Guest, until_ms: int | None) -> None:
        pending = prepare(guest.workload, self.view.policy, queued_at_ms=guest.queued_at_ms)
        pending.attempt = guest.attempt
        pending.requeue_at_ms = until_ms
        pending.avoided = frozenset(guest.avoided)
        self.view.add_pending(pending, self.now_ms)

    def _finish(self, guest: Guest, outcome: Outcome, reason: str) -> None:
        guest.phase, guest.outcome, guest.ended_ms = Phase.FINISHED, outcome, self.now_ms
        self._live.pop(guest.workload.key, None)
        self.seating.forget(guest.workload.id)
        self._say(What.FINISHED, guest, reason=reason or str(outcome))
        if self.ended is not None:
            self.ended(guest)
            del self.guests[guest.workload.id]

    def _retry_unseated(self) -> None:
        for guest in self.guests.values():
            runs = guest.phase is Phase.ADMITTED
            if runs and self.view.pending(guest.workload.id) is not None:
                ask(self, guest, None)
        for workload_id in list(self._unseated):
            pending = self.view.remove_pending(workload_id)
            if pending is not None:
                self.guests[workload_id].avoided = ()
                self._wait(self.guests[workload_id], None)
        self._unseated.clear()

    def _review_claims(self) -> None:
        """As admission does: a claim lasts while the claimant is next in its queue."""
        for workload_id, since_ms in list(self._claimed_ms.items()):
            queue = self.view.queues.get(self.view.queue_of.get(workload_id, ""))
            head = queue.head() if queue is not None else None
            if head is None or head.id != workload_id or self.now_ms - since_ms >= CLAIM_MS:
                del self._claimed_ms[workload_id]
                self.view.drop_claim(workload_id)

    def _give_up(self, name: str) -> None:
        since_ms = self._silent.get(name)
        if since_ms is None or self.now_ms - since_ms < NODE_LOST_AFTER_MS:
            return
        self.table.set_condition(name, NodeCondition.FENCED)
        self.tell(Happening(at_ms=self.now_ms, what=What.NODE_LOST, workload="", nodes=(name,)))
        for workload_id in self.table.gangs_on(name):
            guest = self.guests[workload_id]
            if guest.phase is Phase.ADMITTED and not self._replace_lost(guest, name):
                self.view.mark_evicting(workload_id)
                self._go(guest, EvictionReason.NODE_FAILURES, "")

    def _replace_lost(self, guest: Guest, node: str) -> bool:
        """Let the pods of a lost node go on elsewhere, if they can (R-88)."""
        gang = self.table.gang(guest.workload.id)
        if gang is None or guest.admission is None:
            return False
        outcome = replace_node(self.table, self.request(guest, guest.admission), gang, node)
        if not isinstance(outcome, Placed):
            return False
        self.table.release(guest.workload.id)
        self.table.bind(outcome.gang)
        guest.nodes = outcome.placement.nodes
        self._say(What.RESEATED, guest, reason=node, nodes=guest.nodes)
        return True

    def _say(
        self,
        what: What,
        guest: Guest,
        *,
        reason: str = "",
        by: str = "",
        nodes: tuple[str, ...] = (),
    ) -> None:
        self.tell(
            Happening(
                at_ms=self.now_ms,
                what=what,
                workload=guest.workload.name,
                queue=guest.cluster_queue,
                reason=reason,
                by=by,
                attempt=guest.attempt,
                nodes=nodes,
            )
        )


def _refusal(workload: Workload, now_ms: int) -> Happening:
    return Happening(
        at_ms=now_ms,
        what=What.FINISHED,
        workload=workload.name,
        reason=RefusalReason.NAME_IN_USE,
    )
