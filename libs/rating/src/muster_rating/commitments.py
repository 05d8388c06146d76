"""What declared quota commits its queues to: quota x price x the hours of a period.

Nominal quota is money that is spoken for, the most that a queue can hold is its spend ceiling, and
what it borrows now is what the loan costs if it is held for the whole period. Ceilings of one
cohort overlap, since all of them may borrow the same quota, so they have no sum.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from muster_domain.money import nearest
from muster_rating.prices import PriceBook
from muster_rating.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One queue's quota of one (flavor, resource), in milli-units.

    `ceiling_milli` is the most that its tree could ever give it: nominal quota and the borrowing
    limit, or without one what the cohort has. `borrowed_milli` is what it holds above nominal now.
    """

    cluster_queue: str
    flavor: str
    resource: str
    nominal_milli: int
    ceiling_milli: int
    borrowed_milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """What a quota comes to in micros; None where some of the period has no price."""

    quota: Quota
    committed_micros: int | None
    ceiling_micros: int | None
    loan_micros: int | None


def commitments(
    quotas: Iterable[Quota], prices: PriceBook, window: Window
) -> tuple[Commitment, ...]:
    """What every quota comes to in a window, by queue, flavor and resource.

    A price that begins inside the window counts from then on.
    """
    found: list[Commitment] = []
    for quota in sorted(quotas, key=lambda one: (one.cluster_queue, one.flavor, one.resource)):
        per_milli = _micros_per_milli(prices, quota, window)
        found.append(
            Commitment(
                quota=quota,
                committed_micros=_amount(quota.nominal_milli, per_milli),
                ceiling_micros=_amount(quota.ceiling_milli, per_milli),
                loan_micros=_amount(quota.borrowed_milli, per_milli),
            )
        )
    return tuple(found)


def _micros_per_milli(prices: PriceBook, quota: Quota, window: Window) -> Fraction | None:
    """What one milli-unit costs when it is held for the whole window."""
    total = Fraction(0)
    for rated in prices.windows(quota.flavor, quota.resource, window):
        if rated.price is None:
            return None
        length_ms = rated.window.end_ms - rated.window.start_ms
        total += rated.price.micros_per_unit * length_ms
    return total


def _amount(quantity_milli: int, micros_per_milli: Fraction | None) -> int | None:
    return None if micros_per_milli is None else nearest(quantity_milli * micros_per_milli)
