"""drf: whose largest share of the cluster is smallest goes first.

A victim must belong to a job that, after the loss, still has at least the share that the preemptor
has after the gain. With `enableHierarchy` queues are ordered, and reclaimed from, by weighted
shares along the paths of their annotations (see `hierarchy`).
"""

from collections.abc import Sequence

from muster_domain.volcano_scheduler import PluginOption, Switch
from muster_scheduling.volcano.amounts import dominant_share, minus, total_of
from muster_scheduling.volcano.job import Job, Task
from muster_scheduling.volcano.plugins.hierarchy import open_hierarchy
from muster_scheduling.volcano.session import Session


def open_drf(session: Session, option: PluginOption) -> None:
    """Register the order of jobs and the rule for victims."""
    total = session.total

    def share_of(job: Job) -> int:
        return dominant_share(job.held, total)

    def order(left: Job, right: Job) -> int:
        mine, other = share_of(left), share_of(right)
        return (mine > other) - (mine < other)

    def victims(preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        gaining = total_of((preemptor.gang.held, preemptor.requests))
        after_gain = dominant_share(gaining, total)
        left: dict[str, dict[str, int]] = {}
        chosen: list[Task] = []
        for task in candidates:
            job = task.gang
            left[job.key] = minus(left.get(job.key, job.held), task.requests)
            if after_gain <= dominant_share(left[job.key], total):
                chosen.append(task)
        return chosen

    session.points.job_order.add(option, order)
    session.points.preemptable.add(option, victims)
    if Switch.HIERARCHY in option.enabled:
        open_hierarchy(session, option)
