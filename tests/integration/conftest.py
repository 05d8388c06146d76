"""A bus of its own for every test, on the session's servers."""

from collections.abc import AsyncIterator

import pytest

from muster_ledger.redis_store import RedisStore
from muster_runtime.bus import Bus
from muster_testing.connection import connected_bus
from muster_testing.servers import KillableServer


@pytest.fixture
async def bus(nats: KillableServer) -> AsyncIterator[Bus]:
    async with connected_bus(nats.url, fresh=True) as bus:
        yield bus


@pytest.fixture
async def store(valkey: KillableServer) -> AsyncIterator[RedisStore]:
    store = RedisStore(valkey.url)
    yield store
    await store.close()
