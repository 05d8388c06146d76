import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import pytest
from nats.js.errors import BucketNotFoundError, NoKeysError
from nats.js.kv import KeyValue

from muster_contracts.streams import LEASES
from muster_domain.errors import Fenced
from muster_runtime import leases as leases_module
from muster_runtime.bus import Bus
from muster_runtime.declare import declare
from muster_runtime.leases import Leases
from muster_testing.connection import connected_bus, until
from muster_testing.proxy import wire
from muster_testing.servers import KillableServer
from muster_testing.waiting import wait_until_async

pytestmark = pytest.mark.servers

SHARDS = ("p00", "p01", "p02", "p03")
TTL_S = LEASES.ttl_s


@pytest.fixture(autouse=True)
async def no_leases(bus: Bus) -> None:
    with suppress(BucketNotFoundError):
        await bus.client.jetstream().delete_key_value(LEASES.name)
    await declare(bus.client)


@dataclass
class Replica:
    """A replica that notes what it owns, under which epochs, and what is taken from it."""

    bus: Bus
    name: str
    owned: dict[str, int] = field(default_factory=dict[str, int])
    epochs: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    deaf: bool = False

    def __post_init__(self) -> None:
        self.leases = Leases(
            self.bus.client, service="admission", instance=self.name, shards=SHARDS
        )
        self.task: asyncio.Task[None] | None = None

    async def own(self, shard: str, epoch: int) -> None:
        self.owned[shard] = epoch
        self.epochs.setdefault(shard, []).append(epoch)
        try:
            await self._endless()
        finally:
            del self.owned[shard]

    async def _endless(self) -> None:
        if self.deaf:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.deaf = False
        await asyncio.Event().wait()

    def start(self) -> None:
        self.task = asyncio.create_task(self.leases.run(self.own))

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def replica(url: str, name: str) -> AsyncIterator[Replica]:
    async with connected_bus(url) as bus:
        found = Replica(bus, name)
        found.start()
        try:
            yield found
        finally:
            await found.stop()


async def test_one_replica_takes_everything(nats: KillableServer) -> None:
    async with replica(nats.url, "one") as one:
        await until(lambda: set(one.owned) == set(SHARDS))
        assert one.leases.held == SHARDS


async def test_two_replicas_share_fairly_and_never_own_the_same(nats: KillableServer) -> None:
    async with replica(nats.url, "one") as one:
        await until(lambda: len(one.owned) == 4)
        async with replica(nats.url, "two") as two:
            await until(lambda: len(one.owned) == len(two.owned) == 2, 60)
            assert not set(one.owned) & set(two.owned)
        await until(lambda: len(one.owned) == 4, 60)


async def _four_are_listed(bucket: KeyValue) -> bool:
    """Whether the bucket lists every lease; the client may end a list before it is complete."""
    try:
        return len([key for key in await bucket.keys() if ".shard." in key]) == 4
    except NoKeysError:
        return False


async def test_a_replica_that_stops_gives_its_leases_back_at_once(nats: KillableServer) -> None:
    async with connected_bus(nats.url) as bus:
        bucket = await bus.client.jetstream().key_value(LEASES.name)
        async with replica(nats.url, "one") as one:
            await until(lambda: len(one.owned) == 4)
            await wait_until_async(partial(_four_are_listed, bucket), 60, lambda: "not all listed")
        watcher = await bucket.watchall()
        left: list[str] = []
        async for entry in watcher:
            if entry is None:
                break
            if entry.operation is None:
                left.append(entry.key)
        await watcher.stop()
        assert left == []


async def test_after_a_death_another_takes_over_under_a_higher_token(nats: KillableServer) -> None:
    async with wire(nats.url) as line, AsyncExitStack() as stack:
        one = await stack.enter_async_context(replica(line.url, "one"))
        await until(lambda: len(one.owned) == 4)
        before = dict(one.owned)
        line.hold_up()
        two = await stack.enter_async_context(replica(nats.url, "two"))
        await until(lambda: len(two.owned) == 4, 60)
        assert all(two.owned[shard] > before[shard] for shard in SHARDS)
        await until(lambda: not one.owned, 60)
        line.cut()


async def test_a_holder_that_cannot_renew_stops_before_long(nats: KillableServer) -> None:
    async with wire(nats.url) as line, AsyncExitStack() as stack:
        one = await stack.enter_async_context(replica(line.url, "one"))
        await until(lambda: len(one.owned) == 4)
        line.hold_up()
        await until(lambda: not one.owned, 60)
        line.cut()
        await until(lambda: len(one.owned) == 4, 60)
        assert all(epochs == sorted(set(epochs)) for epochs in one.epochs.values())


async def test_work_that_loses_a_cancellation_is_cancelled_again(nats: KillableServer) -> None:
    async with replica(nats.url, "one") as one:
        await until(lambda: len(one.owned) == 4)
        await one.stop()
        assert not one.owned
        one.deaf = True
        one.start()
        await until(lambda: len(one.owned) == 4, 60)
        await asyncio.wait_for(one.stop(), 60)
        assert not one.owned


async def test_work_that_fails_ends_the_replica(nats: KillableServer) -> None:
    async def fail(shard: str, epoch: int) -> None:
        raise Fenced(f"{shard} does not belong to {epoch}")

    async with connected_bus(nats.url) as bus:
        leases = Leases(bus.client, service="admission", instance="one", shards=SHARDS[:1])
        with pytest.raises(Fenced):
            await asyncio.wait_for(leases.run(fail), 60)


async def test_a_lease_that_somebody_took_meanwhile_is_not_given_away(
    nats: KillableServer,
) -> None:
    async with connected_bus(nats.url) as bus, replica(nats.url, "one") as one:
        await until(lambda: len(one.owned) == 4)
        bucket = await bus.client.jetstream().key_value(LEASES.name)
        taken = await bucket.put("admission.shard.p02", b"somebody else")
        await one.stop()
        entry = await bucket.get("admission.shard.p02")
        assert (entry.value, entry.revision) == (b"somebody else", taken)


def test_a_lease_outlives_two_lost_renewals() -> None:
    assert leases_module.RENEW_EVERY_S * 2 < leases_module.LOST_AFTER_S < TTL_S
