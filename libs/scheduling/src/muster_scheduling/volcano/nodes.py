"""What the nodes have, hold and will get back, as vectors over the nodes in name order.

Quantities are int64 milli-units; what no node can have saturates at `LIMIT`. A node that does not
say how many pods it takes has no bound on them.
"""

from collections.abc import Iterable, Mapping
from zlib import crc32

import numpy as np
import numpy.typing as npt

from muster_domain.mig import MIG_PREFIX
from muster_domain.nodes import Node, NodeCondition
from muster_domain.quantity import Resources
from muster_scheduling.placement.columns import LIMIT, Columns, Mask, Vector
from muster_scheduling.placement.geometry import ask_of
from muster_scheduling.placement.record import NodeRecord
from muster_scheduling.placement.shares import (
    GPU,
    GPU_MEMORY,
    GPU_NUMBER,
    PODS_ON_A_CARD_MAX,
    VGPU_CORES,
    VGPU_MEMORY,
    VGPU_MEMORY_PERCENTAGE,
    VGPU_NUMBER,
)
from muster_scheduling.volcano.amounts import PODS
from muster_scheduling.volcano.divided_cards import divided_cards, room_milli
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.plan import TaskStatus

Matrix = npt.NDArray[np.int64]
"""One row per resource, one column per node."""

Ask = tuple[Vector, Vector]
"""Which resources a task needs, as rows of a matrix, and how much of each."""

_UNBOUNDED = LIMIT // 2
_HALF = 32
_LOW = (1 << _HALF) - 1


class NodeLedger:
    """Nodes, and the tasks on them.

    `used` counts everything that is there, `releasing` the part of it that was told to stop,
    `pipelined` what is promised to tasks that wait. `future` is what will be idle once releasing
    tasks are gone and pipelined ones have come.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        conditions: Mapping[str, NodeCondition],
        resources: Iterable[str],
        columns: Columns | None = None,
    ) -> None:
        ordered = sorted(nodes, key=lambda node: node.name)
        self._nodes = ordered
        self.columns = columns or Columns([_record(node) for node in ordered])
        self.ready: Mask = np.array(
            [conditions.get(n.name, NodeCondition.READY) is NodeCondition.READY for n in ordered],
            np.bool_,
        )
        self.names = [node.name for node in ordered]
        self.row = {node.name: row for row, node in enumerate(ordered)}
        offers = [_offer(node) for node in ordered]
        known = {name for offer in offers for name in offer}
        self.resources = tuple(sorted({PODS, *known, *resources}))
        self.dimension = {name: number for number, name in enumerate(self.resources)}
        shape = (len(self.resources), len(ordered))
        self.allocatable: Matrix = np.zeros(shape, np.int64)
        for name, number in self.dimension.items():
            missing = _UNBOUNDED if name == PODS else 0
            column = [min(offer.get(name, missing), _UNBOUNDED) for offer in offers]
            self.allocatable[number] = column
        self.used: Matrix = np.zeros(shape, np.int64)
        self.idle: Matrix = self.allocatable.copy()
        self.releasing: Matrix = np.zeros(shape, np.int64)
        self.pipelined: Matrix = np.zeros(shape, np.int64)
        self.future: Matrix = self.allocatable.copy()
        self.hashes: Vector = np.array([crc32(name.encode()) for name in self.names], np.int64)
        self.tasks: list[dict[str, Task]] = [{} for _ in ordered]
        divided = {row: divided_cards(node) for row, node in enumerate(ordered)}
        self._divided = {row: cards for row, cards in divided.items() if cards is not None}
        self.affine: dict[str, Task] = {}
        """Tasks on nodes that care which others are near."""
        self.log: list[int] = []
        """Every row that changed, in order."""
        self._asks: dict[tuple[tuple[str, int], ...], Ask] = {}

    def __len__(self) -> int:
        return len(self.names)

    def node(self, name: str) -> Node:
        """A node by name. Raises `KeyError` for an unknown one."""
        return self._nodes[self.row[name]]

    def total(self) -> dict[str, int]:
        """What the nodes that take pods have together."""
        ready = self.ready
        found = {name: self.sum_of(self.allocatable, name, ready) for name in self.resources}
        return {name: quantity for name, quantity in found.items() if quantity}

    def used_by_ready(self) -> dict[str, int]:
        """What is in use on the nodes that take pods."""
        ready = self.ready
        return {name: self.sum_of(self.used, name, ready) for name in self.resources}

    def sum_of(self, sheet: Matrix, resource: str, where: Mask) -> int:
        """The sum of one resource over some nodes, exact however large it gets."""
        number = self.dimension.get(resource)
        if number is None:
            return 0
        row = sheet[number, where]
        return (int((row >> _HALF).sum()) << _HALF) + int((row & _LOW).sum())

    def ask(self, requests: Resources) -> Ask:
        """A request in the form that the vectors understand."""
        key = tuple(sorted(requests.items()))
        known = self._asks.get(key)
        if known is None:
            asked = [(self.dimension[name], quantity) for name, quantity in key if quantity]
            known = (
                np.array([number for number, _ in asked], np.int64),
                np.array([min(quantity, LIMIT) for _, quantity in asked], np.int64),
            )
            self._asks[key] = known
        return known

    def fits_idle(self, requests: Resources) -> Mask:
        """Nodes that have this much now."""
        return self._together(_fits(self.idle, self.ask(requests)), requests, idle=True)

    def fits_future(self, requests: Resources) -> Mask:
        """Nodes that have this much, or will once releasing tasks are gone."""
        return self._together(_fits(self.future, self.ask(requests)), requests, idle=False)

    def room_for(self, requests: Resources, where: Mask, most: int) -> int:
        """How many equal tasks have or will have room on some nodes together, up to `most`."""
        asked, amounts = self.ask(requests)
        room = self.future[asked][:, where] // amounts[:, None]
        return min(most, int(np.maximum(room.min(axis=0, initial=most), 0).sum()))

    def has_idle(self, row: int, requests: Resources) -> bool:
        """Whether one node has this much now."""
        asked, amounts = self.ask(requests)
        fits = bool((self.idle[asked, row] >= amounts).all())
        return fits and self._divides(row, requests, idle=True)

    def has_future(self, row: int, requests: Resources) -> bool:
        """Whether one node has or will have this much."""
        asked, amounts = self.ask(requests)
        fits = bool((self.future[asked, row] >= amounts).all())
        return fits and self._divides(row, requests, idle=False)

    def is_divided(self, row: int) -> bool:
        """Whether a node has cards that are divided into MIG instances as pods need them."""
        return row in self._divided

    def divides_any(self, where: Mask) -> bool:
        """Whether any of some nodes is divided so."""
        return any(where[row] for row in self._divided)

    def short(self, row: int, requests: Resources) -> tuple[str, int] | None:
        """The first resource, by name, of which a node lacks some in future, and how much."""
        for name in sorted(requests):
            lacking = requests[name] - int(self.future[self.dimension[name], row])
            if requests[name] and lacking > 0:
                return name, lacking
        return None

    def add(self, task: Task) -> None:
        """Count a task on its node, by its status."""
        self._count(task, 1)
        self.tasks[self.row[task.node]][task.key] = task
        if task.pod.affinity:
            self.affine[task.key] = task

    def remove(self, task: Task) -> None:
        """Take a task off its node; its status is still the one it was counted with."""
        self._count(task, -1)
        del self.tasks[self.row[task.node]][task.key]
        self.affine.pop(task.key, None)

    def _together(self, fits: Mask, requests: Resources, *, idle: bool) -> Mask:
        for row in self._divided if len(ask_of(requests)) > 1 else ():
            fits[row] = fits[row] and self._divides(row, requests, idle=idle)
        return fits

    def _divides(self, row: int, requests: Resources, *, idle: bool) -> bool:
        """Whether MIG instances of several profiles fit on a node's cards together.

        Those of one profile are counted in what is free.
        """
        ask, cards = ask_of(requests), self._divided.get(row)
        if cards is None or len(ask) < 2:  # noqa: PLR2004 - several
            return True
        return (cards.idle if idle else cards.future).give(ask) is not None

    def _divide(self, task: Task, sign: int) -> None:
        """Take over what a node's cards can still be divided into, in every profile."""
        row = self.row[task.node]
        cards = self._divided.get(row)
        if cards is None or not ask_of(task.pod.requests):
            return
        if sign > 0:
            cards.add(task)
        else:
            cards.remove(task)
        idle, future = cards.idle, cards.future
        for resource, number in self.dimension.items():
            if resource.startswith(MIG_PREFIX):
                self.idle[number, row] = room_milli(idle, resource)
                self.future[number, row] = room_milli(future, resource)

    def _count(self, task: Task, sign: int) -> None:
        self._count_sums(task, sign)
        self._divide(task, sign)

    def _count_sums(self, task: Task, sign: int) -> None:
        row = self.row[task.node]
        asked, amounts = self.ask(task.requests)
        signed = amounts if sign > 0 else -amounts
        self.log.append(row)
        if task.status is TaskStatus.PIPELINED:
            self.pipelined[asked, row] += signed
            self.future[asked, row] -= signed
            return
        self.used[asked, row] += signed
        self.idle[asked, row] -= signed
        if task.status is TaskStatus.RELEASING:
            self.releasing[asked, row] += signed
        else:
            self.future[asked, row] -= signed


def _offer(node: Node) -> Resources:
    """What a node says it has, and what its cards come to where parts of them are asked for.

    Sums over the cards, for quotas and a first look; whether one card has room is deviceshare's.
    """
    cards = [device for device in node.devices if device.resource == GPU]
    if not cards:
        return node.allocatable
    memory_mib = sum(device.memory_bytes for device in cards) >> 20
    sums = {
        VGPU_NUMBER: len(cards) * PODS_ON_A_CARD_MAX,
        VGPU_CORES: len(cards) * 100,
        VGPU_MEMORY: memory_mib,
        VGPU_MEMORY_PERCENTAGE: len(cards) * 100,
        GPU_MEMORY: memory_mib,
        GPU_NUMBER: len(cards),
    }
    shares = {name: quantity * 1000 for name, quantity in sums.items() if quantity}
    return {**shares, **node.allocatable}


def _fits(free: Matrix, ask: Ask) -> Mask:
    asked, amounts = ask
    return np.all(free[asked] >= amounts[:, None], axis=0)


def _record(node: Node) -> NodeRecord:
    record = NodeRecord(node.name)
    record.report(node)
    return record
