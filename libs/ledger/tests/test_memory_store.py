"""Faults of the memory store, and its checkpoints."""

import pytest

from muster_domain.errors import Transient
from muster_ledger.memory_store import Fault, MemoryShards, MemoryStore, Operation
from muster_ledger.store import (
    OUTBOX_START,
    Commit,
    Committed,
    Image,
    OutboxMessage,
    StaleVersion,
)

FIRST = Commit(
    shard="p00",
    epoch=1,
    expected_version=0,
    watermark=4,
    puts={"a": b"1"},
    outbox=(OutboxMessage(subject="s", message_id="m", body=b""),),
)


class Once:
    """Fails the first call of one operation."""

    def __init__(self, operation: Operation, fault: Fault) -> None:
        self.left = [(operation, fault)]

    def __call__(self, operation: Operation, shard: str) -> Fault | None:
        assert shard in ("p00", "")
        if self.left and self.left[0][0] is operation:
            return self.left.pop()[1]
        return None


@pytest.mark.parametrize(("fault", "version"), [(Fault.BEFORE, 0), (Fault.AFTER, 1)])
async def test_a_commit_whose_answer_is_lost_can_be_repeated(fault: Fault, version: int) -> None:
    store = MemoryStore(faults=Once(Operation.COMMIT, fault))
    await store.claim("p00", 1)

    with pytest.raises(Transient):
        await store.commit(FIRST)
    assert (await store.load("p00")).version == version

    assert await store.commit(FIRST) == Committed(1)
    assert len(await store.read_outbox("p00", OUTBOX_START, 10)) == 1


@pytest.mark.parametrize("operation", list(Operation))
async def test_every_call_can_fail(operation: Operation) -> None:
    store = MemoryStore(faults=Once(operation, Fault.BEFORE))
    calls = {
        Operation.CLAIM: lambda: store.claim("p00", 1),
        Operation.LOAD: lambda: store.load("p00"),
        Operation.COMMIT: lambda: store.commit(FIRST),
        Operation.READ_OUTBOX: lambda: store.read_outbox("p00", OUTBOX_START, 1),
        Operation.TRIM_OUTBOX: lambda: store.trim_outbox("p00", OUTBOX_START),
        Operation.PING: store.ping,
    }

    with pytest.raises(Transient, match=operation.name):
        await calls[operation]()
    await calls[operation]()
    await store.close()


async def test_owners_with_faults_of_their_own_share_one_truth() -> None:
    shards = MemoryShards()
    broken = MemoryStore(shards, faults=lambda _operation, _shard: Fault.AFTER)
    sound = MemoryStore(shards)

    with pytest.raises(Transient):
        await broken.claim("p00", 1)
    assert await sound.commit(FIRST) == Committed(1)


async def test_a_server_that_lost_its_last_second_has_what_it_had_before() -> None:
    shards = MemoryShards()
    shards.claim("p00", 1)
    shards.commit(FIRST)
    kept = shards.checkpoint()
    shards.claim("p00", 2)
    second = Commit(shard="p00", epoch=2, expected_version=1, watermark=5, deletes=("a",))
    shards.commit(second)
    shards.trim_outbox("p00", shards.read_outbox("p00", OUTBOX_START, 1)[0].position)

    shards.restore(kept)
    assert shards.load("p00") == Image(
        shard="p00", epoch=1, version=1, watermark=4, fields={"a": b"1"}
    )
    assert len(shards.read_outbox("p00", OUTBOX_START, 10)) == 1
    assert shards.commit(second) == StaleVersion(1)

    shards.claim("p00", 2)
    assert shards.commit(second) == Committed(2)
    shards.restore(kept)
    assert shards.load("p00").version == 1
