import pytest
from nats.aio.client import Client
from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig

from muster_contracts.streams import BUCKETS, DURABLES, EVENTS, JOBS, OBJECTS, STREAMS
from muster_domain.errors import Conflict, Transient
from muster_runtime.bus import Bus
from muster_runtime.declare import check_declared, declare
from muster_testing.connection import connected_bus
from muster_testing.servers import KillableServer

pytestmark = pytest.mark.servers


async def configurations(client: Client) -> dict[str, dict[str, object]]:
    jetstream = client.jetstream()
    names = [*(stream.name for stream in STREAMS), *(f"KV_{bucket.name}" for bucket in BUCKETS)]
    return {name: (await jetstream.stream_info(name)).config.as_dict() for name in names}


async def test_what_is_declared_is_there(bus: Bus) -> None:
    jetstream = bus.client.jetstream()
    found = await configurations(bus.client)
    for stream in STREAMS:
        assert found[stream.name]["subjects"] == list(stream.subjects)
        assert found[stream.name]["max_bytes"] == stream.max_bytes
    jobs = (await jetstream.stream_info(JOBS.name)).config
    assert jobs.retention == RetentionPolicy.WORK_QUEUE
    assert jobs.discard == DiscardPolicy.NEW
    objects = (await jetstream.stream_info(OBJECTS.name)).config
    assert objects.max_msgs_per_subject == 1
    for durable in DURABLES:
        assert await jetstream.consumer_info(durable.stream, durable.name)
    await check_declared(bus.client)


async def test_declaring_again_changes_nothing(bus: Bus) -> None:
    before = await configurations(bus.client)
    await bus.client.jetstream().publish("muster.evt.gateway.v1.seen.p00.team-a.w1", b"kept")
    await declare(bus.client)
    assert await configurations(bus.client) == before
    assert await bus.last_sequence(EVENTS.name) == 1


async def test_a_stream_of_other_subjects_is_refused_and_left_alone(nats: KillableServer) -> None:
    async with connected_bus(nats.url, fresh=True) as bus:
        jetstream = bus.client.jetstream()
        await jetstream.delete_stream(EVENTS.name)
        await jetstream.add_stream(
            StreamConfig(name=EVENTS.name, subjects=["muster.evt.admission.>"])
        )
        try:
            with pytest.raises(Conflict, match="MUSTER_EVENTS takes"):
                await declare(bus.client)
            kept = (await jetstream.stream_info(EVENTS.name)).config.subjects
            assert kept == ["muster.evt.admission.>"]
        finally:
            await jetstream.delete_stream(EVENTS.name)
            await declare(bus.client)


async def test_a_stream_that_would_lose_other_messages_is_refused(nats: KillableServer) -> None:
    """Same subjects, but the last value of each object would not be all that is kept."""
    async with connected_bus(nats.url, fresh=True) as bus:
        jetstream = bus.client.jetstream()
        config = (await jetstream.stream_info(OBJECTS.name)).config
        await jetstream.delete_stream(OBJECTS.name)
        config.max_msgs_per_subject = 5
        await jetstream.add_stream(config)
        try:
            with pytest.raises(Conflict, match=r"MUSTER_OBJECTS.*max_msgs_per_subject"):
                await declare(bus.client)
        finally:
            await jetstream.delete_stream(OBJECTS.name)
            await declare(bus.client)


async def test_a_missing_stream_is_missed(nats: KillableServer) -> None:
    async with connected_bus(nats.url, fresh=True) as bus:
        await bus.client.jetstream().delete_stream(EVENTS.name)
        with pytest.raises(Transient, match="not declared"):
            await check_declared(bus.client)
        await declare(bus.client)
