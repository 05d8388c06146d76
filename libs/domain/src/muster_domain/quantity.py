"""Resource quantities as exact integers.

A quantity is an integer number of thousandths ("milli-units") of the resource's own unit: cores
for cpu, bytes for memory, pieces for everything countable. Thousandths are exact for every
quantity people write (`500m`, `0.3`), so nothing is ever compared as a float.
"""

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache

from muster_domain.errors import InvalidValue

Resources = Mapping[str, int]
"""Milli-units by resource name, e.g. `{"cpu": 500, "nvidia.com/gpu": 4000}`."""

_GRAMMAR = re.compile(
    r"(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:(?P<exponent>[eE][+-]?\d+)|(?P<suffix>[A-Za-z]*))",
    re.ASCII,
)
_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{letter: Decimal(10) ** (3 * power) for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
_EXACT = Context(prec=80)
_BINARY_FORM = [(f"{letter}i", 1024**power) for power, letter in enumerate("KMGTPE", start=1)]
_DIGITS_MAX = 40


def parse_quantity_milli(text: str | int | Decimal) -> int:
    """Read a Kubernetes quantity; what is finer than a thousandth rounds up.

    Takes binary (`36Gi`), decimal (`2000G`, `1k`) and exponent (`1e3`) forms. Raises
    `InvalidValue` for anything else, `K` and `1e` included.
    """
    written = str(text).strip()
    if len(written) > _DIGITS_MAX:
        raise _no_quantity(written)
    return _milli(written)


@lru_cache(maxsize=1024)
def _milli(written: str) -> int:
    """What a short text says; jobs write the same few again and again."""
    match = _GRAMMAR.fullmatch(written)
    if match is None or (match["suffix"] or "") not in _SUFFIXES:
        raise _no_quantity(written)
    number = match["number"] + (match["exponent"] or "")
    if match["exponent"] and abs(int(match["exponent"][1:])) > _DIGITS_MAX:
        raise InvalidValue(f"{written!r} is out of range", fix="write a smaller exponent")
    value = _EXACT.multiply(Decimal(number), _SUFFIXES[match["suffix"] or ""])
    return int(_EXACT.multiply(value, 1000).to_integral_value(rounding=ROUND_CEILING))


def _no_quantity(written: str) -> InvalidValue:
    return InvalidValue(
        f"{written!r} is not a quantity", fix="write a number such as 4, 500m, 1.5, 36Gi or 1e3"
    )


def format_quantity(quantity_milli: int) -> str:
    """Write milli-units in the shortest exact Kubernetes form: `500m`, `4`, `36Gi`."""
    if quantity_milli % 1000:
        return f"{quantity_milli}m"
    whole = quantity_milli // 1000
    for suffix, size in reversed(_BINARY_FORM):
        if whole and whole % size == 0:
            return f"{whole // size}{suffix}"
    return str(whole)


def add(left: Resources, right: Resources) -> dict[str, int]:
    """Sum by resource, in milli-units."""
    total = dict(left)
    for name, quantity in right.items():
        total[name] = total.get(name, 0) + quantity
    return total


def scale(resources: Resources, count: int) -> dict[str, int]:
    """The resources of `count` equal pods, in milli-units."""
    return {name: quantity * count for name, quantity in resources.items()}


def describe(resources: Resources) -> str:
    """One line for people, sorted by name: `cpu 4, nvidia.com/gpu 8`."""
    return ", ".join(f"{name} {format_quantity(resources[name])}" for name in sorted(resources))
