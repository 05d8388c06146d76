import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest

from muster_contracts.streams import DEAD_LETTERS
from muster_contracts.subjects import Service
from muster_domain.errors import Fenced, Transient
from muster_ledger.memory_store import MemoryShards, MemoryStore
from muster_ledger.redis_store import RedisStore
from muster_ledger.store import Image, Store
from muster_runtime import owner as owner_module
from muster_runtime.bus import Bus
from muster_runtime.clock import now_ms
from muster_runtime.owner import Owner
from muster_runtime.reader import Received
from muster_runtime.settings import ServiceSettings
from muster_runtime.telemetry import Metrics, Tracing
from muster_testing.connection import until
from muster_testing.servers import KillableServer
from muster_testing.waiting import wait_until_async

from .counting import BROKEN, COUNTED, UNREADABLE, CountingMachine
from .log import event, events, everything

pytestmark = pytest.mark.servers

_shards = count()


@pytest.fixture
def shard() -> str:
    return f"owner-{next(_shards)}"


Build = Callable[[Image], CountingMachine]


def owner_of(bus: Bus, store: Store, build: Build = CountingMachine) -> Owner[CountingMachine]:
    return Owner(
        bus=bus,
        store=store,
        build=build,
        metrics=Metrics(),
        tracing=Tracing(ServiceSettings(trace_ratio=0.0), Service.ADMISSION),
    )


@asynccontextmanager
async def owning(
    owner: Owner[CountingMachine], shard: str, epoch: int
) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(owner.own(shard, epoch))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def counted(bus: Bus, shard: str) -> list[bytes]:
    return [received.body for received in await everything(bus, f"{COUNTED}.{shard}.>")]


async def until_counted(bus: Bus, shard: str, number: int) -> list[bytes]:
    """What the shard has said once it is so much; nobody says less than it has stored for long."""
    said: list[bytes] = []

    async def is_said() -> bool:
        said[:] = await counted(bus, shard)
        return len(said) >= number

    await wait_until_async(is_said, 60, lambda: f"{len(said)} of {number} are said")
    return said


def has_seen(owner: Owner[CountingMachine], shard: str, number: int) -> bool:
    machine = owner.machines.get(shard)
    return machine is not None and len(machine.seen) == number


async def test_facts_become_state_and_messages_once_each(
    bus: Bus, store: RedisStore, shard: str
) -> None:
    await bus.publish(events("seen", 100))
    owner = owner_of(bus, store)
    async with owning(owner, shard, 1):
        await until(lambda: has_seen(owner, shard, 100))
        await bus.publish(events("seen", 150))
        said = await until_counted(bus, shard, 150)
    image = await store.load(shard)
    assert len(image.fields) == 150
    assert said == [b"%d" % number for number in range(150)]


async def test_an_owner_that_dies_anywhere_is_followed_by_one_that_goes_on(
    bus: Bus, store: RedisStore, shard: str
) -> None:
    """Whenever the first owner is ended, every fact counts once and is said once."""
    await bus.publish(events("seen", 400))
    for epoch in range(1, 9):
        owner = owner_of(bus, store)
        async with owning(owner, shard, epoch):
            await until(lambda owner=owner: shard in owner.machines)
            await bus.publish(events("seen", 20, first=400 + 20 * epoch))
    last = owner_of(bus, store)
    async with owning(last, shard, 100):
        said = await until_counted(bus, shard, 560)
    assert len(said) == len(set(said)) == 560


async def test_a_fenced_zombie_changes_nothing_and_stops(
    bus: Bus, store: RedisStore, shard: str
) -> None:
    zombie = owner_of(bus, store)
    async with owning(zombie, shard, 1) as task:
        await until(lambda: shard in zombie.machines)
        assert isinstance(await store.claim(shard, 2), Image)
        await bus.publish(events("seen", 5))
        with pytest.raises((Fenced, ExceptionGroup)) as stopped:
            await asyncio.wait_for(task, 60)
    assert isinstance(stopped.value, Fenced) or stopped.group_contains(Fenced)
    image = await store.load(shard)
    assert (image.epoch, image.version, dict(image.fields)) == (2, 0, {})
    assert await counted(bus, shard) == []


async def test_a_fenced_claim_is_refused(bus: Bus, store: RedisStore, shard: str) -> None:
    await store.claim(shard, 7)
    with pytest.raises(Fenced):
        await owner_of(bus, store).own(shard, 6)


async def test_a_stale_version_is_rebuilt_from_what_is_stored(
    bus: Bus, store: RedisStore, shard: str
) -> None:
    """Somebody else of the same epoch has committed: the owner reads again and goes on."""
    lives: list[int] = []

    def build(image: Image) -> CountingMachine:
        lives.append(image.version)
        return CountingMachine(image)

    owner = owner_of(bus, store, build)
    async with owning(owner, shard, 1):
        await until(lambda: shard in owner.machines)
        other = owner_of(bus, store)
        async with owning(other, shard, 1):
            await bus.publish(events("seen", 30))
            await until(lambda: has_seen(owner, shard, 30) and has_seen(other, shard, 30), 60)
            said = await until_counted(bus, shard, 30)
    assert sorted(said) == sorted(b"%d" % n for n in range(30))
    assert len((await store.load(shard)).fields) == 30


async def test_a_store_that_forgot_commits_ends_the_epoch(bus: Bus, shard: str) -> None:
    """What is decided anew must not be said under the ids of what was said and forgotten."""
    shards = MemoryShards()
    owner = owner_of(bus, MemoryStore(shards))
    async with owning(owner, shard, 1) as task:
        await until(lambda: shard in owner.machines)
        before = shards.checkpoint()
        await bus.publish(events("seen", 3))
        await until_counted(bus, shard, 3)
        shards.restore(before)
        await bus.publish(events("seen", 1, first=3))
        with pytest.raises((Fenced, ExceptionGroup)):
            await asyncio.wait_for(task, 60)
    again = owner_of(bus, MemoryStore(shards))
    async with owning(again, shard, 2):
        said = await until_counted(bus, shard, 7)
    assert said == [b"0", b"1", b"2", b"0", b"1", b"2", b"3"]


async def test_poison_is_buried_with_its_reason_and_the_rest_goes_on(
    bus: Bus, store: RedisStore, shard: str
) -> None:
    await bus.publish(
        [*events("seen", 3), event("bad", 1, UNREADABLE), *events("seen", 3, first=3)]
    )
    owner = owner_of(bus, store)
    async with owning(owner, shard, 1):
        await until(lambda: has_seen(owner, shard, 6))
    letter = await bus.last(DEAD_LETTERS.name, "muster.dlq.gateway.MUSTER_EVENTS")
    assert letter is not None
    assert letter.body == UNREADABLE
    assert letter.headers["Muster-Reason"] == "body: nobody can read this"
    assert letter.headers["Muster-Subject"] == event("bad", 1).subject


async def test_a_message_that_breaks_the_machine_is_put_aside_after_three_tries(
    bus: Bus, store: RedisStore, shard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_module, "RESTART_WAIT_S", 0.01)
    lives: list[int] = []

    def build(image: Image) -> CountingMachine:
        lives.append(image.version)
        return CountingMachine(image)

    await bus.publish([*events("seen", 2), event("bad", 1, BROKEN), *events("seen", 2, first=2)])
    owner = owner_of(bus, store, build)
    async with owning(owner, shard, 1):
        await until(lambda: has_seen(owner, shard, 4), 60)
    assert len(lives) == owner_module.DEFECT_TRIES + 1
    letter = await bus.last(DEAD_LETTERS.name, "muster.dlq.gateway.MUSTER_EVENTS")
    assert letter is not None
    assert "defect: ZeroDivisionError" in letter.headers["Muster-Reason"]


async def test_what_breaks_one_shard_is_still_given_to_the_others(
    bus: Bus, store: RedisStore, shard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_module, "RESTART_WAIT_S", 0.01)
    sound = f"{shard}-sound"

    class Sound(CountingMachine):
        def ingest(self, received: Received, now_ms: int) -> None:
            del now_ms
            self.seen.add(received.body.decode())
            self._new.append(received.body.decode())

    def build(image: Image) -> CountingMachine:
        return Sound(image) if image.shard == sound else CountingMachine(image)

    owner = owner_of(bus, store, build)
    async with owning(owner, shard, 1):
        await bus.publish([event("bad", 1, BROKEN), *events("seen", 1)])
        await until(lambda: has_seen(owner, shard, 1), 60)
        async with owning(owner, sound, 1):
            await until(lambda: has_seen(owner, sound, 2), 60)


async def test_preparing_may_fail_and_nothing_is_lost(
    bus: Bus, store: RedisStore, shard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_module, "RESTART_WAIT_S", 0.01)
    failures = iter([True, True, False])

    async def prepare(_machine: CountingMachine) -> None:
        if next(failures, False):
            raise Transient("objects are not there yet")

    await bus.publish(events("seen", 10))
    owner = owner_of(bus, store)
    owner.prepare = prepare
    async with owning(owner, shard, 1):
        await until(lambda: has_seen(owner, shard, 10), 60)


async def test_a_shard_whose_store_is_away_is_not_healthy(
    bus: Bus, store: RedisStore, shard: str, valkey: KillableServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_module, "BEAT_MAX_AGE_MS", 500)
    monkeypatch.setattr(owner_module, "RESTART_WAIT_S", 0.05)
    monkeypatch.setattr(owner_module, "IDLE_WAIT_S", 0.1)
    owner = owner_of(bus, store)
    await asyncio.to_thread(valkey.kill)
    try:
        async with owning(owner, shard, 1):
            began_ms = now_ms()
            await until(lambda: shard in owner.trouble(), 60)
            assert now_ms() - began_ms < 15_000
            await asyncio.to_thread(valkey.restart)
            await until(lambda: not owner.trouble() and shard in owner.machines, 60)
            await bus.publish(events("seen", 3))
            await until(lambda: has_seen(owner, shard, 3), 60)
    finally:
        await asyncio.to_thread(valkey.restart)
