"""Preemption under fair sharing (R-63 to R-65): take from whoever has the largest share."""

from collections.abc import Iterator

from muster_domain.conditions import PreemptionReason
from muster_domain.policy import FairSharing, FairStrategy
from muster_domain.queues import ReclaimWithinCohort
from muster_scheduling.fairness.share import Share, share_of
from muster_scheduling.preemption.context import Search
from muster_scheduling.quota import QuotaNode
from muster_scheduling.snapshot.remembered import Victim
from muster_scheduling.snapshot.workloads import AdmittedWorkload


def fair_victims(search: Search, fair: FairSharing) -> list[Victim]:
    """A smallest set of victims, empty when none would do. Usage is left as it was."""
    candidates = candidates_anywhere(search)
    if not candidates:
        return []
    journal = search.view.journal
    mark = journal.checkpoint()
    search.tree.try_add(search.node, search.usage)
    try:
        return _Run(search, fair).victims(candidates)
    finally:
        journal.rollback(mark)


class _Run:
    """One search; the preemptor's own usage is charged all the while."""

    def __init__(self, search: Search, fair: FairSharing) -> None:
        self._search = search
        self._fair = fair
        self._targets: list[Victim] = []
        self._retry: list[AdmittedWorkload] = []

    def victims(self, candidates: list[AdmittedWorkload]) -> list[Victim]:
        search = self._search
        fits = self._first_pass(candidates)
        if not fits and len(self._fair.strategies) > 1:
            fits = self._second_pass()
        if not fits:
            return []
        search.tree.try_remove(search.node, search.usage)
        return search.fill_back(self._targets, borrowing=True)

    def _first_pass(self, candidates: list[AdmittedWorkload]) -> bool:
        search = self._search
        strategy = self._fair.strategies[0]
        nominal = self._fair.preempt_within_nominal and search.node.within_nominal(search.need)
        order = _TargetQueues(search, candidates)
        for node in order:
            if node is search.node:
                if self._take(order.pop(node), PreemptionReason.IN_CLUSTER_QUEUE):
                    return True
            elif nominal:
                if self._take(order.pop(node), PreemptionReason.IN_COHORT_RECLAMATION):
                    return True
            elif self._take_by_share(order, node, strategy):
                return True
        return False

    def _take_by_share(
        self, order: "_TargetQueues", node: QuotaNode, strategy: FairStrategy
    ) -> bool:
        """Take the first candidate of the queue that the strategy allows."""
        mine, theirs = _contested(self._search.node, node)
        new, old = share_of(mine), share_of(theirs)
        if new.unbounded and not old.unbounded:
            self._retry += order.pop_all(node)
            return False
        while order.has(node):
            candidate = order.pop(node)
            if self._allowed(strategy, new, old, candidate, theirs):
                return self._take(candidate, PreemptionReason.IN_COHORT_FAIR_SHARING)
            self._retry.append(candidate)
        return False

    def _allowed(
        self,
        strategy: FairStrategy,
        new: Share,
        old: Share,
        candidate: AdmittedWorkload,
        theirs: QuotaNode,
    ) -> bool:
        if strategy is FairStrategy.INITIAL_SHARE:
            return new.compare(old) < 0
        journal = self._search.view.journal
        mark = journal.checkpoint()
        self._search.remove(candidate)
        final = share_of(theirs)
        journal.rollback(mark)
        return new.compare(final) <= 0

    def _second_pass(self) -> bool:
        order = _TargetQueues(self._search, self._retry)
        for node in order:
            mine, theirs = _contested(self._search.node, node)
            if share_of(mine).compare(share_of(theirs)) < 0 and self._take(
                order.pop(node), PreemptionReason.IN_COHORT_FAIR_SHARING
            ):
                return True
            order.drop(node)
        return False

    def _take(self, workload: AdmittedWorkload, reason: PreemptionReason) -> bool:
        """Take a victim; whether that is enough."""
        search = self._search
        search.remove(workload)
        self._targets.append(Victim(workload, reason))
        mark = search.view.journal.checkpoint()
        search.tree.try_remove(search.node, search.usage)
        fits = search.fits(borrowing=True)
        search.view.journal.rollback(mark)
        return fits


class _TargetQueues:
    """From which queue the next victim comes, looked up anew after each (R-64)."""

    def __init__(self, search: Search, candidates: list[AdmittedWorkload]) -> None:
        self._search = search
        self._left: dict[str, list[AdmittedWorkload]] = {}
        for candidate in candidates:
            self._left.setdefault(candidate.cluster_queue, []).append(candidate)
        for found in self._left.values():
            found.sort(key=search.key, reverse=True)
        self._pruned: set[QuotaNode] = set()

    def __iter__(self) -> Iterator[QuotaNode]:
        node = self._search.node
        if node.parent is None:
            while self.has(node):
                yield node
            return
        while node.root not in self._pruned:
            target = self._next(node.root)
            if target is not None:
                yield target

    def has(self, node: QuotaNode) -> bool:
        """Whether a candidate of the queue is left."""
        return bool(self._left.get(node.name))

    def pop(self, node: QuotaNode) -> AdmittedWorkload:
        """The queue's first candidate."""
        return self._left[node.name].pop()

    def pop_all(self, node: QuotaNode) -> list[AdmittedWorkload]:
        """All that are left of the queue, first one first."""
        return self._left.pop(node.name)[::-1]

    def drop(self, node: QuotaNode) -> None:
        """Do not come back to the queue."""
        self._pruned.add(node)

    def _next(self, cohort: QuotaNode) -> QuotaNode | None:
        queue, queue_share = self._highest_queue(cohort)
        child, child_share = self._highest_cohort(cohort)
        if child is not None and (
            queue_share is None
            or (child_share is not None and child_share.compare(queue_share) >= 0)
        ):
            return self._next(child)
        if queue is None:
            self._pruned.add(cohort)
        return queue

    def _highest_queue(self, cohort: QuotaNode) -> tuple[QuotaNode | None, Share | None]:
        best: QuotaNode | None = None
        best_share: Share | None = None
        for queue in cohort.queues:
            if queue in self._pruned:
                continue
            share = share_of(queue)
            if not self.has(queue) or not (share.borrowing or queue is self._search.node):
                self._pruned.add(queue)
                continue
            compared = 1 if best_share is None else share.compare(best_share)
            if compared > 0 or (compared == 0 and best and self._first_before(queue, best)):
                best, best_share = queue, share
        return best, best_share

    def _highest_cohort(self, cohort: QuotaNode) -> tuple[QuotaNode | None, Share | None]:
        best: QuotaNode | None = None
        best_share: Share | None = None
        for child in cohort.cohorts:
            if child in self._pruned:
                continue
            share = share_of(child)
            if not share.borrowing and child not in self._search.node.ancestors:
                self._pruned.add(child)
                continue
            if best_share is None or share.compare(best_share) >= 0:
                best, best_share = child, share
        return best, best_share

    def _first_before(self, left: QuotaNode, right: QuotaNode) -> bool:
        first, second = self._left[left.name][-1], self._left[right.name][-1]
        return self._search.key(first, turns=False) < self._search.key(second, turns=False)


def candidates_anywhere(search: Search) -> list[AdmittedWorkload]:
    """Own workloads by `withinClusterQueue`, those of borrowers by `reclaimWithinCohort` (R-63)."""
    found = search.own_candidates()
    policy = search.entry.queue.preemption.reclaim_within_cohort
    if search.node.parent is None or policy is ReclaimWithinCohort.NEVER:
        return found
    for queue in _queues_below(search.node.root):
        if queue is not search.node and not queue.within_nominal(search.need):
            found += search.reclaimable(queue.name)
    return found


def _queues_below(cohort: QuotaNode) -> Iterator[QuotaNode]:
    yield from cohort.queues
    for child in cohort.cohorts:
        yield from _queues_below(child)


def _contested(mine: QuotaNode, theirs: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
    """The children of the lowest common ancestor on the way to either queue."""
    my_path = [mine, *mine.ancestors]
    their_path = [theirs, *theirs.ancestors]
    while my_path[-1] is their_path[-1]:
        my_path.pop()
        their_path.pop()
    return my_path[-1], their_path[-1]
