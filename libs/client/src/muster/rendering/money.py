"""`muster budget` and `muster statement`: bars of what is left, and what a month came to."""

from collections.abc import Sequence
from fractions import Fraction

from rich.table import Table
from rich.text import Text

from muster.rendering.tables import plain_table
from muster.rendering.words import utc_time
from muster_contracts.budgets import BudgetPage, BudgetRow
from muster_contracts.commitments import CommitmentPage
from muster_contracts.statements import StatementRow, StatementView
from muster_domain.money import MICROS, format_decimal, round_rows

BAR_WIDTH = 24
_MILLI_MS_PER_HOUR = 3_600_000 * 1000
BUDGET_LEGEND = "█ spent  ▓ held  · left"


def budget_table(page: BudgetPage) -> Table:
    """One line for each window of a budget, in its present period."""
    columns = ["BUDGET", "FOR", "PERIOD", "", "SPENT", "HELD", "LEFT", "LIMIT", "FORECAST"]
    table = plain_table(columns, right=columns[4:])
    for row in page.rows:
        left = None if row.limit_micros is None else _left(row)
        table.add_row(
            row.budget,
            row.scope,
            row.period,
            budget_bar(row),
            _money(row.spent_micros),
            _money(row.held_micros),
            "-" if left is None else _money(left),
            "none" if row.limit_micros is None else f"{_money(row.limit_micros)} {row.currency}",
            _money(row.forecast_micros),
        )
    return table


def budget_bar(row: BudgetRow) -> Text:
    """Spent, held and left of the limit, to scale; what is there shows at least once."""
    text = Text()
    if not row.limit_micros:
        return text
    parts = (
        ("█", "red" if row.spent_micros >= row.limit_micros else "green", row.spent_micros),
        ("▓", "yellow", row.held_micros),
        ("·", "dim", _left(row)),
    )
    scale = max(row.limit_micros, row.spent_micros + row.held_micros)
    for mark, style, micros in parts:
        cells = micros * BAR_WIDTH // scale
        text.append(mark * max(cells, 1 if micros else 0), style=style)
    return text


def commitment_table(page: CommitmentPage) -> Table:
    """One line for each quota that costs something, then the sums; ceilings have none."""
    columns = ["CLUSTER_QUEUE", "FLAVOR", "RESOURCE", "NOMINAL", "CEILING", "BORROWED", "LOAN"]
    table = plain_table(columns, right=columns[3:])
    for row in page.rows:
        if row.ceiling_micros == 0:
            continue
        amounts = (row.committed_micros, row.ceiling_micros, row.loan_micros)
        nominal, ceiling, loan = ("no price" if of is None else _money(of) for of in amounts)
        borrowed = format_decimal(Fraction(row.borrowed_milli, 1000), 2)
        table.add_row(row.cluster_queue, row.flavor, row.resource, nominal, ceiling, borrowed, loan)
    table.add_row(
        "total", "", "", _money(page.committed_micros), "", "",
        f"{_money(page.loan_micros)} {page.currency}",
    )  # fmt: skip
    return table


def statement_table(view: StatementView) -> Table:
    """One line for each key, then what nobody used, then the sum; every column adds up."""
    currency = view.currency
    columns = [
        view.by.upper(),
        *("GPU-H", "BORROWED", "EFFICIENCY"),
        *(f"{name} {currency}" for name in ("MONTH", "CORRECTIONS", "TOTAL")),
    ]
    table = plain_table(columns, right=columns[1:])
    hours = _hours([row.gpu_time for row in view.rows])
    borrowed = _hours([row.borrowed_time for row in view.rows])
    for row, *times in zip(view.rows, hours, borrowed, strict=False):
        table.add_row(row.key, *times, _efficiency(row), *_amounts(row.cents, row.correction_cents))
    corrected = sum(row.correction_cents for row in view.rows)
    table.add_row("total", hours[-1], borrowed[-1], "", *_amounts(view.total_cents, corrected))
    return table


def _amounts(cents: int, corrected: int) -> list[str]:
    return [_cents(cents - corrected), _cents(corrected), _cents(cents)]


def _efficiency(row: StatementRow) -> str:
    """Empty for what nobody held or nobody looked at."""
    if row.observed_time <= 0:
        return ""
    return f"{(row.busy_time * 200 + row.observed_time) // (row.observed_time * 2)} %"


def statement_heading(view: StatementView) -> str:
    """What the statement is, in one line."""
    times = f"{utc_time(view.starts_at_ms)} to {utc_time(view.ends_at_ms)}"
    if not view.number:
        return f"{view.period}, {times}, is {view.state}: what would be issued now"
    return f"{view.period}, {times}, statement {view.number}, digest {view.digest}"


def _left(row: BudgetRow) -> int:
    return max(0, (row.limit_micros or 0) - row.spent_micros - row.held_micros)


def _money(micros: int) -> str:
    return format_decimal(Fraction(micros, MICROS), 2)


def _cents(cents: int) -> str:
    return format_decimal(Fraction(cents, 100), 2)


def _hours(milli_ms: Sequence[int]) -> list[str]:
    """Hours with two digits, and then their sum, to which they add up."""
    hundredths, total = round_rows([Fraction(time * 100, _MILLI_MS_PER_HOUR) for time in milli_ms])
    return [_cents(amount) for amount in (*hundredths, total)]
