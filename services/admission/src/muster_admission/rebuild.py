"""`python -m muster_admission.rebuild`: make anew what follows from what is known, and compare.

For the case that admission refuses to start, or that the audit found a difference. The stored
states of the workloads are the truth; holds and balances follow from them. Use lately, claims,
budgets and tombstones follow from the log, and every field that was stored otherwise is named.
Run it with admission's own settings while admission is stopped. Ends with 1 where the two differed.
"""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from muster_admission.settings import AdmissionSettings
from muster_contracts import codec, subjects
from muster_contracts.books import BooksKept, Told, note, told_otherwise
from muster_contracts.envelope import MESSAGE_ID
from muster_contracts.partitions import PARTITIONS
from muster_contracts.stored import WORKLOAD_FIELD, Record, records_of
from muster_contracts.streams import EVENTS
from muster_contracts.subjects import Service
from muster_domain.errors import Conflict
from muster_domain.states import Admitted, Evicting, Reserved
from muster_ledger.holds import BALANCE_PREFIX, HOLD_PREFIX, hold_id
from muster_ledger.model import Ledger
from muster_ledger.store import (
    OUTBOX_READ_MAX,
    OUTBOX_START,
    Commit,
    Committed,
    FencedOff,
    OutboxMessage,
    Store,
)
from muster_runtime.bus import Bus
from muster_runtime.storage import open_store
from muster_runtime.visiting import visiting

_LEDGER = (HOLD_PREFIX, BALANCE_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What was made of a partition.

    `mended` are the fields that were not as the log says; `untold` those that it does not speak of,
    being older than what it keeps: they stay.
    """

    holds: int
    mended: tuple[str, ...]
    untold: tuple[str, ...]


def main() -> None:
    """Rebuild every partition and say what was done."""
    sys.exit(asyncio.run(_rebuild_all(AdmissionSettings())))


async def _rebuild_all(settings: AdmissionSettings) -> int:
    store = open_store(settings)
    differed = False
    try:
        async with visiting(settings, Service.ADMISSION) as bus:
            for partition in PARTITIONS:
                rebuilt = await rebuild(store, partition, await told_by(bus, store, partition))
                differed = differed or bool(rebuilt.mended)
                for name in rebuilt.mended:
                    sys.stdout.write(f"{partition}: {name} was not as the log says\n")
                for name in rebuilt.untold:
                    sys.stdout.write(f"{partition}: {name} is older than the log\n")
                sys.stdout.write(f"{partition}: {rebuilt.holds} holds\n")
    finally:
        await store.close()
    return 1 if differed else 0


async def told_by(bus: Bus, store: Store, partition: str) -> Told:
    """What the log says of a partition's books, and the outbox, which the log will say.

    A message that is there twice counts once. Raises `Transient`.
    """
    subject = subjects.books_kept(partition)
    told: Told = {}
    seen: set[str] = set()
    published = [
        (received.headers.get(MESSAGE_ID, ""), received.body)
        for received in await bus.read_to_end(EVENTS.name, subject)
    ]
    waiting = [
        (message.message_id, message.body)
        for message in await _outbox(store, partition)
        if message.subject == subject
    ]
    for identity, body in (*published, *waiting):
        if identity not in seen:
            seen.add(identity)
            note(told, codec.decode(BooksKept, body))
    return told


async def _outbox(store: Store, partition: str) -> list[OutboxMessage]:
    found: list[OutboxMessage] = []
    position = OUTBOX_START
    while entries := await store.read_outbox(partition, position, OUTBOX_READ_MAX):
        found += [entry.message for entry in entries]
        position = entries[-1].position
    return found


async def rebuild(store: Store, partition: str, told: Told) -> Rebuilt:
    """Rebuild one partition: its ledger from its workloads, and the rest as it was told.

    Raises `Conflict` when somebody else writes the partition meanwhile.
    """
    found = await store.load(partition)
    image = await store.claim(partition, found.epoch)
    if isinstance(image, FencedOff):
        raise Conflict(f"{partition} belongs to epoch {image.epoch} now; stop admission first")
    ledger = ledger_of(records_of(image.fields))
    changes = {**dict.fromkeys(_of_ledger(image.fields)), **ledger.take_changes()}
    differing = told_otherwise(told, books_of(image.fields))
    mended = tuple(name for name in differing if name in told)
    changes |= {name: told[name] for name in mended}
    result = await store.commit(
        Commit(
            shard=partition,
            epoch=image.epoch,
            expected_version=image.version,
            watermark=image.watermark,
            puts={name: value for name, value in changes.items() if value is not None},
            deletes=tuple(sorted(name for name, value in changes.items() if value is None)),
        )
    )
    if not isinstance(result, Committed):
        raise Conflict(f"{partition} was written by somebody else; stop admission first")
    return Rebuilt(
        holds=sum(1 for _ in ledger.holds()),
        mended=mended,
        untold=tuple(name for name in differing if name not in told),
    )


def books_of(fields: Mapping[str, bytes]) -> dict[str, bytes]:
    """What a partition stores beside the states of its workloads and the ledger."""
    apart = (WORKLOAD_FIELD, *_LEDGER)
    return {name: value for name, value in fields.items() if not name.startswith(apart)}


def _of_ledger(fields: Mapping[str, bytes]) -> list[str]:
    return [name for name in fields if name.startswith(_LEDGER)]


def ledger_of(records: dict[str, Record]) -> Ledger:
    """The ledger that follows from the states of the workloads."""
    ledger = Ledger()
    for identity, record in sorted(records.items()):
        state = record.state
        if not isinstance(state, Reserved | Admitted | Evicting):
            continue
        hold = hold_id(identity, state.attempt)
        ledger.reserve(hold, state.admission.cluster_queue, state.admission.usage, None)
        if not isinstance(state, Reserved):
            ledger.post(hold)
    return ledger


if __name__ == "__main__":
    main()
