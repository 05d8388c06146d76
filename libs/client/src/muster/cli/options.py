"""Options that many commands share, and the client that they use."""

from typing import Annotated

import typer

from muster.cli.output import Format
from muster.client import Client, reference
from muster.config import Config, read_config

Output = Annotated[Format, typer.Option("-o", "--output", help="How to print the result")]
Namespace = Annotated[
    str, typer.Option("-n", "--namespace", help="Namespace [env: MUSTER_NAMESPACE]")
]
Queue = Annotated[str, typer.Option("-q", "--queue", help="LocalQueue")]
Timeout = Annotated[str, typer.Option(help="Stop waiting after so long, for example 30m")]
Workload = Annotated[
    str, typer.Argument(metavar="ID|NAME", help="An id or its beginning, or NAMESPACE/NAME")
]


def connect(config: Config | None = None) -> Client:
    """A client of the Muster that the environment names."""
    known = config or read_config()
    return Client(known.url, token=known.token)


def namespace_or_default(namespace: str) -> str:
    """The namespace given, else the environment's."""
    return namespace or read_config().namespace


def refer(workload: str, namespace: str = "") -> str:
    """How the API spells a workload that somebody named."""
    return reference(workload, namespace_or_default(namespace))
