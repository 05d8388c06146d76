import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from nats.js.api import ConsumerInfo
from prometheus_client import CollectorRegistry, Counter

from muster_contracts.streams import DEAD_LETTERS, EVENTS, FRONT_DOOR
from muster_domain.errors import InvalidValue, Transient
from muster_runtime import worker as worker_module
from muster_runtime.bus import Bus
from muster_runtime.publisher import Outgoing
from muster_runtime.worker import Delivery, Unusable, Worker, backoff_s
from muster_testing.connection import connected_bus, until
from muster_testing.servers import KillableServer

pytestmark = pytest.mark.servers

JOB = "muster.v1.jobs.team-a.submit"


def event_of(delivery: Delivery) -> Outgoing:
    return Outgoing(
        subject=f"muster.evt.gateway.v1.seen.p00.team-a.{delivery.received.sequence}",
        body=delivery.received.body,
        headers={"Nats-Msg-Id": f"seen-{delivery.received.sequence}"},
    )


@pytest.fixture
async def bus(nats: KillableServer) -> AsyncIterator[Bus]:
    async with connected_bus(nats.url, fresh=True) as bus:
        yield bus


@asynccontextmanager
async def working(
    bus: Bus, digest: Callable[[Delivery], Awaitable[list[Outgoing]]]
) -> AsyncIterator[Worker]:
    letters = Counter("letters", "test", registry=CollectorRegistry())
    worker = Worker(bus, FRONT_DOOR, digest, dead_letters=letters)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def consumer(bus: Bus) -> ConsumerInfo:
    return await bus.client.jetstream().consumer_info(FRONT_DOOR.stream, FRONT_DOOR.name)


async def is_settled(bus: Bus) -> bool:
    info = await consumer(bus)
    return (info.num_pending, info.num_ack_pending) == (0, 0)


async def until_settled(bus: Bus) -> None:
    async with asyncio.timeout(60):
        while not await is_settled(bus):
            pass


async def events(bus: Bus) -> list[bytes]:
    seen = await bus.read_to_end(EVENTS.name, "muster.evt.gateway.v1.seen.>")
    return [received.body for received in seen]


async def buried(bus: Bus) -> list[tuple[bytes, str]]:
    letters = await bus.read_to_end(DEAD_LETTERS.name, "muster.dlq.>")
    return [(received.body, received.headers["Muster-Reason"]) for received in letters]


def jobs(count: int) -> list[Outgoing]:
    return [Outgoing(subject=JOB, body=b"%d" % number) for number in range(count)]


async def test_everything_is_published_in_order_and_acknowledged(bus: Bus) -> None:
    async def digest(delivery: Delivery) -> list[Outgoing]:
        return [event_of(delivery)]

    await bus.publish(jobs(600))
    async with working(bus, digest) as worker:
        await until(lambda: worker.done_total == 600)
        await until_settled(bus)
        assert worker.trouble() == ""
    assert await events(bus) == [b"%d" % number for number in range(600)]


async def test_nothing_is_acknowledged_before_it_is_published(bus: Bus) -> None:
    async def nowhere(_delivery: Delivery) -> list[Outgoing]:
        return [Outgoing(subject="muster.nowhere", body=b"")]

    async def digest(delivery: Delivery) -> list[Outgoing]:
        return [event_of(delivery)]

    await bus.publish(jobs(1))
    async with working(bus, nowhere) as worker:
        await asyncio.wait_for(_until_redelivered(bus), 60)
        assert worker.done_total == 0
    async with working(bus, digest) as worker:
        await until(lambda: worker.done_total == 1)
        await until_settled(bus)
    assert await events(bus) == [b"0"]


async def _until_redelivered(bus: Bus) -> None:
    while not (await consumer(bus)).num_redelivered:
        pass


async def test_a_crash_after_publishing_repeats_the_message_under_the_same_id(bus: Bus) -> None:
    seen: list[int] = []

    async def digest(delivery: Delivery) -> list[Outgoing]:
        if delivery.attempt == 1:
            await bus.publish([event_of(delivery)])
            raise Transient("the process dies here")
        seen.append(delivery.attempt)
        return [event_of(delivery)]

    await bus.publish(jobs(1))
    async with working(bus, digest):
        await until(lambda: seen == [2])
        await until_settled(bus)
    assert await events(bus) == [b"0"]


async def test_what_cannot_be_digested_is_buried_and_the_rest_goes_on(bus: Bus) -> None:
    async def digest(delivery: Delivery) -> list[Outgoing]:
        match delivery.received.body:
            case b"1":
                raise InvalidValue("no such thing", field="kind", fix="write Job")
            case b"2":
                raise Unusable("refused", (event_of(delivery),))
            case _:
                return [event_of(delivery)]

    await bus.publish(jobs(4))
    async with working(bus, digest) as worker:
        await until(lambda: worker.done_total == 2)
        await until_settled(bus)
    assert await events(bus) == [b"0", b"2", b"3"]
    assert await buried(bus) == [(b"1", "kind: no such thing; write Job"), (b"2", "refused")]


async def test_a_message_that_always_fails_is_given_up(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "ATTEMPTS_MAX", 3)
    monkeypatch.setattr(worker_module, "DEFECT_RETRY_S", 0.05)
    attempts: list[int] = []

    async def digest(delivery: Delivery) -> list[Outgoing]:
        if delivery.received.body == b"0":
            attempts.append(delivery.attempt)
            raise ZeroDivisionError("defect")
        return [event_of(delivery)]

    await bus.publish(jobs(2))
    async with working(bus, digest) as worker:
        await until(lambda: worker.done_total == 1)
        await until_settled(bus)
    assert attempts == [1, 2, 3]
    [(body, reason)] = await buried(bus)
    assert body == b"0"
    assert reason.startswith("given up after 3 deliveries: defect")


async def test_two_replicas_share_the_work(bus: Bus, nats: KillableServer) -> None:
    async def digest(delivery: Delivery) -> list[Outgoing]:
        return [event_of(delivery)]

    async with (
        connected_bus(nats.url) as other,
        working(bus, digest) as one,
        working(other, digest) as two,
    ):
        await bus.publish(jobs(1500))
        await until(lambda: one.done_total + two.done_total == 1500)
        await until_settled(bus)
    assert min(one.done_total, two.done_total) > 0


def test_waits_grow_and_are_bounded() -> None:
    assert [backoff_s(attempt) for attempt in (1, 2, 3, 8, 500)] == [0.5, 1.0, 2.0, 60.0, 60.0]


async def test_a_restarted_server_is_worked_on_with_at_once(nats: KillableServer) -> None:
    async def digest(delivery: Delivery) -> list[Outgoing]:
        return [event_of(delivery)]

    async with connected_bus(nats.url, fresh=True) as bus, working(bus, digest) as worker:
        await bus.publish(jobs(50))
        await until(lambda: worker.done_total == 50)
        await asyncio.to_thread(nats.kill)
        await asyncio.to_thread(nats.restart)
        await bus.wait_connected()
        await bus.publish(jobs(70)[50:])
        await until(lambda: worker.done_total >= 70, worker_module.SILENCE_MAX_S / 2)
        await until_settled(bus)
    async with connected_bus(nats.url) as bus:
        assert sorted(await events(bus)) == sorted(b"%d" % number for number in range(70))
