"""Real servers with the access rules of an installation: two nodes and two CI systems."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

import pytest
from nats.aio.client import Client

from muster_runtime.declare import declare
from muster_runtime.embedded import LOOPBACK
from muster_stack import nats_accounts
from muster_stack.access import OPERATOR, Access, secret_variable
from muster_stack.redis_acl import REDIS_LOGINS, acl_lines
from muster_testing.servers import NatsServer, ValkeyServer

ACCESS = Access(
    nodes=("gpu-1", "gpu-2"),
    ci={"builds": ("team-a", "team-b"), "nightly": ("team-c",)},
)
LOGINS = nats_accounts.bus_logins(ACCESS)


def password(login: str) -> str:
    return f"secret-of-{login}"


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    patch = pytest.MonkeyPatch()
    for login in LOGINS:
        patch.setenv(secret_variable("NATS", login), password(login))
    folder = tmp_path_factory.mktemp("nats")
    with NatsServer(folder, accounts=nats_accounts.render(ACCESS)) as server:
        yield server
    patch.undo()


async def leave(client: Client) -> None:
    """Close a connection, also one that the server has refused, which the client leaves open."""
    transport = client._transport
    await client.close()
    if transport is not None:
        transport.close()
        with suppress(OSError):
            await transport.wait_closed()


@dataclass
class Doors:
    """Opens connections as somebody and collects what the server refuses."""

    url: str
    stack: AsyncExitStack
    refused: list[str] = field(default_factory=list[str])
    _told: asyncio.Event = field(default_factory=asyncio.Event)

    async def enter(self, login: str, *, secret: str | None = None) -> Client:
        async def on_error(error: Exception) -> None:
            self.refused.append(str(error).lower())
            self._told.set()

        client = Client()
        self.stack.push_async_callback(leave, client)
        await client.connect(
            self.url,
            user=login,
            password=password(login) if secret is None else secret,
            inbox_prefix=f"_INBOX.{login or 'nobody'}".encode(),
            error_cb=on_error,
            allow_reconnect=False,
            connect_timeout=5,
        )
        return client

    async def refusals(self, client: Client) -> list[str]:
        """What was refused so far: the server answers in order, so a flush waits for it."""
        await client.flush()
        return self.refused

    async def refusal(self, kind: str) -> None:
        """Wait until the server has refused a `publish` or a `subscription`."""
        async with asyncio.timeout(60):
            while not any(f"permissions violation for {kind}" in text for text in self.refused):
                self._told.clear()
                await self._told.wait()


@pytest.fixture
async def doors(nats_server: NatsServer) -> AsyncIterator[Doors]:
    async with AsyncExitStack() as stack:
        found = Doors(nats_server.url, stack)
        await declare(await found.enter(OPERATOR))
        yield found


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    lines = acl_lines({login: password(login) for login in REDIS_LOGINS})
    with ValkeyServer(tmp_path_factory.mktemp("valkey"), acl_lines=lines) as server:
        yield server


def ledger_url(server: ValkeyServer, login: str) -> str:
    port = server.url.rpartition(":")[2]
    return f"redis://{login}:{password(login)}@{LOOPBACK}:{port}"
