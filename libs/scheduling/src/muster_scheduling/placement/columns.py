"""The nodes as vectors: one row per node in name order, so the first row wins a tie.

A mirror of the exact records for the search. Quantities are int64 milli-units, saturated at
`LIMIT`: a node with more than that (4 PiB of memory) counts as having exactly that much, and a
request above it fits nowhere. The records stay exact, so nothing drifts.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from muster_domain.nodes import Node, NodeCondition
from muster_domain.selectors import Taint
from muster_scheduling.placement.geometry import Ask
from muster_scheduling.placement.record import (
    PODS,
    NodeRecord,
    device_resources,
    is_extended,
    label_of,
)
from muster_scheduling.placement.shares import GPU, Cards, Share, pods_sharing
from muster_scheduling.placement.zones import Zones

Vector = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Shape = tuple[tuple[str, int], ...]
"""What one pod takes from its node, sorted by resource. Equal pods have equal shapes."""

Kept = TypeVar("Kept")
Interned = TypeVar("Interned", bound=Hashable)

LIMIT = 2**62
"""Milli-units at which a quantity saturates."""

CONDITIONS = tuple(NodeCondition)
_CONDITION_CODE = {condition: code for code, condition in enumerate(CONDITIONS)}
_SHARE_BITS = 20
_EXTENDED_SHIFT = 24
_EXTENDED_MAX = 2**30
_CACHED_SHAPES = 256
_LOG_SLACK = 4096


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """One label over all nodes: `values[codes[row]]`; `None` where the node lacks it."""

    codes: Vector
    values: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class TaintColumn:
    """The taints of all nodes: `values[codes[row]]`."""

    codes: Vector
    values: tuple[tuple[Taint, ...], ...]


@dataclass(slots=True)
class _Fitting:
    pods: Vector
    seen: int


@dataclass(slots=True)
class Columns:
    """Vectors over the nodes, kept in step with the records row by row.

    `version` grows whenever labels, taints or conditions change. `packing` orders nodes by what is
    left on them: extended resources first, then cpu and memory, as parts of the largest node.
    """

    records: list[NodeRecord]
    version: int = 0
    row: dict[str, int] = field(init=False)
    free: dict[str, Vector] = field(init=False)
    offered: dict[str, Vector] = field(init=False)
    packing: Vector = field(init=False)
    condition: Vector = field(init=False)
    _with_devices: Counter[str] = field(init=False)
    _largest: dict[str, int] = field(init=False)
    _labels: dict[str, LabelColumn] = field(init=False, default_factory=dict[str, LabelColumn])
    _taints: TaintColumn | None = field(init=False, default=None)
    _fitting: dict[tuple[Shape, Share | None], _Fitting] = field(
        init=False, default_factory=dict[tuple[Shape, Share | None], _Fitting]
    )
    _cards: Cards | None = field(init=False, default=None)
    _zones: Zones | None = field(init=False, default=None)
    _memory: dict[Hashable, tuple[int, object]] = field(
        init=False, default_factory=dict[Hashable, tuple[int, object]]
    )
    _log: list[int] = field(init=False, default_factory=list[int])
    _log_start: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        nodes = self.nodes
        self.row = {node.name: row for row, node in enumerate(nodes)}
        self._with_devices = Counter(r for node in nodes for r in device_resources(node))
        resources = sorted({resource for node in nodes for resource in node.allocatable})
        self.free = {resource: np.zeros(len(nodes), np.int64) for resource in resources}
        self.offered = {resource: np.zeros(len(nodes), np.int64) for resource in resources}
        self.packing = np.zeros(len(nodes), np.int64)
        self.condition = np.zeros(len(nodes), np.int64)
        for row, node in enumerate(nodes):
            self._write_offer(row, node)
        self._largest = self._find_largest()
        for row, record in enumerate(self.records):
            self._write(row, record)
            self.condition[row] = _CONDITION_CODE[record.condition]

    @property
    def nodes(self) -> list[Node]:
        """The nodes in row order."""
        return [record.node for record in self.records if record.node is not None]

    def __len__(self) -> int:
        return len(self.records)

    def has_devices(self, resource: str) -> bool:
        """Whether a resource is counted in devices on any node."""
        return self._with_devices[resource] > 0

    def refresh(self, record: NodeRecord) -> None:
        """Take over what is free on a node after seats were bound or released."""
        row = self.row[record.name]
        self._write(row, record)
        self._log.append(row)
        if len(self._log) > _LOG_SLACK + 4 * len(self):
            self._log_start += len(self._log)
            self._log.clear()

    def insert(self, record: NodeRecord) -> bool:
        """Take in a node that joined; False when the vectors must be built anew."""
        node = record.node
        if node is None or not self.free.keys() >= node.allocatable.keys():
            return False
        row = bisect_left(self.records, record.name, key=lambda known: known.name)
        self.records.insert(row, record)
        self._resize(lambda column: np.insert(column, row, 0))
        self._with_devices.update(device_resources(node))
        self.condition[row] = _CONDITION_CODE[record.condition]
        self._write_offer(row, node)
        self._write(row, record)
        return self._largest == self._find_largest()

    def remove(self, node: Node) -> bool:
        """Leave out a node that is gone; False when the vectors must be built anew."""
        row = self.row[node.name]
        del self.records[row]
        self._resize(lambda column: np.delete(column, row))
        self._with_devices.subtract(device_resources(node))
        return self._largest == self._find_largest()

    def replace(self, record: NodeRecord, before: Node) -> bool:
        """Take over a node's new report; False when the vectors must be built anew."""
        after = record.node
        if after is None or not self.free.keys() >= after.allocatable.keys():
            return False
        self._with_devices.subtract(device_resources(before))
        self._with_devices.update(device_resources(after))
        if before.devices != after.devices:
            self._cards = None
        if before.devices != after.devices or before.zones != after.zones:
            self._zones = None
        if before.labels != after.labels or before.taints != after.taints:
            self._labels.clear()
            self._taints = None
            self.version += 1
        if before.allocatable != after.allocatable:
            self._write_offer(self.row[record.name], after)
            self.version += 1
        self.refresh(record)
        return self._largest == self._find_largest()

    def set_condition(self, record: NodeRecord) -> None:
        """Take over a node's new condition."""
        self.condition[self.row[record.name]] = _CONDITION_CODE[record.condition]
        self.version += 1

    def label(self, key: str) -> LabelColumn:
        """One label over all nodes."""
        column = self._labels.get(key)
        if column is None:
            column = LabelColumn(*_intern(label_of(node, key) for node in self.nodes))
            self._labels[key] = column
        return column

    @property
    def taints(self) -> TaintColumn:
        """The taints of all nodes."""
        if self._taints is None:
            self._taints = TaintColumn(*_intern(node.taints for node in self.nodes))
        return self._taints

    def offers_other(self, asked: tuple[str, ...]) -> Mask:
        """Nodes that have an extended resource which is not among those asked for."""
        mask = np.zeros(len(self), np.bool_)
        for resource, column in self.offered.items():
            if is_extended(resource) and resource not in asked:
                mask |= column > 0
        return mask

    @property
    def cards(self) -> Cards:
        """The cards of each node, from the first on; as many columns as the largest node has."""
        if self._cards is None:
            most = max((len(record.card_indices) for record in self.records), default=0)
            self._cards = Cards.none(len(self), most)
            for row, record in enumerate(self.records):
                record.write_cards(self._cards, row)
        return self._cards

    @property
    def zones(self) -> Zones:
        """The NUMA zones of each node, in the order in which it reports them."""
        if self._zones is None:
            self._zones = Zones.none(len(self), max((len(n.zones) for n in self.nodes), default=0))
            for row, record in enumerate(self.records):
                record.write_zones(self._zones, row)
        return self._zones

    @property
    def cards_total(self) -> int:
        """How many cards all nodes have, healthy or not."""
        return sum(len(record.card_indices) for record in self.records)

    @property
    def card_memory(self) -> int:
        """The memory of the largest card, in bytes or units; a share is a part of such a card."""
        return int(self.cards.memory.max(initial=1))

    @property
    def position(self) -> int:
        """Counts the changes to what is free."""
        return self._log_start + len(self._log)

    def knows(self, position: int) -> bool:
        """Whether it is known what changed after a position."""
        return position >= self._log_start

    def changed_since(self, position: int) -> Vector:
        """Rows whose free quantities changed after a position that is known."""
        return np.unique(np.array(self._log[position - self._log_start :], np.int64))

    def fitting(self, shape: Shape, share: Share | None = None) -> Vector:
        """How many pods of a shape and share fit on each node by these alone. Not to be changed."""
        key = (shape, share)
        known = self._fitting.get(key)
        if known is None:
            if len(self._fitting) >= _CACHED_SHAPES:
                del self._fitting[next(iter(self._fitting))]
            pods = self._fitting_on(np.arange(len(self)), shape, share)
            known = self._fitting[key] = _Fitting(pods, self.position)
        elif not self.knows(known.seen) or self.position - known.seen > len(self) // 8:
            known.pods = self._fitting_on(np.arange(len(self)), shape, share)
        elif known.seen < self.position:
            rows = self.changed_since(known.seen)
            known.pods[rows] = self._fitting_on(rows, shape, share)
        known.seen = self.position
        return known.pods

    def _fitting_on(self, rows: Vector, shape: Shape, share: Share | None) -> Vector:
        free = {
            resource: self.free[resource][rows] for resource, _ in shape if resource in self.free
        }
        pods = pods_fitting(free, shape, len(rows))
        return pods if share is None else np.minimum(pods, pods_sharing(self.cards.at(rows), share))

    def dividing(self, ask: Ask, fits: Vector) -> Vector:
        """Of the pods that fit on each node, those whose MIG instances fit on its cards together.

        For asks of several profiles: those of one are counted in what is free.
        """
        fits = fits.copy()
        for row in np.flatnonzero(fits).tolist():
            if self.records[row].divided:
                fits[row] = self.records[row].divisible().fitting(ask, int(fits[row]))
        return fits

    def share_of_largest(self, shape: Shape) -> int:
        """The dominant share of one pod in the largest node, in parts of 2**20, rounded down."""
        known = ((quantity, self._largest.get(resource, 0)) for resource, quantity in shape)
        return max(((q << _SHARE_BITS) // largest for q, largest in known if largest), default=0)

    def remembered(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """`make()`, kept until labels, taints or conditions change."""
        known = self._memory.get(key)
        if known is not None and known[0] == self.version:
            return cast("Kept", known[1])
        if len(self._memory) >= _CACHED_SHAPES:
            del self._memory[next(iter(self._memory))]
        value = make()
        self._memory[key] = (self.version, value)
        return value

    def _resize(self, change: Callable[[Vector], Vector]) -> None:
        self.free = {resource: change(column) for resource, column in self.free.items()}
        self.offered = {resource: change(column) for resource, column in self.offered.items()}
        self.packing = change(self.packing)
        self.condition = change(self.condition)
        self.row = {record.name: row for row, record in enumerate(self.records)}
        self._labels.clear()
        self._taints = None
        self._fitting.clear()
        self._cards = self._zones = None
        self.version += 1

    def _find_largest(self) -> dict[str, int]:
        """The largest offer of each resource; zero, and so a rebuild, once no node offers it."""
        return {resource: int(column.max(initial=0)) for resource, column in self.offered.items()}

    def _write_offer(self, row: int, node: Node) -> None:
        for resource, column in self.offered.items():
            column[row] = min(LIMIT, node.allocatable.get(resource, 0))

    def _write(self, row: int, record: NodeRecord) -> None:
        extended = share = 0
        for resource, column in self.free.items():
            left = max(-LIMIT, min(LIMIT, record.free_milli(resource)))
            if resource == PODS and record.node is not None and PODS not in record.node.allocatable:
                left = LIMIT
            column[row] = left
            part = (max(0, left) << _SHARE_BITS) // max(1, self._largest[resource])
            if is_extended(resource):
                extended += part
            elif resource in {"cpu", "memory"}:
                share += part
        if self._cards is not None and GPU in self._with_devices:
            record.write_cards(self._cards, row)
        if self._zones is not None:
            record.write_zones(self._zones, row)
        self.packing[row] = (min(extended, _EXTENDED_MAX) << _EXTENDED_SHIFT) + share


def pods_fitting(free: dict[str, Vector], shape: Shape, rows: int) -> Vector:
    """How many pods of a shape fit into each row of free milli-units (R-81).

    A resource that no node reports fits nowhere, except `pods`, which then has no limit.
    """
    pods = np.full(rows, LIMIT, np.int64)
    for resource, quantity in shape:
        column = free.get(resource)
        if column is None and resource == PODS:
            continue
        if column is None or quantity > LIMIT:
            return np.zeros(rows, np.int64)
        np.minimum(pods, column // quantity, out=pods)
    return np.maximum(pods, 0, out=pods)


def _intern(found: Iterable[Interned]) -> tuple[Vector, tuple[Interned, ...]]:
    codes: dict[Interned, int] = {}
    column = [codes.setdefault(value, len(codes)) for value in found]
    return np.array(column, np.int64), tuple(codes)
