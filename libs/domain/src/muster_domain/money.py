"""Money as integer micro-units of a currency, rounded once and shared out without loss."""

import re
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction

from muster_domain.errors import InvalidValue

MICROS = 1_000_000
"""Micro-units of one unit of a currency."""


class IdlePolicy(StrEnum):
    """Who pays for capacity that nobody held.

    NONE leaves it out, ROW shows it on a row of its own. PROPORTIONAL shares it among those who
    held some of the same flavor and resource, NODE among those who held some of the same node, and
    OWNER gives it to the ClusterQueues that had it reserved, did not use it and did not lend it.
    """

    NONE = "none"
    ROW = "row"
    PROPORTIONAL = "proportional"
    NODE = "node"
    OWNER = "owner"


class ChargingBasis(StrEnum):
    """What a ClusterQueue pays: what it used, its nominal quota, or that and what it borrowed.

    With BOTH those who lent get a credit, so that nothing is paid twice.
    """

    USAGE = "usage"
    COMMITMENT = "commitment"
    BOTH = "both"


_AMOUNT = re.compile(r"\d{1,18}(?:\.\d{1,18})?")
_CURRENCY = re.compile(r"[A-Z]{3}")


def parse_amount(text: str, *, field: str = "") -> Fraction:
    """An amount of money as people write it: digits, at most one point, no sign, no exponent.

    Raises `InvalidValue`.
    """
    if not _AMOUNT.fullmatch(text):
        raise InvalidValue(
            f"{text!r} is not an amount", field=field, fix="write a decimal such as 1.40 or 0"
        )
    return Fraction(text)


def parse_currency(text: str, *, field: str = "") -> str:
    """A currency by its ISO 4217 code. Raises `InvalidValue`."""
    if not _CURRENCY.fullmatch(text):
        raise InvalidValue(
            f"{text!r} is not a currency", field=field, fix="write three letters such as EUR"
        )
    return text


def format_decimal(value: Fraction, places: int) -> str:
    """An amount with a fixed number of places, the last one rounded half to even."""
    scaled = nearest(value * 10**places)
    sign = "-" if scaled < 0 else ""
    whole, part = divmod(abs(scaled), 10**places)
    return f"{sign}{whole}.{part:0{places}d}" if places else f"{sign}{whole}"


def nearest(value: Fraction) -> int:
    """The nearest integer; a half goes to the even one."""
    whole, rest = divmod(value.numerator, value.denominator)
    twice = 2 * rest
    if twice > value.denominator or (twice == value.denominator and whole % 2):
        return whole + 1
    return whole


def round_rows(exact: Sequence[Fraction]) -> tuple[tuple[int, ...], int]:
    """Whole rows and their whole sum, where the sum is the exact sum rounded once.

    What the floors leave over goes to the largest remainders, the earlier row first, so no row is
    a unit or more away from its exact value.
    """
    total = nearest(sum(exact, Fraction(0)))
    floors = [value.numerator // value.denominator for value in exact]
    remainders = [value - floor for value, floor in zip(exact, floors, strict=True)]
    return _hand_out(floors, remainders, total), total


def split(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Split a whole number in proportion to weights, by largest remainder, the earlier row first.

    `total` and the weights are not negative. With no weight above zero everybody gets zero.
    """
    whole = sum(weights)
    if whole == 0:
        return (0,) * len(weights)
    parts = [divmod(total * weight, whole) for weight in weights]
    return _hand_out([floor for floor, _ in parts], [rest for _, rest in parts], total)


def _hand_out(
    floors: list[int], remainders: Sequence[int] | Sequence[Fraction], total: int
) -> tuple[int, ...]:
    left = total - sum(floors)
    order = sorted(range(len(floors)), key=lambda row: (-remainders[row], row))
    for row in order[:left]:
        floors[row] += 1
    return tuple(floors)
