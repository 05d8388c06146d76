"""overcommit: lets in a little more than the cluster can run, so that pods are there when it can.

Argument `overcommit-factor`, 1.2; below 1 it counts as 1.2. A job is let in while what was let in
and does not run yet, and its own minimum, stay within total times the factor less what is used
(E3).
"""

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.accounts import owed
from muster_scheduling.volcano.amounts import add_to, covers_asked, total_of
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.job import Job
from muster_scheduling.volcano.points import Vote
from muster_scheduling.volcano.session import Session

_DEFAULT_MILLI = 1200
_LEAST_MILLI = 1000


def open_overcommit(session: Session, option: PluginOption) -> None:
    """Register the vote, and count what is let in."""
    factor_milli = Arguments(option.arguments).milli("overcommit-factor", _DEFAULT_MILLI)
    if factor_milli < _LEAST_MILLI:
        factor_milli = _DEFAULT_MILLI
    used = session.nodes.used_by_ready()
    idle = {
        name: quantity * factor_milli // 1000 - used.get(name, 0)
        for name, quantity in session.total.items()
    }
    inqueue = total_of(owed(job) for job in session.jobs.values())

    def vote(job: Job) -> Vote:
        asked = job.group.min_resources
        fits = covers_asked(idle, total_of((inqueue, asked)), asked)
        return Vote.PERMIT if fits else Vote.REJECT

    session.points.job_enqueueable.add(option, vote)
    session.points.job_enqueued.add(option, lambda job: add_to(inqueue, job.group.min_resources))
