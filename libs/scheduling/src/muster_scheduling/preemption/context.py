"""What a victim search is about, and what is common to all searches."""

from fractions import Fraction

from muster_domain.queues import ReclaimWithinCohort, WithinClusterQueue
from muster_scheduling.fairness.history import UsageKey
from muster_scheduling.quota import FlavorResource, QuotaNode, Vector
from muster_scheduling.snapshot.board import Wanted, refusal
from muster_scheduling.snapshot.catalog import QueueEntry
from muster_scheduling.snapshot.remembered import Victim
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.workloads import AdmittedWorkload, PendingWorkload

_Turn = tuple[bool, Fraction | int]
_NO_TURN: _Turn = (True, 0)

_Work = tuple[bool, int]
_NO_WORK: _Work = (False, 0)

CandidateKey = tuple[bool, bool, _Turn, int, _Work, int, str]


class Search:
    """One question: who must go so that `preemptor` can have `usage` in `entry`.

    `need` are the pairs for which room must be made: only who uses one of them is a candidate.
    `seats` must be found as well, where admission seats workloads itself. Where somebody else does,
    `must` are those whose seats are needed: nothing fits before all of them have gone. Nobody but
    `only` is taken, if that is not `None`.
    """

    __slots__ = (
        "entry", "must", "need", "node", "now_ms", "only", "preemptor", "seats", "still_there",
        "tree", "usage", "view",
    )  # fmt: skip

    def __init__(
        self,
        view: AdmissionView,
        now_ms: int,
        preemptor: PendingWorkload,
        entry: QueueEntry,
        need: frozenset[FlavorResource],
        usage: Vector,
    ) -> None:
        self.view = view
        self.tree = view.tree
        self.now_ms = now_ms
        self.preemptor = preemptor
        self.entry = entry
        self.node: QuotaNode = entry.node
        self.need = need
        self.usage = usage
        self.seats: Wanted | None = None
        self.must: frozenset[str] = frozenset()
        self.only: frozenset[str] | None = None
        self.still_there: dict[str, bool] = {}

    def make_leave(self, must: frozenset[str], *, alone: bool) -> None:
        """Search for victims of whom these are all; `alone` for these and nobody else."""
        self.must = must
        self.only = must if alone else None
        self.still_there = dict.fromkeys(must, True)

    def remove(self, workload: AdmittedWorkload) -> None:
        """Pretend that a workload is gone."""
        self.tree.try_remove(self.tree.queues[workload.cluster_queue], workload.usage)
        if self.must and workload.id in self.must:
            self.view.journal.drop(self.still_there, workload.id)
        if self.view.board is not None:
            self.view.board.release(workload.seats)

    def restore(self, workload: AdmittedWorkload) -> None:
        """Pretend that it is back."""
        self.tree.try_add(self.tree.queues[workload.cluster_queue], workload.usage)
        if self.must and workload.id in self.must:
            self.view.journal.put(self.still_there, workload.id, True)  # noqa: FBT003 - a set of ids
        if self.view.board is not None:
            self.view.board.charge(workload.seats)

    def fits(self, *, borrowing: bool) -> bool:
        """Whether there is room now, `borrowing` or only within the queue's own quota."""
        if self.still_there:
            return False
        node, tree = self.node, self.tree
        for fr, amount in self.usage.items():
            if not borrowing and node.borrows_with(fr, amount):
                return False
            if amount > tree.free(node, fr):
                return False
        board = self.view.board
        if board is None or not self.seats:
            return True
        return refusal(board.find(self.seats)) is None

    def holders(self, queue: str, at_most: int | None = None) -> list[AdmittedWorkload]:
        """Workloads of a ClusterQueue that hold something needed, up to a priority."""
        need, gone = self.need, self.view.gone
        mine, only = self.preemptor.replaces, self.only
        return [
            workload
            for priority, equals in self.view.by_priority.get(queue, {}).items()
            if at_most is None or priority <= at_most
            for workload in equals.values()
            if workload.id not in gone
            and workload.key != mine
            and (only is None or workload.id in only)
            and not need.isdisjoint(workload.usage)
        ]

    def own_candidates(self) -> list[AdmittedWorkload]:
        """Workloads of the preemptor's queue that it may take."""
        policy = self.entry.queue.preemption.within_cluster_queue
        if policy is WithinClusterQueue.NEVER:
            return []
        lower = policy is WithinClusterQueue.LOWER_PRIORITY
        return [
            workload
            for workload in self.holders(self.entry.name, self.preemptor.priority - lower)
            if within_queue_allows(policy, self.preemptor, workload)
        ]

    def reclaimable(self, queue: str) -> list[AdmittedWorkload]:
        """Workloads of a queue that borrows which the preemptor may take."""
        policy = self.entry.queue.preemption.reclaim_within_cohort
        if policy is ReclaimWithinCohort.NEVER:
            return []
        if policy is ReclaimWithinCohort.ANY:
            return self.holders(queue)
        lower = policy is ReclaimWithinCohort.LOWER_PRIORITY
        return [
            workload
            for workload in self.holders(queue, self.preemptor.priority - lower)
            if reclaim_allows(policy, self.preemptor, workload)
        ]

    def key(self, candidate: AdmittedWorkload, *, turns: bool = True) -> CandidateKey:
        """Place of a candidate among all; smaller goes first."""
        view = self.view
        usage = None
        if turns and view.shares_turns(self.entry):
            usage = view.usage_key(candidate.local_queue)
        evicting = view.is_evicting(candidate.id)
        least_lost = view.policy.improvements.least_lost_work_first
        return candidate_key(
            candidate, self.entry.name, evicting=evicting, usage=usage, least_lost=least_lost
        )

    def fill_back(self, targets: list[Victim], *, borrowing: bool) -> list[Victim]:
        """Give back, newest choice but one first, whoever turns out not to be needed (R-55)."""
        index = len(targets) - 2
        while index >= 0:
            self.restore(targets[index].workload)
            if self.fits(borrowing=borrowing):
                targets[index] = targets[-1]
                targets.pop()
            else:
                self.remove(targets[index].workload)
            index -= 1
        return targets


def within_queue_allows(
    policy: WithinClusterQueue, preemptor: PendingWorkload, candidate: AdmittedWorkload
) -> bool:
    """Whether `withinClusterQueue` lets the candidate be taken (R-50)."""
    match policy:
        case WithinClusterQueue.NEVER:
            return False
        case WithinClusterQueue.LOWER_PRIORITY:
            return preemptor.priority > candidate.priority
        case WithinClusterQueue.LOWER_OR_NEWER_EQUAL_PRIORITY:
            return _lower_or_newer(preemptor, candidate)


def reclaim_allows(
    policy: ReclaimWithinCohort, preemptor: PendingWorkload, candidate: AdmittedWorkload
) -> bool:
    """Whether `reclaimWithinCohort` lets the candidate be taken (R-50)."""
    match policy:
        case ReclaimWithinCohort.NEVER | ReclaimWithinCohort.UNSET:
            return False
        case ReclaimWithinCohort.LOWER_PRIORITY:
            return preemptor.priority > candidate.priority
        case ReclaimWithinCohort.LOWER_OR_NEWER_EQUAL_PRIORITY:
            return _lower_or_newer(preemptor, candidate)
        case ReclaimWithinCohort.ANY:
            return True


def _lower_or_newer(preemptor: PendingWorkload, candidate: AdmittedWorkload) -> bool:
    if preemptor.priority != candidate.priority:
        return preemptor.priority > candidate.priority
    return preemptor.queued_at_ms < candidate.queued_at_ms


def candidate_key(
    candidate: AdmittedWorkload,
    own_queue: str,
    *,
    evicting: bool,
    usage: UsageKey | None = None,
    least_lost: bool = False,
) -> CandidateKey:
    """Who is taken first: smaller goes first (R-53).

    With `least_lost`, of one priority, the one that has worked least since its last checkpoint.

    `usage` is what its LocalQueue used lately, where LocalQueues take turns: within the preemptor's
    own queue the one that used more goes first.
    """
    own = candidate.cluster_queue == own_queue
    return (
        not evicting,
        own,
        (not usage[0], -usage[1]) if own and usage is not None else _NO_TURN,
        candidate.priority,
        _work(candidate) if least_lost else _NO_WORK,
        -candidate.reserved_at_ms,
        candidate.id,
    )


def _work(candidate: AdmittedWorkload) -> _Work:
    """Sorts by the work that an eviction would lose, least first, whatever the time is now."""
    since_ms = candidate.unsaved_since_ms
    return _NO_WORK if since_ms is None else (True, -since_ms)
