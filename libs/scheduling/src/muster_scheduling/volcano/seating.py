"""Seats for tasks, one after another, until a gang has enough (A4 to A7)."""

import numpy as np

from muster_scheduling.placement.columns import Mask
from muster_scheduling.volcano.choosing import best_node, feasible
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.line import Line
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Statement
from muster_scheduling.volcano.topology import Wanted


def seat_tasks(
    session: Session, wanted: Wanted, tasks: Line[Task], nodes: Mask
) -> Statement | None:
    """Seat tasks one after another until enough have seats.

    Returns the deeds when that is so, or will be; else undoes them and returns `None`.
    """
    job = wanted.job
    statement = Statement(session)
    queue = session.queue_of(job)
    while tasks:
        task = tasks.pop()
        if not session.allocatable(queue, task):
            job.hold_back(f"queue {queue.name} may not hold more")
            seated = False
        elif task.role and any(task.role == failed.role for failed in job.failed.values()):
            continue
        else:
            seated = seat_one(session, statement, task, nodes)
            if not seated and not job.may_continue_without():
                break
        if wanted.whole and not seated:
            break
        if seated and not wanted.whole and _ready(session, wanted):
            break
    else:
        if wanted.whole:
            return statement
    if not wanted.whole and (_ready(session, wanted) or _pipelined(session, wanted)):
        return statement
    statement.discard()
    return None


def _ready(session: Session, wanted: Wanted) -> bool:
    if wanted.sub_job is None:
        return session.job_ready(wanted.job)
    return session.sub_job_ready(wanted.sub_job)


def _pipelined(session: Session, wanted: Wanted) -> bool:
    if wanted.sub_job is None:
        return session.job_pipelined(wanted.job)
    return session.sub_job_pipelined(wanted.sub_job)


def seat_one(session: Session, statement: Statement, task: Task, nodes: Mask) -> bool:
    """Seat one task on the best node; on its nominated node where that still does."""
    job = task.gang
    nominated = _nominated(session, task, nodes)
    found = None if nominated is None else feasible(session, task, nominated)
    if found is None or not found.nodes.any():
        found = feasible(session, task, nodes)
    if not found.nodes.any():
        job.failed[task.key] = task
        job.refusals = job.refusals or found.refusals
        return False
    name = best_node(session, task, found.nodes)
    if session.nodes.has_idle(session.nodes.row[name], task.init_requests):
        statement.allocate(task, name)
    else:
        statement.pipeline(task, name)
    return True


def _nominated(session: Session, task: Task, nodes: Mask) -> Mask | None:
    row = session.nodes.row.get(task.pod.nominated_node)
    if row is None or not nodes[row]:
        return None
    only = np.zeros(len(session.nodes), np.bool_)
    only[row] = True
    return only
