import asyncio

import pytest

from muster_contracts.streams import EVENTS
from muster_runtime import reader as reader_module
from muster_runtime.bus import Bus
from muster_testing.connection import connected_bus
from muster_testing.proxy import wire
from muster_testing.servers import KillableServer
from muster_testing.waiting import wait_until_async

from .log import ANY, events, take

pytestmark = pytest.mark.servers

FOREVER_S = 3600
"""Longer than any test may take."""


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


async def test_everything_comes_in_order_and_in_bounded_batches(bus: Bus) -> None:
    await bus.publish(events("seen", 5000))
    reader = bus.read(EVENTS.name, (ANY,), after=0)
    batch = await reader.next_batch(100, 30)
    assert 0 < len(batch) <= 100
    rest = await take(reader, 5000 - len(batch))
    await reader.close()
    assert [received.body for received in (*batch, *rest)] == numbers(5000)
    assert [r.sequence for r in (*batch, *rest)] == list(range(1, 5001))
    assert reader.pending == 0


async def test_a_reader_goes_on_after_the_sequence_it_is_told(bus: Bus) -> None:
    sequences = await bus.publish(events("seen", 10))
    reader = bus.read(EVENTS.name, (ANY,), after=sequences[3])
    found = await take(reader, 6)
    await reader.close()
    assert [received.sequence for received in found] == sequences[4:]


async def test_nothing_new_is_an_empty_batch_and_what_comes_later_is_read(bus: Bus) -> None:
    reader = bus.read(EVENTS.name, (ANY,), after=0)
    assert await reader.next_batch(10, 0.05) == []
    await bus.publish(events("seen", 3))
    assert len(await take(reader, 3)) == 3
    await reader.close()


async def test_many_filters_are_one_order(bus: Bus) -> None:
    mixed = [
        message
        for number in range(300)
        for message in (
            *events("one", 1, first=number),
            *events("two", 1, first=number, partition="p01"),
            *events("three", 1, first=number, partition="p02"),
        )
    ]
    sequences = await bus.publish(mixed)
    wanted = ("muster.evt.gateway.v1.*.p00.>", "muster.evt.gateway.v1.*.p02.>")
    reader = bus.read(EVENTS.name, wanted, after=0)
    found = await take(reader, 600)
    await reader.close()
    assert [received.sequence for received in found] == [
        sequence for place, sequence in enumerate(sequences) if place % 3 != 1
    ]


async def test_a_deleted_consumer_leaves_no_gap(bus: Bus) -> None:
    await bus.publish(events("seen", 1000))
    reader = bus.read(EVENTS.name, (ANY,), after=0)
    before = await take(reader, 100)
    for consumer in await bus.client.jetstream().consumers_info(EVENTS.name):
        await bus.client.jetstream().delete_consumer(EVENTS.name, consumer.name)
    await bus.publish(events("seen", 500, first=1000))
    after = await take(reader, 1400)
    await reader.close()
    assert [received.body for received in (*before, *after)] == numbers(1500)


async def test_a_restarted_server_leaves_no_gap(nats: KillableServer) -> None:
    async with connected_bus(nats.url, fresh=True) as bus:
        await bus.publish(events("seen", 700))
        reader = bus.read(EVENTS.name, (ANY,), after=0)
        before = await take(reader, 100)
        await asyncio.to_thread(nats.kill)
        await asyncio.to_thread(nats.restart)
        await bus.wait_connected()
        await bus.publish(events("seen", 300, first=700))
        after = await take(reader, 900)
        await reader.close()
    assert [received.body for received in (*before, *after)] == numbers(1000)


async def test_a_new_connection_is_not_waited_out_as_silence(
    nats: KillableServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "SILENCE_MAX_S", FOREVER_S)
    async with wire(nats.url) as line, connected_bus(line.url, fresh=True) as bus:
        reader = bus.read(EVENTS.name, (ANY,), after=0)
        assert await reader.next_batch(10, 0.05) == []
        line.cut()
        async with connected_bus(nats.url) as other:
            await other.publish(events("seen", 1))
        assert len(await take(reader, 1)) == 1
        await reader.close()


async def test_a_slow_reader_is_not_sent_more_than_it_asks_for(bus: Bus) -> None:
    await bus.publish(events("seen", 6000))
    reader = bus.read(EVENTS.name, (ANY,), after=0)
    first = await take(reader, 1)
    info = await bus.client.jetstream().consumers_info(EVENTS.name)
    assert info[0].num_pending is not None
    assert info[0].num_pending > 6000 - 4 * reader_module.PULL_BATCH
    rest = await take(reader, 5999)
    await reader.close()
    assert [received.body for received in (*first, *rest)] == numbers(6000)


async def test_two_readers_do_not_disturb_each_other(bus: Bus) -> None:
    await bus.publish(events("seen", 400))
    one = bus.read(EVENTS.name, (ANY,), after=0)
    other = bus.read(EVENTS.name, (ANY,), after=200)
    found, later = await asyncio.gather(take(one, 400), take(other, 200))
    await one.close()
    await other.close()
    assert [r.body for r in found] == numbers(400)
    assert [r.body for r in later] == numbers(200, 200)


async def test_a_closed_reader_leaves_no_consumer_behind(bus: Bus) -> None:
    reader = bus.read(EVENTS.name, (ANY,), after=0)
    await reader.next_batch(1, 0)
    await reader.close()

    async def is_gone() -> bool:
        return await bus.client.jetstream().consumers_info(EVENTS.name) == []

    await wait_until_async(is_gone, 60, lambda: "the consumer is still there")
