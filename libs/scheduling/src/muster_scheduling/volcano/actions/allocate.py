"""allocate: pending tasks get nodes, gang by gang (A1 to A9).

A gang that is ready is committed. One that will be ready once others have left keeps what it was
given until the session ends, uncommitted. Anything else is undone.
"""

import numpy as np

from muster_domain.volcano import PodGroupPhase
from muster_scheduling.placement.columns import Mask
from muster_scheduling.volcano.job import Job
from muster_scheduling.volcano.line import Turns, jobs_by_queue
from muster_scheduling.volcano.opening import locate
from muster_scheduling.volcano.seating import seat_tasks
from muster_scheduling.volcano.session import NOT_LET_IN, Session
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
        if job.phase in NOT_LET_IN:
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
