"""Seats for a gang inside HyperNodes: dry runs from the narrowest domains out (A8)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from muster_scheduling.placement.columns import Mask
from muster_scheduling.volcano.job import HELD, Job, SubJob, Task
from muster_scheduling.volcano.line import Line
from muster_scheduling.volcano.opening import locate_sub_job
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Operation, Statement
from muster_scheduling.volcano.tree import ROOT


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose tasks are seated, and how many: until it is ready, or all of them with `whole`.

    Without a sub-job it is the job that must become ready.
    """

    job: Job
    sub_job: SubJob | None = None
    whole: bool = False


SeatTasks = Callable[[Session, Wanted, Line[Task], Mask], Statement | None]


_SEVERAL = 2


@dataclass(slots=True)
class Worksheet:
    """What of a job still wants seats: its sub-jobs in order, and the tasks of each in order."""

    sub_jobs: Line[SubJob]
    tasks: dict[str, Line[Task]]

    @staticmethod
    def of(session: Session, job: Job) -> "Worksheet":
        """All pending tasks of a job."""
        pending: dict[str, list[Task]] = {key: [] for key in job.sub_jobs}
        for task in job.pending:
            if task.sub_job is not None:
                pending[task.sub_job.key].append(task)
        waiting = [sub_job for sub_job in job.sub_jobs.values() if pending[sub_job.key]]
        return Worksheet(
            sub_jobs=Line(session.compare_sub_jobs, waiting),
            tasks={
                key: Line(session.compare_tasks, tasks) for key, tasks in pending.items() if tasks
            },
        )

    def __bool__(self) -> bool:
        return any(self.tasks.values())

    def copy(self) -> "Worksheet":
        """Another sheet of the same, to try things on."""
        return Worksheet(
            self.sub_jobs.copy(), {key: line.copy() for key, line in self.tasks.items()}
        )

    def take_over(self, other: "Worksheet") -> None:
        """Become another sheet."""
        self.sub_jobs, self.tasks = other.sub_jobs, other.tasks


@dataclass(frozen=True, slots=True)
class _Try:
    operations: list[Operation]
    score: int
    worksheet: Worksheet


def seat_in_tree(
    session: Session, job: Job, worksheet: Worksheet, seat: SeatTasks
) -> Statement | None:
    """Seat a job inside one HyperNode: the best of the first group in which any does.

    Every HyperNode of a group is tried on its own and undone; then the best one is done for good.
    Where turns between the sub-jobs do not lead to a whole gang, whole sub-jobs are tried.
    Returns `None`, and leaves everything as it was, when none holds the gang.
    """
    pending = session.in_order(job.pending, session.compare_tasks)
    lacking = max(1, job.min_member - job.ready_count - job.waiting_count)
    only = None if job.has_sub_groups else next(iter(job.sub_jobs.values()))
    tried_any = False
    for group in gradients(session, job, None, ROOT, make_room=False):
        tries: dict[str, _Try] = {}
        prospects = _prospects(session, only, group, pending, lacking)
        tried_any = tried_any or bool(prospects.names)
        for name in prospects.names:
            tried = _try_turns(session, job, worksheet, name, seat) or _try_whole(
                session, job, worksheet, name, seat
            )
            if tried is not None:
                tries[name] = tried
                if prospects.ranked:
                    break
        if tries:
            chosen = max(sorted(tries), key=lambda name: tries[name].score)
            return _do_again(session, worksheet, tries[chosen])
    if not tried_any:
        job.hold_back(_too_narrow(session, job, pending, lacking))
    return None


def _too_narrow(session: Session, job: Job, pending: Sequence[Task], lacking: int) -> str:
    """That no HyperNode could hold what a job lacks; of equal tasks how many the best could."""
    tree, nodes = session.tree, session.nodes
    allowed = tree.tier(ROOT) if job.limit is None or job.limit.tier is None else job.limit.tier
    inside = tree.search_root(ROOT, allowed, job.hyper_node)
    names = [name for name in tree.below(inside) if tree.tier(name) <= allowed] if inside else []
    if not names:
        return f"its pods in {job.hyper_node} span more than tier {allowed}"
    if len({task.shape for task in pending}) > 1:
        return f"none of {len(names)} HyperNodes up to tier {allowed} has room for its minimum"
    asked = pending[0].init_requests
    room = {name: nodes.room_for(asked, tree.domains[name].nodes, lacking) for name in names}
    if ROOT in room:
        return f"all nodes together have room for {room[ROOT]} of {lacking} pods"
    best = max(sorted(room), key=lambda name: room[name])
    return (
        f"none of {len(names)} HyperNodes up to tier {allowed} has room for {lacking} pods, "
        f"{best} has room for {room[best]}"
    )


@dataclass(frozen=True, slots=True)
class _Prospects:
    """HyperNodes that could hold some tasks at all; `ranked` best first, so that one try is enough.

    Of equal tasks it is known before who will be seated, and so which HyperNode will score best.
    """

    names: list[str]
    ranked: bool


def _prospects(
    session: Session, sub_job: SubJob | None, group: list[str], pending: Sequence[Task], least: int
) -> _Prospects:
    """Look at a group before anything is tried; without a sub-job nothing is ranked."""
    if len({task.shape for task in pending}) != 1:
        return _Prospects(group, ranked=False)
    domains, asked = session.tree.domains, pending[0].init_requests
    able = [
        name for name in group if session.nodes.room_for(asked, domains[name].nodes, least) == least
    ]
    if sub_job is None or len(able) < _SEVERAL:
        return _Prospects(able, ranked=False)
    scores = _scores(session, sub_job, dict.fromkeys(able, pending[:least]))
    return _Prospects(sorted(able, key=lambda name: (-scores[name], name)), ranked=True)


def seat_inside(
    session: Session, job: Job, worksheet: Worksheet, name: str, seat: SeatTasks
) -> Statement | None:
    """Seat a job inside one given HyperNode, or leave everything as it was."""
    tried = _try_turns(session, job, worksheet, name, seat) or _try_whole(
        session, job, worksheet, name, seat
    )
    return None if tried is None else _do_again(session, worksheet, tried)


def gradients(
    session: Session, job: Job, sub_job: SubJob | None, inside: str, *, make_room: bool
) -> list[list[str]]:
    """The HyperNodes to try, group by group; without a plugin that knows, the one around."""
    for gradient in session.points.gradient.all:
        return gradient(job, sub_job, inside, make_room)
    return [[inside]]


def _try_turns(
    session: Session, job: Job, worksheet: Worksheet, name: str, seat: SeatTasks
) -> _Try | None:
    """One pass over the sub-jobs; each gets as much as makes it ready, until the job is."""
    sheet = worksheet.copy()
    job.failed.clear()
    statement = Statement(session)
    score = 0
    required, others = _required_first(session, job, sheet)
    exhausted: list[SubJob] = []
    while (required or others) and not (statement.operations and session.job_ready(job)):
        sub_job = required.pop(0) if required else others.pop()
        seated = _seat_sub_job(session, sub_job, sheet, name, seat)
        if seated is None:
            exhausted.append(sub_job)
            continue
        statement.merge(seated[0])
        score += seated[1]
        locate_sub_job(session, sub_job)
        if sheet.tasks[sub_job.key]:
            others.push(sub_job)
    for sub_job in (*exhausted, *required):
        others.push(sub_job)
    sheet.sub_jobs = others
    return _undone(session, job, statement, score, sheet)


def _try_whole(
    session: Session, job: Job, worksheet: Worksheet, name: str, seat: SeatTasks
) -> _Try | None:
    """One pass over the sub-jobs, largest first; each gets all it wants, or the try has failed."""
    if len(worksheet.tasks) < _SEVERAL:
        return None
    sheet = worksheet.copy()
    statement = Statement(session)
    score = 0
    waiting: list[SubJob] = []
    while sheet.sub_jobs:
        waiting.append(sheet.sub_jobs.pop())
    for sub_job in sorted(waiting, key=lambda found: (-len(sheet.tasks[found.key]), found.key)):
        seated = _seat_sub_job(session, sub_job, sheet, name, seat, whole=True)
        if seated is None:
            statement.discard()
            return None
        statement.merge(seated[0])
        score += seated[1]
    return _undone(session, job, statement, score, sheet)


def _undone(
    session: Session, job: Job, statement: Statement, score: int, sheet: Worksheet
) -> _Try | None:
    """Undo what was tried, and keep it if it makes the gang whole, now or soon."""
    fits = bool(statement.operations) and (session.job_ready(job) or session.job_pipelined(job))
    operations = list(statement.operations)
    statement.discard()
    for sub_job in job.sub_jobs.values():
        locate_sub_job(session, sub_job)
    return _Try(operations, score, sheet) if fits else None


def _required_first(
    session: Session, job: Job, sheet: Worksheet
) -> tuple[list[SubJob], Line[SubJob]]:
    """The sub-jobs of a sheet: the fewest that give every policy its minimum, and the others."""
    ordered: list[SubJob] = []
    while sheet.sub_jobs:
        ordered.append(sheet.sub_jobs.pop())
    required: list[SubJob] = []
    for policy in job.group.sub_groups:
        have = sum(
            sub_job.policy == policy.name and session.sub_job_ready(sub_job)
            for sub_job in job.sub_jobs.values()
        )
        lacking = [
            sub_job
            for sub_job in ordered
            if sub_job.policy == policy.name and not session.sub_job_ready(sub_job)
        ]
        required += lacking[: max(0, policy.min_groups - have)]
    first = [sub_job for sub_job in ordered if sub_job in required]
    rest = [sub_job for sub_job in ordered if sub_job not in required]
    return first, Line(session.compare_sub_jobs, rest)


def _seat_sub_job(
    session: Session,
    sub_job: SubJob,
    sheet: Worksheet,
    inside: str,
    seat: SeatTasks,
    *,
    whole: bool = False,
) -> tuple[Statement, int] | None:
    """Seat a sub-job inside one HyperNode, within that of its job."""
    job = sub_job.job
    pending = session.in_order(sheet.tasks[sub_job.key], session.compare_tasks)
    held = sub_job.count(HELD)
    lacking = len(pending) if whole else min(len(pending), max(1, sub_job.min_member - held))
    for group in gradients(session, job, sub_job, inside, make_room=False):
        tried: dict[str, tuple[list[Operation], Line[Task]]] = {}
        prospects = _prospects(session, sub_job, group, pending, lacking)
        for name in prospects.names:
            tasks = sheet.tasks[sub_job.key].copy()
            job.failed.clear()
            wanted = Wanted(job, sub_job, whole)
            statement = seat(session, wanted, tasks, session.tree.domains[name].nodes)
            if statement is not None and statement.operations:
                tried[name] = (list(statement.operations), tasks)
                statement.discard()
                if prospects.ranked:
                    break
        if tried:
            seated = {name: [deed.task for deed in found] for name, (found, _) in tried.items()}
            scores = _scores(session, sub_job, seated)
            chosen = max(sorted(tried), key=lambda name: scores[name])
            operations, sheet.tasks[sub_job.key] = tried[chosen]
            statement = Statement(session)
            statement.replay(operations)
            return statement, scores[chosen]
    return None


def _scores(
    session: Session, sub_job: SubJob, seated: Mapping[str, Sequence[Task]]
) -> dict[str, int]:
    """What the plugins think of each HyperNode with these tasks, in parts of `SCALE`."""
    total = dict.fromkeys(seated, 0)
    for score in session.points.hyper_node_score.all:
        for name, points in score(sub_job, seated).items():
            total[name] += points
    return total


def _do_again(session: Session, worksheet: Worksheet, chosen: _Try) -> Statement:
    statement = Statement(session)
    statement.replay(chosen.operations)
    worksheet.take_over(chosen.worksheet)
    return statement
