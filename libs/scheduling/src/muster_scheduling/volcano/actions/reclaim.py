"""reclaim: a starving job of a queue below its share takes back from other queues (Y1-Y5).

A job of a hard topology is left to gangreclaim, which looks at whole domains.
"""

import numpy as np

from muster_scheduling.placement.columns import Mask
from muster_scheduling.volcano.job import Job, Task
from muster_scheduling.volcano.line import Line, Turns, jobs_by_queue
from muster_scheduling.volcano.plan import EvictionReason, TaskStatus
from muster_scheduling.volcano.room import (
    Claim,
    by_shard,
    candidates_on,
    curable_nodes,
    in_turn,
    node_takes,
    rounds,
    victims_on,
)
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
    nodes = curable_nodes(session, task)
    for asked in rounds(session, claim):
        for group in by_shard(session, nodes):
            statement = _room_on(session, group, asked)
            if statement is not None:
                return statement
    return None


def _room_on(session: Session, nodes: Mask, claim: Claim) -> Statement | None:
    for row in in_turn(session, np.flatnonzero(nodes).tolist(), claim):
        if candidates_on(session, row, claim):
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
        if node_takes(session, claim.task, row):
            break
        statement.evict(victim, claim.reason, claim.task.gang.key)
    if not node_takes(session, claim.task, row):
        statement.discard()
        return None
    statement.pipeline(claim.task, session.nodes.names[row])
    return statement
