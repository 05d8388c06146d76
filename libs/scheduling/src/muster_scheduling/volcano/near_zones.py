"""NUMA zones as nodes report them: what tasks that want to be near have of each in a session."""

from muster_domain.nodes import DeviceHealth, Node, NumaPolicy
from muster_scheduling.placement.request import numa_policy
from muster_scheduling.placement.shares import GPU, WHOLE
from muster_scheduling.placement.zones import Near, Zones
from muster_scheduling.volcano.job import HELD, Task
from muster_scheduling.volcano.points import Screening
from muster_scheduling.volcano.session import Session


class NearZones:
    """The zones of a session's nodes, less what tasks hold of them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes = [session.nodes.node(name) for name in session.nodes.names]
        width = max((len(node.zones) for node in self._nodes), default=0)
        self._zones = Zones.none(len(self._nodes), width)
        for row, node in enumerate(self._nodes):
            for column, zone in enumerate(node.zones):
                cards = _cards_in(node, zone.number)
                self._zones.cpu_milli[row, column] = WHOLE * len(zone.cpus)
                self._zones.free_cpu_milli[row, column] = WHOLE * len(zone.cpus)
                self._zones.cards[row, column] = self._zones.free_cards[row, column] = cards
        self._given: dict[str, list[tuple[int, int, int]]] = {}
        for tasks in session.nodes.tasks:
            for _, task in sorted(tasks.items()):
                if task.status in HELD:
                    self.give(task)

    def screen(self, task: Task, screening: Screening) -> None:
        """Refuse nodes without a zone that has room, where a task insists on one."""
        near = _near(task)
        if near is not None and near.strict:
            apart = self._zones.pods_fitting(near) < 1
            screening.refuse(apart, "node(s) have no NUMA zone with room for the pod")

    def give(self, task: Task) -> None:
        """Count what a task has of which zone: as it says, else of the one with least free."""
        row = self._session.nodes.row[task.node]
        if not self._nodes[row].zones or task.key in self._given:
            return
        if task.pod.node:
            taken = self._said(row, task)
        else:
            column = self._best(row, _near(task))
            cards = task.pod.requests.get(GPU, 0) // WHOLE
            cpu_milli = task.pod.requests.get("cpu", 0)
            taken = [] if column is None else [(column, cpu_milli, cards)]
        self._given[task.key] = taken
        self._count(row, taken, -1)

    def take_back(self, task: Task) -> None:
        """Give a zone back what a task had of it."""
        row = self._session.nodes.row.get(task.node or "")
        if row is not None:
            self._count(row, self._given.pop(task.key, []), 1)

    def _said(self, row: int, task: Task) -> list[tuple[int, int, int]]:
        """What a task that sits has of zones: processors where it wants to be near, and cards."""
        node, cpu_milli = self._nodes[row], task.pod.requests.get("cpu", 0)
        numbers = [zone.number for zone in node.zones]
        taken = [(numbers.index(n), cpu_milli, 0) for n in task.pod.zones if n in numbers]
        held = task.pod.devices.get(GPU, ())
        cards = [d.numa_node for d in node.devices if d.resource == GPU and d.index in held]
        return taken + [(numbers.index(zone), 0, 1) for zone in cards if zone in numbers]

    def _best(self, row: int, near: Near | None) -> int | None:
        zones = self._zones
        able = [
            (int(zones.free_cards[row, column]), int(zones.free_cpu_milli[row, column]), column)
            for column in range(len(self._nodes[row].zones))
            if near is not None
            and zones.free_cards[row, column] >= near.cards
            and zones.free_cpu_milli[row, column] >= near.cpu_milli
        ]
        return min(able)[2] if able else None

    def _count(self, row: int, taken: list[tuple[int, int, int]], sign: int) -> None:
        for column, cpu_milli, cards in taken:
            self._zones.free_cpu_milli[row, column] += sign * cpu_milli
            self._zones.free_cards[row, column] += sign * cards


def _near(task: Task) -> Near | None:
    policy = numa_policy(task.pod.annotations)
    if policy is NumaPolicy.NONE:
        return None
    requests = task.pod.requests
    return Near(policy, requests.get("cpu", 0), requests.get(GPU, 0) // WHOLE)


def _cards_in(node: Node, zone: int) -> int:
    return sum(
        device.resource == GPU
        and device.numa_node == zone
        and device.health is DeviceHealth.HEALTHY
        for device in node.devices
    )
