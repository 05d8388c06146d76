"""What a stack consists of, and what each of its processes is told."""

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster_contracts.subjects import Service
from muster_domain.errors import NotFound
from muster_runtime.embedded import LOOPBACK
from muster_stack.access import ANY_NODE, Access, agent_login
from muster_stack.bus_users import AGENT_API
from muster_stack.process import ProcessSpec
from muster_stack.redis_acl import REDIS_LOGINS

ALL_SERVICES: tuple[Service, ...] = (
    Service.GATEWAY,
    Service.ADMISSION,
    Service.PLACEMENT,
    Service.PREEMPTION,
    Service.ACCOUNTING,
    Service.AGENT,
)
CONSOLE = "console"
"""The name of the console's process. It is nobody on the bus: it reads as its viewers may."""
STOP_ORDER: tuple[tuple[Service, ...], ...] = (
    (Service.GATEWAY,),
    (Service.AGENT,),
    (Service.PREEMPTION, Service.ADMISSION, Service.PLACEMENT, Service.ACCOUNTING),
)
"""First nothing new comes in, then pods end, then what remains is decided and booked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """What to run. A port of 0 takes a free one.

    `replicas` says how many of a service run (1 if it does not say). `simulate` is the agent's
    description of simulated nodes ("16x4gpu:zone=a", a YAML or JSON list, or @FILE); `nodes` are
    names of further agents that run pods as processes of this machine. `environment` is added to
    what every service is told, `service_environment` to what one is. `config_file` is Kueue's
    Configuration, applied at every start. Without a `console_port` there
    is no console.
    """

    services: tuple[Service, ...] = ALL_SERVICES
    replicas: Mapping[Service, int] = field(default_factory=dict[Service, int])
    simulate: str = ""
    nodes: tuple[str, ...] = ()
    ci: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"ci": ("*",)}  # one machine, one person: its CI may all
    )
    config_file: str = ""
    http_port: int = 0
    console_port: int | None = None
    nats_port: int = 0
    redis_port: int = 0
    appendfsync: str = "always"
    nats_sync_interval: str = "2m"
    log_level: str = "INFO"
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    service_environment: Mapping[Service, Mapping[str, str]] = field(
        default_factory=dict[Service, Mapping[str, str]]
    )

    @property
    def access(self) -> Access:
        """Everybody who gets a login."""
        return Access(nodes=self.nodes, simulated=bool(self.simulate), ci=self.ci)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Where the servers listen."""

    nats_port: int
    nats_monitor_port: int
    redis_port: int
    gateway_port: int
    console_port: int

    @property
    def gateway_url(self) -> str:
        """Where the API is."""
        return f"http://{LOOPBACK}:{self.gateway_port}"

    @property
    def nats_url(self) -> str:
        """Without a login."""
        return f"nats://{LOOPBACK}:{self.nats_port}"

    @property
    def redis_url(self) -> str:
        """Without a login."""
        return f"redis://{LOOPBACK}:{self.redis_port}/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One process of a service. `login` is its user on the bus; `node` is set for agents."""

    name: str
    service: Service
    login: str
    node: str = ""


def instances(options: StackOptions) -> tuple[Instance, ...]:
    """Every process of the plan, in the order of starting."""
    found: list[Instance] = []
    for service in options.services:
        if service is Service.AGENT:
            found += _agents(options)
            continue
        count = options.replicas.get(service, 1)
        names = [str(service)] if count == 1 else [f"{service}-{n}" for n in range(1, count + 1)]
        found += [Instance(name=name, service=service, login=str(service)) for name in names]
    return tuple(found)


def _agents(options: StackOptions) -> list[Instance]:
    nodes = [*([ANY_NODE] if options.simulate else []), *options.nodes]
    return [
        Instance(name=agent_login(node), service=Service.AGENT, login=agent_login(node), node=node)
        for node in nodes
    ]


def check_installed(options: StackOptions) -> None:
    """Raise `NotFound` when a service of the plan is not installed."""
    for service in options.services:
        if importlib.util.find_spec(f"muster_{service}") is None:
            raise NotFound(f"the service {service} is not installed: no package muster_{service}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all processes share. `bus` and `ledger` are passwords by login."""

    folder: Path
    endpoints: Endpoints
    bus: Mapping[str, str]
    ledger: Mapping[str, str]


def process_spec(
    instance: Instance, port: int, options: StackOptions, around: Surroundings
) -> ProcessSpec:
    """How to run one process."""
    told = {
        **bus_environment(instance.login, around),
        "MUSTER_HTTP_HOST": LOOPBACK,
        "MUSTER_HTTP_PORT": str(port),
        "MUSTER_INSTANCE": instance.name,
        "MUSTER_LOG_LEVEL": options.log_level,
        **_ledger_environment(instance.login, around),
        **_own_environment(instance, options, around.folder),
        **options.environment,
        **options.service_environment.get(instance.service, {}),
    }
    return ProcessSpec(
        name=instance.name,
        command=(sys.executable, "-m", f"muster_{instance.service}"),
        environment={**clean_environment(), **told},
        http_port=port,
    )


def console_spec(options: StackOptions, endpoints: Endpoints) -> ProcessSpec:
    """How to run the console."""
    told = {
        "MUSTER_URL": endpoints.gateway_url,
        "MUSTER_HTTP_HOST": LOOPBACK,
        "MUSTER_HTTP_PORT": str(endpoints.console_port),
        "MUSTER_LOG_LEVEL": options.log_level,
    }
    return ProcessSpec(
        name=CONSOLE,
        command=(sys.executable, "-m", "muster_console"),
        environment={**clean_environment(), **told},
        http_port=endpoints.console_port,
    )


def bus_environment(login: str, around: Surroundings) -> dict[str, str]:
    """How to reach the bus as somebody."""
    return {
        "MUSTER_NATS_URL": around.endpoints.nats_url,
        "MUSTER_NATS_USER": login,
        "MUSTER_NATS_PASSWORD": around.bus[login],
    }


def clean_environment() -> dict[str, str]:
    """The environment of this process without what is said about any other Muster."""
    keep = {"MUSTER_NATS_SERVER", "MUSTER_REDIS_SERVER"}
    return {
        name: value
        for name, value in os.environ.items()
        if name in keep or not name.startswith("MUSTER_")
    }


def _ledger_environment(login: str, around: Surroundings) -> dict[str, str]:
    if login not in REDIS_LOGINS:
        return {}
    return {
        "MUSTER_REDIS_URL": around.endpoints.redis_url,
        "MUSTER_REDIS_USER": login,
        "MUSTER_REDIS_PASSWORD": around.ledger[login],
    }


def _own_environment(instance: Instance, options: StackOptions, folder: Path) -> dict[str, str]:
    match instance.service:
        case Service.GATEWAY:
            return {
                "MUSTER_TOKENS_FILE": str(folder / "tokens.json"),
                "MUSTER_CONFIG_FILE": options.config_file,
            }
        case Service.AGENT if instance.node == ANY_NODE:
            return {
                "MUSTER_NATS_API_PREFIX": AGENT_API,
                "MUSTER_AGENT_SIMULATE": options.simulate,
                "MUSTER_AGENT_DATA_DIR": str(folder / "agent"),
            }
        case Service.AGENT:
            return {
                "MUSTER_NATS_API_PREFIX": AGENT_API,
                "MUSTER_AGENT_NODE": instance.node,
                "MUSTER_AGENT_DATA_DIR": str(folder / "agent"),
            }
        case Service.ACCOUNTING:
            database = folder / "accounting" / "accounting.db"
            return {"MUSTER_ACCOUNTING_URL": f"sqlite+aiosqlite:///{database}"}
        case _:
            return {}
