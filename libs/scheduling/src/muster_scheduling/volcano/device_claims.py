"""Devices that pods claim through ResourceClaims: who holds which, and where there are some.

A claim counts once, however many pods share it, from the first of them that has a node.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from muster_domain.volcano import DeviceClaim
from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.placement.columns import Mask
from muster_scheduling.volcano.amounts import add_to
from muster_scheduling.volcano.job import HELD, Job, Task
from muster_scheduling.volcano.points import Screening
from muster_scheduling.volcano.session import Session

_PREFIX = "deviceclass/"


class DeviceClaims:
    """The claims of a session and the tasks that hold them."""

    def __init__(self, session: Session, option: PluginOption) -> None:
        self._session = session
        self._claims = {claim.key: claim for claim in session.snapshot.device_claims}
        self._users: dict[str, dict[str, Task]] = {}
        for job in session.jobs.values():
            for task in job.in_status(*sorted(HELD)):
                self._gain(task)
        session.points.allocated.add(option, self._gain)
        session.points.deallocated.add(option, self._lose)

    def new_of(self, tasks: Iterable[Task]) -> dict[str, DeviceClaim]:
        """The claims of some tasks that nobody holds yet, by key."""
        found: dict[str, DeviceClaim] = {}
        for task in tasks:
            for name in task.pod.resource_claims:
                key = f"{task.pod.namespace}/{name}"
                if key in self._claims and not self._users.get(key):
                    found[key] = self._claims[key]
        return found

    def held_by(self, queues: frozenset[str]) -> dict[str, int]:
        """Devices by class that tasks of some queues hold."""
        total: dict[str, int] = {}
        for key, users in self._users.items():
            if any(task.gang.queue in queues for task in users.values()):
                add_to(total, self._claims[key].devices)
        return total

    def screen(self, task: Task, screening: Screening) -> None:
        """Refuse nodes without enough free devices for what a task claims anew."""
        wanted: dict[str, int] = {}
        for claim in self.new_of((task,)).values():
            add_to(wanted, claim.devices)
        classes = {found.name: found for found in self._session.snapshot.device_classes}
        for name, count in sorted(wanted.items()):
            found = classes.get(name)
            if found is None or found.unreadable or not found.driver:
                why = (
                    "is not declared" if found is None else "has a selector that is not understood"
                )
                everywhere = np.ones(len(self._session.nodes), np.bool_)
                screening.refuse(everywhere, f"device class {name} {why}", final=True)
            else:
                short = self._short_of(found.driver, name, count)
                screening.refuse(short, f"node(s) have not enough free devices of class {name}")

    def _short_of(self, driver: str, name: str, count: int) -> Mask:
        nodes = self._session.nodes
        free = np.zeros(len(nodes), np.int64)
        for part in self._session.snapshot.device_slices:
            if part.driver == driver and part.node in nodes.row:
                free[nodes.row[part.node]] += part.devices
        for key, users in self._users.items():
            first = next(iter(users.values()), None)
            if first is not None and first.node in nodes.row:
                free[nodes.row[first.node]] -= self._claims[key].devices.get(name, 0)
        return free < count

    def _gain(self, task: Task) -> None:
        for name in task.pod.resource_claims:
            key = f"{task.pod.namespace}/{name}"
            if key in self._claims:
                self._users.setdefault(key, {})[task.key] = task

    def _lose(self, task: Task) -> None:
        for name in task.pod.resource_claims:
            self._users.get(f"{task.pod.namespace}/{name}", {}).pop(task.key, None)


class DeviceQuota:
    """Ceilings on devices in the capability of queues, as `deviceclass/NAME`."""

    def __init__(
        self, claims: DeviceClaims, chains: Mapping[str, list[str]], session: Session
    ) -> None:
        self._claims = claims
        self._chains = chains
        self._session = session
        self._let_in: dict[str, dict[str, int]] = {}

    def holds(self, queue: str, tasks: Iterable[Task], *, waiting: bool = False) -> bool:
        """Whether a queue and those above may hold what some tasks claim anew.

        With `waiting` what was let in and holds nothing yet counts too.
        """
        asked: dict[str, int] = {}
        for claim in self._claims.new_of(tasks).values():
            add_to(asked, claim.devices)
        return not asked or all(
            self._within(name, asked, waiting=waiting) for name in self._chains[queue]
        )

    def let_in(self, job: Job) -> None:
        """Count what a job that was let in claims."""
        for claim in self._claims.new_of(job.tasks.values()).values():
            add_to(self._let_in.setdefault(job.queue, {}), claim.devices)

    def _within(self, name: str, asked: Mapping[str, int], *, waiting: bool) -> bool:
        queue = self._session.queues.get(name)
        if queue is None:
            return True
        under = frozenset(low for low, chain in self._chains.items() if name in chain)
        total = self._claims.held_by(under)
        for low in sorted(under) if waiting else ():
            add_to(total, self._let_in.get(low, {}))
        return all(
            (total.get(kind, 0) + count) * 1000 <= queue.capability[_PREFIX + kind]
            for kind, count in asked.items()
            if _PREFIX + kind in queue.capability
        )
