"""conformance: pods that the system needs are never victims."""

from collections.abc import Sequence

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.session import Session

_SYSTEM_NAMESPACE = "kube-system"
_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


def open_conformance(session: Session, option: PluginOption) -> None:
    """Register who is spared."""
    session.points.preemptable.add(option, _victims)
    session.points.reclaimable.add(option, _victims)
    session.points.bundle.add(option, lambda _, tasks, __: not any(map(_needed, tasks)))


def _victims(_: Task, candidates: Sequence[Task]) -> list[Task]:
    return [task for task in candidates if not _needed(task)]


def _needed(task: Task) -> bool:
    return task.pod.priority_class in _CRITICAL or task.pod.namespace == _SYSTEM_NAMESPACE
