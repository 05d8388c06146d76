"""priority: what is more important goes first, and takes only from what is less so.

Tasks by the priority of their pods, jobs by that of their class, sub-jobs by their highest task.
"""

from collections.abc import Sequence

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.job import Job, Task
from muster_scheduling.volcano.session import Session


def open_priority(session: Session, option: PluginOption) -> None:
    """Register the order by priority and the rule for victims."""
    points = session.points
    points.task_order.add(option, lambda left, right: right.priority - left.priority)
    points.job_order.add(option, lambda left, right: right.priority - left.priority)
    points.sub_job_order.add(option, lambda left, right: right.priority - left.priority)
    points.preemptable.add(option, _victims)
    points.job_starving.add(option, _starving)


def _victims(preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
    """Other jobs of lower priority; of its own job, tasks of lower priority (X6)."""
    own = preemptor.gang
    return [
        task
        for task in candidates
        if (
            task.priority < preemptor.priority
            if task.job is own
            else task.gang.priority < own.priority
        )
    ]


def _starving(job: Job) -> bool:
    """Whether any task waits that nobody makes room for (G7)."""
    return job.ready_count + job.waiting_count < len(job.tasks)
