"""gangreclaim: a starving gang takes back from gangs of other queues, or from nobody (2.15).

As gangpreempt, across queues: its own must be due what it asks for, theirs must be reclaimable and
able to lose it. Arguments: `maxDomains` (8) and `allowWholeBundle` (true).
"""

from muster_scheduling.volcano.actions.gangpreempt import starving_gangs
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.gang_room import GangClaim, make_room
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.plan import EvictionReason
from muster_scheduling.volcano.session import Session


def gangreclaim(session: Session) -> None:
    """Take back for gangs, queue by queue and job by job."""
    arguments = Arguments(session.configuration.action_arguments.get("gangreclaim", {}))
    for job in starving_gangs(session):
        queue = session.queue_of(job)
        due = not session.overused(queue) and session.preemptive(queue, job.pending)
        if not due or not session.job_starving(job):
            continue

        def candidate(task: Task, own: str = job.queue) -> bool:
            theirs = session.queues.get(task.gang.queue)
            others = theirs is not None and theirs.name != own and theirs.reclaimable
            return others and task.preemptable and task.gang.preemptable

        claim = GangClaim(
            job=job,
            reason=EvictionReason.RECLAIM,
            candidate=candidate,
            domains_max=arguments.integer("maxDomains", 8, at_least=1),
            whole=arguments.flag("allowWholeBundle", default=True),
        )
        statement = make_room(session, claim)
        if statement is not None:
            statement.commit()
