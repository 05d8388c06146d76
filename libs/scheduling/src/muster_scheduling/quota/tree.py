"""The quota tree and what is used of it.

Quotas are fixed when the tree is built; a change of configuration builds another tree. Usage
changes all the time and every change is journalled, so that a what-if is undone exactly.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster_domain.queues import UNLIMITED
from muster_scheduling.quota.amounts import minus, plus
from muster_scheduling.quota.journal import Journal

FlavorResource = tuple[str, str]
"""(flavor, resource): what quota is counted in."""

Vector = Mapping[FlavorResource, int]
"""Milli-units by (flavor, resource)."""


class NodeKind(StrEnum):
    """What a node of the tree is."""

    CLUSTER_QUEUE = "ClusterQueue"
    COHORT = "Cohort"


@dataclass(frozen=True, slots=True)
class NodeQuota:
    """What one node declares for one (flavor, resource), in milli-units."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class QuotaNode:
    """A ClusterQueue or a cohort. Everything but `usage` is fixed.

    `subtree` is the quota of the whole subtree that the node may give out, `local` the part that
    its parent never sees, `potential` what it could ever use (R-17, R-19), `lendable` the sum of
    that by resource (R-60). `height` is 0 for a ClusterQueue.
    """

    __slots__ = (
        "ancestors",
        "cohorts",
        "height",
        "kind",
        "lendable",
        "local",
        "name",
        "parent",
        "potential",
        "queues",
        "quotas",
        "root",
        "subtree",
        "taken_limit",
        "usage",
        "weight_milli",
    )

    def __init__(
        self,
        name: str,
        kind: NodeKind,
        quotas: Mapping[FlavorResource, NodeQuota],
        weight_milli: int,
    ) -> None:
        self.name = name
        self.kind = kind
        self.quotas = quotas
        self.weight_milli = weight_milli
        self.parent: QuotaNode | None = None
        self.root: QuotaNode = self
        self.ancestors: tuple[QuotaNode, ...] = ()
        self.cohorts: list[QuotaNode] = []
        self.queues: list[QuotaNode] = []
        self.height = 0
        self.subtree: dict[FlavorResource, int] = {}
        self.local: dict[FlavorResource, int] = {}
        self.potential: dict[FlavorResource, int] = {}
        self.lendable: dict[str, int] = {}
        self.taken_limit: dict[FlavorResource, int] = {}
        self.usage: dict[FlavorResource, int] = {}

    def __repr__(self) -> str:
        return f"{self.kind.value}({self.name})"

    def nominal(self, fr: FlavorResource) -> int:
        """Declared nominal quota; 0 when nothing is declared."""
        quota = self.quotas.get(fr)
        return quota.nominal if quota is not None else 0

    def used(self, fr: FlavorResource) -> int:
        """What the node uses of its own and its parent's quota (R-17)."""
        return self.usage.get(fr, 0)

    def local_available(self, fr: FlavorResource) -> int:
        """What is free of the part that nobody else can use."""
        left = minus(self.local.get(fr, 0), self.usage.get(fr, 0))
        return max(0, left)

    def borrows_with(self, fr: FlavorResource, extra: int) -> bool:
        """Whether it would use more than its own with `extra` on top (R-21)."""
        return self.subtree.get(fr, 0) < plus(self.usage.get(fr, 0), extra)

    def within_nominal(self, frs: Iterable[FlavorResource]) -> bool:
        """Whether it borrows none of these."""
        subtree, usage = self.subtree, self.usage
        for fr in frs:  # noqa: SIM110 - a generator costs more than what it asks
            if usage.get(fr, 0) > subtree.get(fr, 0):
                return False
        return True

    def below_nominal(self, frs: Iterable[FlavorResource]) -> bool:
        """Whether some quota of its own is left in every one of these."""
        subtree, usage = self.subtree, self.usage
        return all(usage.get(fr, 0) < subtree.get(fr, 0) for fr in frs)


class QuotaTree:
    """All cohort trees together. Every change of usage goes through the journal."""

    __slots__ = ("cohorts", "cyclic", "cyclic_cohorts", "journal", "queues")

    def __init__(
        self,
        queues: Mapping[str, QuotaNode],
        cohorts: Mapping[str, QuotaNode],
        cyclic: frozenset[str],
        cyclic_cohorts: frozenset[str],
    ) -> None:
        self.queues = queues
        self.cohorts = cohorts
        self.cyclic = cyclic
        self.cyclic_cohorts = cyclic_cohorts
        self.journal = Journal()

    def available(self, node: QuotaNode, fr: FlavorResource) -> int:
        """Free now, borrowing included; negative where quota was cut below usage (R-18)."""
        usage = node.usage.get(fr, 0)
        parent = node.parent
        if parent is None:
            return minus(node.subtree.get(fr, 0), usage)
        from_parent = self.available(parent, fr)
        local = node.local.get(fr, 0)
        limit = node.taken_limit.get(fr)
        if limit is not None:
            left = minus(limit, usage - local if usage > local else 0)
            from_parent = min(from_parent, left)
        if local > usage:
            return plus(minus(local, usage), from_parent)
        return from_parent

    def free(self, queue: QuotaNode, fr: FlavorResource) -> int:
        """What a ClusterQueue may still take now, borrowing included; never negative."""
        left = self.available(queue, fr)
        return max(0, left)

    def fits(self, queue: QuotaNode, usage: Vector) -> bool:
        """Whether all of `usage` may be taken now (R-21)."""
        for fr, amount in usage.items():  # noqa: SIM110 - a generator costs more than what it asks
            if amount > self.free(queue, fr):
                return False
        return True

    def borrow_level(self, queue: QuotaNode, fr: FlavorResource, extra: int) -> tuple[int, bool]:
        """Height of the smallest subtree with room for `extra`, and if it is not the whole (R-22).

        0 is: without borrowing. When nothing has room it is the height of the whole tree.
        """
        if queue.parent is None or not queue.borrows_with(fr, extra):
            return 0, queue.parent is not None
        rest = extra - queue.local_available(fr)
        for ancestor in queue.ancestors:
            if not ancestor.borrows_with(fr, rest):
                return ancestor.height, ancestor.parent is not None
            rest -= ancestor.local_available(fr)
        return queue.root.height, False

    def add(self, node: QuotaNode, usage: Vector) -> None:
        """Charge `usage` to a node and, as far as it exceeds the local part, to those above."""
        for fr, amount in usage.items():
            self._add(node, fr, amount)

    def remove(self, node: QuotaNode, usage: Vector) -> None:
        """Give back what `add` charged (R-20)."""
        for fr, amount in usage.items():
            self._remove(node, fr, amount)

    def _add(self, start: QuotaNode, fr: FlavorResource, amount: int) -> None:
        journal = self.journal
        node: QuotaNode | None = start
        while node is not None:
            usage = node.usage
            before = usage.get(fr, 0)
            journal.put(usage, fr, before + amount)
            local_free = node.local.get(fr, 0) - before
            if local_free > 0:
                amount -= local_free
            if amount <= 0:
                return
            node = node.parent

    def _remove(self, start: QuotaNode, fr: FlavorResource, amount: int) -> None:
        journal = self.journal
        node: QuotaNode | None = start
        while node is not None:
            usage = node.usage
            before = usage.get(fr, 0)
            journal.put(usage, fr, before - amount)
            stored = before - node.local.get(fr, 0)
            amount = min(amount, stored)
            if amount <= 0:
                return
            node = node.parent


def is_unlimited(amount: int) -> bool:
    """Whether the amount stands for no limit."""
    return amount >= UNLIMITED
