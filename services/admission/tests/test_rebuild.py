"""What follows from workloads and from the log is what admission kept."""

import asyncio

import pytest

from muster_admission.rebuild import books_of, rebuild
from muster_contracts import codec, subjects
from muster_contracts.books import BooksKept, Told, note
from muster_contracts.budgets import ACCOUNT_FIELD, HOLD_FIELD, HOME_FIELD
from muster_contracts.envelope import MESSAGE_ID
from muster_contracts.partitions import PARTITIONS
from muster_contracts.stored import USE_FIELD
from muster_domain.errors import InvalidValue
from muster_ledger.holds import BALANCE_PREFIX, HOLD_PREFIX
from muster_ledger.memory_store import MemoryStore
from muster_ledger.model import Ledger
from muster_ledger.store import OUTBOX_READ_MAX, OUTBOX_START, Commit
from muster_ledger.verify import verify
from muster_simulation.run import Run
from muster_simulation.swarm import draw
from muster_simulation.terms import with_terms

SEED = 14
"""A seed whose LocalQueues take turns, and that has budgets."""
MIDDAY_MS = 45_000


@pytest.fixture
def house() -> Run:
    """A house in the middle of its work."""
    house = Run(SEED, with_terms(draw(SEED), SEED))
    for node in house.nodes:
        node.start()
    for job in house.scenario.jobs:
        house.plan(job)
    house.world.run(house.world.now_ms + MIDDAY_MS)
    return house


@pytest.fixture
def store(house: Run) -> MemoryStore:
    return MemoryStore(house.world.shards)


def told(house: Run, partition: str) -> Told:
    """What the log says, and the outbox, which the log will say."""
    subject = subjects.books_kept(partition)
    said = {
        message.headers[MESSAGE_ID]: message.body
        for message in house.world.log.messages
        if message.subject == subject
    }
    for entry in house.world.shards.read_outbox(partition, OUTBOX_START, OUTBOX_READ_MAX):
        if entry.message.subject == subject:
            said.setdefault(entry.message.message_id, entry.message.body)
    found: Told = {}
    for body in said.values():
        note(found, codec.decode(BooksKept, body))
    return found


def live_holds(store: MemoryStore) -> dict[str, int]:
    """Milli-units of every live hold."""
    holds: dict[str, int] = {}
    for partition in PARTITIONS:
        image = store.shards.load(partition)
        for hold in Ledger.from_fields(image.fields).holds():
            holds[hold.id] = sum(hold.amounts.values())
    return holds


def all_books(store: MemoryStore) -> dict[str, dict[str, bytes]]:
    return {name: books_of(store.shards.load(name).fields) for name in PARTITIONS}


def spoil(store: MemoryStore, partition: str, puts: dict[str, bytes], *lost: str) -> None:
    image = store.shards.load(partition)
    store.shards.commit(
        Commit(
            shard=partition,
            epoch=image.epoch,
            expected_version=image.version,
            watermark=image.watermark,
            puts=puts,
            deletes=lost,
        )
    )


def test_a_rebuilt_ledger_holds_what_the_old_one_held(house: Run, store: MemoryStore) -> None:
    before, books = live_holds(store), all_books(store)
    assert before, "nothing is held at midday"
    rebuilt = [asyncio.run(rebuild(store, name, told(house, name))) for name in PARTITIONS]
    assert live_holds(store) == before
    assert sum(one.holds for one in rebuilt) == len(before)
    assert all_books(store) == books
    assert {one.mended + one.untold for one in rebuilt} == {()}


def test_a_ledger_that_contradicts_itself_is_made_good(house: Run, store: MemoryStore) -> None:
    partition = next(p for p in PARTITIONS if live_balances(store, p))
    before = live_holds(store)
    fields = store.shards.load(partition).fields
    lost = next(name for name in fields if name.startswith(HOLD_PREFIX))
    spoil(store, partition, {live_balances(store, partition)[0]: b"[1,2]"}, lost)
    with pytest.raises(InvalidValue):
        Ledger.from_fields(store.shards.load(partition).fields)
    asyncio.run(rebuild(store, partition, told(house, partition)))
    assert live_holds(store) == before
    assert verify(store.shards.load(partition).fields) == ()


@pytest.mark.parametrize("kind", [USE_FIELD, ACCOUNT_FIELD, HOLD_FIELD, HOME_FIELD])
def test_books_that_are_lost_or_otherwise_are_named_and_made_anew_from_the_log(
    house: Run, store: MemoryStore, kind: str
) -> None:
    before = all_books(store)
    partition, lost, *more = next(
        (partition, *names)
        for partition, fields in before.items()
        if (names := sorted(name for name in fields if name.startswith(kind)))
    )
    other = more[:1]
    spoil(store, partition, dict.fromkeys(other, b"{}") | {f"{kind}never": b"{}"}, lost)
    rebuilt = asyncio.run(rebuild(store, partition, told(house, partition)))
    assert rebuilt.mended == tuple(sorted([lost, *other]))
    assert rebuilt.untold == (f"{kind}never",)
    assert all_books(store) == {
        **before,
        partition: {**before[partition], f"{kind}never": b"{}"},
    }


def live_balances(store: MemoryStore, partition: str) -> list[str]:
    """Fields of the partition's balances."""
    return sorted(
        name for name in store.shards.load(partition).fields if name.startswith(BALANCE_PREFIX)
    )
