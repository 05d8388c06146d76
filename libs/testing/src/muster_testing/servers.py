"""Real NATS and Valkey for tests: free ports, a folder of their own, the code of `muster up`.

    with ValkeyServer(folder) as valkey:
        store = RedisStore(valkey.url)

`kill` is SIGKILL; `restart` keeps ports and data.
"""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import quote

from muster_runtime.embedded import (
    DEFAULT_USER_OFF,
    LOOPBACK,
    EmbeddedServer,
    EmbeddedServerError,
    NatsConfig,
    RedisConfig,
    free_ports,
    nats_server,
    redis_server,
)

_START_ATTEMPTS = 3


class KillableServer(Protocol):
    """What a test may do to a server, wherever it runs."""

    url: str

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        ...

    def restart(self) -> None:
        """Start it again, whether or not it runs, with what it had on disk."""
        ...


class RunningServer:
    """A server that a test may kill, pause and restart."""

    url: str

    def __init__(self, prepare: Callable[[], tuple[EmbeddedServer, str]]) -> None:
        self._prepare = prepare
        self.server, self.url = prepare()

    def __enter__(self) -> Self:
        for attempt in range(1, _START_ATTEMPTS + 1):
            try:
                self.server.start()
            except EmbeddedServerError:
                if attempt == _START_ATTEMPTS:
                    raise
                self.server, self.url = self._prepare()
            else:
                break
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.server.stop()

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        self.server.kill()

    def restart(self) -> None:
        """Start it again, whether or not it runs, with what it had on disk."""
        self.server.restart()


class ValkeyServer(RunningServer):
    """Valkey with an append-only file.

    `user` and `password`, when given, are the only way in; `acl_lines` adds further users.
    """

    def __init__(
        self,
        folder: Path,
        *,
        user: str = "",
        password: str = "",
        acl_lines: tuple[str, ...] = (),
        appendfsync: str = "always",
        extra: str = "",
    ) -> None:
        own = (DEFAULT_USER_OFF, f"user {user} on >{password} ~* &* +@all") if user else ()
        login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""

        def prepare() -> tuple[EmbeddedServer, str]:
            (port,) = free_ports(1)
            config = RedisConfig(
                folder=folder,
                port=port,
                acl_lines=own + acl_lines,
                appendfsync=appendfsync,
                extra=extra,
            )
            server = redis_server(config, user=user, password=password)
            return server, f"redis://{login}{LOOPBACK}:{port}/0"

        super().__init__(prepare)


class NatsServer(RunningServer):
    """nats-server with JetStream.

    `accounts` is the configuration text for users; `login` ("user:password") goes into `url`.
    """

    monitor_url: str

    def __init__(
        self, folder: Path, *, accounts: str = "", login: str = "", extra: str = ""
    ) -> None:
        def prepare() -> tuple[EmbeddedServer, str]:
            port, monitor_port = free_ports(2)
            config = NatsConfig(
                folder=folder,
                port=port,
                monitor_port=monitor_port,
                accounts=accounts,
                extra=extra,
            )
            self.monitor_url = f"http://{LOOPBACK}:{monitor_port}"
            at = f"{login}@" if login else ""
            return nats_server(config), f"nats://{at}{LOOPBACK}:{port}"

        super().__init__(prepare)
