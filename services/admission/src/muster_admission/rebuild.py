"""`python -m muster_admission.rebuild`: make the ledger anew from what the workloads hold.

For the case that stored holds and balances disagree, in which admission refuses to start. The
stored states of the workloads are the truth; holds and balances follow from them. Run it with
admission's own settings while admission is stopped.
"""

import asyncio
import sys

from muster_admission.settings import AdmissionSettings
from muster_contracts.partitions import PARTITIONS
from muster_contracts.stored import Record, records_of
from muster_domain.errors import Conflict
from muster_domain.states import Admitted, Evicting, Reserved
from muster_ledger.holds import BALANCE_PREFIX, HOLD_PREFIX, hold_id
from muster_ledger.model import Ledger
from muster_ledger.store import Commit, Committed, FencedOff, Store
from muster_runtime.storage import open_store


def main() -> None:
    """Rebuild every partition and say what was done."""
    asyncio.run(_rebuild_all(open_store(AdmissionSettings())))


async def _rebuild_all(store: Store) -> None:
    for partition in PARTITIONS:
        holds = await rebuild(store, partition)
        sys.stdout.write(f"{partition}: {holds} holds\n")
    await store.close()


async def rebuild(store: Store, partition: str) -> int:
    """Rebuild one partition's ledger; returns how many holds it has.

    Raises `Conflict` when somebody else writes the partition meanwhile.
    """
    found = await store.load(partition)
    image = await store.claim(partition, found.epoch)
    if isinstance(image, FencedOff):
        raise Conflict(f"{partition} belongs to epoch {image.epoch} now; stop admission first")
    ledger = ledger_of(records_of(image.fields))
    fields = {name: value for name, value in ledger.take_changes().items() if value is not None}
    stale = tuple(
        sorted(
            name
            for name in image.fields
            if name.startswith((HOLD_PREFIX, BALANCE_PREFIX)) and name not in fields
        )
    )
    result = await store.commit(
        Commit(
            shard=partition,
            epoch=image.epoch,
            expected_version=image.version,
            watermark=image.watermark,
            puts=fields,
            deletes=stale,
        )
    )
    if not isinstance(result, Committed):
        raise Conflict(f"{partition} was written by somebody else; stop admission first")
    return sum(1 for _ in ledger.holds())


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
