"""Room for one task on one node, by evicting others there (X5, X7, Y3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from muster_domain.mig import MIG_PREFIX
from muster_scheduling.placement.columns import Mask
from muster_scheduling.volcano.amounts import total_of
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.plan import EvictionReason
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Statement


@dataclass(frozen=True, slots=True)
class Claim:
    """Who wants room, why, and who may be asked to leave; `choose` names those who must agree."""

    task: Task
    reason: EvictionReason
    candidate: Callable[[Task], bool]
    choose: Callable[[Task, Sequence[Task]], list[Task]]


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


def fits_now(session: Session, task: Task, row: int) -> bool:
    """Whether the queue may hold a task, and a node will have room and does not refuse it."""
    queue = session.queue_of(task.gang)
    return (
        session.nodes.has_future(row, task.init_requests)
        and session.allocatable(queue, task)
        and bool(session.screen(task).passed[row])
    )


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
