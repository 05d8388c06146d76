"""Dominant resource share: how much of what could be lent a node has borrowed (R-60, R-61).

Shares are fractions of integers and compared by cross-multiplication.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster_scheduling.quota import FlavorResource, QuotaNode, Vector, plus

SHARE_UNBOUNDED = 2**63 - 1
"""What the status shows for a share without bound."""


@dataclass(frozen=True, slots=True)
class Share:
    """`borrowed` of `lendable` of the dominant resource, to be divided by the weight.

    `borrowed` 0 is a share of nothing. `borrowing` is true even where nothing is lendable.
    """

    weight_milli: int
    borrowed: int = 0
    lendable: int = 1
    dominant: str = ""
    borrowing: bool = False

    @property
    def unbounded(self) -> bool:
        """A borrower without weight has more than everybody with one."""
        return self.borrowed > 0 and self.weight_milli == 0

    @property
    def per_mille(self) -> int:
        """The weighted share in thousandths, rounded up, as the status shows it."""
        if self.borrowed == 0:
            return 0
        if self.weight_milli == 0:
            return SHARE_UNBOUNDED
        return -(-self.borrowed * 1_000_000 // (self.lendable * self.weight_milli))

    def compare(self, other: "Share") -> int:
        """Negative when this share is smaller, 0 for a tie, positive when it is larger (R-61)."""
        if self.unbounded != other.unbounded:
            return 1 if self.unbounded else -1
        left, right = self.borrowed * other.lendable, other.borrowed * self.lendable
        if not self.unbounded:
            left, right = left * (other.weight_milli or 1), right * (self.weight_milli or 1)
        return (left > right) - (left < right)


def share_of(node: QuotaNode, extra: Vector | None = None) -> Share:
    """The share of a ClusterQueue or cohort, with `extra` on top of its usage (R-60)."""
    parent = node.parent
    if parent is None:
        return Share(node.weight_milli)
    borrowed: dict[str, int] = {}
    usage = node.usage
    for fr, quota in node.subtree.items():
        used = usage.get(fr, 0)
        if extra:
            used += extra.get(fr, 0)
        if used > quota:
            borrowed[fr[1]] = plus(borrowed.get(fr[1], 0), used - quota)
    if not borrowed:
        return Share(node.weight_milli)
    best, of, dominant = 0, 1, ""
    for resource in sorted(borrowed):
        lendable = parent.lendable.get(resource, 0)
        if lendable > 0 and borrowed[resource] * of > best * lendable:
            best, of, dominant = borrowed[resource], lendable, resource
    return Share(node.weight_milli, best, of, dominant, borrowing=True)


def borrows_any(node: QuotaNode, frs: Iterable[FlavorResource]) -> bool:
    """Whether the node borrows any of these pairs."""
    return not node.within_nominal(frs)


def path_to_root(node: QuotaNode) -> Iterator[QuotaNode]:
    """The node and those above it, without the root."""
    yield node
    yield from node.ancestors[:-1]
