"""One admission cycle of one cohort tree (R-39 to R-49a): the heads of its queues, in order.

Every entry is judged on the usage of the cycle's start; then each is processed in turn on usage
that the earlier ones have changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, auto
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from muster_domain.budgets import BudgetVerdict
from muster_domain.conditions import PendingReason
from muster_domain.policy import FairSharing, Policy
from muster_domain.queues import QueueingStrategy, ReclaimWithinCohort
from muster_scheduling.admission.assignment import Assignment
from muster_scheduling.admission.flavors import FlavorAssigner, Pinned, PreemptionOracle
from muster_scheduling.admission.followers import Followers
from muster_scheduling.admission.modes import Mode
from muster_scheduling.admission.partial import largest_gang
from muster_scheduling.admission.seating import seat_preemptor, second_pass
from muster_scheduling.admission.variants import admitted_sibling, may_migrate
from muster_scheduling.fairness import Contender, Tournament
from muster_scheduling.preemption.context import Search
from muster_scheduling.preemption.victims import Oracle, victims_for
from muster_scheduling.quota import FlavorResource, QuotaNode, Vector
from muster_scheduling.snapshot.catalog import QueueEntry, suspension
from muster_scheduling.snapshot.purse import reason_of
from muster_scheduling.snapshot.remembered import Victim
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.workloads import AdmittedWorkload, PendingWorkload

if TYPE_CHECKING:
    from muster_scheduling.snapshot.board import Seats


class Verdict(IntEnum):
    """What a cycle did with a workload."""

    RESERVED = auto()
    PREEMPTING = auto()
    DEFERRED = auto()
    NO_FIT = auto()
    NO_CANDIDATES = auto()
    GATED = auto()
    OVERLAPPING = auto()
    NO_LONGER_FITS = auto()
    WRONG_NAMESPACE = auto()
    STOPPED = auto()
    INADMISSIBLE = auto()
    UNSEATED = auto()
    OVER_BUDGET = auto()
    SURPASSED = auto()
    MIGRATING = auto()
    STAYS = auto()


_STAYS_IN_LINE = frozenset({
    Verdict.PREEMPTING, Verdict.DEFERRED, Verdict.OVERLAPPING, Verdict.NO_LONGER_FITS,
    Verdict.SURPASSED, Verdict.MIGRATING, Verdict.STAYS,
})  # fmt: skip
_SET_ASIDE = frozenset({Verdict.WRONG_NAMESPACE, Verdict.STOPPED, Verdict.OVER_BUDGET})
_CHARGED = frozenset({
    Verdict.RESERVED, Verdict.PREEMPTING, Verdict.DEFERRED, Verdict.MIGRATING, Verdict.STAYS,
})  # fmt: skip
_SHAPE_HAS_NO_CHANCE = frozenset({Verdict.NO_FIT, Verdict.NO_CANDIDATES})


@dataclass(slots=True, eq=False)
class Entry:
    """One head in one cycle. `blocked_by` names the workload that got in between.

    `sibling` is the variant of the same parent that holds quota and decides about this one.
    """

    workload: PendingWorkload
    queue: QueueEntry
    assignment: Assignment
    victims: list[Victim] = field(default_factory=list)
    sticky: bool = False
    verdict: Verdict = Verdict.INADMISSIBLE
    reason: PendingReason = PendingReason.WAITING_FOR_QUOTA
    blocked_by: str = ""
    keeps_bookmark: bool = True
    recomputed: bool = False
    reserved: dict[FlavorResource, int] = field(default_factory=dict)
    refusals: tuple[BudgetVerdict, ...] = ()
    sibling: AdmittedWorkload | None = None

    @property
    def stays_in_line(self) -> bool:
        """Whether it is tried again next time without an outside event (R-42)."""
        if self.verdict in _STAYS_IN_LINE:
            return True
        if self.queue.queue.queueing_strategy is QueueingStrategy.STRICT_FIFO:
            return self.verdict not in _SET_ASIDE
        bookmark = self.assignment.bookmark
        return self.keeps_bookmark and bookmark is not None and bookmark.pending_flavors

    @property
    def sticks(self) -> bool:
        """Whether it stays first until its victims are gone (R-49a)."""
        best_effort = self.queue.queue.queueing_strategy is QueueingStrategy.BEST_EFFORT_FIFO
        return best_effort and self.verdict in (Verdict.PREEMPTING, Verdict.DEFERRED)

    @property
    def shape_has_no_chance(self) -> bool:
        """Whether everybody of its shape may be set aside with it (R-48).

        Not where it keeps off flavors that others of its shape may still try.
        """
        best_effort = self.queue.queue.queueing_strategy is QueueingStrategy.BEST_EFFORT_FIFO
        alike = not self.workload.avoided
        return best_effort and alike and self.verdict in _SHAPE_HAS_NO_CHANCE


class Cycle:
    """Judges and processes heads. Changes usage through the journal; the caller rolls back.

    Usage moves without the marks while heads are processed: who is judged then is asked anew.
    """

    def __init__(
        self,
        view: AdmissionView,
        now_ms: int,
        *,
        victims_inline: bool,
        oracle: PreemptionOracle | None = None,
    ) -> None:
        self._view = view
        self._tree = view.tree
        self._now_ms = now_ms
        self._victims_inline = victims_inline
        self._answers = Oracle(view, now_ms)
        self._oracle = oracle or self._answers
        self._taken: dict[str, Victim] = {}
        self._claimant_of: dict[str, str] = {}
        self._claims: list[tuple[QuotaNode, Vector, tuple[Seats, ...]]] = []
        self._followers = Followers(view)
        self._refused: list[Entry] = []

    def again(self) -> "Cycle":
        """Forget what the last cycle took."""
        self._taken.clear()
        self._claimant_of.clear()
        self._claims.clear()
        return self

    def run(self, heads: Sequence[tuple[PendingWorkload, QueueEntry]]) -> list[Entry]:
        """Nominate, order, process. The entries come back in the order of processing."""
        claims = self._view.claims
        if claims:
            for root in sorted({queue.root for _, queue in heads}):
                self._view.charge_claims(root)
        self._followers = Followers(self._view)
        self._refused = []
        nominated = [entry for head in heads if (entry := self._nominated(*head)) is not None]
        done: list[Entry] = []
        for entry in self._ordered(nominated):
            mine = entry.workload.id in claims
            if mine:
                self._view.lift_claim(entry.workload.id)
            self._process(entry)
            if mine and entry.verdict not in _CHARGED:
                queue, usage = claims[entry.workload.id]
                self._tree.try_add(self._tree.queues[queue], usage)
            done.append(entry)
        return [*done, *self._refused]

    def _nominated(self, workload: PendingWorkload, queue: QueueEntry) -> Entry | None:
        """Nominate without its own claim in the way; `None` for one that may not be looked at."""
        if workload.id in self._view.claims:
            mark = self._view.journal.checkpoint()
            self._view.lift_claim(workload.id)
            entry = self.nominate(workload, queue)
            self._view.journal.rollback(mark)
        else:
            entry = self.nominate(workload, queue)
        if entry.verdict is Verdict.INADMISSIBLE:
            self._refused.append(entry)
            return None
        return entry

    def _follower(self, entry: Entry) -> Entry | None:
        """Who of the same queue is next in this cycle, now that `entry` was processed."""
        reserved = entry.verdict is Verdict.RESERVED
        workload = self._followers.after(entry.workload, entry.queue, reserved=reserved)
        if workload is None:
            return None
        self._tree.renew_all(entry.queue.node)
        return self._nominated(workload, entry.queue)

    def nominate(self, workload: PendingWorkload, queue: QueueEntry) -> Entry:
        """What the workload could get on the usage of the moment (R-40)."""
        sticky = self._view.queues[queue.name].sticky.get(queue.name) == workload.id
        refusal = self._refusal(workload, queue)
        if refusal is not None:
            verdict, reason = refusal
            return Entry(workload, queue, Assignment(), [], sticky, verdict, reason)
        if workload.granted is not None:
            assignment, victims = second_pass(self._view, workload, workload.granted), []
        else:
            assignment, victims = self._find(workload, queue)
        return Entry(workload, queue, assignment, victims, sticky, Verdict.NO_FIT)

    def _refusal(
        self, workload: PendingWorkload, queue: QueueEntry
    ) -> tuple[Verdict, PendingReason] | None:
        """Why its flavors are not even looked at."""
        if workload.failed_checks:
            return Verdict.INADMISSIBLE, PendingReason.PENDING_EVALUATION
        if queue.inactive:
            return Verdict.INADMISSIBLE, suspension(queue.inactive)
        catalog = self._view.catalog
        if not workload.volcano and catalog.is_stopped(workload.local_queue):
            return Verdict.STOPPED, PendingReason.SUSPENDED
        selector = queue.queue.namespace_selector
        if selector is None or (
            selector.requirements and not selector.matches(catalog.labels_of(workload.namespace))
        ):
            return Verdict.WRONG_NAMESPACE, PendingReason.MISCONFIGURED
        if workload.inadmissible:
            return Verdict.INADMISSIBLE, PendingReason.MISCONFIGURED
        return None

    def _search(
        self, workload: PendingWorkload, queue: QueueEntry, *, pinned: Pinned | None = None
    ) -> tuple[Assignment, list[Victim]]:
        """The full gang if it fits or can preempt, else the largest smaller one that can."""
        self._answers.forget()
        old = self._view.holder_of_key.get(workload.replaces) if workload.replaces else None
        assigner = FlavorAssigner(
            self._view,
            workload,
            queue,
            self._oracle,
            pinned=pinned,
            replaced=old.admission.pod_sets if old is not None else (),
        )
        full = assigner.assign()
        full.replaced = old.id if old is not None else ""
        if full.mode is Mode.FIT:
            return full, []
        victims = self._victims(workload, queue, full)
        if self._can_preempt(full, victims) or not (
            workload.may_shrink and self._view.policy.partial_admission
        ):
            return full, victims

        def attempt(counts: Sequence[int]) -> tuple[Assignment, list[Victim]] | None:
            smaller = assigner.assign(counts)
            if workload.replaces and not any(smaller.usage.values()):
                return None
            if smaller.mode is Mode.FIT:
                return smaller, []
            found = self._victims(workload, queue, smaller)
            return (smaller, found) if self._can_preempt(smaller, found) else None

        return largest_gang(workload.pod_sets, attempt) or (full, [])

    def _find(
        self, workload: PendingWorkload, queue: QueueEntry, *, pinned: Pinned | None = None
    ) -> tuple[Assignment, list[Victim]]:
        """Flavors, victims, and the seats that a preemptor will have or that a head holds back."""
        assignment, victims = self._search(workload, queue, pinned=pinned)
        board = self._view.board
        if board is not None and assignment.mode is Mode.PREEMPT and assignment.wanted_seats:
            mark = self._view.journal.checkpoint()
            self._let_go({victim.id: victim for victim in victims})
            seat_preemptor(board, assignment, empty=not victims)
            self._view.journal.rollback(mark)
        return assignment, victims

    def _victims(
        self, workload: PendingWorkload, queue: QueueEntry, assignment: Assignment
    ) -> list[Victim]:
        if assignment.mode is not Mode.PREEMPT or not self._victims_inline:
            return []
        need = assignment.need
        if not assignment.wanted_seats:
            known = self._answers.recall(assignment.usage, need)
            if known is not None:
                return known
        search = Search(self._view, self._now_ms, workload, queue, need, assignment.usage)
        search.seats = assignment.wanted_seats
        return victims_for(search)

    def _can_preempt(self, assignment: Assignment, victims: list[Victim]) -> bool:
        """Whether somebody giving way makes room; without a search, as far as is known."""
        if self._victims_inline:
            return bool(victims)
        return assignment.mode is Mode.PREEMPT and not assignment.hopeless

    def _ordered(self, entries: list[Entry]) -> Iterator[Entry]:
        """Who is processed first (R-41); with fair sharing, by shares of the moment (R-62)."""
        policy = self._view.policy
        if policy.fair_sharing is not None:
            yield from self._by_shares(entries, policy.fair_sharing)
            return

        line = [(entry_key(entry, policy), entry) for entry in entries]
        heapify(line)
        while line:
            _, entry = heappop(line)
            yield entry
            follower = self._follower(entry)
            if follower is not None:
                heappush(line, (entry_key(follower, policy), follower))

    def _by_shares(self, entries: list[Entry], fair: FairSharing) -> Iterator[Entry]:
        contenders = {entry.queue.name: self._contender(entry) for entry in entries}

        def follower(entry: Entry) -> Contender[Entry] | None:
            found = self._follower(entry)
            return None if found is None else self._contender(found)

        return iter(
            Tournament(
                self._tree,
                contenders,
                follower,
                non_borrowing_first=fair.prioritize_non_borrowing,
            )
        )

    def _contender(self, entry: Entry) -> Contender[Entry]:
        policy = self._view.policy
        return Contender(
            tag=entry,
            node=entry.queue.node,
            usage=entry.assignment.usage,
            preemptor=policy.prioritize_preemptors and entry.sticky,
            priority=entry.workload.priority if policy.priority_sorting_within_cohort else 0,
            queued_at_ms=entry.workload.queued_at_ms,
            id=entry.workload.id,
        )

    def _process(self, entry: Entry) -> None:
        """Decide about one entry on what the earlier ones left (R-44)."""
        if entry.verdict in _SET_ASIDE:
            return
        variant = bool(entry.workload.parent)
        better = variant and admitted_sibling(self._view, entry.workload, entry.queue, better=True)
        if better:
            entry.blocked_by, entry.sibling = better.id, better
            entry.keeps_bookmark = False
            self._refuse(entry, Verdict.SURPASSED, PendingReason.PENDING_EVALUATION)
            return
        mode = self._recompute(entry)
        if entry.workload.granted is not None and mode is not Mode.FIT:
            self._refuse(entry, Verdict.UNSEATED, entry.assignment.reason)
        elif mode is Mode.NO_FIT:
            self._refuse(entry, Verdict.NO_FIT, entry.assignment.reason)
        elif mode is Mode.PREEMPT and not self._can_preempt(entry.assignment, entry.victims):
            self._refuse(entry, Verdict.NO_CANDIDATES, PendingReason.WAITING_FOR_QUOTA)
            self._reserve_head(entry)
        elif mode is Mode.PREEMPT and entry.workload.gated:
            self._refuse(entry, Verdict.GATED, PendingReason.ADMISSION_GATED)
            entry.keeps_bookmark = False
        elif mode is Mode.DEFERRED_FIT:
            entry.verdict = Verdict.DEFERRED
            entry.reason = PendingReason.WAITING_FOR_PREEMPTED_WORKLOADS
            entry.keeps_bookmark = False
            self._hold_back(entry, entry.assignment.usage)
        else:
            self._claim(entry, mode)

    def _claim(self, entry: Entry, mode: Mode) -> None:
        purse = self._view.purse
        if purse is not None:
            entry.refusals = purse.refusals(entry.workload.id, entry.assignment.usage)
        if entry.refusals:
            self._refuse(entry, Verdict.OVER_BUDGET, reason_of(entry.refusals))
            return
        overlap = [victim.id for victim in entry.victims if victim.id in self._taken]
        if overlap:
            entry.blocked_by = self._claimant_of[overlap[0]]
            self._refuse(entry, Verdict.OVERLAPPING, PendingReason.WAITING_FOR_QUOTA)
            return
        unsearched = mode is Mode.PREEMPT and not self._victims_inline
        fits = unsearched or all(self._fits(entry))
        if mode is Mode.FIT and self._taken:
            fits = fits and self._fits_today(entry)
        if not fits:
            self._refuse(entry, Verdict.NO_LONGER_FITS, PendingReason.WAITING_FOR_QUOTA)
            return
        for victim in entry.victims:
            self._taken[victim.id] = victim
            self._claimant_of[victim.id] = entry.workload.id
        if mode is Mode.FIT:
            self._grant(entry)
            return
        self._hold_back(entry, entry.assignment.usage)
        entry.verdict = Verdict.PREEMPTING
        entry.reason = PendingReason.WAITING_FOR_PREEMPTED_WORKLOADS
        entry.keeps_bookmark = False

    def _grant(self, entry: Entry) -> None:
        """It fits: charge it, unless a worse variant of the same parent runs (R-111).

        That one gives way first, where the queue lets the job move.
        """
        variant = bool(entry.workload.parent)
        worse = variant and admitted_sibling(self._view, entry.workload, entry.queue, better=False)
        if not worse:
            self._take(entry)
            entry.verdict = Verdict.RESERVED
            return
        self._hold_back(entry, entry.assignment.usage)
        entry.blocked_by, entry.sibling = worse.id, worse
        entry.keeps_bookmark = False
        if may_migrate(entry.workload, entry.queue):
            self._refuse(entry, Verdict.MIGRATING, PendingReason.WAITING_FOR_PREEMPTED_WORKLOADS)
        else:
            self._refuse(entry, Verdict.STAYS, PendingReason.PENDING_EVALUATION)

    def _take(self, entry: Entry) -> None:
        """Charge what the entry gets."""
        self._tree.try_add(entry.queue.node, entry.assignment.usage)
        if self._view.board is not None:
            self._view.board.charge(entry.assignment.seats)
        if self._view.purse is not None:
            self._view.purse.take(self._view.journal, entry.workload.id, entry.assignment.usage)

    def _hold_back(self, entry: Entry, usage: Vector) -> None:
        """Count what nobody holds yet, for the rest of the cycle."""
        seats = entry.assignment.seats
        self._tree.try_add(entry.queue.node, usage)
        if self._view.board is not None:
            self._view.board.charge(seats)
        self._claims.append((entry.queue.node, usage, seats))

    def _fits_today(self, entry: Entry) -> bool:
        """Whether there is room while the victims of this cycle are still there.

        Kueue leaves this out and can overdraw until they are gone; Muster's ledger never does.
        """
        mark = self._view.journal.checkpoint()
        for node, usage, seats in self._claims:
            self._tree.try_remove(node, usage)
            if self._view.board is not None:
                self._view.board.release(seats)
        fits = self._has_quota(entry) and self._has_seats(entry)
        self._view.journal.rollback(mark)
        return fits

    def _has_quota(self, entry: Entry) -> bool:
        return self._tree.fits(entry.queue.node, entry.assignment.usage)

    def _has_seats(self, entry: Entry) -> bool:
        board = self._view.board
        return board is None or board.fits(entry.assignment.seats)

    def _fits(self, entry: Entry) -> tuple[bool, bool]:
        """Whether quota and seats are free once all victims so far and its own are gone."""
        if not self._taken and not entry.victims:
            return self._has_quota(entry), self._has_seats(entry)
        mark = self._view.journal.checkpoint()
        self._let_go({**self._taken, **{victim.id: victim for victim in entry.victims}})
        fits = self._has_quota(entry), self._has_seats(entry)
        self._view.journal.rollback(mark)
        return fits

    def _let_go(self, victims: Mapping[str, Victim]) -> None:
        for victim in victims.values():
            holder = victim.workload
            self._tree.try_remove(self._tree.queues[holder.cluster_queue], holder.usage)
            if self._view.board is not None:
                self._view.board.release(holder.seats)

    def _recompute(self, entry: Entry) -> Mode:
        """Look again when somebody else took the same victims or the same seats (R-45)."""
        policy = self._view.policy
        mode = entry.assignment.mode
        overlap = any(victim.id in self._taken for victim in entry.victims)
        contested = overlap and policy.recompute_on_overlap
        if not overlap and policy.reseat_within_cycle and entry.assignment.seats:
            contested = self._fits(entry) == (True, False)
        if not contested or mode is Mode.NO_FIT:
            return mode
        if entry.workload.granted is not None:
            entry.assignment = second_pass(self._view, entry.workload, entry.workload.granted)
            return entry.assignment.mode
        pinned = [
            {resource: choice.flavor for resource, choice in pod_set.choices.items()}
            for pod_set in entry.assignment.pod_sets
        ]
        journal = self._view.journal
        mark = journal.checkpoint()
        self._let_go(self._taken)
        for victim_id in self._taken:
            journal.put(self._view.gone, victim_id, True)  # noqa: FBT003 - a set of ids
        self._tree.renew_all(entry.queue.node)
        entry.assignment, entry.victims = self._find(entry.workload, entry.queue, pinned=pinned)
        journal.rollback(mark)
        entry.recomputed = True
        mode = entry.assignment.mode
        return Mode.DEFERRED_FIT if mode is Mode.FIT and self._taken else mode

    def _refuse(self, entry: Entry, verdict: Verdict, reason: PendingReason | None) -> None:
        entry.verdict = verdict
        entry.reason = reason or PendingReason.WAITING_FOR_QUOTA

    def _reserve_head(self, entry: Entry) -> None:
        """A head without victims keeps others from what it could use itself (R-46)."""
        if not self._view.policy.improvements.reserve_head:
            return
        policy = entry.queue.queue.preemption
        always = self._view.policy.prioritize_preemptors and entry.sticky
        if policy.reclaim_within_cohort is ReclaimWithinCohort.ANY and not always:
            return
        entry.reserved = reserved_for_head(entry.queue.node, entry.assignment)
        self._hold_back(entry, entry.reserved)


def entry_key(entry: Entry, policy: Policy) -> tuple[bool, bool, int, int, int, str]:
    """Who is processed first without fair sharing: smaller goes first (R-41)."""
    workload = entry.workload
    return (
        not workload.has_quota,
        not (policy.prioritize_preemptors and entry.sticky),
        entry.assignment.borrowing,
        -workload.priority if policy.priority_sorting_within_cohort else 0,
        workload.queued_at_ms,
        workload.id,
    )


def reserved_for_head(node: QuotaNode, assignment: Assignment) -> dict[FlavorResource, int]:
    """What a head that cannot start holds back for the rest of the cycle (R-46)."""
    if assignment.mode is not Mode.PREEMPT:
        return dict(assignment.usage)
    reserved: dict[FlavorResource, int] = {}
    for fr, amount in assignment.usage.items():
        quota = node.quotas.get(fr)
        nominal = node.nominal(fr)
        used = node.used(fr)
        if assignment.borrowing > 0:
            limit = None if quota is None else quota.borrowing_limit
            reserved[fr] = amount if limit is None else min(amount, nominal + limit - used)
        else:
            reserved[fr] = max(0, min(amount, nominal - used))
    return reserved
