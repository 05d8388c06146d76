"""The plugins that some of Volcano's tests bring along, written against the plugins' contract."""

import numpy as np

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.plan import TaskStatus
from muster_scheduling.volcano.points import Screening, Vote
from muster_scheduling.volcano.session import Session


def open_rejecter(session: Session, option: PluginOption) -> None:
    """Reject the PodGroup pgA."""
    session.points.job_enqueueable.add(
        option, lambda job: Vote.REJECT if job.group.name == "pgA" else Vote.PERMIT
    )


def open_fake(session: Session, option: PluginOption) -> None:
    """Make a victim of every running task whose pod has the priority 10."""

    def victims() -> list[Task]:
        return [
            task
            for job in session.jobs.values()
            for task in job.in_status(TaskStatus.RUNNING)
            if task.priority == 10
        ]

    session.points.victim_tasks.add(option, victims)


def open_device_fit(session: Session, option: PluginOption) -> None:
    """A hidden device is occupied until the task `preemptee` on the node is Releasing."""

    def screen(task: Task, screening: Screening) -> None:
        if task.pod.name != "preemptor":
            return
        occupied = [
            any(
                other.pod.name == "preemptee" and other.status is not TaskStatus.RELEASING
                for other in tasks.values()
            )
            for tasks in session.nodes.tasks
        ]
        screening.refuse(np.array(occupied, np.bool_), "device is occupied")

    session.points.screen.add(option, screen)


CUSTOM_PLUGINS = {
    "test-rejecter": open_rejecter,
    "fake": open_fake,
    "device-fit-after-eviction": open_device_fit,
}
