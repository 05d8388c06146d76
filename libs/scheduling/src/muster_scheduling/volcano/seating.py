"""Seats for tasks, one after another, until a gang has enough (A4 to A7)."""

from collections.abc import Callable

import numpy as np

from muster_scheduling.placement.columns import Mask
from muster_scheduling.volcano.amounts import dominant_share
from muster_scheduling.volcano.choosing import best_node, feasible
from muster_scheduling.volcano.job import Job, Task
from muster_scheduling.volcano.line import Line
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Statement
from muster_scheduling.volcano.topology import Wanted


def seat_tasks(
    session: Session, wanted: Wanted, tasks: Line[Task], nodes: Mask
) -> Statement | None:
    """Seat tasks one after another until enough have seats.

    Where that fails and the tasks are of unequal size, the largest are tried first. Returns the
    deeds when enough have seats, or will have; else undoes them and returns `None`. What is left
    over stays in the line.
    """
    if _ready(session, wanted):
        return _seat_in_turn(session, wanted, tasks, nodes)
    waiting = tasks.copy()
    statement = _seat_in_turn(session, wanted, tasks, nodes)
    if statement is None and len({task.shape for task in waiting}) > 1:
        wanted.job.failed.clear()
        largest = Line(_larger_first(session), waiting)
        statement = _seat_in_turn(session, wanted, largest, nodes)
        if statement is not None:
            tasks.replace(largest)
    return statement


def _larger_first(session: Session) -> Callable[[Task, Task], int]:
    def compare(left: Task, right: Task) -> int:
        mine = dominant_share(left.requests, session.total)
        other = dominant_share(right.requests, session.total)
        return (mine < other) - (mine > other) or session.compare_tasks(left, right)

    return compare


def _seat_in_turn(
    session: Session, wanted: Wanted, tasks: Line[Task], nodes: Mask
) -> Statement | None:
    statement = Statement(session)
    if wanted.whole:
        done = all(
            _seat_next(session, wanted.job, statement, tasks, nodes) for _ in range(len(tasks))
        )
    else:
        done = _seat_until_ready(session, wanted, statement, tasks, nodes)
    if done:
        return statement
    statement.discard()
    return None


def _seat_until_ready(
    session: Session, wanted: Wanted, statement: Statement, tasks: Line[Task], nodes: Mask
) -> bool:
    job = wanted.job
    while tasks:
        if _seat_next(session, job, statement, tasks, nodes):
            if _ready(session, wanted):
                return True
        elif job.failed and not job.may_continue_without():
            break
    return _ready(session, wanted) or _pipelined(session, wanted)


def _seat_next(
    session: Session, job: Job, statement: Statement, tasks: Line[Task], nodes: Mask
) -> bool:
    """Seat the next task; not if its queue is full, or another of its role has found no node."""
    task = tasks.pop()
    queue = session.queue_of(job)
    if not session.allocatable(queue, task):
        job.hold_back(f"queue {queue.name} may not hold more")
        return False
    if task.role and any(task.role == failed.role for failed in job.failed.values()):
        return False
    return seat_one(session, statement, task, nodes)


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
