"""`muster simulate`: what would happen, in virtual time."""

import dataclasses
import gc
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from muster.cli.output import stderr, stdout
from muster_domain.errors import InvalidValue
from muster_simulation.plot import write_plot
from muster_simulation.premises import Happening
from muster_simulation.replay import Replayed, Tell, replay_scenario
from muster_simulation.scenario import Scenario, load_scenario
from muster_simulation.summary import HOUR_MS, Row, span

DIFFERENT = 1
COLLECT_AFTER = 50_000
"""Objects between two looks for garbage in circles: a run makes millions, and hardly any circle."""


class Output(StrEnum):
    """What is printed."""

    TABLE = "table"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate", rich_help_panel="On this machine")(simulate)


def simulate(
    file: Annotated[Path, typer.Argument(help="The scenario")],
    seed: Annotated[int, typer.Option(help="Draws what the scenario leaves to chance")] = 0,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="What is printed")
    ] = Output.TABLE,
    trace: Annotated[
        Path | None, typer.Option(help="The CSV file of jobs, instead of the one it names")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture to this HTML file")] = None,
) -> None:
    """Run a scenario or a trace of jobs in virtual time and say what it came to.

    The decisions are those of the running services. -o json prints every happening as one line, and
    the summary as the last. Ends with 1 when the file expects something that did not happen.
    """
    console = stderr()
    try:
        scenario = _with_trace(load_scenario(file), trace)
        tell = _print_line if output is Output.JSON else _say_nothing
        replayed = _run(scenario, seed, console, tell)
    except InvalidValue as error:
        raise typer.BadParameter(str(error)) from error
    if output is Output.JSON:
        typer.echo(json.dumps({"summary": dataclasses.asdict(replayed.summary)}))
    else:
        _print_tables(replayed, stdout())
    if plot is not None:
        write_plot(replayed, plot)
        console.print(f"the picture is in {plot}", highlight=False)
    for difference in replayed.differences:
        console.print(f"[red]{difference}[/]", highlight=False)
    if replayed.differences:
        raise typer.Exit(DIFFERENT)


def _with_trace(scenario: Scenario, trace: Path | None) -> Scenario:
    if trace is None:
        return scenario
    if scenario.trace is None:
        raise InvalidValue("the scenario has no trace", field="--trace", fix="give it a trace:")
    changed = scenario.trace.model_copy(update={"file": trace})
    return scenario.model_copy(update={"trace": changed})


def _run(scenario: Scenario, seed: int, console: Console, told: Tell) -> Replayed:
    gc.set_threshold(COLLECT_AFTER)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("jobs", total=None)

        def tell(arrived: int, total: int) -> None:
            progress.update(task, completed=arrived, total=total)

        return replay_scenario(scenario, seed=seed, progress=tell, tell=told)


def _print_line(happening: Happening) -> None:
    typer.echo(json.dumps(dataclasses.asdict(happening)))


def _say_nothing(_: Happening) -> None:
    pass


def _print_tables(replayed: Replayed, console: Console) -> None:
    summary = replayed.summary
    console.print(_table("by queue", "queue", (*summary.queues, summary.total), summary.total))
    console.print(_table("by size", "size", summary.sizes, summary.total))
    used = summary.total.used_percent
    if used is not None:
        console.print(
            f"{span(summary.until_ms)} of virtual time; {used} % of the quota was in use",
            highlight=False,
        )


def _table(title: str, first: str, rows: tuple[Row, ...], total: Row) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column(first)
    names = (
        "jobs", "ended", "refused", "waiting", "wait p50", "wait p90", "wait p99", "evicted",
        "hours", "lost", "share", "of quota", "cost",
    )  # fmt: skip
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        share = f"{100 * row.gpu_ms / total.gpu_ms:.1f} %" if total.gpu_ms else "-"
        cost = "-" if row.cost_micros is None else f"{row.cost_micros // 10_000 / 100:,.2f}"
        cells = [row.jobs, row.finished, row.refused, row.waiting]
        table.add_row(
            row.name,
            *(str(cell) for cell in cells),
            span(row.wait_p50_ms),
            span(row.wait_p90_ms),
            span(row.wait_p99_ms),
            str(row.evictions),
            f"{row.gpu_ms / HOUR_MS:,.1f}",
            f"{row.lost_gpu_ms / HOUR_MS:,.1f}",
            share,
            "-" if row.used_percent is None else f"{row.used_percent} %",
            cost,
        )
    return table
