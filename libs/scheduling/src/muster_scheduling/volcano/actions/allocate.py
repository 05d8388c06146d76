"""allocate: pending tasks get nodes, gang by gang (A1 to A9).

A gang that is ready is committed. One that will be ready once others have left keeps what it was
given until the session ends, uncommitted. Anything else is undone.
"""

import numpy as np

from muster_domain.volcano import PodGroupPhase
from muster_scheduling.placement.columns import Mask
from muster_scheduling.volcano.choosing import best_node, feasible
from muster_scheduling.volcano.job import Job, SubJob, Task
from muster_scheduling.volcano.line import Line, Turns, jobs_by_queue
from muster_scheduling.volcano.opening import locate
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Statement
from muster_scheduling.volcano.topology import Worksheet, seat_in_tree

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
        sub_job = next(iter(job.sub_jobs.values()))
        tasks = worksheet.tasks[sub_job.key]
        statement = seat_tasks(session, job, None, tasks, everywhere)
    if statement is None or not session.job_ready(job):
        return False
    statement.commit()
    locate(session, (job,))
    return True


def seat_tasks(
    session: Session, job: Job, sub_job: SubJob | None, tasks: Line[Task], nodes: Mask
) -> Statement | None:
    """Seat tasks one after another until the job, or the sub-job if one is given, is ready.

    Returns the deeds when it is ready, or will be; else undoes them and returns `None`.
    """
    statement = Statement(session)
    queue = session.queue_of(job)

    def ready() -> bool:
        return session.job_ready(job) if sub_job is None else session.sub_job_ready(sub_job)

    while tasks:
        task = tasks.pop()
        if not session.allocatable(queue, task):
            job.hold_back(f"queue {queue.name} may not hold more")
            continue
        if task.role and any(task.role == failed.role for failed in job.failed.values()):
            continue
        if not seat_one(session, statement, task, nodes):
            if job.may_continue_without():
                continue
            break
        if ready():
            break
    if ready() or _pipelined(session, job, sub_job):
        return statement
    statement.discard()
    return None


def _pipelined(session: Session, job: Job, sub_job: SubJob | None) -> bool:
    return session.job_pipelined(job) if sub_job is None else session.sub_job_pipelined(sub_job)


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
