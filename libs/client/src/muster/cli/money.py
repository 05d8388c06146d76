"""Commands about money: budgets, statements, closing a month."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import Output, connect
from muster.cli.output import Format, emit, say, warn_unpriced
from muster.rendering.money import (
    BUDGET_LEGEND,
    budget_table,
    commitment_table,
    statement_heading,
    statement_table,
)
from muster_contracts import codec
from muster_contracts.statement_lines import policy_text
from muster_contracts.statements import StatementView

Month = Annotated[str, typer.Argument(metavar="MONTH", help="For example 2026-06")]
Zone = Annotated[str, typer.Option("--tz", help="In the days of this time zone")]


class StatementForm(StrEnum):
    """How a statement is wanted."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    HTML = "html"
    FOCUS = "focus"
    FOCUS_PARQUET = "focus-parquet"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (budget, commitments, statement):
        app.command(rich_help_panel="Money")(command)
    app.command("close-month", rich_help_panel="Money")(close_month)


def budget(
    name: Annotated[str, typer.Argument(help="One budget")] = "",
    *,
    output: Output = Format.TABLE,
) -> None:
    """Show budgets: what is spent, held and left in their present periods."""
    with connect() as client:
        page = client.budgets(name)
    if page.silent:
        say(f"no answer from {', '.join(page.silent)}: the list is not complete", "yellow")
    emit(page, output, lambda _wide: budget_table(page))
    if output in (Format.TABLE, Format.WIDE):
        say(BUDGET_LEGEND)


def commitments(
    month: Annotated[str, typer.Argument(metavar="[MONTH]", help="2026-06; else the next")] = "",
    *,
    zone: Zone = "UTC",
    output: Output = Format.TABLE,
) -> None:
    """Show what quota comes to in a month: nominal, the spend ceiling, and open loans if held."""
    with connect() as client:
        page = client.commitments(month, zone)
    if page.silent:
        say(f"no answer from {', '.join(page.silent)}: the list is not complete", "yellow")
    warn_unpriced(page.unpriced)
    emit(page, output, lambda _wide: commitment_table(page))


def statement(
    month: Month,
    *,
    zone: Zone = "UTC",
    by: Annotated[str, typer.Option(help="team, queue, namespace, user, label:<key>")] = "team",
    form: Annotated[StatementForm, typer.Option("-o", "--output")] = StatementForm.TABLE,
    file: Annotated[str, typer.Option("-f", "--file", help="Write here, not to stdout")] = "",
) -> None:
    """Show what a month came to; until it is closed, as it would be issued now."""
    wanted = "json" if form is StatementForm.TABLE else form.value
    with connect() as client:
        body = client.statement(month, {"tz": zone, "by": by, "format": wanted})
    if form is StatementForm.TABLE:
        view = codec.decode(StatementView, body, bytes_max=len(body))
        say(statement_heading(view))
        for policy in view.policy:
            say(policy_text(policy))
        warn_unpriced(view.unpriced)
        emit(view, Format.TABLE, lambda _wide: statement_table(view))
    elif file:
        Path(file).write_bytes(body)
    else:
        sys.stdout.buffer.write(body)


def close_month(month: Month, *, zone: Zone = "UTC") -> None:
    """Close a month: its statement is issued and never changes. The same again does nothing."""
    with connect() as client:
        closed = client.close_month(month, zone)
    say(f"{closed.period} is closed: statement {closed.number}, digest {closed.digest}")
