"""A whole Muster on one machine: real NATS and Valkey, every service as a process of its own.

    with Stack(Path(".muster"), StackOptions(simulate="4x8gpu")) as stack:
        httpx.get(f"{stack.gateway_url}/...", headers=stack.headers("admin"))

Everything listens on loopback. Data and generated secrets stay in the folder, so a stack that is
started again goes on where it was. Nothing outlives the process that holds the stack.
"""

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from muster_contracts.subjects import Service
from muster_domain.errors import Conflict, NotFound
from muster_runtime.embedded import (
    LOOPBACK,
    EmbeddedServer,
    EmbeddedServerError,
    NatsConfig,
    RedisConfig,
    free_ports,
    is_free,
    nats_server,
    redis_server,
)
from muster_stack import nats_accounts, plan
from muster_stack import tokens as bearer
from muster_stack.access import OPERATOR, secret_variable
from muster_stack.credentials import complete, write_private
from muster_stack.plan import Endpoints, Instance, StackOptions, Surroundings
from muster_stack.process import StackError, SupervisedProcess
from muster_stack.reaper import Reaper
from muster_stack.redis_acl import REDIS_LOGINS, acl_lines

READY_DEADLINE_S = 180.0
DECLARE_DEADLINE_S = 120.0
SERVER_DEADLINE_S = 60.0
WATCH_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How to get in somewhere. On the bus also the only inbox prefix that the user may use."""

    url: str
    user: str
    password: str

    @property
    def inbox_prefix(self) -> str:
        """Give this to the bus client."""
        return f"_INBOX.{self.user}"

    @property
    def full_url(self) -> str:
        """The address with the login in it."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{self.user}:{self.password}@{rest}"


class Stack:
    """Starts, supervises, breaks and stops the whole. Blocking; use it from a plain thread."""

    def __init__(self, folder: Path, options: StackOptions | None = None) -> None:
        self.folder = folder.absolute()
        self.options = options or StackOptions()
        plan.check_installed(self.options)
        self.instances = plan.instances(self.options)
        self.processes: dict[str, SupervisedProcess] = {}
        self._secrets = self._read_secrets()
        self._reaper: Reaper | None = None
        self._lock_file: int | None = None
        self._server_lock = threading.RLock()
        self._closing = threading.Event()
        self._down: set[str] = set()
        self.endpoints, self._ports = self._choose_ports()
        self.nats = self._prepare_nats()
        self.redis = self._prepare_redis()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def gateway_url(self) -> str:
        """Where the API is."""
        return self.endpoints.gateway_url

    @property
    def console_url(self) -> str:
        """Where the pages are, if there is a console."""
        return f"http://{LOOPBACK}:{self.endpoints.console_port}"

    @property
    def tokens(self) -> Mapping[str, str]:
        """Bearer tokens by name: admin, viewer, and ci-NAME for every CI system."""
        names = bearer.token_names(self.options.access)
        return {name: self._secrets[bearer.token_variable(name)] for name in names}

    def headers(self, name: str = bearer.ADMIN) -> dict[str, str]:
        """What an HTTP request carries to be somebody."""
        return {"Authorization": f"Bearer {self.tokens[name]}"}

    def bus_login(self, user: str = OPERATOR) -> Login:
        """The login of a bus user: operator, a service's name, agent, agent-NODE, ci-NAME."""
        password = self._secrets[secret_variable("NATS", user)]
        return Login(url=self.endpoints.nats_url, user=user, password=password)

    def ledger_login(self, user: str = OPERATOR) -> Login:
        """The login of a ledger user: operator, admission, placement, preemption."""
        password = self._secrets[secret_variable("REDIS", user)]
        return Login(url=self.endpoints.redis_url, user=user, password=password)

    def start(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Start everything and wait until all of it is ready. Raises `StackError`, `Conflict`.

        What had started is stopped again when something does not.
        """
        self._lock_folder()
        self._check_ports()
        self._closing.clear()
        self._reaper = Reaper()
        try:
            self._write_tokens()
            (self.folder / "accounting").mkdir(exist_ok=True)
            self._start_server("nats")
            self._start_server("redis")
            self._declare()
            for instance in self.instances:
                self._process_of(instance, self._reaper).start()
            if self.options.console_port is not None:
                self._console(self._reaper).start()
            self.wait_all_ready(deadline_s)
        except BaseException:
            self.stop()
            raise
        threading.Thread(target=self._watch_servers, name="watch servers", daemon=True).start()

    def stop(self) -> None:
        """Stop everything in order: intake, agents, owners, then the servers."""
        self._closing.set()
        if plan.CONSOLE in self.processes:
            self.processes[plan.CONSOLE].stop()
        for tier in plan.STOP_ORDER:
            members = [self.processes[each.name] for each in self._running(tier)]
            for process in members:
                process.ask_to_stop()
            for process in members:
                process.stop()
        with self._server_lock:
            self.redis.stop()
            self.nats.stop()
        if self._reaper is not None:
            self._reaper.close()
            self._reaper = None
        self._unlock_folder()

    def wait_ready(self, name: str, deadline_s: float = READY_DEADLINE_S) -> None:
        """Wait for one process. Raises `StackError`."""
        self.process(name).wait_ready(deadline_s)

    def wait_all_ready(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Wait for every process that is to run. Raises `StackError`."""
        until = time.monotonic() + deadline_s
        for process in self.processes.values():
            process.wait_ready(max(0.0, until - time.monotonic()))

    def process(self, name: str) -> SupervisedProcess:
        """One process by its name, for example admission-2. Raises `NotFound`."""
        if name not in self.processes:
            raise NotFound(f"no process {name!r}; there are {', '.join(sorted(self.processes))}")
        return self.processes[name]

    def names(self, service: Service) -> tuple[str, ...]:
        """The names of a service's processes."""
        return tuple(each.name for each in self.instances if each.service is service)

    def kill(self, name: str, *, stay_down: bool = False) -> None:
        """SIGKILL one process. The supervisor starts it again unless it is to stay down."""
        self.process(name).kill(stay_down=stay_down)

    def restart(self, name: str) -> None:
        """Stop one process properly if it runs, and start it; does not wait until it is ready."""
        process = self.process(name)
        process.stop()
        process.start()

    def pause(self, name: str) -> None:
        """SIGSTOP one process."""
        self.process(name).pause()

    def resume(self, name: str) -> None:
        """SIGCONT it."""
        self.process(name).resume()

    def kill_nats(self) -> None:
        """SIGKILL nats-server; it stays down until `restart_nats`."""
        self._kill_server("nats")

    def restart_nats(self) -> None:
        """Start nats-server again with what it had on disk."""
        self._start_server("nats")

    def kill_redis(self) -> None:
        """SIGKILL Valkey; it stays down until `restart_redis`."""
        self._kill_server("redis")

    def restart_redis(self) -> None:
        """Start Valkey again with what it had on disk."""
        self._start_server("redis")

    def _read_secrets(self) -> dict[str, str]:
        access = self.options.access
        names = [secret_variable("NATS", login) for login in nats_accounts.bus_logins(access)]
        names += [secret_variable("REDIS", login) for login in REDIS_LOGINS]
        names += [bearer.token_variable(name) for name in bearer.token_names(access)]
        return complete(self.folder / "secrets.env", names)

    def _write_tokens(self) -> None:
        write_private(self.folder / "tokens.json", bearer.render(self.options.access, self.tokens))

    def _lock_folder(self) -> None:
        """Two stacks on one folder would share its data files."""
        if self._lock_file is not None:
            raise Conflict("the stack runs already")
        descriptor = os.open(self.folder / "lock", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise Conflict(f"another stack uses {self.folder}; stop it first") from error
        self._lock_file = descriptor

    def _unlock_folder(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _check_ports(self) -> None:
        """What listens on a port that was asked for would be taken for a service of this stack."""
        asked = {"--http-port": self.options.http_port, "--console-port": self.options.console_port}
        for option, port in asked.items():
            if port and not is_free(port):
                self._unlock_folder()
                raise Conflict(f"port {port} is taken; give {option} another, or 0 for a free one")

    def _choose_ports(self) -> tuple[Endpoints, dict[str, int]]:
        free = list(free_ports(5 + len(self.instances)))
        endpoints = Endpoints(
            nats_port=self.options.nats_port or free.pop(),
            nats_monitor_port=free.pop(),
            redis_port=self.options.redis_port or free.pop(),
            gateway_port=self.options.http_port or free.pop(),
            console_port=self.options.console_port or free.pop(),
        )
        ports = {each.name: free.pop() for each in self.instances}
        gateways = self.names(Service.GATEWAY)
        if gateways:
            ports[gateways[0]] = endpoints.gateway_port
        return endpoints, ports

    def _prepare_nats(self) -> EmbeddedServer:
        access = self.options.access
        config = NatsConfig(
            folder=self.folder / "nats",
            port=self.endpoints.nats_port,
            monitor_port=self.endpoints.nats_monitor_port,
            accounts=nats_accounts.render(access),
            sync_interval=self.options.nats_sync_interval,
        )
        variables = [secret_variable("NATS", login) for login in nats_accounts.bus_logins(access)]
        return nats_server(config, environment={name: self._secrets[name] for name in variables})

    def _prepare_redis(self) -> EmbeddedServer:
        passwords = {
            login: self._secrets[secret_variable("REDIS", login)] for login in REDIS_LOGINS
        }
        config = RedisConfig(
            folder=self.folder / "valkey",
            port=self.endpoints.redis_port,
            acl_lines=acl_lines(passwords),
            appendfsync=self.options.appendfsync,
        )
        return redis_server(config, user=OPERATOR, password=passwords[OPERATOR])

    def _surroundings(self) -> Surroundings:
        bus_logins = nats_accounts.bus_logins(self.options.access)
        return Surroundings(
            folder=self.folder,
            endpoints=self.endpoints,
            bus={login: self._secrets[secret_variable("NATS", login)] for login in bus_logins},
            ledger={
                login: self._secrets[secret_variable("REDIS", login)] for login in REDIS_LOGINS
            },
        )

    def _process_of(self, instance: Instance, reaper: Reaper) -> SupervisedProcess:
        port = self._ports[instance.name]
        spec = plan.process_spec(instance, port, self.options, self._surroundings())
        log = self.folder / "log" / f"{instance.name}.log"
        process = SupervisedProcess(spec, log, reaper)
        self.processes[instance.name] = process
        return process

    def _console(self, reaper: Reaper) -> SupervisedProcess:
        spec = plan.console_spec(self.options, self.endpoints)
        process = SupervisedProcess(spec, self.folder / "log" / f"{spec.name}.log", reaper)
        self.processes[spec.name] = process
        return process

    def _running(self, tier: tuple[Service, ...]) -> list[Instance]:
        return [
            each for each in self.instances if each.service in tier and each.name in self.processes
        ]

    def _declare(self) -> None:
        environment = plan.bus_environment(OPERATOR, self._surroundings())
        done = subprocess.run(
            (sys.executable, "-m", "muster_runtime.declare"),
            env={**plan.clean_environment(), **environment},
            capture_output=True,
            text=True,
            timeout=DECLARE_DEADLINE_S,
            check=False,
        )
        if done.returncode != 0:
            raise StackError(f"the streams could not be declared:\n{done.stderr[-3000:]}")

    def _server(self, name: str) -> EmbeddedServer:
        return self.nats if name == "nats" else self.redis

    def _start_server(self, name: str) -> None:
        with self._server_lock:
            server = self._server(name)
            server.start(SERVER_DEADLINE_S)
            self._down.discard(name)
            if self._reaper is not None and server.pid is not None:
                self._reaper.add(server.pid)

    def _kill_server(self, name: str) -> None:
        with self._server_lock:
            self._down.add(name)
            server = self._server(name)
            if self._reaper is not None and server.pid is not None:
                self._reaper.drop(server.pid)
            server.kill()

    def _watch_servers(self) -> None:
        """Start a server again that ended by itself."""
        while not self._closing.wait(WATCH_EVERY_S):
            for name in ("nats", "redis"):
                with self._server_lock:
                    if self._closing.is_set() or name in self._down or self._server(name).running:
                        continue
                    try:
                        self._start_server(name)
                    except EmbeddedServerError as error:
                        sys.stderr.write(f"{name} does not start again: {error}\n")
