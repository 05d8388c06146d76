"""The nodes and everything that is seated on them.

`NodeTable` is the one long-lived structure of placement. It keeps exact integers per node and
shows them to the search as vectors (`columns`), which follow every change row by row. Nodes and
gangs may arrive in any order: a gang bound to a node that has not reported yet is kept, and counts
as soon as the node does.
"""

from typing import TYPE_CHECKING

from muster_domain.errors import Conflict, NotFound
from muster_domain.nodes import Node, NodeCondition
from muster_scheduling.placement.columns import Columns
from muster_scheduling.placement.outcome import Gang
from muster_scheduling.placement.packing.losses import Losses
from muster_scheduling.placement.record import Holding, NodeRecord, holdings
from muster_scheduling.placement.shares import GPU, PODS_ON_A_CARD_MAX

if TYPE_CHECKING:
    from muster_scheduling.placement.packing.prices import PackingPrices


class NodeTable:
    """Nodes by name, gangs by workload id."""

    def __init__(self) -> None:
        self._records: dict[str, NodeRecord] = {}
        self._gangs: dict[str, Gang] = {}
        self._columns: Columns | None = None
        self._losses: Losses | None = None
        self.prices: PackingPrices = ()

    def put_node(self, node: Node, condition: NodeCondition | None = None) -> None:
        """Add a node, or replace what it reported; a known node keeps its condition.

        Seats stay bound even where the node no longer offers what they hold.
        """
        record = self._records.setdefault(node.name, NodeRecord(node.name))
        before = record.node
        if before != node:
            record.report(node)
            columns = self._columns
            if columns is not None:
                kept = columns.replace(record, before) if before else columns.insert(record)
                self._columns = columns if kept else None
        if condition is not None:
            self.set_condition(node.name, condition)

    def remove_node(self, name: str) -> None:
        """Forget a node's report. Gangs seated on it stay bound until they are released."""
        record = self._present(name)
        columns = self._columns
        if columns is not None and not columns.remove(self.node(name)):
            self._columns = None
        record.report(None)
        record.condition = NodeCondition.READY
        self._drop_if_empty(record)

    def set_condition(self, name: str, condition: NodeCondition) -> None:
        """Cordon, suspect, fence or free a node. Only READY nodes take new pods."""
        record = self._present(name)
        if record.condition is not condition:
            record.condition = condition
            if self._columns is not None:
                self._columns.set_condition(record)

    def bind(self, gang: Gang) -> None:
        """Seat a gang, all of it or nothing.

        The same gang again changes nothing. Raises `Conflict` when the workload is bound to other
        seats, or when a seat is not free any more; `NotFound` when a node is unknown.
        """
        if self._is_bound(gang):
            return
        held = holdings(gang)
        for name in sorted(held):
            _check_free(self._present(name), held[name])
        self._seat(gang, held)

    def restore(self, gang: Gang) -> None:
        """Seat a gang that is known to hold its seats, whatever the nodes say now.

        For rebuilding a table and for undoing a `release`. Raises `Conflict` when the workload is
        bound to other seats.
        """
        if not self._is_bound(gang):
            self._seat(gang, holdings(gang))

    def release(self, workload: str) -> Gang:
        """Take back all seats of a gang and return it. Raises `NotFound`."""
        gang = self._gangs.pop(workload, None)
        if gang is None:
            raise NotFound(f"workload {workload} has no seats")
        for name in gang.placement.nodes:
            record = self._records[name]
            record.remove(workload)
            self._show(record)
            self._drop_if_empty(record)
        return gang

    def node(self, name: str) -> Node:
        """What the node reported last. Raises `NotFound`."""
        node = self._present(name).node
        if node is None:
            raise NotFound(f"node {name} has not reported")
        return node

    def nodes(self) -> tuple[Node, ...]:
        """All nodes that have reported, by name."""
        found = (self._records[name].node for name in sorted(self._records))
        return tuple(node for node in found if node is not None)

    def condition(self, name: str) -> NodeCondition:
        """What placement thinks of a node. Raises `NotFound`."""
        return self._present(name).condition

    def record(self, name: str) -> NodeRecord:
        """A node's own account, for the search; not to be changed. Raises `NotFound`."""
        return self._present(name)

    def free(self, name: str) -> dict[str, int]:
        """What is left on a node, in milli-units. Raises `NotFound`."""
        record = self._present(name)
        return {resource: record.free_milli(resource) for resource in self.node(name).allocatable}

    def gang(self, workload: str) -> Gang | None:
        """The seats of a workload, if it has any."""
        return self._gangs.get(workload)

    def gangs(self) -> tuple[Gang, ...]:
        """All bound gangs, by workload id."""
        return tuple(self._gangs[workload] for workload in sorted(self._gangs))

    def gangs_on(self, name: str) -> tuple[str, ...]:
        """Workloads with a seat on a node, sorted; none for a node nobody knows."""
        record = self._records.get(name)
        return tuple(sorted(record.gangs)) if record is not None else ()

    @property
    def columns(self) -> Columns:
        """The nodes as vectors, in name order."""
        if self._columns is None:
            present = (self._records[name] for name in sorted(self._records))
            self._columns = Columns([record for record in present if record.node is not None])
        return self._columns

    @property
    def losses(self) -> Losses:
        """What a pod costs on each node at `prices`."""
        known, columns = self._losses, self.columns
        if known is None or not known.holds_for(columns, self.prices):
            self._losses = known = Losses(columns, self.prices)
        return known

    def _present(self, name: str) -> NodeRecord:
        record = self._records.get(name)
        if record is None or record.node is None:
            raise NotFound(f"node {name} is not known")
        return record

    def _is_bound(self, gang: Gang) -> bool:
        bound = self._gangs.get(gang.workload)
        if bound is not None and bound != gang:
            raise Conflict(f"workload {gang.workload} already has other seats")
        return bound is not None

    def _seat(self, gang: Gang, held: dict[str, Holding]) -> None:
        self._gangs[gang.workload] = gang
        for name, holding in held.items():
            record = self._records.setdefault(name, NodeRecord(name))
            record.add(gang.workload, holding)
            self._show(record)

    def _show(self, record: NodeRecord) -> None:
        if self._columns is not None and record.node is not None:
            self._columns.refresh(record)

    def _drop_if_empty(self, record: NodeRecord) -> None:
        if record.node is None and not record.gangs:
            del self._records[record.name]


def _check_free(record: NodeRecord, holding: Holding) -> None:
    for resource, quantity in holding.usage.items():
        limited = record.node is not None and resource in record.node.allocatable
        if (limited or resource != "pods") and record.free_milli(resource) < quantity:
            raise Conflict(f"node {record.name} has not enough {resource} left")
    for resource, indices in holding.devices.items():
        if not indices <= {device.index for device in record.free_devices(resource)}:
            raise Conflict(f"node {record.name}: a device of {resource} is not free any more")
    if holding.shares:
        _check_shares(record, holding)
    _check_instances(record, holding)
    for zone, cpu_milli in holding.pinned.items():
        if record.free_in_zone(zone) < cpu_milli:
            raise Conflict(f"node {record.name}: NUMA zone {zone} has not enough cpu left")


def _check_shares(record: NodeRecord, holding: Holding) -> None:
    cards, indices = record.cards(), record.card_indices
    for index in sorted(holding.devices.get(GPU, ())):
        cards.pods[indices.index(index)] = PODS_ON_A_CARD_MAX
    for index, share in holding.shares:
        if index not in indices or not cards.room(share)[indices.index(index)]:
            raise Conflict(f"node {record.name}: card {index} has no room for the share any more")
        cards.give(indices.index(index), share)


def _check_instances(record: NodeRecord, holding: Holding) -> None:
    cards = {card.index: card for card in record.divided}
    for instance in holding.instances:
        card = cards.get(instance.card)
        if card is None or not card.takes(instance.profile, instance.start):
            where = f"{instance.profile} at slice {instance.start} of card {instance.card}"
            raise Conflict(f"node {record.name}: {where} is not free any more")
        cards[instance.card] = card.give(instance.profile, instance.start)
