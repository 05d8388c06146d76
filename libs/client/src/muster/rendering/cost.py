"""`muster cost`: card-hours and money, with rows that sum to the last."""

import csv
import io

from rich.table import Table

from muster.rendering.tables import plain_table
from muster.rendering.words import gpus_milli
from muster_contracts.queries import CostLine, CostReport

_MILLI_MS_PER_HOUR = 3_600_000 * 1000
_MICROS_PER_CENT = 10_000


def cost_table(report: CostReport) -> Table:
    """One line for each key, then what nobody used, then the sum."""
    table = plain_table(_columns(report), right=_columns(report)[1:])
    for line in _lines(report):
        table.add_row(*_cells(line, report.currency))
    return table


def cost_csv(report: CostReport) -> str:
    """The same lines as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_columns(report), "CURRENCY"])
    for line in _lines(report):
        writer.writerow([*_cells(line, ""), report.currency])
    return text.getvalue()


def _columns(report: CostReport) -> list[str]:
    return [report.by.upper(), "GPU-H", "BORROWED", "LOST", "COST"]


def _lines(report: CostReport) -> list[CostLine]:
    return [*report.lines, report.idle, report.total]


def _cells(line: CostLine, currency: str) -> list[str]:
    return [
        line.key,
        _hours(gpus_milli(line.resource_time)),
        _hours(gpus_milli(line.borrowed_time)),
        _hours(gpus_milli(line.lost_time)),
        _money(line.cost_micros, currency),
    ]


def _hours(milli_ms: int) -> str:
    """Hours with two digits, rounded half up."""
    hundredths = (milli_ms * 100 + _MILLI_MS_PER_HOUR // 2) // _MILLI_MS_PER_HOUR
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def _money(micros: int | None, currency: str) -> str:
    if micros is None:
        return "no price"
    cents = (micros + _MICROS_PER_CENT // 2) // _MICROS_PER_CENT
    return f"{cents // 100}.{cents % 100:02d} {currency}".strip()
