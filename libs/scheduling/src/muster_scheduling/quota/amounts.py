"""Arithmetic on amounts that may be unlimited (R-3, R-4).

`UNLIMITED` is larger than every amount that anybody can ask for, and absorbs what is added to it
or taken from it. Everything else is a plain integer of milli-units.
"""

from muster_domain.queues import UNLIMITED

LEAST = -UNLIMITED
"""What is left of a bounded amount when something unlimited is taken from it."""

_CPU_UNLIMITED = (2**63 - 1) // 1000 * 1000


def plus(left: int, right: int) -> int:
    """`left + right`; unlimited if either is, or if the sum is out of range."""
    total = left + right
    return UNLIMITED if left >= UNLIMITED or right >= UNLIMITED or total >= UNLIMITED else total


def minus(left: int, right: int) -> int:
    """`left - right`; unlimited stays unlimited, unlimited minus unlimited is nothing."""
    if left >= UNLIMITED:
        return 0 if right >= UNLIMITED else UNLIMITED
    return LEAST if right >= UNLIMITED else left - right


def quota_amount(resource: str, quota_milli: int) -> int:
    """A declared quota, with everything out of Kueue's range taken as unlimited (R-3).

    Kueue counts cpu in thousandths and everything else in units, so cpu saturates earlier.
    """
    limit = _CPU_UNLIMITED if resource == "cpu" else UNLIMITED
    return UNLIMITED if quota_milli >= limit else whole(resource, quota_milli)


def whole(resource: str, amount_milli: int) -> int:
    """The amount, rounded up to what Kueue counts in: thousandths of cpu, units of the rest."""
    return amount_milli if resource == "cpu" else -(-amount_milli // 1000) * 1000


def bounded(amount: int) -> int:
    """The amount, cut to what a request may be: never unlimited (R-5)."""
    return max(LEAST + 1, min(amount, UNLIMITED - 1))
