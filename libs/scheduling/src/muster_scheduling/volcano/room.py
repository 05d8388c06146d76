"""Room for one task on one node, by evicting others there (X5, X7, Y3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from muster_domain.mig import MIG_PREFIX
from muster_scheduling.placement.columns import Mask
from muster_scheduling.volcano.amounts import total_of
from muster_scheduling.volcano.bundles import spare_of
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.plan import EvictionReason
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Statement

_COMPARED_MAX = 100


@dataclass(frozen=True, slots=True)
class Claim:
    """Who wants room, why, and who may be asked to leave; `choose` names those who must agree."""

    task: Task
    reason: EvictionReason
    candidate: Callable[[Task], bool]
    choose: Callable[[Task, Sequence[Task]], list[Task]]


def rounds(session: Session, claim: Claim) -> list[Claim]:
    """The claim as it is tried: where gangs have leaders, on what gangs can spare first."""
    if not session.anyone_leads:
        return [claim]

    def spared(task: Task, candidates: Sequence[Task]) -> list[Task]:
        return claim.choose(task, spare_of(candidates))

    return [replace(claim, choose=spared), claim]


def by_shard(session: Session, nodes: Mask) -> list[Mask]:
    """Some nodes in the groups in which they are tried: those of a soft shard before others."""
    own = session.own_shard
    return [nodes] if own is None else [nodes & own, nodes & ~own]


def in_turn(session: Session, rows: list[int], claim: Claim) -> list[int]:
    """Nodes that are equally good: first where nobody is to go, then where the first to go is.

    Of more than `_COMPARED_MAX` only so many are compared; the others follow in the order given.
    """
    first = {
        row: next(iter(candidates_on(session, row, claim)), None) for row in rows[:_COMPARED_MAX]
    }
    job = claim.task.gang

    def compare(left: int, right: int) -> int:
        mine, other = first[left], first[right]
        if mine is None or other is None:
            return (mine is not None) - (other is not None)
        return session.compare_victims(job, mine, other)

    return [*session.in_order(rows[:_COMPARED_MAX], compare), *rows[_COMPARED_MAX:]]


def candidates_on(session: Session, row: int, claim: Claim) -> list[Task]:
    """The tasks on a node that may be asked, in the order in which they would go (P8)."""
    job = claim.task.gang
    return session.in_order(
        filter(claim.candidate, session.nodes.tasks[row].values()),
        lambda left, right: session.compare_victims(job, left, right),
    )


def victims_on(session: Session, row: int, claim: Claim) -> list[Task] | None:
    """Who may go, first first; `None` where even all of them together would not be enough.

    What divided cards would have is not a sum of what is freed: that is seen when they are gone.
    """
    victims = claim.choose(claim.task, candidates_on(session, row, claim))
    freed = total_of(task.requests for task in victims)
    needed = {
        name: quantity - freed.get(name, 0)
        for name, quantity in claim.task.init_requests.items()
        if quantity > freed.get(name, 0)
        and not (session.nodes.is_divided(row) and name.startswith(MIG_PREFIX))
    }
    if not session.nodes.has_future(row, needed):
        return None
    return victims


def node_takes(session: Session, task: Task, row: int) -> bool:
    """Whether a node will have room for a task and does not refuse it."""
    return session.nodes.has_future(row, task.init_requests) and bool(
        session.screen(task).passed[row]
    )


def fits_now(session: Session, task: Task, row: int) -> bool:
    """Whether the queue may hold a task, and a node will have room and does not refuse it."""
    queue = session.queue_of(task.gang)
    return session.allocatable(queue, task) and node_takes(session, task, row)


def evict_until_it_fits(session: Session, row: int, claim: Claim) -> Statement | None:
    """Evict one after another until the task fits, and promise it the place; else undo."""
    victims = victims_on(session, row, claim)
    if victims is None:
        return None
    statement = Statement(session)
    by = claim.task.gang.key
    for victim in victims:
        if fits_now(session, claim.task, row):
            break
        statement.evict(victim, claim.reason, by)
    if not fits_now(session, claim.task, row):
        statement.discard()
        return None
    statement.pipeline(claim.task, session.nodes.names[row])
    return statement


def curable_nodes(session: Session, task: Task) -> Mask:
    """Nodes that could take a task if some of what is there left."""
    if session.precheck(task) is not None:
        return np.zeros(len(session.nodes), np.bool_)
    return session.screen(task).curable
