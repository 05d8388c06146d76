"""Room for a whole gang in one domain: bundles of others go, or nobody does (K1 to K9)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from muster_domain.mig import MIG_PREFIX
from muster_domain.quantity import Resources
from muster_scheduling.volcano.amounts import total_of
from muster_scheduling.volcano.bundles import Bundle, bundles_of, in_eviction_order
from muster_scheduling.volcano.job import VICTIM_STATUSES, Job, Task
from muster_scheduling.volcano.line import Line
from muster_scheduling.volcano.plan import EvictionReason
from muster_scheduling.volcano.seating import seat_tasks
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Deed, Statement
from muster_scheduling.volcano.topology import Wanted, Worksheet, gradients, seat_inside
from muster_scheduling.volcano.tree import ROOT

_REPRIEVES_MAX = 64
"""How many bundles are looked at again once enough were found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangClaim:
    """A gang that wants room, and from whom: `candidate` says which tasks may be asked."""

    job: Job
    reason: EvictionReason
    candidate: Callable[[Task], bool]
    domains_max: int = 8
    whole: bool = True


@dataclass(frozen=True, slots=True)
class _Seat:
    task: Task
    node: str


def make_room(session: Session, claim: GangClaim) -> Statement | None:
    """Evict the cheapest bundles of one domain with which the gang becomes complete there.

    Of the domains the one that costs the fewest whole gangs, then the least important ones, then
    the fewest tasks; the first of equal ones, and the first that costs surplus alone. Returns the
    deeds, evictions first, or `None` with everything as it was.
    """
    need = _need(session, claim.job)
    found: list[tuple[str, list[Bundle]]] = []
    for domain in _domains(session, claim):
        bundles = _bundles(session, claim, domain, need)
        chosen = _enough(session, claim, domain, bundles, need)
        if chosen is not None:
            found.append((domain, _reprieve(session, claim, domain, chosen)))
            if all(bundle.safe for bundle in found[-1][1]):
                break
    if not found:
        return None
    domain, chosen = min(found, key=lambda way: _cost(way[1]))
    return _carry_out(session, claim, domain, chosen)


def _cost(chosen: Sequence[Bundle]) -> tuple[int, int, int]:
    whole = [bundle.job.priority for bundle in chosen if not bundle.safe]
    return len(whole), max(whole, default=0), sum(len(bundle.tasks) for bundle in chosen)


def _need(session: Session, job: Job) -> dict[str, int]:
    """What a gang lacks: all that is pending, or its next sub-job once it is complete (K2)."""
    if not session.job_ready(job):
        return total_of(task.init_requests for task in job.pending)
    waiting = [sub for sub in job.sub_jobs.values() if any(t.sub_job is sub for t in job.pending)]
    ordered = session.in_order(waiting, session.compare_sub_jobs)
    return total_of(task.init_requests for task in job.pending if task.sub_job in ordered[:1])


def _domains(session: Session, claim: GangClaim) -> list[str]:
    """Widest first, so that eviction finds the most to choose from; the root where it may (K3)."""
    groups = gradients(session, claim.job, None, ROOT, make_room=True)
    names = list(dict.fromkeys(name for group in groups for name in group))
    limit = claim.job.limit
    if not names and not (limit is not None and limit.hard):
        names = [ROOT]
    return names[: claim.domains_max]


def _bundles(session: Session, claim: GangClaim, domain: str, need: Resources) -> list[Bundle]:
    local: dict[str, list[Task]] = {}
    for row in np.flatnonzero(session.tree.domains[domain].nodes).tolist():
        for task in session.nodes.tasks[row].values():
            if task.job is not None and task.status in VICTIM_STATUSES and claim.candidate(task):
                local.setdefault(task.job.key, []).append(task)
    found = [
        bundle
        for key in sorted(local)
        for bundle in bundles_of(session, session.jobs[key], local[key], whole=claim.whole)
    ]
    return in_eviction_order(session, claim.job, found, need)


def _enough(
    session: Session, claim: GangClaim, domain: str, bundles: Sequence[Bundle], need: Resources
) -> list[Bundle] | None:
    """Add bundle by bundle until the gang fits with their tasks gone (K7)."""
    chosen: list[Bundle] = []
    for bundle in (None, *bundles):
        if bundle is not None:
            tasks = [task for one in (*chosen, bundle) for task in one.tasks]
            if not session.bundle_allowed(claim.job, tasks, reclaim=_reclaims(claim)):
                continue
            chosen.append(bundle)
        if _could_hold(session, domain, chosen, need) and _fits(session, claim, domain, chosen):
            return chosen
    return None


def _reclaims(claim: GangClaim) -> bool:
    return claim.reason is EvictionReason.RECLAIM


def _could_hold(session: Session, domain: str, chosen: Sequence[Bundle], need: Resources) -> bool:
    """Whether the sums are enough; whether the tasks fit is another question."""
    nodes = session.nodes
    where = session.tree.domains[domain].nodes
    freed = total_of(task.requests for bundle in chosen for task in bundle.local)
    return all(
        nodes.sum_of(nodes.future, name, where) + freed.get(name, 0) >= quantity
        for name, quantity in need.items()
        if quantity and not (name.startswith(MIG_PREFIX) and nodes.divides_any(where))
    )


def _fits(session: Session, claim: GangClaim, domain: str, chosen: Sequence[Bundle]) -> bool:
    return _seats(session, claim, domain, chosen) is not None


def _seats(
    session: Session, claim: GangClaim, domain: str, chosen: Sequence[Bundle]
) -> list[_Seat] | None:
    """Where the gang would sit with the bundles gone; `None` if it would not be complete."""
    evictions = _evict(session, claim, chosen)
    placed = _place(session, claim.job, domain)
    seats: list[_Seat] | None = None
    if placed is not None:
        if session.job_pipelined(claim.job):
            seats = [
                _Seat(operation.task, operation.node)
                for operation in placed.operations
                if operation.deed is not Deed.EVICT
            ]
        placed.discard()
    evictions.discard()
    return seats


def _place(session: Session, job: Job, domain: str) -> Statement | None:
    worksheet = Worksheet.of(session, job)
    if not worksheet:
        return None
    job.failed.clear()
    if job.hard_topology or job.has_sub_groups:
        return seat_inside(session, job, worksheet, domain, seat_tasks)
    tasks = Line(session.compare_tasks, job.pending)
    return seat_tasks(session, Wanted(job), tasks, session.tree.domains[domain].nodes)


def _evict(session: Session, claim: GangClaim, chosen: Sequence[Bundle]) -> Statement:
    statement = Statement(session)
    for bundle in chosen:
        for task in bundle.tasks:
            if task.status in VICTIM_STATUSES:
                statement.evict(task, claim.reason, claim.job.key)
    return statement


def _reprieve(
    session: Session, claim: GangClaim, domain: str, chosen: list[Bundle]
) -> list[Bundle]:
    """Return bundles that are not needed after all, the most valuable first (K9)."""
    for bundle in list(reversed(chosen))[:_REPRIEVES_MAX]:
        without = [other for other in chosen if other is not bundle]
        if _fits(session, claim, domain, without):
            chosen = without
    return chosen


def _carry_out(
    session: Session, claim: GangClaim, domain: str, chosen: Sequence[Bundle]
) -> Statement | None:
    """Evict, and promise every seat; nobody of the gang is bound before all can be."""
    seats = _seats(session, claim, domain, chosen)
    if seats is None:
        return None
    statement = _evict(session, claim, chosen)
    for seat in seats:
        statement.pipeline(seat.task, seat.node)
        if seat.task.sub_job is not None and domain != ROOT:
            seat.task.sub_job.nominated = domain
    return statement
