import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest

from muster_contracts.streams import EVENTS
from muster_ledger.redis_store import RedisStore
from muster_ledger.store import OUTBOX_START, Commit, Committed, OutboxMessage
from muster_runtime import publisher as publisher_module
from muster_runtime.bus import Bus
from muster_runtime.relay import Relay
from muster_testing.connection import connected_bus, until
from muster_testing.proxy import wire
from muster_testing.servers import KillableServer

from .log import everything

pytestmark = pytest.mark.servers

_shards = count()


@pytest.fixture
async def shard(store: RedisStore) -> str:
    name = f"relay-{next(_shards)}"
    await store.claim(name, 1)
    return name


def message(number: int) -> OutboxMessage:
    return OutboxMessage(
        subject=f"muster.evt.admission.v1.said.p00.team-a.w{number}",
        message_id=f"said-{number}",
        body=b"%d" % number,
        headers={"ce-id": f"said-{number}"},
    )


async def commit(store: RedisStore, shard: str, version: int, *numbers: int) -> None:
    done = await store.commit(
        Commit(
            shard=shard,
            epoch=1,
            expected_version=version - 1,
            watermark=version,
            outbox=tuple(message(number) for number in numbers),
        )
    )
    assert done == Committed(version)


@asynccontextmanager
async def relaying(bus: Bus, store: RedisStore, shard: str) -> AsyncIterator[Relay]:
    relay = Relay(bus, store, shard)
    await relay.recover()
    task = asyncio.create_task(relay.run())
    try:
        yield relay
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def said(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


async def bodies(bus: Bus) -> list[bytes]:
    return [received.body for received in await everything(bus)]


async def test_what_is_offered_is_published_in_order_and_trimmed(
    bus: Bus, store: RedisStore, shard: str
) -> None:
    async with relaying(bus, store, shard) as relay:
        for version in range(1, 41):
            numbers = range(10 * version, 10 * version + 10)
            await commit(store, shard, version, *numbers)
            await relay.offer(version, tuple(message(number) for number in numbers))
        await until(lambda: relay.published_total == 400 and relay.waiting == 0)
    assert await bodies(bus) == said(*range(10, 410))
    assert await store.read_outbox(shard, OUTBOX_START, 10) == ()


async def test_what_an_earlier_owner_left_is_published_first(
    bus: Bus, store: RedisStore, shard: str
) -> None:
    await commit(store, shard, 1, 1, 2, 3)
    await commit(store, shard, 2, 4)
    async with relaying(bus, store, shard) as relay:
        await commit(store, shard, 3, 5)
        await relay.offer(3, (message(5),))
        await until(lambda: relay.published_total == 5)
    assert await bodies(bus) == said(1, 2, 3, 4, 5)


async def test_a_crash_between_publishing_and_trimming_publishes_the_same_ids_again(
    bus: Bus, store: RedisStore, shard: str
) -> None:
    class DiesBeforeTrimming(RedisStore):
        async def trim_outbox(self, shard: str, through: object) -> None:
            del shard, through
            died.set()
            await asyncio.Event().wait()

    died = asyncio.Event()
    await commit(store, shard, 1, 1, 2, 3)
    dying = Relay(bus, DiesBeforeTrimming("redis://127.0.0.1:1/0"), shard)
    await dying.offer(1, (message(1), message(2), message(3)))
    task = asyncio.create_task(dying.run())
    await asyncio.wait_for(died.wait(), 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with relaying(bus, store, shard) as relay:
        await until(lambda: relay.published_total == 3)
    assert await bodies(bus) == said(1, 2, 3)
    assert await store.read_outbox(shard, OUTBOX_START, 10) == ()


async def test_outages_of_the_bus_are_waited_out_in_order(
    nats: KillableServer, store: RedisStore, shard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "ACK_TIMEOUT_S", 1.0)
    async with wire(nats.url) as line, connected_bus(line.url, fresh=True) as bus:
        async with relaying(bus, store, shard) as relay:
            await commit(store, shard, 1, *range(500))
            line.hold_up()
            await relay.offer(1, tuple(message(number) for number in range(500)))
            await until(lambda: relay.waiting == 500)
            line.cut()
            await commit(store, shard, 2, *range(500, 600))
            await relay.offer(2, tuple(message(number) for number in range(500, 600)))
            await until(lambda: relay.published_total == 600, 60)
        assert await bodies(bus) == said(*range(600))


async def test_outages_of_the_store_are_waited_out(
    bus: Bus, store: RedisStore, shard: str, valkey: KillableServer
) -> None:
    async with relaying(bus, store, shard) as relay:
        await commit(store, shard, 1, 1)
        await asyncio.to_thread(valkey.kill)
        await relay.offer(1, (message(1),))

        async def is_published() -> bool:
            return await bus.last_sequence(EVENTS.name) == 1

        async with asyncio.timeout(60):
            while not await is_published():
                pass
        await asyncio.to_thread(valkey.restart)
        await until(lambda: relay.published_total == 1, 60)
    assert await bodies(bus) == said(1)
