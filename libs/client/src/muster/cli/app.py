"""The command as a whole: its parts, those of other packages, and how it ends."""

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import cast

import stamina
import typer

from muster.cli import jobs, money, objects, reads, running, status, tokens
from muster.cli.output import complain
from muster.errors import ClientError, ExitCode
from muster_domain.errors import MusterError

COMMANDS = "muster.commands"
"""Entry points of other packages: each is a function that is given the app to add to."""
_BARE_WAIT = "--wait"

HELP = """Share GPU machines: send jobs, see why they wait, who has what, and what it cost.

Where Muster is: MUSTER_URL. Who you are: MUSTER_TOKEN, or a token file (MUSTER_TOKEN_FILE, else
~/.config/muster/token). Your namespace: MUSTER_NAMESPACE. NO_COLOR is honoured.
First look: muster status.
"""
EPILOG = "Exit codes: " + "; ".join(f"{code.value} {code.meaning}" for code in ExitCode) + "."


def build_app(first_word: str = "") -> typer.Typer:
    """The command with all its parts.

    Other packages are only loaded when `first_word` is none of our own commands: their imports cost
    more than most of what we do.
    """
    app = typer.Typer(
        name="muster",
        help=HELP,
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for part in (jobs, running, status, reads, money, tokens, objects):
        part.register(app)
    if first_word not in _names_of(app):
        for found in sorted(entry_points(group=COMMANDS), key=lambda entry: entry.name):
            register = cast("Callable[[typer.Typer], None]", found.load())
            register(app)
    return app


def _names_of(app: typer.Typer) -> set[str]:
    commands = [command.name or _spelled(command.callback) for command in app.registered_commands]
    return {*commands, *(str(group.name) for group in app.registered_groups)}


def _spelled(function: Callable[..., object] | None) -> str:
    return function.__name__ if function is not None else ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and end the process with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    stamina.instrumentation.set_on_retry_hooks([])
    command = given[0] if given else ""
    try:
        build_app(command)(args=with_plain_wait(given), prog_name="muster")
    except ClientError as error:
        complain(error, command)
        sys.exit(error.exit_code)
    except MusterError as error:
        complain(ClientError(str(error)), command)
        sys.exit(ExitCode.FAILURE)


def with_plain_wait(arguments: Sequence[str]) -> list[str]:
    """`--wait` alone means `--wait=finished`; what follows `--` is somebody else's."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own = [f"{word}=finished" if word == _BARE_WAIT else word for word in arguments[:end]]
    return own + list(arguments[end:])
