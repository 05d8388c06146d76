"""Preemption without fair sharing, flat and hierarchical (R-51 to R-55)."""

from dataclasses import dataclass
from typing import NamedTuple

from muster_domain.conditions import PreemptionReason
from muster_domain.queues import BorrowWithinCohortPolicy, ReclaimWithinCohort
from muster_scheduling.preemption.context import Search
from muster_scheduling.quota import FlavorResource, QuotaNode, Vector
from muster_scheduling.snapshot.remembered import Victim
from muster_scheduling.snapshot.workloads import AdmittedWorkload


class _Candidate(NamedTuple):
    """`below` are the cohorts between the candidate's queue and the common ancestor."""

    workload: AdmittedWorkload
    reason: PreemptionReason
    node: QuotaNode | None = None
    below: tuple[QuotaNode, ...] = ()
    only_without_borrowing: bool = False


@dataclass(frozen=True, slots=True)
class _Candidates:
    """In the order in which they are tried."""

    sequence: tuple[_Candidate, ...]
    any_foreign: bool
    any_hierarchical: bool


_NOBODY = _Candidates(sequence=(), any_foreign=False, any_hierarchical=False)


def classical_victims(search: Search) -> list[Victim]:
    """A smallest set of victims, empty when none would do. Usage is left as it was."""
    candidates = _collect(search)
    if not candidates.sequence:
        return []
    mark = search.view.journal.checkpoint()
    for borrowing in _attempts(search, candidates):
        targets = _attempt(search, candidates.sequence, borrowing=borrowing)
        search.view.journal.rollback(mark)
        if targets:
            return targets
    return []


def _attempts(search: Search, candidates: _Candidates) -> tuple[bool, ...]:
    """Whether to search with borrowing allowed, in order (R-54)."""
    forbidden = _borrow_policy(search) is BorrowWithinCohortPolicy.NEVER
    if not candidates.any_foreign:
        return (True,)
    if forbidden and not search.node.below_nominal(search.need):
        return (True,)
    if forbidden and not candidates.any_hierarchical:
        return (False, True)
    return (True, False)


def _attempt(search: Search, sequence: tuple[_Candidate, ...], *, borrowing: bool) -> list[Victim]:
    targets: list[Victim] = []
    for candidate in sequence:
        if candidate.node is not None and not _still_valid(search, candidate, borrowing=borrowing):
            continue
        search.remove(candidate.workload)
        targets.append(Victim(candidate.workload, candidate.reason))
        if search.fits(borrowing=borrowing):
            return search.fill_back(targets, borrowing=borrowing)
    return []


def _still_valid(search: Search, candidate: _Candidate, *, borrowing: bool) -> bool:
    if borrowing and candidate.only_without_borrowing:
        return False
    node = candidate.node
    if node is None or node.within_nominal(search.need):
        return False
    return not any(cohort.within_nominal(search.need) for cohort in candidate.below)


def _collect(search: Search) -> _Candidates:
    own = [
        _Candidate(workload, PreemptionReason.IN_CLUSTER_QUEUE)
        for workload in search.own_candidates()
    ]
    hierarchical: list[_Candidate] = []
    prioritised: list[_Candidate] = []
    reclaim = search.entry.queue.preemption.reclaim_within_cohort
    if search.node.parent is not None and reclaim is not ReclaimWithinCohort.NEVER:
        _collect_foreign(search, hierarchical, prioritised, any_own=bool(own))
    if not (own or hierarchical or prioritised):
        return _NOBODY
    lists = [_sorted(search, found) for found in (hierarchical, prioritised, own)]
    evicting = search.view.evicting
    sequence = [candidate for found in lists for candidate in found]
    sequence.sort(key=lambda candidate: candidate.workload.id not in evicting)
    return _Candidates(
        sequence=tuple(sequence),
        any_foreign=bool(hierarchical or prioritised),
        any_hierarchical=bool(hierarchical),
    )


def _collect_foreign(
    search: Search,
    hierarchical: list[_Candidate],
    prioritised: list[_Candidate],
    *,
    any_own: bool,
) -> None:
    """Candidates of other queues, without those that no attempt of `_attempts` could use.

    Where borrowing while preempting is forbidden, a candidate without hierarchical advantage helps
    only once the queue is back within its own quota, and only its own workloads get it there.
    """
    helpful = _borrow_policy(search) is not BorrowWithinCohortPolicy.NEVER or (
        any_own and search.node.below_nominal(search.need)
    )
    advantage, rest = _fits_in(search.node, search.usage)
    previous: QuotaNode | None = None
    for ancestor in search.node.ancestors:
        borrowers = _borrowers(search, ancestor, previous) if advantage or helpful else []
        for node, below in borrowers:
            for workload in search.reclaimable(node.name):
                candidate = _candidate(search, workload, node, below, advantage=advantage)
                (hierarchical if advantage else prioritised).append(candidate)
        if ancestor.parent is not None:
            fits, rest = _fits_in(ancestor, rest)
            advantage = advantage or fits
        previous = ancestor


def _fits_in(node: QuotaNode, requests: Vector) -> tuple[bool, dict[FlavorResource, int]]:
    """Whether the node's own quota holds the requests, and what is left for its parent."""
    fits = all(not node.borrows_with(fr, amount) for fr, amount in requests.items())
    return fits, {fr: max(0, amount - node.local_available(fr)) for fr, amount in requests.items()}


def _borrowers(
    search: Search, top: QuotaNode, skip: QuotaNode | None
) -> list[tuple[QuotaNode, tuple[QuotaNode, ...]]]:
    """Queues below `top` that borrow something needed, with the cohorts strictly below `top`."""
    found: list[tuple[QuotaNode, tuple[QuotaNode, ...]]] = []
    stack: list[tuple[QuotaNode, tuple[QuotaNode, ...]]] = [(top, ())]
    while stack:
        cohort, below = stack.pop()
        found += [
            (queue, below)
            for queue in cohort.queues
            if queue is not search.node and not queue.within_nominal(search.need)
        ]
        stack += [
            (child, (*below, child))
            for child in cohort.cohorts
            if child is not skip and not child.within_nominal(search.need)
        ]
    return found


def _candidate(
    search: Search,
    workload: AdmittedWorkload,
    node: QuotaNode,
    below: tuple[QuotaNode, ...],
    *,
    advantage: bool,
) -> _Candidate:
    """By what right a workload of another queue may be taken (R-52)."""
    threshold = search.entry.queue.preemption.borrow_within_cohort.max_priority_threshold
    if advantage:
        return _Candidate(workload, PreemptionReason.IN_COHORT_RECLAMATION, node, below)
    above_threshold = threshold is not None and workload.priority > threshold
    if (
        _borrow_policy(search) is BorrowWithinCohortPolicy.NEVER
        or workload.priority >= search.preemptor.priority
        or above_threshold
    ):
        return _Candidate(
            workload,
            PreemptionReason.IN_COHORT_RECLAMATION,
            node,
            below,
            only_without_borrowing=True,
        )
    return _Candidate(workload, PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING, node, below)


def _borrow_policy(search: Search) -> BorrowWithinCohortPolicy:
    return search.entry.queue.preemption.borrow_within_cohort.policy


def _sorted(search: Search, candidates: list[_Candidate]) -> list[_Candidate]:
    if len(candidates) <= 1:
        return candidates
    return sorted(candidates, key=lambda candidate: search.key(candidate.workload))
