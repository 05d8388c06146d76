"""The bus of a running stack, as one of its users."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import nats

from muster_contracts import codec, subjects
from muster_contracts.commands import AgentControl, ControlAction
from muster_stack.stack import Login, Stack

if TYPE_CHECKING:
    from nats.aio.client import Client

RECONNECT_WAIT_S = 0.2


@asynccontextmanager
async def joined(login: Login) -> AsyncGenerator["Client"]:
    """A connection with what the login may do; it stays through restarts of the server."""
    client = await nats.connect(
        login.url,
        user=login.user,
        password=login.password,
        inbox_prefix=login.inbox_prefix.encode(),
        max_reconnect_attempts=-1,
        reconnect_time_wait=RECONNECT_WAIT_S,
    )
    try:
        yield client
    finally:
        await client.close()


async def control(stack: Stack, node: str, action: ControlAction) -> None:
    """Tell the simulated machine of a node what is to happen to it."""
    async with joined(stack.bus_login()) as client:
        await client.publish(
            subjects.telemetry("control", node), codec.encode(AgentControl(action=action))
        )
        await client.flush()
