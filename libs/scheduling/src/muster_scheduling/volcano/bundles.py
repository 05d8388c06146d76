"""What a gang can lose: tasks above its minimum one by one, or all of it at once (K5, K6)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from muster_domain.quantity import Resources
from muster_scheduling.volcano.amounts import SCALE, total_of
from muster_scheduling.volcano.job import ALLOCATED, VICTIM_STATUSES, Job, SubJob, Task
from muster_scheduling.volcano.plan import TaskStatus
from muster_scheduling.volcano.session import Session


@dataclass(frozen=True, slots=True)
class Bundle:
    """Tasks of one job that go together. `local` are those of them in the domain that gains.

    A safe bundle leaves the gang complete; any other takes all that is left of it, everywhere.
    """

    job: Job
    safe: bool
    local: tuple[Task, ...]
    tasks: tuple[Task, ...]


def bundles_of(session: Session, job: Job, local: Iterable[Task], *, whole: bool) -> list[Bundle]:
    """Split a job's tasks in a domain into single tasks that it can spare, and the rest.

    A job that is not complete anyway can spare everything. The rest goes only with the whole job,
    and only if each of its tasks may be a victim.
    """
    candidates = session.in_order(
        local, lambda left, right: session.compare_victims(job, left, right)
    )
    spared = _Slack(job)
    safe = [task for task in candidates if spared.take(task)]
    rest = [task for task in candidates if task not in safe]
    bundles = [Bundle(job, safe=True, local=(task,), tasks=(task,)) for task in safe]
    everywhere = [task for task in job.in_status(*sorted(VICTIM_STATUSES)) if task not in safe]
    movable = all(task.preemptable for task in everywhere)
    if rest and whole and movable:
        ordered = tuple(sorted(everywhere, key=lambda task: task.key))
        bundles.append(Bundle(job, safe=False, local=tuple(rest), tasks=ordered))
    return bundles


def spare_of(candidates: Iterable[Task]) -> list[Task]:
    """Those whose jobs keep more than their minimums, taking them one by one in this order (G5)."""
    slacks: dict[str, _Slack] = {}
    taken: dict[str, int] = {}
    spare: list[Task] = []
    for task in candidates:
        job = task.gang
        slack = slacks.setdefault(job.key, _Slack(job))
        left = job.ready_count - taken.get(job.key, 0)
        if left > job.min_member and slack.take(task):
            taken[job.key] = taken.get(job.key, 0) + 1
            spare.append(task)
    return spare


class _Slack:
    """How much of a gang can go before one of its minimums is reached. Who leads it never can."""

    def __init__(self, job: Job) -> None:
        held = ALLOCATED | {TaskStatus.SUCCEEDED}
        self._complete = job.ready and job.role_shortage(held) is None
        self._spare = job.ready_count - job.min_member
        self._by_role = _count(job.tasks, held)
        self._least_of_role = job.group.min_task_member if job.roles_counted else {}
        self._of_sub_job = {key: sub.count(held) for key, sub in job.sub_jobs.items()}
        self._groups = {
            policy.name: sum(
                sub.ready for sub in job.sub_jobs.values() if sub.policy == policy.name
            )
            - policy.min_groups
            for policy in job.group.sub_groups
        }

    def take(self, task: Task) -> bool:
        """Take a task if the gang stays complete, and remember it."""
        if not self._complete:
            return True
        if task.pod.leads:
            return False
        role_left = self._by_role.get(task.role, 0) - 1
        if self._spare < 1 or role_left < self._least_of_role.get(task.role, 0):
            return False
        sub_job = task.sub_job
        if sub_job is not None and sub_job.policy:
            if self._breaks(sub_job) and self._groups[sub_job.policy] < 1:
                return False
            self._groups[sub_job.policy] -= self._breaks(sub_job)
            self._of_sub_job[sub_job.key] -= 1
        self._spare -= 1
        self._by_role[task.role] = role_left
        return True

    def _breaks(self, sub_job: SubJob) -> bool:
        return self._of_sub_job[sub_job.key] == sub_job.min_member


def _count(tasks: Mapping[str, Task], statuses: frozenset[TaskStatus]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for task in tasks.values():
        if task.status in statuses:
            counted[task.role] = counted.get(task.role, 0) + 1
    return counted


def in_eviction_order(
    session: Session, preemptor: Job, bundles: Sequence[Bundle], need: Resources
) -> list[Bundle]:
    """Safe ones first; then as victims go; then who frees most for what it loses; then by name."""

    def compare(left: Bundle, right: Bundle) -> int:
        if left.safe != right.safe:
            return -1 if left.safe else 1
        victims = _compare_victims(session, preemptor, left, right)
        if victims:
            return victims
        mine, other = _return(left, need), _return(right, need)
        if mine != other:
            return -1 if mine > other else 1
        return -1 if _name(left) < _name(right) else 1

    return session.in_order(bundles, compare)


def _compare_victims(session: Session, preemptor: Job, left: Bundle, right: Bundle) -> int:
    if left.job is right.job:
        return 0
    return session.compare_victims(preemptor, left.local[0], right.local[0])


def _return(bundle: Bundle, need: Resources) -> int:
    """What of the need a bundle frees here, over what its job loses everywhere."""
    freed = total_of(task.requests for task in bundle.local)
    lost = total_of(task.requests for task in bundle.tasks)
    gain = sum(
        min(freed.get(name, 0) * SCALE // quantity, SCALE)
        for name, quantity in need.items()
        if quantity
    )
    cost = sum(lost.get(name, 0) * SCALE // quantity for name, quantity in need.items() if quantity)
    return gain * SCALE // cost if cost else gain


def _name(bundle: Bundle) -> str:
    return bundle.local[0].key
