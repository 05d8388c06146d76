"""The command for the first look."""

from collections.abc import Callable
from typing import TypeVar

import typer

from muster.cli.options import Output, connect
from muster.cli.output import Format, emit, lines
from muster.client import Client
from muster.config import read_config
from muster.errors import ExitCode, Unreachable
from muster.rendering.head import Head, head
from muster.rendering.status import Status, status_lines
from muster_contracts.queries import NODES_PAGE_MAX, PAGE_MAX, Phase

T = TypeVar("T")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="What is going on")(status)


def status(*, output: Output = Format.TABLE) -> None:
    """Show the whole in a few lines: who you are, nodes, queues, who waits. 1 if some is silent."""
    config = read_config()
    with connect(config) as client:
        found = Status(
            url=config.url,
            who=client.whoami(),
            floor=_told(lambda: _floor(client)),
            quota=_told(client.quota),
            waiting=_told(
                lambda: client.workloads({"phase": Phase.PENDING.value, "limit": PAGE_MAX})
            ),
        )
    emit(found, output, lambda _wide: lines(status_lines(found)))
    if found.silent:
        raise typer.Exit(ExitCode.FAILURE)


def _floor(client: Client) -> Head:
    """The floor in numbers; of a large one without asking for each of its nodes."""
    return head(client.some_nodes({"limit": NODES_PAGE_MAX}), client.domains())


def _told(ask: Callable[[], T]) -> T | str:
    """The answer, or why there is none."""
    try:
        return ask()
    except Unreachable as error:
        return str(error)
