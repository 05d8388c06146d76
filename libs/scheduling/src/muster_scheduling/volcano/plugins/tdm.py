"""tdm: nodes that are somebody else's for part of the day.

A node's label `volcano.sh/revocable-zone` names its zone, the argument `tdm.revocable-zone.NAME`
the hours in UTC in which it may be used, as `10:00-21:00`. Only pods whose annotation of that key
is `*` are seated there. When the hours are over the preemptable pods on it are victims of shuffle,
every `tdm.evict.period` (1m), as many of a job as `volcano.sh/jdb-min-available` or
`volcano.sh/jdb-max-unavailable` (1) on its PodGroup allow.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.amounts import SCALE
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.job import Job, Task
from muster_scheduling.volcano.plan import TaskStatus
from muster_scheduling.volcano.points import Screening
from muster_scheduling.volcano.session import Session

_ZONE = "volcano.sh/revocable-zone"
_ARGUMENT = "tdm.revocable-zone."
_MIN_AVAILABLE = "volcano.sh/jdb-min-available"
_MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
_PREEMPTABLE = "volcano.sh/preemptable"
_HOURS = re.compile(r"([0-9]{1,2}):([0-9]{2})-([0-9]{1,2}):([0-9]{2})")
_MINUTE_MS = 60_000
_DAY_MINUTES = 24 * 60
_BONUS = 100


def open_tdm(session: Session, option: PluginOption) -> None:
    """Register filter, score, victims and who starves."""
    plugin = _Tdm(session, Arguments(option.arguments))
    points = session.points
    points.screen.add(option, plugin.screen)
    points.node_score.add(option, plugin.score)
    points.preemptable.add(option, plugin.victims)
    points.victim_tasks.add(option, plugin.revoked)
    points.job_order.add(option, lambda left, right: _yields(left) - _yields(right))
    points.job_starving.add(
        option, lambda job: not _yields(job) and job.count((TaskStatus.PENDING,)) > 0
    )


def open_at(hours: str, minute: int) -> bool:
    """Whether hours as `10:00-21:00` are running at a minute of the day.

    Hours that end where they begin run all day; those that end earlier run past midnight. What
    cannot be read never runs.
    """
    match = _HOURS.fullmatch(hours.strip())
    if match is None:
        return False
    begin = int(match[1]) * 60 + int(match[2])
    end = int(match[3]) * 60 + int(match[4])
    if max(begin, end) >= _DAY_MINUTES:
        return False
    length = (end - begin) % _DAY_MINUTES or _DAY_MINUTES
    return (minute - begin) % _DAY_MINUTES < length


class _Tdm:
    def __init__(self, session: Session, arguments: Arguments) -> None:
        self._session = session
        minute = session.now_ms // _MINUTE_MS % _DAY_MINUTES
        self._open = {
            key.removeprefix(_ARGUMENT): open_at(arguments.text(key), minute)
            for key in arguments.values
            if key.startswith(_ARGUMENT)
        }
        self._period_ms = arguments.duration_ms("tdm.evict.period") or _MINUTE_MS
        column = session.nodes.columns.label(_ZONE)
        zones = [value or "" for value in column.values]
        self._revocable: Mask = np.array([bool(zone) for zone in zones], np.bool_)[column.codes]
        is_open = [self._open.get(zone, False) for zone in zones]
        self._usable: Mask = np.array(is_open, np.bool_)[column.codes]

    def screen(self, task: Task, screening: Screening) -> None:
        """Revocable nodes take only who puts up with it, and only in their hours."""
        screening.refuse(self._revocable & ~self._usable, "revocable zone is closed", final=True)
        if not _puts_up(task):
            screening.refuse(self._revocable, "node is in a revocable zone", final=True)

    def score(self, task: Task, _: Mask) -> Vector:
        """Who may use a revocable node goes there first."""
        return np.where(self._revocable & _puts_up(task), _BONUS * SCALE, 0)

    def victims(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Running pods on nodes of our own that said they may go, as their budgets allow.

        Who may be taken away itself, or may use revocable nodes, takes nobody away.
        """
        if _says_preemptable(preemptor) or _puts_up(preemptor):
            return []
        able = [
            task
            for task in candidates
            if task.status is TaskStatus.RUNNING
            and _says_preemptable(task)
            and not self._revocable[self._session.nodes.row[task.node]]
        ]
        return _within_budgets(able)

    def revoked(self) -> list[Task]:
        """Who must leave the zones whose hours are over, if it is time again."""
        last_ms = self._session.snapshot.revoked_at_ms
        if last_ms is not None and self._session.now_ms < last_ms + self._period_ms:
            return []
        over = self._revocable & ~self._usable
        found = [
            task
            for row in np.flatnonzero(over).tolist()
            for _, task in sorted(self._session.nodes.tasks[row].items())
            if task.job is not None
            and task.status is TaskStatus.RUNNING
            and _says_preemptable(task)
        ]
        return _within_budgets(found)


def _puts_up(task: Task) -> bool:
    return task.pod.annotations.get(_ZONE) == "*"


def _says_preemptable(task: Task) -> bool:
    sources: list[Mapping[str, str]] = [task.pod.annotations, task.pod.labels]
    if task.job is not None:
        sources += [task.job.group.annotations, task.job.group.labels]
    return (
        next((source[_PREEMPTABLE] for source in sources if _PREEMPTABLE in source), "") == "true"
    )


def _yields(job: Job) -> bool:
    sources = (job.group.annotations, job.group.labels)
    return any(source.get(_PREEMPTABLE) == "true" for source in sources)


def _within_budgets(tasks: Sequence[Task]) -> list[Task]:
    left: dict[str, int] = {}
    chosen: list[Task] = []
    for task in tasks:
        job = task.gang
        budget = left.setdefault(job.key, _budget(job))
        if budget > 0:
            left[job.key] = budget - 1
            chosen.append(task)
    return chosen


def _budget(job: Job) -> int:
    """How many of a job's pods may go at once."""
    total = len(job.tasks)
    least = _count(job.group.annotations.get(_MIN_AVAILABLE, ""), total)
    if least is not None:
        return max(0, job.count((TaskStatus.RUNNING,)) - least)
    most = _count(job.group.annotations.get(_MAX_UNAVAILABLE, ""), total)
    return 1 if most is None else most


def _count(written: str, total: int) -> int | None:
    """A number, or a percentage of the total rounded up; `None` for anything else."""
    number = written.removesuffix("%")
    if not (number.isascii() and number.isdecimal()):
        return None
    return -(-total * int(number) // 100) if written.endswith("%") else int(number)
