"""Arithmetic over resources, in exact milli-units (rules R1 to R6 of Volcano's comparison).

A resource that one side lacks counts as zero there, unless a function says otherwise. Comparisons
need no epsilon: the quantities are integers.
"""

from collections.abc import Iterable, Mapping

from muster_domain.quantity import Resources

PODS = "pods"
SCALE = 1 << 20
"""Shares are whole parts of this, rounded down."""


def add_to(total: dict[str, int], more: Resources) -> None:
    """Add in place."""
    for name, quantity in more.items():
        total[name] = total.get(name, 0) + quantity


def take_from(total: dict[str, int], less: Resources) -> None:
    """Subtract in place; a dimension may go below zero."""
    for name, quantity in less.items():
        total[name] = total.get(name, 0) - quantity


def total_of(parts: Iterable[Resources]) -> dict[str, int]:
    """The sum."""
    total: dict[str, int] = {}
    for part in parts:
        add_to(total, part)
    return total


def minus(left: Resources, right: Resources) -> dict[str, int]:
    """The difference, which may be below zero."""
    result = dict(left)
    take_from(result, right)
    return result


def exceeding(left: Resources, right: Resources) -> dict[str, int]:
    """What of `left` is more than `right`, never below zero (R6)."""
    return {name: max(0, quantity - right.get(name, 0)) for name, quantity in left.items()}


def at_least(left: Resources, right: Resources) -> dict[str, int]:
    """The larger of both, by dimension."""
    names = (*left, *(name for name in right if name not in left))
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in names}


def capped(left: Resources, ceiling: Resources) -> dict[str, int]:
    """The smaller of both; a dimension without a ceiling stays (R5, infinity)."""
    return {name: min(quantity, ceiling.get(name, quantity)) for name, quantity in left.items()}


def capped_to(left: Resources, ceiling: Resources) -> dict[str, int]:
    """The smaller of both; a dimension without a ceiling becomes zero (R5, zero)."""
    return {name: min(quantity, ceiling.get(name, 0)) for name, quantity in left.items()}


def covers(ceiling: Resources, amount: Resources) -> bool:
    """Whether every dimension of `amount` is within `ceiling` (R2, zero)."""
    return all(quantity <= max(0, ceiling.get(name, 0)) for name, quantity in amount.items())


def covers_asked(ceiling: Resources, amount: Resources, asked: Resources) -> bool:
    """Whether `amount` is within `ceiling` in every dimension that is asked for (R3)."""
    return first_short(ceiling, amount, asked) is None


def first_short(ceiling: Resources, amount: Resources, asked: Resources) -> str | None:
    """The first asked dimension, by name, in which `amount` is more than `ceiling`."""
    for name in sorted(asked):
        if asked[name] > 0 and amount.get(name, 0) > ceiling.get(name, 0):
            return name
    return None


def covers_some(ceiling: Resources, amount: Resources, asked: Resources) -> bool:
    """Whether `amount` is within `ceiling` in some asked dimension (R4).

    Dimensions of which both are zero say nothing; where none is left the answer is no.
    """
    telling = [
        name
        for name, quantity in asked.items()
        if quantity > 0 and (amount.get(name, 0) or ceiling.get(name, 0))
    ]
    return any(amount.get(name, 0) <= ceiling.get(name, 0) for name in telling)


def is_empty(amount: Resources) -> bool:
    """Whether nothing is in it; the count of pods is no resource."""
    return not any(quantity for name, quantity in amount.items() if name != PODS)


def share(part: int, whole: int) -> int:
    """`part` of `whole` in parts of `SCALE`; something of nothing is all of it (R6)."""
    if whole <= 0:
        return SCALE if part > 0 else 0
    return part * SCALE // whole


def dominant_share(part: Resources, whole: Resources) -> int:
    """The largest share over the dimensions of `whole`, in parts of `SCALE`."""
    return max((share(part.get(name, 0), whole[name]) for name in whole), default=0)


def without(amount: Resources, names: Iterable[str]) -> Mapping[str, int]:
    """The amount without some dimensions."""
    left_out = frozenset(names)
    return {name: quantity for name, quantity in amount.items() if name not in left_out}
