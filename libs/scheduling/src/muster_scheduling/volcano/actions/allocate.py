"""allocate: pending tasks get nodes, gang by gang (A1 to A9).

A gang that is ready is committed. One that will be ready once others have left keeps what it was
given until the session ends, uncommitted. Anything else is undone.
"""

import numpy as np

from muster_domain.volcano import PodGroupPhase
from muster_scheduling.placement.columns import Mask
from muster_scheduling.volcano.choosing import best_node, feasible
from muster_scheduling.volcano.job import Job, Task
from muster_scheduling.volcano.line import Line, Turns, jobs_by_queue
from muster_scheduling.volcano.opening import locate
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Statement
from muster_scheduling.volcano.topology import Wanted, Worksheet, seat_in_tree

_ENQUEUE = "enqueue"


def allocate(session: Session) -> None:
    """Give nodes to jobs, the best job of the best queue first, until nobody can get more."""
    _promote(session)
    lines = jobs_by_queue(session, filter(session.schedulable, session.jobs.values()))
    queues = Turns(session.compare_queues, (session.queues[name] for name in sorted(lines)))
    worksheets: dict[str, Worksheet] = {}
    everywhere = np.ones(len(session.nodes), np.bool_)
    while queues:
        queue = queues.pop()
        line = lines[queue.name]
        if session.overused(queue) or not line:
            continue
        job = line.pop()
        worksheet = worksheets.get(job.key)
        if worksheet is None:
            worksheet = worksheets[job.key] = Worksheet.of(session, job)
        if worksheet and _serve(session, job, worksheet, everywhere) and worksheet:
            line.push(job)
        queues.push(queue)


def _promote(session: Session) -> None:
    """Without an enqueue action nobody else lets jobs in (E6)."""
    if _ENQUEUE in session.configuration.actions:
        return
    for job in session.jobs.values():
        if job.phase is PodGroupPhase.PENDING:
            job.phase = PodGroupPhase.INQUEUE


def _serve(session: Session, job: Job, worksheet: Worksheet, everywhere: Mask) -> bool:
    """Seat what one turn of a job seats; whether the job is ready and may have another turn."""
    job.failed.clear()
    if job.hard_topology or job.has_sub_groups:
        statement = seat_in_tree(session, job, worksheet, seat_tasks)
    else:
        tasks = next(iter(worksheet.tasks.values()))
        statement = seat_tasks(session, Wanted(job), tasks, everywhere)
    if statement is None or not session.job_ready(job):
        return False
    statement.commit()
    locate(session, (job,))
    return True


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
