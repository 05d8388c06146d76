"""What only a real server can show: races, death, a disk, a full memory, wrong credentials."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from redis.asyncio import Redis

from muster_domain.errors import Forbidden, InvalidValue, Transient
from muster_ledger.redis_store import RedisStore, RedisStoreOptions
from muster_ledger.store import (
    OUTBOX_START,
    Commit,
    CommitResult,
    Committed,
    FencedOff,
    Image,
    OutboxMessage,
    StaleVersion,
)
from muster_testing.servers import KillableServer, ValkeyServer

pytestmark = pytest.mark.servers
_numbers = count()
WRITERS = 50
ROUNDS = 12
KILLS = 4
DEADLINE_S = 60.0
PLAIN = RedisStoreOptions()
PASSWORD = "correct"  # noqa: S105 - of a server that lives for one test
ODD_PASSWORD = "p:w/@%é"  # noqa: S105 - likewise


@pytest.fixture
def shard() -> str:
    return f"server-{next(_numbers)}"


OpenStore = Callable[..., RedisStore]


@pytest.fixture
async def open_store() -> AsyncIterator[OpenStore]:
    """Opens stores and closes them when the test is over, however it ended."""
    async with AsyncExitStack() as stack:

        def open_one(url: str, options: RedisStoreOptions = PLAIN) -> RedisStore:
            store = RedisStore(url, options)
            stack.push_async_callback(store.close)
            return store

        yield open_one


@pytest.fixture
async def store(valkey: KillableServer, open_store: OpenStore) -> RedisStore:
    return open_store(valkey.url)


@pytest.fixture
async def client(valkey: KillableServer) -> AsyncIterator[Redis]:
    client = Redis.from_url(valkey.url)
    yield client
    await client.aclose()


def commit(shard: str, version: int, writer: str = "w", epoch: int = 1) -> Commit:
    return Commit(
        shard=shard,
        epoch=epoch,
        expected_version=version,
        watermark=version + 1,
        puts={f"won/{version}": writer.encode(), "last": str(version).encode()},
        outbox=(OutboxMessage(subject="s", message_id=f"{version}-{writer}", body=b"b"),),
    )


async def test_of_fifty_writers_exactly_one_wins_each_version(
    store: RedisStore, shard: str
) -> None:
    await store.claim(shard, 1)
    winners: list[str] = []
    for version in range(ROUNDS):
        answers = await asyncio.gather(
            *(store.commit(commit(shard, version, f"w{n}")) for n in range(WRITERS))
        )
        assert answers.count(Committed(version + 1)) == 1
        assert answers.count(StaleVersion(version + 1)) == WRITERS - 1
        winners.append(f"w{answers.index(Committed(version + 1))}")

    image = await store.load(shard)
    assert [image.fields[f"won/{n}"].decode() for n in range(ROUNDS)] == winners
    entries = await store.read_outbox(shard, OUTBOX_START, 1000)
    assert [entry.message.message_id for entry in entries] == [
        f"{version}-{winner}" for version, winner in enumerate(winners)
    ]


async def test_owners_that_overtake_each_other_never_write_below_the_fence(
    store: RedisStore, shard: str
) -> None:
    """Fifty owners with fifty epochs claim and commit at once until each has been fenced off."""

    async def own(epoch: int) -> list[tuple[int, int]]:
        wrote: list[tuple[int, int]] = []
        image = await store.claim(shard, epoch)
        while isinstance(image, Image) and len(wrote) < 3:
            answer = await store.commit(commit(shard, image.version, f"e{epoch}", epoch))
            if isinstance(answer, FencedOff):
                assert answer.epoch > epoch
                break
            if isinstance(answer, Committed):
                wrote.append((answer.version, epoch))
            image = await store.claim(shard, epoch)
        return wrote

    wrote = await asyncio.gather(*(own(epoch) for epoch in range(1, WRITERS + 1)))

    history = sorted(item for written in wrote for item in written)
    assert [version for version, _ in history] == list(range(1, len(history) + 1))
    epochs = [epoch for _, epoch in history]
    assert epochs == sorted(epochs)
    assert epochs[-3:] == [WRITERS] * 3


async def test_nothing_answered_is_lost_when_the_server_is_killed(
    tmp_path: Path, open_store: OpenStore
) -> None:
    """It dies while a commit is on its way; the same commit is sent until it is answered."""
    with ValkeyServer(tmp_path, user="muster", password=ODD_PASSWORD) as valkey:
        store = open_store(valkey.url)
        await store.claim("p00", 1)
        version = 0
        for kill in range(KILLS):
            for _ in range(5):
                answer = await until_answered(store, commit("p00", version))
                assert answer == Committed(version + 1)
                version += 1
            sent = asyncio.create_task(until_answered(store, commit("p00", version)))
            for _ in range(kill):
                await asyncio.sleep(0)
            valkey.kill()
            await asyncio.to_thread(valkey.restart)
            assert await sent == Committed(version + 1)
            version += 1

        image = await store.load("p00")
        assert (image.version, image.watermark, image.epoch) == (version, version, 1)
        assert sorted(image.fields) == sorted(["last", *(f"won/{n}" for n in range(version))])
        entries = await store.read_outbox("p00", OUTBOX_START, 1000)
        assert [entry.message.message_id for entry in entries] == [f"{n}-w" for n in range(version)]


async def test_a_server_that_is_down_is_transient(tmp_path: Path, open_store: OpenStore) -> None:
    with ValkeyServer(tmp_path) as valkey:
        store = open_store(valkey.url)
        await store.claim("p00", 1)
        valkey.kill()
        for call in (
            store.ping(),
            store.load("p00"),
            store.claim("p00", 1),
            store.commit(commit("p00", 0)),
            store.read_outbox("p00", OUTBOX_START, 1),
            store.trim_outbox("p00", OUTBOX_START),
        ):
            with pytest.raises(Transient):
                await call


async def test_a_server_that_hangs_is_transient(tmp_path: Path, open_store: OpenStore) -> None:
    with ValkeyServer(tmp_path) as valkey:
        store = open_store(valkey.url, RedisStoreOptions(timeout_ms=100))
        await store.claim("p00", 1)
        valkey.server.pause()
        with pytest.raises(Transient):
            await store.commit(commit("p00", 0))
        valkey.server.resume()
        assert await store.commit(commit("p00", 0)) == Committed(1)
        assert len(await store.read_outbox("p00", OUTBOX_START, 10)) == 1


async def test_a_server_that_forgot_the_scripts_is_told_again(
    store: RedisStore, client: Redis, shard: str
) -> None:
    await store.claim(shard, 1)
    await client.script_flush()
    assert await store.commit(commit(shard, 0)) == Committed(1)
    await client.script_flush()
    assert isinstance(await store.claim(shard, 2), Image)


async def test_a_shard_that_is_written_all_the_time_is_read_whole(
    store: RedisStore, shard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every paged read is overtaken by a commit, so the image comes from the blocking read."""
    await store.claim(shard, 1)
    await store.commit(commit(shard, 0))
    paged = store._scan
    version = 1

    async def overtaken(keys: object) -> dict[bytes, bytes]:
        nonlocal version
        fields = await paged(keys)
        await store.commit(commit(shard, version))
        version += 1
        return fields

    monkeypatch.setattr(store, "_scan", overtaken)
    image = await store.load(shard)

    assert image.version == version > 2
    assert sorted(image.fields) == sorted(["last", *(f"won/{n}" for n in range(version))])


async def test_a_commit_into_a_full_memory_changes_nothing(
    tmp_path: Path, open_store: OpenStore
) -> None:
    with ValkeyServer(tmp_path) as valkey:
        store = open_store(valkey.url)
        await store.claim("p00", 1)
        await store.commit(commit("p00", 0))
        before = await store.load("p00")
        client = Redis.from_url(valkey.url)
        await client.config_set("maxmemory", "100kb")
        with pytest.raises(Transient):
            await store.commit(commit("p00", 1))
        assert await store.load("p00") == before
        assert len(await store.read_outbox("p00", OUTBOX_START, 10)) == 1

        await client.config_set("maxmemory", "0")
        assert await store.commit(commit("p00", 1)) == Committed(2)
        await client.aclose()


async def test_a_synced_commit_is_on_the_disk(tmp_path: Path, open_store: OpenStore) -> None:
    with ValkeyServer(tmp_path, appendfsync="always") as valkey:
        store = open_store(valkey.url, RedisStoreOptions(synced=True))
        await store.claim("p00", 1)
        first = commit("p00", 0)
        assert await store.commit(first) == Committed(1)
        assert await store.commit(first) == Committed(1)
        assert await store.commit(replace(first, watermark=9)) == StaleVersion(1)


async def test_a_server_without_a_file_cannot_be_synced(
    tmp_path: Path, open_store: OpenStore
) -> None:
    with ValkeyServer(tmp_path, extra="appendonly no") as valkey:
        store = open_store(valkey.url, RedisStoreOptions(synced=True))
        await store.claim("p00", 1)
        with pytest.raises(InvalidValue, match="appendonly"):
            await store.commit(commit("p00", 0))


async def test_wrong_credentials_are_not_transient(tmp_path: Path, open_store: OpenStore) -> None:
    reader = "user reader on >look ~* &* +@read +ping +auth +hello +client"
    with ValkeyServer(tmp_path, user="muster", password=PASSWORD, acl_lines=(reader,)) as valkey:
        wrong = open_store(valkey.url.replace(PASSWORD, "guess"))
        with pytest.raises(Forbidden):
            await wrong.ping()
        read_only = open_store(valkey.url.replace(f"muster:{PASSWORD}", "reader:look"))
        await read_only.load("p00")
        with pytest.raises(Forbidden):
            await read_only.claim("p00", 1)


async def test_all_keys_of_a_shard_share_one_hash_slot(
    store: RedisStore, client: Redis, shard: str
) -> None:
    await store.claim(shard, 1)
    await store.commit(commit(shard, 0))

    keys = sorted([key async for key in client.scan_iter(f"muster:*{shard}*")])
    tag = f"muster:{{{shard}}}"
    assert keys == [f"{tag}:{part}".encode() for part in ("meta", "outbox", "state")]


async def until_answered(store: RedisStore, sent: Commit) -> CommitResult:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await store.commit(sent)
            except Transient:
                await asyncio.to_thread(os.sched_yield)
