"""pdb: victims never drop a PodDisruptionBudget below what it allows."""

from collections.abc import Sequence

from muster_domain.volcano import DisruptionBudget
from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.session import Session


def open_pdb(session: Session, option: PluginOption) -> None:
    """Register who is spared."""
    budgets = sorted(
        session.snapshot.disruption_budgets, key=lambda found: (found.namespace, found.name)
    )

    def victims(_: Task, candidates: Sequence[Task]) -> list[Task]:
        """The candidates that every budget allows, taking them one by one."""
        left = {id(budget): budget.disruptions_allowed for budget in budgets}
        chosen: list[Task] = []
        for task in candidates:
            matching = [budget for budget in budgets if _matches(budget, task)]
            if all(left[id(budget)] > 0 for budget in matching):
                for budget in matching:
                    left[id(budget)] -= 1
                chosen.append(task)
        return chosen

    session.points.preemptable.add(option, victims)
    session.points.reclaimable.add(option, victims)
    session.points.bundle.add(
        option, lambda _, tasks, __: len(victims(tasks[0], tasks)) == len(tasks)
    )


def _matches(budget: DisruptionBudget, task: Task) -> bool:
    return (
        budget.selector is not None
        and budget.namespace == task.pod.namespace
        and budget.selector.matches(task.pod.labels)
    )
