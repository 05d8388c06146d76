import asyncio
from collections.abc import AsyncIterator

import pytest

from muster_contracts import codec, envelope, subjects
from muster_contracts.events import ObjectApplied, ObjectDeleted
from muster_contracts.subjects import Service
from muster_domain.errors import Conflict, InvalidValue, Transient
from muster_manifests.catalogue import ObjectCatalogue
from muster_runtime.bus import Bus
from muster_runtime.objects import ObjectFeed
from muster_runtime.publisher import Outgoing
from muster_testing.connection import connected_bus
from muster_testing.servers import KillableServer

pytestmark = pytest.mark.servers


@pytest.fixture
async def bus(nats: KillableServer) -> AsyncIterator[Bus]:
    async with connected_bus(nats.url, fresh=True) as bus:
        yield bus


def message(fact: ObjectApplied | ObjectDeleted) -> Outgoing:
    name = codec.EVENT_NAMES[type(fact)]
    return Outgoing(
        subject=subjects.declared_object(fact.kind, fact.namespace, fact.name),
        body=codec.encode(fact),
        headers={"ce-type": envelope.event_type(Service.GATEWAY, name)},
    )


def applied(name: str) -> Outgoing:
    document = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
    }
    return message(ObjectApplied(kind="ResourceFlavor", namespace="", name=name, document=document))


def deleted(name: str) -> Outgoing:
    return message(ObjectDeleted(kind="ResourceFlavor", namespace="", name=name))


async def test_the_catalogue_follows_the_stream(bus: Bus) -> None:
    await bus.publish([applied("old"), applied("gone")])
    feed = ObjectFeed(bus, ObjectCatalogue())
    assert feed.trouble() != ""
    task = asyncio.create_task(feed.run())
    try:
        await feed.wait_complete(10)
        assert set(feed.catalogue.flavors) == {"old", "gone"}
        [sequence] = await bus.publish([deleted("gone")])
        await feed.wait_for(sequence, 60)
        assert set(feed.catalogue.flavors) == {"old"}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_object_that_cannot_be_read_does_not_stop_the_feed(bus: Bus) -> None:
    broken = Outgoing(subject="muster.obj.ResourceFlavor._.bad", body=b"{", headers={})
    [_, last] = await bus.publish([broken, applied("good")])
    feed = ObjectFeed(bus, ObjectCatalogue())
    task = asyncio.create_task(feed.run())
    try:
        await feed.wait_for(last, 60)
        assert set(feed.catalogue.flavors) == {"good"}
        assert feed.unreadable_total == 1
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_empty_stream_is_complete_at_once(bus: Bus) -> None:
    feed = ObjectFeed(bus, ObjectCatalogue())
    with pytest.raises(Transient):
        await feed.wait_complete(0.01)
    task = asyncio.create_task(feed.run())
    try:
        await feed.wait_complete(10)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_messages_are_published_together_or_not_at_all(bus: Bus) -> None:
    last = await bus.publish_together([applied("a"), applied("b"), applied("c")], expected_last=0)
    assert last == 3
    with pytest.raises(Conflict):
        await bus.publish_together([applied("a"), deleted("b")], expected_last=2)
    assert await bus.publish_together([deleted("b")], expected_last=3) == 4
    with pytest.raises(InvalidValue):
        await bus.publish_together([])
    kept = await bus.last("MUSTER_OBJECTS", "muster.obj.ResourceFlavor._.a")
    assert kept is not None
    assert kept.sequence == 1
