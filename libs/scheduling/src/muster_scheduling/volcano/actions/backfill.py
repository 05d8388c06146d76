"""backfill: pods that ask for nothing get a node that takes them (B1, B2).

No queue is asked: they hold nothing of it but their place.
"""

import numpy as np

from muster_scheduling.volcano.line import Line, Turns, jobs_by_queue
from muster_scheduling.volcano.plan import TaskStatus
from muster_scheduling.volcano.seating import seat_one
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Statement


def backfill(session: Session) -> None:
    """Seat best-effort tasks, job by job; those of a job that is not ready are not bound."""
    lines = jobs_by_queue(session, filter(session.schedulable, session.jobs.values()))
    queues = Turns(session.compare_queues, (session.queues[name] for name in sorted(lines)))
    everywhere = np.ones(len(session.nodes), np.bool_)
    while queues:
        queue = queues.pop()
        if not lines[queue.name]:
            continue
        job = lines[queue.name].pop()
        job.failed.clear()
        statement = Statement(session)
        tasks = Line(
            session.compare_tasks,
            (
                task
                for task in job.in_status(TaskStatus.PENDING)
                if task.best_effort and not task.pod.gated
            ),
        )
        while tasks:
            seat_one(session, statement, tasks.pop(), everywhere)
        if session.job_ready(job):
            statement.commit()
        else:
            statement.discard()
        queues.push(queue)
