"""`muster cost`: card-hours and money, with rows that sum to the last."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

from rich.table import Table

from muster.rendering.tables import plain_table
from muster.rendering.words import gpus_milli, utc_time
from muster_contracts.queries import CostLine, CostLineKind, CostReport
from muster_domain.money import ChargingBasis, IdlePolicy, round_rows

_MILLI_MS_PER_HOUR = 3_600_000 * 1000
_MICROS_PER_CENT = 10_000


def cost_columns(report: CostReport) -> list[str]:
    """The headings of a report, in capitals."""
    return [*_columns(report), *_EFFICIENCY]


def cost_rows(report: CostReport) -> Iterator[list[str]]:
    """The cells of each of `cost_lines`, then those of the sum, to which the cents add up."""
    for cells, seen in _rows(report, report.currency):
        yield [*cells, *seen]


def cost_heading(report: CostReport) -> str:
    """What the report is about, in one line: the time, the money, who pays, and what is open."""
    said = [
        f"{utc_time(report.start_ms)} to {utc_time(report.end_ms)}",
        f"amounts in {report.currency}",
        _IDLE_WORDS[report.idle_policy],
    ]
    if report.complete_through_ms and report.complete_through_ms < report.end_ms:
        said.append(f"counted up to {utc_time(report.complete_through_ms)}")
    elif report.provisional:
        said.append("provisional: something that was counted has not ended")
    return ", ".join(said)


_IDLE_WORDS = {
    IdlePolicy.NONE: "without idle",
    IdlePolicy.ROW: "idle on a row of its own",
    IdlePolicy.PROPORTIONAL: "idle shared by what each used",
    IdlePolicy.NODE: "idle shared by what each used of the node",
    IdlePolicy.OWNER: "idle paid by whose quota it was",
}


def cost_table(report: CostReport) -> Table:
    """One line for each key, then what nobody used, then the sum."""
    columns = cost_columns(report)
    table = plain_table(columns, right=columns[1:])
    for cells in cost_rows(report):
        table.add_row(*cells)
    return table


def cost_csv(report: CostReport) -> str:
    """The same lines as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_columns(report), "CURRENCY", *_EFFICIENCY])
    for cells, seen in _rows(report, ""):
        writer.writerow([*cells, report.currency, *seen])
    return text.getvalue()


def _columns(report: CostReport) -> list[str]:
    basis = ["BASIS"] if _shows_basis(report) else []
    return [report.by.upper(), *basis, *(name for name, _ in _times(report)), "COST"]


def _shows_basis(report: CostReport) -> bool:
    return any(line.basis for line in report.lines)


def _by_quota(report: CostReport) -> bool:
    """Whether any queue pays for its quota."""
    bases = {ChargingBasis.USAGE, *(line.basis for line in report.lines if line.basis)}
    return report.basis is not ChargingBasis.USAGE or len(bases) > 1


_EFFICIENCY = ("EFFICIENCY", "OBSERVED")
"""How much of the observed time devices worked, and how much of what was held was observed."""


def _times(report: CostReport) -> list[tuple[str, Callable[[CostLine], Mapping[str, int]]]]:
    """The columns of time that say something on the report's terms."""
    columns: list[tuple[str, Callable[[CostLine], Mapping[str, int]]]] = [
        ("GPU-H", lambda line: line.resource_time),
        ("BORROWED", lambda line: line.borrowed_time),
        ("LOST", lambda line: line.lost_time),
    ]
    if report.idle_policy not in (IdlePolicy.ROW, IdlePolicy.NONE):
        columns.append(("IDLE", lambda line: line.idle_time))
    by_quota = _by_quota(report)
    if by_quota:
        columns.append(("NOMINAL", lambda line: line.nominal_time))
    if by_quota or any(line.lent_time for line in report.lines):
        columns.append(("LENT", lambda line: line.lent_time))
    if by_quota:
        columns.append(("CHARGED", lambda line: line.charged_time))
    return columns


def cost_lines(report: CostReport) -> list[CostLine]:
    """The lines that are shown: all keys, then what nobody used where that is a row."""
    shown = report.idle.charged_time or report.idle_policy is IdlePolicy.ROW
    hidden = _by_quota(report) and not report.idle.charged_time
    return [*report.lines, *([report.idle] if shown and not hidden else [])]


def _rows(report: CostReport, currency: str) -> Iterator[tuple[list[str], list[str]]]:
    """The cells, and what is known of efficiency.

    Hours and cents are by largest remainder, so that every column sums to the last line's.
    """
    lines = cost_lines(report)
    cents, _ = round_rows([Fraction(line.cost_micros or 0, _MICROS_PER_CENT) for line in lines])
    hours = [_hours([gpus_milli(of(line)) for line in lines]) for _, of in _times(report)]
    for place, (line, amount) in enumerate(zip(lines, cents, strict=True)):
        money = _money(None if line.cost_micros is None else amount, currency)
        cells = [*_basis(report, line), *(column[place] for column in hours), money]
        yield [line.key, *cells], _efficiency(line, gpus_milli(line.resource_time))
    unpriced = report.total.cost_micros is None
    held = sum(
        gpus_milli(line.resource_time) for line in report.lines if line.kind is CostLineKind.USAGE
    )
    money = _money(None if unpriced else sum(cents), currency)
    cells = [*_basis(report, report.total), *(column[-1] for column in hours), money]
    yield [report.total.key, *cells], _efficiency(report.total, held)


def _basis(report: CostReport, line: CostLine) -> list[str]:
    return [line.basis] if _shows_basis(report) else []


def _hours(milli_ms: Sequence[int]) -> list[str]:
    """Hours with two digits, and then their sum, to which they add up."""
    hundredths, total = round_rows([Fraction(time * 100, _MILLI_MS_PER_HOUR) for time in milli_ms])
    return [_decimal(amount) for amount in (*hundredths, total)]


def _efficiency(line: CostLine, held: int) -> list[str]:
    """Empty for what nobody held, unknown where nobody looked."""
    if not held or line.kind not in (CostLineKind.USAGE, CostLineKind.TOTAL):
        return ["", ""]
    observed = gpus_milli(line.observed_time)
    if not observed:
        return ["unknown", "0 %"]
    return [_percent(gpus_milli(line.busy_time), observed), _percent(min(observed, held), held)]


def _percent(part: int, whole: int) -> str:
    return f"{(part * 200 + whole) // (whole * 2)} %"


def _money(cents: int | None, currency: str) -> str:
    return "no price" if cents is None else f"{_decimal(cents)} {currency}".strip()


def _decimal(hundredths: int) -> str:
    whole, part = divmod(abs(hundredths), 100)
    return f"{'-' if hundredths < 0 else ''}{whole}.{part:02d}"
