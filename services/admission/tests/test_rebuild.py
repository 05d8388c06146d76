"""The ledger that follows from the workloads' states is the one that admission kept."""

import asyncio

import pytest

from muster_admission.rebuild import rebuild
from muster_contracts.partitions import PARTITIONS
from muster_domain.errors import InvalidValue
from muster_ledger.holds import BALANCE_PREFIX, HOLD_PREFIX
from muster_ledger.memory_store import MemoryStore
from muster_ledger.model import Ledger
from muster_ledger.store import Commit
from muster_ledger.verify import verify
from muster_simulation.run import Run
from muster_simulation.swarm import draw

SEED = 11
MIDDAY_MS = 45_000


@pytest.fixture
def store() -> MemoryStore:
    """The stores of a house in the middle of its work."""
    house = Run(SEED, draw(SEED))
    for node in house.nodes:
        node.start()
    for job in house.scenario.jobs:
        house.plan(job)
    house.world.run(house.world.now_ms + MIDDAY_MS)
    return MemoryStore(house.world.shards)


def live_holds(store: MemoryStore) -> dict[str, int]:
    """Milli-units of every live hold."""
    holds: dict[str, int] = {}
    for partition in PARTITIONS:
        image = store.shards.load(partition)
        for hold in Ledger.from_fields(image.fields).holds():
            holds[hold.id] = sum(hold.amounts.values())
    return holds


def test_a_rebuilt_ledger_holds_what_the_old_one_held(store: MemoryStore) -> None:
    before = live_holds(store)
    assert before, "nothing is held at midday"
    rebuilt = sum(asyncio.run(rebuild(store, partition)) for partition in PARTITIONS)
    assert live_holds(store) == before
    assert rebuilt == len(before)


def test_a_ledger_that_contradicts_itself_is_made_good(store: MemoryStore) -> None:
    partition = next(p for p in PARTITIONS if live_balances(store, p))
    before = live_holds(store)
    image = store.shards.load(partition)
    spoilt = live_balances(store, partition)[0]
    lost = next(name for name in image.fields if name.startswith(HOLD_PREFIX))
    store.shards.commit(
        Commit(
            shard=partition,
            epoch=image.epoch,
            expected_version=image.version,
            watermark=image.watermark,
            puts={spoilt: b"[1,2]"},
            deletes=(lost,),
        )
    )
    with pytest.raises(InvalidValue):
        Ledger.from_fields(store.shards.load(partition).fields)
    asyncio.run(rebuild(store, partition))
    assert live_holds(store) == before
    assert verify(store.shards.load(partition).fields) == ()


def live_balances(store: MemoryStore, partition: str) -> list[str]:
    """Fields of the partition's balances."""
    return sorted(
        name for name in store.shards.load(partition).fields if name.startswith(BALANCE_PREFIX)
    )
