"""Who goes first where LocalQueues take turns by what they used lately."""

from collections.abc import Iterable, Mapping

from muster_contracts.turns import TurnRow
from muster_domain.quantity import format_quantity

ONE = 1000
"""The weight of a LocalQueue that says none, in thousandths."""


def turn_lines(turns: Iterable[TurnRow]) -> list[str]:
    """One line for each LocalQueue, the next one first; decayed use, and what was let in since."""
    return [f"turn {row.place + 1}   {row.local_queue}   {_use(row)}" for row in turns]


def _use(row: TurnRow) -> str:
    parts = [f"used lately {_amounts(row.consumed_milli)}"]
    if row.penalty_milli:
        parts.append(f"just let in {_amounts(row.penalty_milli)}")
    weight = "" if row.weight_milli == ONE else f" (weight {format_quantity(row.weight_milli)})"
    return ", ".join(parts) + weight


def _amounts(amounts: Mapping[str, int]) -> str:
    shown = [f"{format_quantity(amounts[name])} {name}" for name in sorted(amounts)]
    return ", ".join(shown) or "nothing"
