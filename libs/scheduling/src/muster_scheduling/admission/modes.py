"""How well a flavor suits, and which of two is better (R-33 to R-35)."""

from enum import IntEnum
from typing import NamedTuple

from muster_domain.conditions import PendingReason
from muster_domain.queues import FlavorFungibility, FungibilityPreference, WhenCan


class Mode(IntEnum):
    """How a workload can be given what it asks, worst first."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    FIT = 3


class Suit(IntEnum):
    """How one flavor suits one resource, worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


MODE_OF = (Mode.NO_FIT, Mode.PREEMPT, Mode.PREEMPT, Mode.PREEMPT, Mode.FIT)
"""What a suit means for the workload, by suit."""


class Outlook(NamedTuple):
    """A flavor's suit and the borrow level at which it would be used."""

    suit: Suit
    borrow: int


WORST = Outlook(Suit.NO_FIT, 2**31)
BEST = Outlook(Suit.FIT, 0)

_SEVERITY = {
    PendingReason.TOPOLOGY_PLACEMENT_FAILED: 0,
    PendingReason.WAITING_FOR_QUOTA: 1,
    PendingReason.EXCEEDS_MAX_QUOTA: 2,
    PendingReason.NO_MATCHING_FLAVOR: 3,
}


def preferred(left: Outlook, right: Outlook, fungibility: FlavorFungibility) -> bool:
    """Whether `left` is strictly better than `right` (R-33)."""
    if left.suit is Suit.NO_FIT or right.suit is Suit.NO_FIT:
        return left.suit > right.suit
    blind_left = left.suit is Suit.NO_CANDIDATES
    blind_right = right.suit is Suit.NO_CANDIDATES
    if blind_left != blind_right:
        return blind_right
    if fungibility.preference is FungibilityPreference.PREEMPTION_OVER_BORROWING:
        return (-left.borrow, left.suit) > (-right.borrow, right.suit)
    return (left.suit, -left.borrow) > (right.suit, -right.borrow)


def scan_goes_on(outlook: Outlook, fungibility: FlavorFungibility) -> bool:
    """Whether the next flavor is tried after one with this outlook (R-34)."""
    if outlook.suit in (Suit.NO_FIT, Suit.NO_CANDIDATES):
        return True
    preempting = outlook.suit in (Suit.PREEMPT, Suit.RECLAIM)
    if preempting and fungibility.when_can_preempt is WhenCan.TRY_NEXT_FLAVOR:
        return True
    return outlook.borrow > 0 and fungibility.when_can_borrow is WhenCan.TRY_NEXT_FLAVOR


def least_severe(reasons: list[PendingReason]) -> PendingReason | None:
    """The reason that speaks for alternatives (section 1.11)."""
    return min(reasons, key=_SEVERITY.__getitem__) if reasons else None


def most_severe(reasons: list[PendingReason]) -> PendingReason | None:
    """The reason that speaks for what is needed together (section 1.11)."""
    return max(reasons, key=_SEVERITY.__getitem__) if reasons else None
