"""reclaim: a starving job of a queue below its share takes back from other queues (Y1-Y5).

A job of a hard topology is left to gangreclaim, which looks at whole domains.
"""

import numpy as np

from muster_scheduling.volcano.job import Job, Task
from muster_scheduling.volcano.line import Line, Turns, jobs_by_queue
from muster_scheduling.volcano.plan import EvictionReason, TaskStatus
from muster_scheduling.volcano.room import Claim, candidates_on, curable_nodes, victims_on
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Statement


def reclaim(session: Session) -> None:
    """Take back, queue by queue; a job's evictions stand only if its gang becomes complete."""
    starving = [
        job
        for job in session.jobs.values()
        if session.schedulable(job)
        and not (job.limit is not None and job.limit.hard)
        and session.job_starving(job)
    ]
    lines = jobs_by_queue(session, starving)
    queues = Turns(session.compare_queues, (session.queues[name] for name in sorted(lines)))
    while queues:
        queue = queues.pop()
        if session.overused(queue) or not lines[queue.name]:
            continue
        _take_back(session, lines[queue.name].pop())
        queues.push(queue)


def _take_back(session: Session, job: Job) -> None:
    queue = session.queue_of(job)
    statement = Statement(session)
    tasks = Line(session.compare_tasks, job.waiting)
    while tasks and session.job_starving(job):
        task = tasks.pop()
        if task.pod.may_preempt and session.preemptive(queue, (task,)):
            room = _room(session, task)
            if room is not None:
                statement.merge(room)
    if statement.operations and session.job_pipelined(job):
        statement.commit()
    else:
        statement.discard()


def _room(session: Session, task: Task) -> Statement | None:
    own = task.gang.queue

    def candidate(other: Task) -> bool:
        if other.job is None or other.status is not TaskStatus.RUNNING or not other.preemptable:
            return False
        queue = session.queues.get(other.job.queue)
        return queue is not None and queue.name != own and queue.reclaimable

    claim = Claim(task, EvictionReason.RECLAIM, candidate, session.reclaimable)
    for row in np.flatnonzero(curable_nodes(session, task)).tolist():
        if not candidates_on(session, row, claim):
            continue
        statement = _evict_until_enough(session, row, claim)
        if statement is not None:
            return statement
    return None


def _evict_until_enough(session: Session, row: int, claim: Claim) -> Statement | None:
    victims = victims_on(session, row, claim)
    if victims is None:
        return None
    statement = Statement(session)
    for victim in victims:
        if session.nodes.has_future(row, claim.task.init_requests):
            break
        statement.evict(victim, claim.reason, claim.task.gang.key)
    if not session.nodes.has_future(row, claim.task.init_requests):
        statement.discard()
        return None
    statement.pipeline(claim.task, session.nodes.names[row])
    return statement
