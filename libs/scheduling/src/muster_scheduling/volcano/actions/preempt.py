"""preempt: a starving job takes from less important jobs of its own queue, then from itself.

Rules X1 to X8. Argument `enableTopologyAwarePreemption` looks for the node where eviction costs
least: who may go is taken away and returned as far as the task still fits, best first.
Jobs bound to HyperNodes are left to gangpreempt.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from muster_scheduling.placement.columns import Mask
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.cheapest import cheapest_room
from muster_scheduling.volcano.job import VICTIM_STATUSES, Job, Task
from muster_scheduling.volcano.line import Line, jobs_by_queue
from muster_scheduling.volcano.plan import EvictionReason
from muster_scheduling.volcano.room import (
    Claim,
    by_shard,
    curable_nodes,
    evict_until_it_fits,
    in_turn,
    rounds,
)
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Deed, Statement


def preempt(session: Session) -> None:
    """Make room, job by job; all of a job's evictions stand only if its gang becomes complete."""
    arguments = Arguments(session.configuration.action_arguments.get("preempt", {}))
    rounds = _Rounds(session, cheapest=arguments.flag("enableTopologyAwarePreemption"))
    starving = [
        job
        for job in session.jobs.values()
        if session.schedulable(job) and not job.hard_topology and session.job_starving(job)
    ]
    lines = jobs_by_queue(session, starving)
    queues = session.in_order((session.queues[name] for name in lines), session.compare_queues)
    for queue in queues:
        while lines[queue.name]:
            rounds.take_from_others(lines[queue.name].pop())
    for job in session.in_order(starving, session.compare_jobs):
        if job.queue in session.queues:
            rounds.take_from_itself(job)


@dataclass(frozen=True, slots=True)
class _Rounds:
    session: Session
    cheapest: bool

    def take_from_others(self, job: Job) -> None:
        """Other jobs of the queue give way, task by task, until the job starves no more."""
        session = self.session
        statement = Statement(session)
        tasks = self._pending(job)
        while tasks and session.job_starving(job):
            task = tasks.pop()
            room = self._room(
                task, lambda other: other.gang.queue == job.queue and other.job is not job
            )
            if room is None:
                continue
            if task.best_effort and not _evicts(room):
                room.discard()  # backfill binds it at once; a promise would keep it from that
                continue
            statement.merge(room)
        if statement.operations and session.job_pipelined(job):
            statement.commit()
        else:
            statement.discard()

    def take_from_itself(self, job: Job) -> None:
        """Less important tasks of the job give way, one task at a time.

        A task for which nobody has to is left to allocate, which seats gangs whole.
        """
        tasks = self._pending(job)
        while tasks:
            room = self._room(tasks.pop(), lambda other: other.job is job)
            if room is None:
                return
            if not _evicts(room):
                room.discard()
                return
            room.commit()

    def _pending(self, job: Job) -> Line[Task]:
        return Line(self.session.compare_tasks, job.waiting)

    def _room(self, task: Task, among: Callable[[Task], bool]) -> Statement | None:
        if not task.pod.may_preempt:
            return None
        session = self.session

        def candidate(other: Task) -> bool:
            return (
                other.status in VICTIM_STATUSES
                and other.job is not None
                and other.preemptable
                and (other.best_effort or not task.best_effort)
                and among(other)
            )

        claim = Claim(task, EvictionReason.PREEMPT, candidate, session.preemptable)
        nodes = curable_nodes(session, task)
        for asked in rounds(session, claim):
            for group in by_shard(session, nodes):
                room = self._room_on(group, asked)
                if room is not None:
                    return room
        return None

    def _room_on(self, nodes: Mask, claim: Claim) -> Statement | None:
        if self.cheapest:
            return cheapest_room(self.session, nodes, claim)
        for row in self._best_first(nodes, claim):
            statement = evict_until_it_fits(self.session, row, claim)
            if statement is not None:
                return statement
        return None

    def _best_first(self, nodes: Mask, claim: Claim) -> Iterator[int]:
        """Nodes by their score; of equal ones first where the least important would go."""
        scores = self.session.node_scores(claim.task, nodes)
        rows = np.flatnonzero(nodes)
        for score in np.unique(scores[rows])[::-1]:
            yield from in_turn(self.session, rows[scores[rows] == score].tolist(), claim)


def _evicts(room: Statement) -> bool:
    return any(operation.deed is Deed.EVICT for operation in room.operations)
