"""What every store does, asked of the memory store and of a real server."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count

import pytest

from muster_domain.errors import InvalidValue
from muster_ledger.memory_store import MemoryStore
from muster_ledger.redis_store import RedisStore
from muster_ledger.store import (
    OUTBOX_START,
    Commit,
    Committed,
    FencedOff,
    Image,
    OutboxMessage,
    OutboxPosition,
    StaleVersion,
    Store,
)

_numbers = count()


@pytest.fixture
def shard() -> str:
    return f"contract-{next(_numbers)}"


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.servers)])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    store = RedisStore(request.getfixturevalue("valkey").url)
    yield store
    await store.close()


def message(name: str) -> OutboxMessage:
    return OutboxMessage(
        subject=f"muster.evt.x.{name}",
        message_id=f"id-{name}",
        body=b"\x00\xff" + name.encode(),
        headers={"ce-type": "größer", "empty": ""},
    )


def commit(shard: str, version: int, *, epoch: int = 5, **rest: object) -> Commit:
    base = Commit(shard=shard, epoch=epoch, expected_version=version, watermark=version * 10)
    return replace(base, **rest)


async def test_a_shard_nobody_wrote_is_all_zeros(store: Store, shard: str) -> None:
    empty = Image(shard=shard, epoch=0, version=0, watermark=0, fields={})

    assert await store.load(shard) == empty
    assert await store.claim(shard, 5) == replace(empty, epoch=5)
    assert await store.read_outbox(shard, OUTBOX_START, 10) == ()


async def test_a_commit_changes_state_watermark_and_outbox_together(
    store: Store, shard: str
) -> None:
    await store.claim(shard, 5)
    first = commit(shard, 0, puts={"a": b"1", "b": b"\x00\xff", "ü/%": b""}, watermark=7)
    second = commit(
        shard,
        1,
        puts={"a": b"2"},
        deletes=("b", "never-there"),
        watermark=9,
        outbox=(message("one"), message("two")),
    )

    assert await store.commit(first) == Committed(1)
    assert await store.commit(second) == Committed(2)
    assert await store.load(shard) == Image(
        shard=shard, epoch=5, version=2, watermark=9, fields={"a": b"2", "ü/%": b""}
    )
    entries = await store.read_outbox(shard, OUTBOX_START, 10)
    assert [entry.position for entry in entries] == [OutboxPosition(2, 1), OutboxPosition(2, 2)]
    assert [entry.message for entry in entries] == [message("one"), message("two")]


async def test_the_same_commit_again_changes_nothing(store: Store, shard: str) -> None:
    await store.claim(shard, 5)
    once = commit(shard, 0, puts={"a": b"1"}, outbox=(message("one"),))

    assert [await store.commit(once) for _ in range(3)] == [Committed(1)] * 3
    assert len(await store.read_outbox(shard, OUTBOX_START, 10)) == 1
    assert (await store.load(shard)).version == 1


async def test_another_commit_at_a_version_that_is_gone_is_stale(store: Store, shard: str) -> None:
    await store.claim(shard, 5)
    await store.commit(commit(shard, 0, puts={"a": b"1"}))
    before = await store.load(shard)

    for wrong in (0, 2, 700):
        late = commit(shard, wrong, puts={"a": b"x"}, outbox=(message("x"),))
        assert await store.commit(late) == StaleVersion(1)
    assert await store.load(shard) == before
    assert await store.read_outbox(shard, OUTBOX_START, 10) == ()


async def test_a_lower_epoch_writes_nothing_and_claims_nothing(store: Store, shard: str) -> None:
    await store.claim(shard, 5)
    old = commit(shard, 0, puts={"a": b"1"})
    await store.commit(old)
    taken = await store.claim(shard, 10)

    assert taken == Image(shard=shard, epoch=10, version=1, watermark=0, fields={"a": b"1"})
    assert await store.claim(shard, 9) == FencedOff(10)
    assert await store.commit(commit(shard, 1, epoch=9, puts={"a": b"2"})) == FencedOff(10)
    assert await store.commit(old) == FencedOff(10)
    assert await store.load(shard) == taken
    assert await store.claim(shard, 10) == taken


async def test_epochs_are_compared_as_numbers(store: Store, shard: str) -> None:
    await store.claim(shard, 10)
    assert await store.claim(shard, 9) == FencedOff(10)
    largest = 2**53 - 1
    await store.claim(shard, largest)
    assert await store.commit(commit(shard, 0, epoch=largest - 1)) == FencedOff(largest)
    assert await store.commit(commit(shard, 0, epoch=largest)) == Committed(1)


async def test_an_epoch_that_never_claimed_is_stale(store: Store, shard: str) -> None:
    await store.claim(shard, 5)

    assert await store.commit(commit(shard, 0, epoch=6, puts={"a": b"1"})) == StaleVersion(0)
    assert (await store.load(shard)).fields == {}


async def test_shards_do_not_touch_each_other(store: Store, shard: str) -> None:
    other = f"{shard}-other"
    await store.claim(shard, 5)
    await store.claim(other, 3)
    await store.commit(commit(shard, 0, puts={"a": b"1"}, outbox=(message("one"),)))

    assert await store.load(other) == Image(shard=other, epoch=3, version=0, watermark=0, fields={})
    assert await store.read_outbox(other, OUTBOX_START, 1) == ()


async def test_the_outbox_is_read_in_pages_and_trimmed(store: Store, shard: str) -> None:
    await store.claim(shard, 5)
    sizes = [1, 1, 130, 0, 1, 3, 64, 1]
    expected: list[str] = []
    for version, size in enumerate(sizes):
        names = [f"{version}-{n}" for n in range(size)]
        expected += names
        await store.commit(commit(shard, version, outbox=tuple(map(message, names))))

    for page in (1, 7, 64, 1000):
        assert await read_all(store, shard, page) == [f"id-{name}" for name in expected]

    await store.trim_outbox(shard, OutboxPosition(3, 130))
    assert len(await store.read_outbox(shard, OUTBOX_START, 1000)) == 69
    await store.trim_outbox(shard, OutboxPosition(7, 10))
    after = await store.read_outbox(shard, OutboxPosition(7, 10), 1000)
    assert after[0].position == OutboxPosition(7, 11)
    assert len(after) == 55
    await store.trim_outbox(shard, OutboxPosition(8, 1))
    assert await store.read_outbox(shard, OUTBOX_START, 1000) == ()

    await store.commit(commit(shard, len(sizes), outbox=(message("later"),)))
    assert [entry.position for entry in await store.read_outbox(shard, OUTBOX_START, 9)] == [
        OutboxPosition(9, 1)
    ]


async def test_a_large_commit_is_one_commit(store: Store, shard: str) -> None:
    await store.claim(shard, 5)
    puts = {f"field-{n}": str(n).encode() for n in range(20_000)}
    outbox = tuple(message(str(n)) for n in range(3_000))
    await store.commit(commit(shard, 0, puts=puts, outbox=outbox))

    assert (await store.load(shard)).fields == puts
    assert len(await store.read_outbox(shard, OUTBOX_START, 10_000)) == 3_000

    gone = tuple(f"field-{n}" for n in range(19_999))
    await store.commit(commit(shard, 1, deletes=gone))
    assert (await store.load(shard)).fields == {"field-19999": b"19999"}


async def test_what_a_store_cannot_take_is_refused(store: Store, shard: str) -> None:
    await store.ping()
    with pytest.raises(InvalidValue):
        await store.load("Not A Shard")
    with pytest.raises(InvalidValue):
        await store.claim(shard, 2**53)
    for number in (0, 10_001):
        with pytest.raises(InvalidValue):
            await store.read_outbox(shard, OUTBOX_START, number)


async def read_all(store: Store, shard: str, page: int) -> list[str]:
    found: list[str] = []
    after = OUTBOX_START
    while entries := await store.read_outbox(shard, after, page):
        assert len(entries) <= page
        found += [entry.message.message_id for entry in entries]
        after = entries[-1].position
    return found
