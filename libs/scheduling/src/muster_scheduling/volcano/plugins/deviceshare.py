"""deviceshare: parts of cards, as `muster_scheduling.placement.shares` defines them (2.19).

A node takes a pod if as many different cards as it asks for have room for its share. Arguments:
`deviceshare.SchedulePolicy` (`binpack` or `spread`; without one cards are taken from the last) and
`deviceshare.ScheduleWeight` (10): by binpack a node scores by how full the cards get.
"""

import numpy as np

from muster_domain.nodes import Device, DeviceHealth, Node
from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.placement.shares import (
    GPU,
    PODS_ON_A_CARD_MAX,
    WHOLE,
    Cards,
    Numbers,
    Share,
    pods_sharing,
    share_of,
)
from muster_scheduling.volcano.amounts import SCALE
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.job import HELD, Task
from muster_scheduling.volcano.points import Screening
from muster_scheduling.volcano.session import Session

_BINPACK = "binpack"


def open_deviceshare(session: Session, option: PluginOption) -> None:
    """Register the filter, the score, and what is given out."""
    arguments = Arguments(option.arguments)
    plugin = _DeviceShare(
        session,
        policy=arguments.text("deviceshare.SchedulePolicy"),
        weight=arguments.integer("deviceshare.ScheduleWeight", 10),
    )
    session.points.screen.add(option, plugin.screen)
    session.points.second_look.add(option, plugin.screen)
    session.points.node_score.add(option, plugin.score)
    session.points.allocated.add(option, plugin.give)
    session.points.deallocated.add(option, plugin.take_back)


class _DeviceShare:
    def __init__(self, session: Session, *, policy: str, weight: int) -> None:
        self._session = session
        self._policy = policy
        self._weight = weight
        self._devices = [_cards_of(session.nodes.node(name)) for name in session.nodes.names]
        width = max(map(len, self._devices), default=0)
        self._cards = Cards.none(len(self._devices), width)
        for row, devices in enumerate(self._devices):
            for place, device in enumerate(devices):
                memory = device.memory_bytes or WHOLE
                self._cards.memory[row, place] = memory
                self._cards.free_memory[row, place] = memory
                self._cards.pods[row, place] = (
                    0 if device.health is DeviceHealth.HEALTHY else PODS_ON_A_CARD_MAX
                )
        for tasks in session.nodes.tasks:
            for _, task in sorted(tasks.items()):
                if task.status in HELD:
                    self.give(task)

    def screen(self, task: Task, screening: Screening) -> None:
        """Refuse nodes whose cards have no room for a pod's share."""
        share = share_of(task.pod.requests)
        if share is not None:
            full = pods_sharing(self._cards, share) < 1
            screening.refuse(full, "node(s) have no card with room for the share")

    def score(self, task: Task, among: Mask) -> Vector:
        """By binpack the sum over the pod's cards of how full their memory gets."""
        scores: Vector = np.zeros(len(self._session.nodes), np.int64)
        share = share_of(task.pod.requests)
        if share is None or self._policy != _BINPACK:
            return scores
        for row in np.flatnonzero(among).tolist():
            for place in self._choose(row, share):
                memory = int(self._cards.memory[row, place])
                taken = memory - int(self._cards.free_memory[row, place])
                after = min(memory, taken + int(share.memory_on(memory)))
                scores[row] += 100 * SCALE * after // memory
        return scores * self._weight

    def give(self, task: Task) -> None:
        """Give a task with a node its cards: those it says it has, else the best.

        Whole cards that a task sits on are nobody's to share.
        """
        share = share_of(task.pod.requests)
        if share is None:
            self._count_whole(task, 1)
            return
        row = self._session.nodes.row[task.node]
        said = task.pod.devices.get(GPU, ())
        known = [device.index for device in self._devices[row]]
        places = [known.index(index) for index in said if index in known]
        if len(places) != share.cards or task.key in self._session.cards:
            places = self._choose(row, share)
        for place in places:
            self._cards.give((row, place), share)
        self._session.cards[task.key] = tuple(known[place] for place in places)

    def take_back(self, task: Task) -> None:
        """Take a task's cards from it."""
        share = share_of(task.pod.requests)
        if share is None:
            self._count_whole(task, -1)
        given = self._session.cards.pop(task.key, ())
        row = self._session.nodes.row.get(task.node or "")
        if share is None or not given or row is None:
            return
        known = [device.index for device in self._devices[row]]
        for index in given:
            place = (row, known.index(index))
            self._cards.free_memory[place] += share.memory_on(int(self._cards.memory[place]))
            self._cards.cores_milli[place] -= share.cores_milli
            self._cards.pods[place] -= 1

    def _count_whole(self, task: Task, sign: int) -> None:
        row = self._session.nodes.row.get(task.pod.node)
        held = task.pod.devices.get(GPU, ())
        for place, device in enumerate(self._devices[row] if row is not None else ()):
            if device.index in held:
                self._cards.pods[row, place] += sign * PODS_ON_A_CARD_MAX

    def _choose(self, row: int, share: Share) -> list[int]:
        """Different cards with room, by policy: fullest, emptiest, or from the last."""
        cards = self._cards.at(row)
        room: Numbers = cards.room(share)
        able = np.flatnonzero(room > 0).tolist()
        free, pods = cards.free_memory.tolist(), cards.pods.tolist()
        match self._policy:
            case "binpack":
                able.sort(key=lambda place: (free[place], place))
            case "spread":
                able.sort(key=lambda place: (pods[place], place))
            case _:
                able.sort(reverse=True)
        return able[: share.cards]


def _cards_of(node: Node) -> list[Device]:
    return sorted(
        (device for device in node.devices if device.resource == GPU), key=lambda d: d.index
    )
