"""capacity: every queue deserves what is written in it, may borrow, and gives that back.

Rules 2.12b and, with `enableHierarchy`, 2.12c: a task must fit its queue and every queue above, up
to their ceilings; below what it deserves a queue may reclaim. Argument `ancestorReclaimLevel` (0):
how many steps above a queue others speak for it. With `capacity.DynamicResourceAllocationEnable` a
capability of `deviceclass/NAME` bounds the devices that pods claim.

A queue whose parent is missing, or whose parents go in a circle, or that holds jobs though it has
children, is shut off by itself with everything under it; the others go on.
"""

from collections.abc import Mapping, Sequence

from muster_domain.queues import VolcanoQueue
from muster_domain.volcano_scheduler import PluginOption, Switch
from muster_scheduling.volcano.accounts import Account, follow
from muster_scheduling.volcano.amounts import (
    PODS,
    SCALE,
    covers_asked,
    covers_some,
    dominant_share,
    minus,
    total_of,
)
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.device_claims import DeviceClaims, DeviceQuota
from muster_scheduling.volcano.job import Job, Task
from muster_scheduling.volcano.points import Vote
from muster_scheduling.volcano.queue_levels import ROOT_QUEUE, QueueLevels, build_levels
from muster_scheduling.volcano.session import Session


def open_capacity(session: Session, option: PluginOption) -> None:
    """Register the order of queues, what they may hold, and who may be reclaimed from."""
    hierarchical = Switch.HIERARCHY in option.enabled
    arguments = Arguments(option.arguments)
    steps = arguments.integer("ancestorReclaimLevel", 0)
    levels = build_levels(session, hierarchical=hierarchical)
    follow(session, option, levels.chains)
    devices = None
    if arguments.flag("capacity.DynamicResourceAllocationEnable"):
        chains = {name: [a.queue.name for a in chain] for name, chain in levels.chains.items()}
        devices = DeviceQuota(DeviceClaims(session, option), chains, session)
        session.points.job_enqueued.add(option, devices.let_in)
    plugin = _Capacity(session, levels, steps if hierarchical else 0, devices)
    points = session.points
    points.queue_order.add(option, plugin.order)
    points.allocatable.add(option, plugin.allocatable)
    points.preemptive.add(option, plugin.may_reclaim)
    points.reclaimable.add(option, plugin.victims)
    points.bundle.add(option, plugin.bundle_allowed)
    points.job_enqueueable.add(option, plugin.vote)
    if hierarchical:
        points.victim_queue_order.add(option, levels.compare_victims)


class _Capacity:
    def __init__(
        self, session: Session, levels: QueueLevels, steps: int, devices: DeviceQuota | None
    ) -> None:
        self._session = session
        self._levels = levels
        self._steps = steps
        self._devices = devices

    def order(self, left: VolcanoQueue, right: VolcanoQueue) -> int:
        """By priority; then leaves; then the shares of the queues where the paths part."""
        if left.priority != right.priority:
            return right.priority - left.priority
        leaf = self._levels.is_leaf(right.name) - self._levels.is_leaf(left.name)
        if leaf:
            return leaf
        mine, other = self._levels.where_paths_part(left.name, right.name)
        shares = _share(mine), _share(other)
        if shares[0] != shares[1]:
            return 1 if shares[0] > shares[1] else -1
        return bool(other.deserved) - bool(mine.deserved)

    def holds(self, queue: VolcanoQueue, asked: Mapping[str, int]) -> bool:
        """Whether the queue and all above it have room under their ceilings."""
        return self._usable(queue) and all(
            covers_asked(account.real_capability, total_of((account.allocated, asked)), asked)
            for account in self._levels.chains[queue.name]
        )

    def allocatable(self, queue: VolcanoQueue, task: Task) -> bool:
        """Whether the ceilings have room for a task and the devices it claims."""
        devices = self._devices is None or self._devices.holds(queue.name, (task,))
        return devices and self.holds(queue, task.requests)

    def may_reclaim(self, queue: VolcanoQueue, tasks: Sequence[Task]) -> bool:
        """Whether the queue, or one near above it, is due some of what is asked.

        Queues above may be full: who is under them gives way.
        """
        asked = total_of(task.requests for task in tasks)
        chain = self._levels.chains[queue.name]
        after = total_of((chain[0].allocated, asked))
        if not self._usable(queue) or not covers_asked(chain[0].real_capability, after, asked):
            return False
        due = [chain[0], *self._near_above(queue.name)]
        return any(
            covers_some(account.deserved, total_of((account.allocated, asked)), asked)
            for account in due
        )

    def victims(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Candidates that free what is asked and whose queues hold more than they deserve."""
        asked = _resources_of(reclaimer.init_requests)
        full = self._full_above(reclaimer)
        held: dict[str, dict[str, int]] = {}
        chosen: list[Task] = []
        for task in candidates:
            useful = not asked.isdisjoint(_resources_of(task.requests))
            chain = self._levels.chains[task.gang.queue]
            under = all(any(account is above for account in chain) for above in full)
            if useful and under and self._spares(reclaimer, task, held):
                for account in chain:
                    name = account.queue.name
                    held[name] = minus(held.get(name, account.allocated), task.requests)
                chosen.append(task)
        return chosen

    def bundle_allowed(self, job: Job, tasks: Sequence[Task], reclaim: bool) -> bool:  # noqa: FBT001
        """Whether a bundle of another queue may go as a whole."""
        if not reclaim:
            return True
        queue = self._session.queue_of(job)
        if not self._usable(queue):
            return False
        held: dict[str, dict[str, int]] = {}
        for task in tasks:
            account = self._levels.chains[task.gang.queue][0]
            if not self._may_lose(account, task, held.get(account.queue.name)):
                return False
            before = held.get(account.queue.name, account.allocated)
            held[account.queue.name] = minus(before, task.requests)
        return True

    def vote(self, job: Job) -> Vote:
        """Whether every ceiling has room for a job's minimum (E5)."""
        queue = self._session.queue_of(job)
        asked = job.group.min_resources
        fits = self._usable(queue) and all(
            covers_asked(
                account.real_capability,
                minus(total_of((asked, account.allocated, account.inqueue)), account.elastic),
                asked,
            )
            for account in self._levels.chains[queue.name]
        )
        devices = self._devices
        if fits and devices is not None:
            fits = devices.holds(queue.name, job.tasks.values(), waiting=True)
        return Vote.PERMIT if fits else Vote.REJECT

    def _usable(self, queue: VolcanoQueue) -> bool:
        return self._session.is_open(queue) and queue.name not in self._levels.shut

    def _full_above(self, reclaimer: Task) -> list[Account]:
        """The queues above that have no room for a task: only who is under them can make some."""
        asked = reclaimer.requests
        return [
            account
            for account in self._levels.chains[reclaimer.gang.queue][1:]
            if not covers_asked(
                account.real_capability, total_of((account.allocated, asked)), asked
            )
        ]

    def _near_above(self, name: str) -> list[Account]:
        """The queues above one, as many steps up as speak for those below; never the root."""
        above = self._levels.chains[name][1 : 1 + self._steps]
        return [account for account in above if account.queue.name != ROOT_QUEUE]

    def _spares(self, reclaimer: Task, task: Task, held: Mapping[str, dict[str, int]]) -> bool:
        """Whether a victim's queue can lose it, and those above that are not the reclaimer's."""
        own_chain = self._levels.chains[reclaimer.gang.queue]
        chain = self._levels.chains.get(task.gang.queue)
        if not chain or not self._may_lose(chain[0], task, held.get(chain[0].queue.name)):
            return False
        shared = {account.queue.name for account in own_chain}
        for account in self._near_above(task.gang.queue):
            name = account.queue.name
            if name not in shared and not self._may_lose(account, task, held.get(name)):
                return False
        if _immediate(chain[0], task):
            close = [a for a in self._near_above(task.gang.queue) if a.queue.name in shared]
            entitled = any(
                own_chain[0].deserved.get(name, 0)
                for name, quantity in reclaimer.init_requests.items()
                if quantity
            )
            return not close or entitled
        return True

    def _may_lose(self, account: Account, task: Task, held: Mapping[str, int] | None) -> bool:
        before = account.allocated if held is None else held
        after = minus(before, task.requests)
        if any(after.get(name, 0) < least for name, least in account.guarantee.items()):
            return False
        if _immediate(account, task):
            return True
        return any(
            quantity and name in account.deserved and before.get(name, 0) > account.deserved[name]
            for name, quantity in task.requests.items()
        )


def _resources_of(amount: Mapping[str, int]) -> set[str]:
    return {name for name, quantity in amount.items() if quantity and name != PODS}


def _immediate(account: Account, task: Task) -> bool:
    """Whether a victim asks for nothing that its queue deserves any of (5c)."""
    return not any(
        quantity and account.deserved.get(name, 0) for name, quantity in task.requests.items()
    )


def _share(account: Account) -> int:
    """A queue that deserves nothing counts as having all of it."""
    if not any(account.deserved.values()):
        return SCALE
    deserved = {name: quantity for name, quantity in account.deserved.items() if quantity}
    return dominant_share(account.allocated, deserved)
