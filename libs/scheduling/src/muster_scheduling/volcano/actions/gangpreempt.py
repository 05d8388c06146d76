"""gangpreempt: a starving gang takes from less important gangs of its queue, or nobody (2.15).

What others hold above their minimum goes first, whole gangs next. Arguments: `maxDomains` (8) and
`allowWholeBundle` (true).
"""

from collections.abc import Callable

from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.gang_room import GangClaim, make_room
from muster_scheduling.volcano.job import Job, Task
from muster_scheduling.volcano.line import Turns, jobs_by_queue
from muster_scheduling.volcano.plan import EvictionReason
from muster_scheduling.volcano.session import Session


def gangpreempt(session: Session) -> None:
    """Make room for gangs, queue by queue and job by job."""
    arguments = Arguments(session.configuration.action_arguments.get("gangpreempt", {}))
    for job in starving_gangs(session):
        if not session.job_starving(job):
            continue
        claim = GangClaim(
            job=job,
            reason=EvictionReason.PREEMPT,
            candidate=_less_important_than(job),
            domains_max=arguments.integer("maxDomains", 8, at_least=1),
            whole=arguments.flag("allowWholeBundle", default=True),
        )
        statement = make_room(session, claim)
        if statement is not None:
            statement.commit()


def _less_important_than(job: Job) -> Callable[[Task], bool]:
    def candidate(task: Task) -> bool:
        return (
            task.preemptable
            and task.gang.preemptable
            and task.job is not job
            and task.gang.queue == job.queue
            and task.gang.priority < job.priority
        )

    return candidate


def starving_gangs(session: Session) -> list[Job]:
    """Jobs that others may be evicted for and that may ask for it, in the order of their turns."""
    starving = [
        job
        for job in session.jobs.values()
        if session.schedulable(job)
        and session.job_starving(job)
        and job.pending
        and all(task.pod.may_preempt for task in job.pending)
    ]
    lines = jobs_by_queue(session, starving)
    queues = Turns(session.compare_queues, (session.queues[name] for name in sorted(lines)))
    ordered: list[Job] = []
    while queues:
        line = lines[queues.pop().name]
        while line:
            ordered.append(line.pop())
    return ordered
