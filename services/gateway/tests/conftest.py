from collections.abc import AsyncIterator

import pytest

from muster_testing.servers import KillableServer

from .house import House, open_house


@pytest.fixture
async def house(nats: KillableServer) -> AsyncIterator[House]:
    async with open_house(nats.url) as house:
        yield house
