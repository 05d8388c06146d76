"""One node's cards that are divided into MIG instances as pods need them, in a session."""

from dataclasses import dataclass, field

from muster_domain.mig import profile_of
from muster_domain.nodes import Device, DeviceHealth, MigInstance, Node
from muster_scheduling.placement.geometry import MILLI, Ask, Divisible, ask_of, card_of
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.plan import TaskStatus


@dataclass(frozen=True, slots=True)
class _Part:
    instances: tuple[MigInstance, ...]
    fixed: Ask
    status: TaskStatus


@dataclass(slots=True)
class DividedCards:
    """What tasks hold of the cards, by task; `fixed` are whole devices of a profile."""

    cards: tuple[Device, ...]
    fixed: dict[str, int]
    _parts: dict[str, _Part] = field(default_factory=dict[str, _Part])

    def add(self, task: Task) -> None:
        """Give a task the instances that it says it has, else the best."""
        ask = ask_of(task.pod.requests)
        if not ask:
            return
        instances = task.pod.instances
        if not task.pod.node:
            free = self.future if task.status is TaskStatus.PIPELINED else self.idle
            given = free.give(ask)
            instances = given[1] if given is not None else ()
        made = [instance.profile for instance in instances]
        fixed = tuple((profile, count - made.count(profile)) for profile, count in ask)
        self._parts[task.key] = _Part(instances, fixed, task.status)

    def remove(self, task: Task) -> None:
        """Take a task's instances from it."""
        self._parts.pop(task.key, None)

    @property
    def idle(self) -> Divisible:
        """What is left of what nobody has now."""
        return self._without(TaskStatus.PIPELINED)

    @property
    def future(self) -> Divisible:
        """What will be left once releasing tasks are gone and pipelined ones have come."""
        return self._without(TaskStatus.RELEASING)

    def _without(self, status: TaskStatus) -> Divisible:
        fixed = dict(self.fixed)
        held: dict[int, list[MigInstance]] = {}
        for part in self._parts.values():
            if part.status is status:
                continue
            for profile, count in part.fixed:
                fixed[profile] = max(0, fixed.get(profile, 0) - count)
            for instance in part.instances:
                held.setdefault(instance.card, []).append(instance)
        cards = (card_of(device, held.get(device.index, ())) for device in self.cards)
        return Divisible(fixed, tuple(cards))


def divided_cards(node: Node) -> DividedCards | None:
    """The healthy cards of a node that are divided as pods need it, if it has any."""
    healthy = [device for device in node.devices if device.health is DeviceHealth.HEALTHY]
    cards = tuple(device for device in healthy if device.profiles)
    if not cards:
        return None
    fixed: dict[str, int] = {}
    for device in healthy:
        profile = profile_of(device.resource)
        if profile:
            fixed[profile] = fixed.get(profile, 0) + 1
    return DividedCards(cards, fixed)


def room_milli(free: Divisible, resource: str) -> int:
    """How much of a resource that stands for a profile there is."""
    return MILLI * free.room(profile_of(resource))
