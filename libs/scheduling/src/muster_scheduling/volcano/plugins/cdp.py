"""cdp: a pod that started only lately is no victim.

A pod's label or annotation `volcano.sh/cooldown-time`, else that of its PodGroup, is a Go duration
from the moment it was scheduled; without one, or where it cannot be read, it may go at once.
"""

from collections.abc import Sequence

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.arguments import duration_ms
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.plan import TaskStatus
from muster_scheduling.volcano.session import Session

_KEY = "volcano.sh/cooldown-time"


def open_cdp(session: Session, option: PluginOption) -> None:
    """Register who is spared."""

    def cooling(task: Task) -> bool:
        cooldown_ms = _cooldown_ms(task)
        scheduled_at_ms = task.pod.scheduled_at_ms
        if cooldown_ms is None or scheduled_at_ms is None:
            return False
        running = task.status is TaskStatus.RUNNING
        return running and session.now_ms < scheduled_at_ms + cooldown_ms

    def victims(_: Task, candidates: Sequence[Task]) -> list[Task]:
        return [task for task in candidates if not cooling(task)]

    session.points.preemptable.add(option, victims)
    session.points.reclaimable.add(option, victims)
    session.points.bundle.add(option, lambda _, tasks, __: not any(map(cooling, tasks)))


def _cooldown_ms(task: Task) -> int | None:
    sources = [task.pod.labels, task.pod.annotations]
    if task.job is not None:
        sources += [task.job.group.labels, task.job.group.annotations]
    written = next((source[_KEY] for source in sources if _KEY in source), "")
    return duration_ms(written)
