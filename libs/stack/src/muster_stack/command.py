"""`muster up`: the whole of Muster on this machine, for development and for trying it out."""

import shlex
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from muster.cli.output import stderr
from muster_contracts.subjects import Service
from muster_domain.errors import MusterError
from muster_stack.demo.command import demo
from muster_stack.plan import StackOptions
from muster_stack.secrets import secrets
from muster_stack.stack import Stack

_DEFAULT_FOLDER = Path(".muster")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("up", rich_help_panel="On this machine")(up)
    app.command("demo", rich_help_panel="On this machine")(demo)
    app.command("secrets", rich_help_panel="On this machine")(secrets)


def up(  # noqa: PLR0913 - one parameter for each option
    *,
    folder: Annotated[
        Path, typer.Option("--data", help="Where data, logs and generated secrets are kept")
    ] = _DEFAULT_FOLDER,
    simulate: Annotated[
        str, typer.Option(help="Simulated nodes, for example 4x8gpu; empty for none")
    ] = "4x8gpu",
    node: Annotated[
        list[str] | None, typer.Option(help="Also run pods on this machine, under this node name")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Kueue's Configuration, applied at every start"
        ),
    ] = None,
    admission: Annotated[int, typer.Option(min=1, help="Replicas of admission")] = 1,
    http_port: Annotated[int, typer.Option(help="Port of the API; 0 takes a free one")] = 8080,
    console_port: Annotated[
        int, typer.Option(help="Port of the console's pages; 0 takes a free one")
    ] = 8081,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR")] = "INFO",
) -> None:
    """Run NATS, Valkey and every service here until Ctrl-C. Data stays for the next time."""
    console = stderr()
    stop = threading.Event()
    starting = True

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        if starting:
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    options = StackOptions(
        simulate=simulate,
        nodes=tuple(node or ()),
        replicas={Service.ADMISSION: admission},
        config_file="" if config is None else str(config.absolute()),
        http_port=http_port,
        console_port=console_port,
        log_level=log_level,
    )
    try:
        stack = Stack(folder, options)
        with console.status("starting"):
            stack.start()
        starting = False
    except KeyboardInterrupt as error:
        console.print("stopped before it had started")
        raise typer.Exit(1) from error
    except MusterError as error:
        console.print(f"[red]muster did not start:[/] {error}", highlight=False)
        raise typer.Exit(1) from error
    try:
        _describe(console, stack)
        stop.wait()
    finally:
        with console.status("stopping"):
            stack.stop()
    console.print("stopped; the data stays in", str(stack.folder))


def _describe(console: Console, stack: Stack) -> None:
    table = Table("process", "address", "pid", box=None, pad_edge=False)
    table.add_row("nats-server", stack.endpoints.nats_url, str(stack.nats.pid))
    table.add_row("valkey", stack.endpoints.redis_url, str(stack.redis.pid))
    for name, process in stack.processes.items():
        table.add_row(name, process.url, str(process.pid))
    console.print(table)
    console.print(f"\nAPI        {stack.gateway_url}", highlight=False)
    console.print(f"console    {stack.console_url}", highlight=False)
    console.print(f"logs       {stack.folder / 'log'}", highlight=False)
    console.print(f"secrets    {stack.folder / 'secrets.env'}", highlight=False)
    kept_secrets = shlex.quote(str(stack.folder / "secrets.env"))
    console.print(
        f"\nIn another terminal:\n"
        f"  export MUSTER_URL={stack.gateway_url}\n"
        f"  export MUSTER_TOKEN=$(sed -n s/^MUSTER_TOKEN_ADMIN=//p {kept_secrets})",
        highlight=False,
    )
