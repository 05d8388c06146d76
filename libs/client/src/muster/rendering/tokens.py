"""`muster tokens`: counts, money, and what prices would recover the hardware."""

from fractions import Fraction

from rich.table import Table

from muster.rendering.tables import plain_table
from muster_contracts.tokens import ModelDrift, TokenLine, TokenReport
from muster_domain.money import MICROS, format_decimal, round_rows

_MICROS_PER_CENT = 10_000
_MICROS_PLACES = 4


def token_table(report: TokenReport) -> Table:
    """One line for each key and the sum; cents are by largest remainder.

    IN HARDWARE is the part of the money that hardware was charged for already, ON TOP the rest.
    """
    (one,) = report.sets
    columns = [
        *report.by.upper().split(","),
        *("REQUESTS", "INPUT", "OUTPUT", "COST", "IN HARDWARE", "ON TOP"),
    ]
    table = plain_table(columns, right=columns[len(report.by.split(",")) :])
    costs = _cents([line.cost_micros or 0 for line in one.lines])
    inside = _cents([line.informational_micros for line in one.lines])
    for line, cost, part in zip(one.lines, costs, inside, strict=True):
        known = cost if line.cost_micros is not None else None
        table.add_row(*line.key, *_cells(line, known, part, report.currency))
    (total,), (of_total,) = (
        _cents([one.total.cost_micros or 0]),
        _cents([one.total.informational_micros]),
    )
    blank = [""] * (len(report.by.split(",")) - 1)
    known = total if one.total.cost_micros is not None else None
    table.add_row("__total__", *blank, *_cells(one.total, known, of_total, report.currency))
    return table


def drift_table(report: TokenReport) -> Table:
    """One line for each model that has tokens or hardware."""
    columns = [
        *("NAMESPACE", "MODEL", "STATUS"),
        *("HARDWARE", "TOKENS", "DRIFT", "REAL PER 1M", "SUGGESTED IN", "SUGGESTED OUT"),
    ]
    table = plain_table(columns, right=columns[3:])
    for model in report.models:
        table.add_row(model.namespace, model.model, str(model.status), *_drift_cells(model))
    return table


def unpriced_line(report: TokenReport) -> str:
    """Which models have no price, if any has none."""
    if not report.unpriced:
        return ""
    return f"no price, so no cost: {', '.join(report.unpriced)}"


def _drift_cells(model: ModelDrift) -> list[str]:
    percent = "-"
    if model.drift_permille is not None:
        percent = f"{format_decimal(Fraction(model.drift_permille, 10), 1)} %"
    real = "-"
    if model.per_million_micros is not None:
        real = format_decimal(Fraction(model.per_million_micros, MICROS), _MICROS_PLACES)
    (iron,), (token,) = _cents([model.iron_micros]), _cents([model.token_micros])
    return [
        _money(iron),
        _money(token),
        percent,
        real,
        model.suggested_input or "-",
        model.suggested_output or "-",
    ]


def _cells(line: TokenLine, cost: int | None, inside: int, currency: str) -> list[str]:
    counts = [f"{line.requests:,}", f"{line.prompt_tokens:,}", f"{line.completion_tokens:,}"]
    if cost is None:
        return [*counts, "no price", "-", "-"]
    return [*counts, f"{_money(cost)} {currency}", _money(inside), _money(cost - inside)]


def _cents(micros: list[int]) -> tuple[int, ...]:
    return round_rows([Fraction(amount, _MICROS_PER_CENT) for amount in micros])[0]


def _money(cents: int) -> str:
    return format_decimal(Fraction(cents, 100), 2)
