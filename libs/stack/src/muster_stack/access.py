"""Who there is: the services, the machines, the CI systems and the people of one installation."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from muster_contracts.subjects import Service, token
from muster_domain.errors import InvalidValue

OPERATOR = "operator"
SYSTEM = "system"
ANY_NODE = "*"
EVERYWHERE = "*"
"""Stands for every namespace."""
OWNERS: tuple[Service, ...] = (
    Service.GATEWAY,
    Service.ADMISSION,
    Service.PLACEMENT,
    Service.PREEMPTION,
    Service.ACCOUNTING,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Everybody who needs a login besides the services.

    `nodes` are machines with an agent of their own; `simulated` adds one agent that may speak for
    any node. `ci` gives the namespaces of each CI system, `*` for all.
    """

    nodes: tuple[str, ...] = ()
    simulated: bool = False
    ci: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @classmethod
    def read(cls, path: Path) -> "Access":
        """Read `access.toml`. Raises `InvalidValue`."""
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise InvalidValue(str(error), field=str(path)) from error
        ci = cast("dict[str, dict[str, list[str]]]", document.get("ci", {}))
        return cls(
            nodes=tuple(cast("list[str]", document.get("nodes", []))),
            simulated=bool(document.get("simulated", False)),
            ci={name: tuple(entry.get("namespaces", [])) for name, entry in ci.items()},
        )


def agent_login(node: str) -> str:
    """The bus user of the agent of one node, or of the agent that simulates nodes."""
    return "agent" if node == ANY_NODE else f"agent-{token(node)}"


def ci_login(name: str) -> str:
    """The bus user of a CI system."""
    return f"ci-{token(name)}"


def secret_variable(kind: str, login: str) -> str:
    """The environment variable that holds a password, for example MUSTER_NATS_PASSWORD_GATEWAY."""
    tail = "".join(c if c.isascii() and c.isalnum() else "_" for c in login).upper()
    return f"MUSTER_{kind}_PASSWORD_{tail}"
