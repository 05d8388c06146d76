"""A service's connection to a real bus, for tests."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import nats
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from muster_contracts.streams import STREAMS
from muster_contracts.subjects import Service
from muster_runtime.bus import Bus
from muster_runtime.declare import declare

POLL_S = 0.01


@asynccontextmanager
async def connected_bus(
    url: str, service: Service = Service.GATEWAY, *, fresh: bool = False
) -> AsyncGenerator[Bus, None]:
    """Connect as a service and declare all streams; the connection ends with the block.

    `fresh` throws away what the streams hold, consumers included.
    """
    client = await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=1)
    try:
        if fresh:
            await _forget_streams(client)
        await declare(client)
        yield Bus(client, service)
    finally:
        await client.close()


async def _forget_streams(client: Client) -> None:
    jetstream = client.jetstream()
    for stream in STREAMS:
        try:
            await jetstream.delete_stream(stream.name)
        except NotFoundError:
            continue


async def until(condition: Callable[[], object], deadline_s: float = 60.0) -> None:
    """Return once the condition holds. Raises `TimeoutError`."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(POLL_S)
