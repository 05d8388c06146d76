"""resourcequota: a gang is let in only if its minimum fits the quotas of its namespace.

What was let in earlier in the session, and has no pods that the quota counts yet, is counted too.
"""

from muster_domain.volcano import NamespaceQuota
from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.amounts import add_to
from muster_scheduling.volcano.job import Job
from muster_scheduling.volcano.points import Vote
from muster_scheduling.volcano.session import Session

_PREFIX = "requests."


def open_resourcequota(session: Session, option: PluginOption) -> None:
    """Register the vote, and count what is let in."""
    let_in: dict[str, dict[str, int]] = {}

    def vote(job: Job) -> Vote:
        namespace = job.group.namespace
        pending = let_in.get(namespace, {})
        fits = all(
            _fits(quota, pending, job)
            for quota in session.snapshot.namespace_quotas
            if quota.namespace == namespace
        )
        return Vote.PERMIT if fits else Vote.REJECT

    def count(job: Job) -> None:
        add_to(let_in.setdefault(job.group.namespace, {}), job.group.min_resources)

    session.points.job_enqueueable.add(option, vote)
    session.points.job_enqueued.add(option, count)


def _fits(quota: NamespaceQuota, pending: dict[str, int], job: Job) -> bool:
    """Whether the minimum fits in every resource that both the quota and the job name."""
    for written, ceiling in quota.hard.items():
        name = written.removeprefix(_PREFIX)
        asked = job.group.min_resources.get(written, job.group.min_resources.get(name, 0))
        used = quota.used.get(written, 0) + pending.get(name, pending.get(written, 0))
        if asked and used + asked > ceiling:
            return False
    return True
