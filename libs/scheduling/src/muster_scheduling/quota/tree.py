"""The quota tree and what is used of it.

Quotas are fixed when the tree is built; a change of configuration builds another tree. Usage
changes all the time and every change is journalled, so that a what-if is undone exactly.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from muster_domain.queues import UNLIMITED
from muster_scheduling.quota.amounts import minus, plus
from muster_scheduling.quota.journal import Journal

FlavorResource = tuple[str, str]
"""(flavor, resource): what quota is counted in."""

Vector = Mapping[FlavorResource, int]
"""Milli-units by (flavor, resource)."""

_MARKS_MAX = 20_000


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
    """A ClusterQueue or a cohort. Everything but `usage` and `marks` is fixed.

    `subtree` is the quota of the whole subtree that the node may give out, `local` the part that
    its parent never sees, `potential` what it could ever use (R-17, R-19), `lendable` the sum of
    that by resource (R-60). `height` is 0 for a ClusterQueue. `below_root` is the way from the
    root's child down to the node. `marks` are kept at a root alone, see `QuotaTree.mark`.
    """

    __slots__ = (
        "ancestors",
        "below_root",
        "cohorts",
        "height",
        "kind",
        "lendable",
        "local",
        "marks",
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
        self.below_root: tuple[QuotaNode, ...] = ()
        self.cohorts: list[QuotaNode] = []
        self.queues: list[QuotaNode] = []
        self.height = 0
        self.subtree: dict[FlavorResource, int] = {}
        self.local: dict[FlavorResource, int] = {}
        self.potential: dict[FlavorResource, int] = {}
        self.lendable: dict[str, int] = {}
        self.taken_limit: dict[FlavorResource, int] = {}
        self.usage: dict[FlavorResource, int] = {}
        self.marks: dict[FlavorResource, int] = {}

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
        if not self.local:
            return 0
        left = minus(self.local.get(fr, 0), self.usage.get(fr, 0))
        return max(0, left)

    def borrows_with(self, fr: FlavorResource, extra: int) -> bool:
        """Whether it would use more than its own with `extra` on top (R-21)."""
        subtree, usage = self.subtree, self.usage
        own = subtree[fr] if fr in subtree else 0  # noqa: SIM401 - a call costs more
        used = usage[fr] if fr in usage else 0  # noqa: SIM401 - a call costs more
        return own < UNLIMITED and own < used + extra

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

    __slots__ = ("_marks", "_next_mark", "cohorts", "cyclic", "cyclic_cohorts", "journal", "queues")

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
        self._marks: dict[tuple[int, QuotaNode, int], int] = {}
        self._next_mark = count(1)

    def available(self, node: QuotaNode, fr: FlavorResource) -> int:
        """Free now, borrowing included; negative where quota was cut below usage (R-18)."""
        subtree, usage = node.root.subtree, node.root.usage
        left = subtree[fr] if fr in subtree else 0  # noqa: SIM401 - a call costs more
        used = usage[fr] if fr in usage else 0  # noqa: SIM401 - a call costs more
        left = left - used if left < UNLIMITED and used < UNLIMITED else minus(left, used)
        for step in node.below_root:
            usage = step.usage
            used = usage[fr] if fr in usage else 0  # noqa: SIM401 - a call costs more
            local = step.local.get(fr, 0) if step.local else 0
            limits = step.taken_limit
            if fr in limits:
                most = minus(limits[fr], used - local if used > local else 0)
                left = most if most < left else left  # noqa: FURB136 - a call costs more
            if local > used:
                left = plus(minus(local, used), left)
        return left

    def free(self, queue: QuotaNode, fr: FlavorResource) -> int:
        """What a ClusterQueue may still take now, borrowing included; never negative."""
        left = self.available(queue, fr)
        return max(0, left)

    def fits(self, queue: QuotaNode, usage: Vector) -> bool:
        """Whether all of `usage` may be taken now (R-21)."""
        for fr, amount in usage.items():
            if amount > 0 and amount > self.available(queue, fr):
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
        self.try_add(node, usage)
        for fr, amount in usage.items():
            self._changed(node, fr, amount)

    def remove(self, node: QuotaNode, usage: Vector) -> None:
        """Give back what `add` charged (R-20)."""
        self.try_remove(node, usage)
        for fr, amount in usage.items():
            self._changed(node, fr, -amount)

    def try_add(self, node: QuotaNode, usage: Vector) -> None:
        """`add` for a what-if within which nobody looks at the mark."""
        entries = self.journal.entries
        for fr, amount in usage.items():
            step: QuotaNode | None = node
            while step is not None:
                used = step.usage
                before = used[fr] if fr in used else 0  # noqa: SIM401 - a call costs more
                entries.append((used, fr, before))
                used[fr] = before + amount
                local_free = step.local.get(fr, 0) - before if step.local else 0
                if local_free > 0:
                    amount -= local_free  # noqa: PLW2901 - what is left for the parent
                if amount <= 0:
                    break
                step = step.parent

    def try_remove(self, node: QuotaNode, usage: Vector) -> None:
        """`remove` for a what-if within which nobody looks at the mark."""
        entries = self.journal.entries
        for fr, amount in usage.items():
            step: QuotaNode | None = node
            while step is not None:
                used = step.usage
                before = used[fr] if fr in used else 0  # noqa: SIM401 - a call costs more
                entries.append((used, fr, before))
                used[fr] = before - amount
                stored = before - step.local.get(fr, 0) if step.local else before
                if stored < amount:  # noqa: PLR1730 - a call costs more
                    amount = stored  # noqa: PLW2901 - what the parent was charged
                if amount <= 0:
                    break
                step = step.parent

    def mark(self, node: QuotaNode, fr: FlavorResource) -> int:
        """What stands for everything about a pair in the node's tree: who holds it, and how much.

        Where it is the same as before, all of that is the same: whatever is undone brings the old
        mark back, and the same changes to the same state come to the same mark.
        """
        return node.root.marks.get(fr, 0)

    def mark_of_all(self, node: QuotaNode) -> tuple[tuple[FlavorResource, int], ...]:
        """The same for all pairs together."""
        return tuple(node.root.marks.items())

    def renew(self, node: QuotaNode, frs: Iterable[FlavorResource]) -> None:
        """Say that something else than usage has changed about those who hold these pairs."""
        marks, entries = node.root.marks, self.journal.entries
        for fr in frs:
            mark = marks[fr] if fr in marks else 0  # noqa: SIM401 - a call costs more
            entries.append((marks, fr, mark))
            marks[fr] = next(self._next_mark)

    def renew_all(self, node: QuotaNode) -> None:
        """Say that anything may have changed in the node's tree."""
        self.renew(node, node.root.potential)

    def _changed(self, node: QuotaNode, fr: FlavorResource, by: int) -> None:
        marks = node.root.marks
        before = marks.get(fr, 0)
        self.journal.entries.append((marks, fr, before))
        change = (before, node, by)
        mark = self._marks.get(change)
        if mark is None:
            if len(self._marks) >= _MARKS_MAX:
                self._marks.clear()
            mark = self._marks[change] = next(self._next_mark)
        marks[fr] = mark


def is_unlimited(amount: int) -> bool:
    """Whether the amount stands for no limit."""
    return amount >= UNLIMITED
