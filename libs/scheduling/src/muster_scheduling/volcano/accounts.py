"""What each queue holds, asks for and was promised, kept in step with a session."""

from dataclasses import dataclass, field

from muster_domain.queues import VolcanoQueue
from muster_domain.volcano import PodGroupPhase
from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.amounts import add_to, exceeding, take_from
from muster_scheduling.volcano.job import Job, Task
from muster_scheduling.volcano.plan import TaskStatus
from muster_scheduling.volcano.session import Session


@dataclass(slots=True)
class Account:
    """One queue's, in milli-units.

    `allocated` is held or promised, `request` that and what is pending; `inqueue` is owed to jobs
    that were let in, `elastic` is held beyond the minimum of jobs.
    """

    queue: VolcanoQueue
    jobs: int = 0
    allocated: dict[str, int] = field(default_factory=dict[str, int])
    request: dict[str, int] = field(default_factory=dict[str, int])
    inqueue: dict[str, int] = field(default_factory=dict[str, int])
    elastic: dict[str, int] = field(default_factory=dict[str, int])
    deserved: dict[str, int] = field(default_factory=dict[str, int])
    guarantee: dict[str, int] = field(default_factory=dict[str, int])
    real_capability: dict[str, int] = field(default_factory=dict[str, int])


def owed(job: Job) -> dict[str, int]:
    """What a job that was let in still lacks of its minimum.

    A running job is owed the rest only once its minimum of members runs: one whose first pods start
    the others keeps room for them.
    """
    waits = job.phase is PodGroupPhase.INQUEUE
    grows = job.phase is PodGroupPhase.RUNNING and job.allocated_count >= job.min_member
    return exceeding(job.group.min_resources, job.allocated) if waits or grows else {}


def surplus(job: Job) -> dict[str, int]:
    """What a job holds beyond its minimum; nothing where it names none."""
    return exceeding(job.allocated, job.group.min_resources) if job.group.min_resources else {}


def open_accounts(session: Session) -> dict[str, Account]:
    """The accounts of all queues, by name."""
    accounts = {name: Account(queue) for name, queue in session.queues.items()}
    for job in session.jobs.values():
        account = accounts.get(job.queue)
        if account is None:
            continue
        account.jobs += 1
        add_to(account.allocated, job.allocated)
        add_to(account.request, job.allocated)
        for task in job.in_status(TaskStatus.PENDING):
            add_to(account.request, task.requests)
        add_to(account.inqueue, owed(job))
        add_to(account.elastic, surplus(job))
    return accounts


def follow(session: Session, option: PluginOption, chains: dict[str, list[Account]]) -> None:
    """Keep accounts in step: a task counts in every account of its queue's chain."""

    def gain(task: Task) -> None:
        for account in chains.get(task.gang.queue, ()):
            add_to(account.allocated, task.requests)

    def lose(task: Task) -> None:
        for account in chains.get(task.gang.queue, ()):
            take_from(account.allocated, task.requests)

    def let_in(job: Job) -> None:
        for account in chains.get(job.queue, ()):
            add_to(account.inqueue, job.group.min_resources)

    session.points.allocated.add(option, gain)
    session.points.deallocated.add(option, lose)
    session.points.job_enqueued.add(option, let_in)
