"""Commands about tokens: hand over a proxy's spend log, see what it comes to."""

import csv
import json
from collections.abc import Iterator, Sequence
from typing import Annotated, cast

import typer

from muster.cli.files import read_file
from muster.cli.options import Output, connect
from muster.cli.output import Format, emit, lines, say, stdout
from muster.errors import BadArgument
from muster.rendering.tokens import drift_table, token_table, unpriced_line
from muster_contracts.tokens import TokenReport

ROWS_AT_ONCE = 500
DIMENSIONS = ("team", "namespace", "model", "key", "user", "tag")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    tokens = typer.Typer(help="What served models used.", no_args_is_help=True)
    tokens.command("report")(report)
    tokens.command("cost")(cost)
    tokens.command("drift")(drift)
    app.add_typer(tokens, name="tokens", rich_help_panel="Money")


def report(
    file: Annotated[str, typer.Argument(help="A LiteLLM spend log, JSON lines or CSV; - is stdin")],
    *,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Where models are served, if rows do not say")
    ] = "",
) -> None:
    """Hand over rows of a spend log. Rows that are known already change nothing."""
    read = read_file(file)
    text = read.content.decode("utf-8-sig", errors="replace")
    rows = list(read_rows(text, read.name, as_csv=read.name.endswith(".csv")))
    with connect() as client:
        taken = 0
        for start in range(0, len(rows), ROWS_AT_ONCE):
            taken += client.report_tokens(rows[start : start + ROWS_AT_ONCE], namespace).uses
    say(f"{taken} rows taken")


def cost(
    *,
    by: Annotated[str, typer.Option(help=f"{', '.join(DIMENSIONS)}, or several")] = "team",
    start: Annotated[str, typer.Option("--from", help="A date or time, UTC; else this month")] = "",
    end: Annotated[str, typer.Option("--to", help="A date or time, UTC; else now")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Show tokens and their money, and how much of it hardware was charged for already."""
    found = _ask(by, start, end)
    emit(found, output, lambda _wide: token_table(found))
    _say_unpriced(found)


def drift(
    *,
    start: Annotated[str, typer.Option("--from", help="A date or time, UTC; else this month")] = "",
    end: Annotated[str, typer.Option("--to", help="A date or time, UTC; else now")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Say whether the prices of models recover their hardware, and which prices would."""
    found = _ask("model", start, end)
    emit(found, output, lambda _wide: drift_table(found))
    _say_unpriced(found)


def print_tokens(by: str, start: str, end: str) -> None:
    """The section on tokens below another table."""
    dimensions = set(by.split(","))
    found = _ask(by if dimensions <= set(DIMENSIONS) else "team", start, end)
    stdout().print(lines(["", "Tokens"]))
    stdout().print(token_table(found))
    _say_unpriced(found)


def read_rows(text: str, name: str, *, as_csv: bool) -> Iterator[dict[str, object]]:
    """The rows of an export, numbers as they are written. Raises `BadArgument`."""
    if as_csv:
        for row in csv.DictReader(text.splitlines()):
            yield dict(row)
        return
    try:
        found = _json(text) if text.lstrip().startswith("[") else _lines(text)
    except ValueError as error:
        raise BadArgument(f"{name} is not JSON: {error}", fix="export JSON lines or CSV") from error
    yield from cast("Sequence[dict[str, object]]", found)


def _lines(text: str) -> list[object]:
    return [_json(line) for line in text.splitlines() if line.strip()]


def _json(text: str) -> object:
    return cast("object", json.loads(text, parse_float=str))


def _ask(by: str, start: str, end: str) -> TokenReport:
    with connect() as client:
        return client.token_cost({"by": by, "from": start, "to": end})


def _say_unpriced(found: TokenReport) -> None:
    line = unpriced_line(found)
    if line:
        say(line, "yellow")
