"""proportion: every queue deserves a part of the cluster by its weight.

Deserved is found by pouring the cluster into the queues by weight until each has what it asks for,
within its capability and never below its guarantee (2.12). A queue with all it deserves gets
nothing more; one with more than it deserves may be taken from. Only queues with jobs take part.
"""

from collections.abc import Mapping, Sequence

from muster_domain.queues import VolcanoQueue
from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.accounts import Account, follow, open_accounts
from muster_scheduling.volcano.amounts import (
    add_to,
    at_least,
    capped,
    capped_to,
    covers,
    covers_asked,
    dominant_share,
    minus,
    take_from,
    total_of,
)
from muster_scheduling.volcano.job import Job, Task
from muster_scheduling.volcano.points import Vote
from muster_scheduling.volcano.queue_levels import set_ceilings
from muster_scheduling.volcano.session import Session


def open_proportion(session: Session, option: PluginOption) -> None:
    """Register the order of queues, what they may hold, and who may be reclaimed from."""
    everyone = open_accounts(session)
    accounts = {name: account for name, account in everyone.items() if account.jobs}
    set_ceilings(session, everyone)
    pour(accounts, session.total)
    follow(session, option, {name: [account] for name, account in accounts.items()})

    def order(left: VolcanoQueue, right: VolcanoQueue) -> int:
        if left.priority != right.priority:
            return right.priority - left.priority
        mine, other = (_share(accounts.get(queue.name)) for queue in (left, right))
        return (mine > other) - (mine < other)

    def overused(queue: VolcanoQueue) -> bool:
        account = accounts[queue.name]
        return covers(account.allocated, account.deserved)

    def within(queue: VolcanoQueue, tasks: Sequence[Task]) -> bool:
        account = accounts[queue.name]
        asked = total_of(task.requests for task in tasks)
        after = total_of((account.allocated, asked))
        return session.is_open(queue) and covers_asked(account.deserved, after, asked)

    def victims(_: Task, candidates: Sequence[Task]) -> list[Task]:
        return _above_deserved(accounts, candidates)

    points = session.points
    points.queue_order.add(option, order)
    points.overused.add(option, overused)
    points.allocatable.add(option, lambda queue, task: within(queue, (task,)))
    points.preemptive.add(option, within)
    points.reclaimable.add(option, victims)
    points.bundle.add(
        option,
        lambda _, tasks, reclaim: not reclaim or len(victims(tasks[0], tasks)) == len(tasks),
    )
    points.job_enqueueable.add(option, lambda job: _vote(session, accounts[job.queue], job))


def _vote(session: Session, account: Account, job: Job) -> Vote:
    """Whether the queue's ceiling has room for a job's minimum (E4)."""
    asked = job.group.min_resources
    after = minus(total_of((asked, account.allocated, account.inqueue)), account.elastic)
    fits = session.is_open(account.queue) and covers_asked(account.real_capability, after, asked)
    return Vote.PERMIT if fits else Vote.REJECT


def _share(account: Account | None) -> int:
    return dominant_share(account.allocated, account.deserved) if account is not None else 0


def pour(accounts: Mapping[str, Account], total: Mapping[str, int]) -> None:
    """Set what each queue deserves: water-filling by weight, to the last milli-unit (2.12.4)."""
    remaining = dict(total)
    thirsty: list[str] = sorted(accounts)
    while thirsty:
        weights = sum(accounts[name].queue.weight for name in thirsty)
        if not weights:
            break
        before = dict(remaining)
        done: list[str] = []
        for name in thirsty:
            account = accounts[name]
            old = account.deserved
            account.deserved = _poured(account, before, weights)
            take_from(remaining, minus(account.deserved, old))
            if covers(account.deserved, account.request) or account.deserved == old:
                done.append(name)
        remaining = {name: max(0, quantity) for name, quantity in remaining.items()}
        thirsty = [name for name in thirsty if name not in done]
        if not any(remaining.values()) or remaining == before:
            break


def _poured(account: Account, remaining: Mapping[str, int], weights: int) -> dict[str, int]:
    weight = account.queue.weight
    portion = {name: quantity * weight // weights for name, quantity in remaining.items()}
    more = total_of((account.deserved, portion))
    within = capped_to(capped(more, account.real_capability), account.request)
    return at_least(within, account.guarantee)


def _above_deserved(accounts: Mapping[str, Account], candidates: Sequence[Task]) -> list[Task]:
    """Candidates whose queue holds more than it deserves, taking them one by one (2.12.6)."""
    left: dict[str, dict[str, int]] = {}
    victims: list[Task] = []
    for task in candidates:
        account = accounts[task.gang.queue]
        held = left.setdefault(account.queue.name, dict(account.allocated))
        if covers(account.deserved, held) or not covers(held, task.requests):
            continue
        add_to(held, {name: -quantity for name, quantity in task.requests.items()})
        victims.append(task)
    return victims
