import asyncio

import pytest

from muster_domain.errors import Conflict, InvalidValue, Transient
from muster_runtime import publisher as publisher_module
from muster_runtime.bus import Bus
from muster_runtime.publisher import Outgoing
from muster_testing.connection import connected_bus, until
from muster_testing.proxy import wire
from muster_testing.servers import KillableServer

from .log import event, events, everything

pytestmark = pytest.mark.servers

BIG = 100_000
DEADLINE_S = 60
FOREVER_S = 3600
"""Longer than any test may take."""


async def test_sequences_come_back_in_order(bus: Bus) -> None:
    sequences = await bus.publish(events("seen", 3000))
    assert sequences == list(range(sequences[0], sequences[0] + 3000))
    assert [received.body for received in await everything(bus)] == [
        b"%d" % number for number in range(3000)
    ]


async def test_the_same_ids_again_are_stored_once(bus: Bus) -> None:
    batch = events("seen", 10)
    assert await bus.publish(batch) == await bus.publish(batch)
    assert len(await everything(bus)) == 10


async def test_what_no_stream_takes_is_transient(bus: Bus) -> None:
    with pytest.raises(Transient, match="no stream takes that subject"):
        await bus.publish([Outgoing(subject="muster.nowhere", body=b"")])


async def test_a_lost_acknowledgement_is_transient_and_the_repetition_is_harmless(
    nats: KillableServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "ACK_TIMEOUT_S", 0.3)
    async with wire(nats.url) as line, connected_bus(line.url, fresh=True) as bus:
        await bus.publish(events("seen", 1))
        line.hold_up()
        with pytest.raises(Transient, match="in time"):
            await bus.publish(events("seen", 5, first=1))
        line.let_flow()
        await bus.publish(events("seen", 5, first=1))
        assert [received.body for received in await everything(bus)] == [
            b"%d" % number for number in range(6)
        ]


async def test_a_cut_connection_does_not_turn_the_order_round(nats: KillableServer) -> None:
    """What the old connection left over must not be sent before what it lost."""
    batch = [event("seen", number, b"%06d" % number + b"." * BIG) for number in range(200)]
    async with wire(nats.url) as line, connected_bus(line.url, fresh=True) as bus:
        await bus.publish([event("seen", 999, b"first")])
        line.hold_up()
        sent = bus.client.stats["out_msgs"]
        publishing = asyncio.create_task(bus.publish(batch))
        await until(lambda: bus.client.stats["out_msgs"] > sent + 10)
        line.cut()
        with pytest.raises(Transient):
            await publishing
        await bus.wait_connected()
        await bus.publish(batch)
        stored = [received.body[:6] for received in await everything(bus)]
    assert stored == [b"first", *(b"%06d" % number for number in range(200))]


async def test_a_cut_connection_is_noticed_without_waiting_for_acknowledgements(
    nats: KillableServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "ACK_TIMEOUT_S", FOREVER_S)
    async with wire(nats.url) as line, connected_bus(line.url, fresh=True) as bus:
        await bus.publish(events("seen", 1))
        line.hold_up()
        sent = bus.client.stats["out_msgs"]
        publishing = asyncio.create_task(bus.publish(events("seen", 1, first=1)))
        await until(lambda: bus.client.stats["out_msgs"] > sent)
        line.cut()
        with pytest.raises(Transient):
            await asyncio.wait_for(publishing, DEADLINE_S)


async def test_all_together_or_nothing(bus: Bus) -> None:
    objects = [
        Outgoing(subject=f"muster.obj.ResourceFlavor._.f{number}", body=b"{}") for number in (1, 2)
    ]
    last = await bus.publish_together(objects, expected_last=0)
    assert last == 2
    with pytest.raises(Conflict):
        await bus.publish_together(objects, expected_last=1)
    with pytest.raises(InvalidValue):
        await bus.publish_together([])
    assert await bus.last_sequence("MUSTER_OBJECTS") == 2
