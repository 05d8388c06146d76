"""Queues above queues: who answers for whom, and what each may hold and deserves (2.12c)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster_domain.quantity import Resources
from muster_domain.queues import VolcanoQueue
from muster_scheduling.volcano.accounts import Account, open_accounts
from muster_scheduling.volcano.amounts import (
    add_to,
    at_least,
    capped,
    exceeding,
    total_of,
)
from muster_scheduling.volcano.session import Session

ROOT_QUEUE = "root"


@dataclass(slots=True)
class QueueLevels:
    """Accounts by queue, and for each queue the chain from itself up to the root.

    `shut` queues get nothing and give nothing: why, by name. Without a hierarchy every chain is the
    queue alone.
    """

    accounts: dict[str, Account]
    chains: dict[str, list[Account]]
    children: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    shut: dict[str, str] = field(default_factory=dict[str, str])

    def is_leaf(self, name: str) -> bool:
        """Whether a queue has no queues under it."""
        return not self.children.get(name)

    def where_paths_part(self, left: str, right: str) -> tuple[Account, Account]:
        """The first queues, seen from the root, in which two queues' chains differ."""
        mine, other = self.chains[left][::-1], self.chains[right][::-1]
        for one, two in zip(mine, other, strict=False):
            if one is not two:
                return one, two
        return mine[-1], other[-1]

    def compare_victims(
        self, left: VolcanoQueue, right: VolcanoQueue, preemptor: VolcanoQueue
    ) -> int:
        """Whose tasks go first: those of the queue that shares more levels with the preemptor."""
        return self._shared(right, preemptor) - self._shared(left, preemptor)

    def _shared(self, queue: VolcanoQueue, preemptor: VolcanoQueue) -> int:
        above = {account.queue.name for account in self.chains[preemptor.name]}
        return sum(account.queue.name in above for account in self.chains[queue.name])


def build_levels(session: Session, *, hierarchical: bool) -> QueueLevels:
    """The levels of a session's queues."""
    accounts = open_accounts(session)
    if not hierarchical:
        levels = QueueLevels(accounts, {name: [account] for name, account in accounts.items()})
        set_ceilings(session, accounts)
        for account in accounts.values():
            own = capped(account.queue.deserved, account.real_capability)
            account.deserved = at_least(own, account.guarantee)
        return levels
    accounts.setdefault(ROOT_QUEUE, Account(VolcanoQueue(name=ROOT_QUEUE)))
    levels = QueueLevels(accounts, {})
    for name in sorted(accounts):
        _chain(levels, name)
    for name, chain in levels.chains.items():
        if len(chain) > 1 and name not in levels.shut:
            levels.children.setdefault(chain[1].queue.name, []).append(name)
    for name, account in accounts.items():
        if account.jobs and not levels.is_leaf(name):
            levels.shut[name] = "it has jobs and queues under it"
    _gather(levels)
    _descend(levels, ROOT_QUEUE, capped(session.total, accounts[ROOT_QUEUE].queue.capability), {})
    session.warnings += [f"queue {name} is shut: {why}" for name, why in levels.shut.items()]
    return levels


def _chain(levels: QueueLevels, name: str) -> None:
    """Follow a queue's parents; one that does not reach the root is shut and stands alone."""
    chain = [levels.accounts[name]]
    names = [name]
    problem = ""
    while names[-1] != ROOT_QUEUE and not problem:
        parent = chain[-1].queue.parent or ROOT_QUEUE
        if parent not in levels.accounts:
            problem = f"no queue is named {parent}"
        elif parent in names:
            problem = f"{parent} is above itself"
        else:
            names.append(parent)
            chain.append(levels.accounts[parent])
    levels.chains[name] = chain[:1] if problem else chain
    if problem:
        levels.shut[name] = problem


def _gather(levels: QueueLevels) -> None:
    """Give every queue what those under it hold, ask for, are guaranteed and deserve."""

    def visit(name: str) -> None:
        account = levels.accounts[name]
        below = levels.children.get(name, [])
        for child in below:
            visit(child)
        parts = [levels.accounts[child] for child in below]
        for part in parts:
            add_to(account.allocated, part.allocated)
            add_to(account.request, part.request)
            add_to(account.inqueue, part.inqueue)
            add_to(account.elastic, part.elastic)
        account.guarantee = at_least(
            account.queue.guarantee, total_of(part.guarantee for part in parts)
        )
        account.deserved = at_least(
            account.queue.deserved, total_of(part.deserved for part in parts)
        )

    visit(ROOT_QUEUE)


def _descend(levels: QueueLevels, name: str, ceiling: Resources, inherited: Resources) -> None:
    """Set ceilings from the root down; what a queue does not limit, its parent limits."""
    account = levels.accounts[name]
    account.real_capability = dict(ceiling)
    account.deserved = at_least(capped(account.deserved, ceiling), account.guarantee)
    capability = {**inherited, **account.queue.capability}
    below = levels.children.get(name, [])
    guaranteed = total_of(levels.accounts[child].guarantee for child in below)
    left = exceeding(ceiling, guaranteed)
    for child in below:
        found = levels.accounts[child]
        own = {**capability, **found.queue.capability}
        _descend(levels, child, capped(total_of((left, found.guarantee)), own), capability)


def set_ceilings(session: Session, accounts: Mapping[str, Account]) -> None:
    """Queues side by side: the cluster less others' guarantees, within the capability (2.12.2)."""
    guaranteed = total_of(account.queue.guarantee for account in accounts.values())
    left = exceeding(session.total, guaranteed)
    for account in accounts.values():
        account.guarantee = dict(account.queue.guarantee)
        account.real_capability = capped(
            total_of((left, account.guarantee)), account.queue.capability
        )
