"""`python -m muster_accounting.rebuild URL`: make the books anew from the log, and compare.

The log alone is read: facts, and accounting's own notes of what was declared when. The new books
are written to an empty store at URL; those of the service are only looked at. Ends with 1 where
the two differ in anything that the log still holds.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from muster_accounting.bookkeeper import newest_ms, read_facts
from muster_accounting.facts import INPUTS, told
from muster_accounting.notes import NOTES, noted
from muster_accounting.settings import AccountingSettings
from muster_accounting.store import ObjectVersion, UsageStore
from muster_contracts.streams import EVENTS
from muster_contracts.subjects import Service
from muster_domain.errors import Transient
from muster_runtime.bus import Bus
from muster_runtime.reader import Received
from muster_runtime.visiting import visiting

EPOCH = 1
BATCH = 1_000
SILENCE_S = 10.0
SHOWN_MAX = 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How many rows were made anew, and every one that the kept books lack or have otherwise."""

    rows: int
    differences: tuple[str, ...]


async def rebuild(bus: Bus, fresh: UsageStore) -> None:
    """Fill an empty store from the log. Raises `Transient`, and `Fenced` for one in use."""
    await fresh.prepare()
    versions: dict[int, ObjectVersion] = {}
    at_birth = 0
    async for batch in _read(bus, (NOTES,)):
        for received in batch:
            version, from_beginning = noted(received.body)
            versions.setdefault(version.sequence, version)
            at_birth = max(at_birth, version.sequence if from_beginning else 0)
    await fresh.claim(EPOCH, at_birth)
    ordered = [versions[sequence] for sequence in sorted(versions)]
    if ordered:
        await fresh.apply_objects(EPOCH, ordered[-1].sequence, ordered)
    until_ms = 0
    async for batch in _read(bus, INPUTS):
        facts, _ = read_facts(batch)
        until_ms = max([until_ms, *(newest_ms(fact) for fact in facts)])
        await fresh.apply_facts(EPOCH, batch[-1].sequence, until_ms, told(facts))


async def compare(kept: UsageStore, fresh: UsageStore) -> Comparison:
    """Hold the kept books against those made anew; they may have more. Raises `Transient`."""
    found: list[str] = []
    rows = 0
    for name, read, key in _TABLES:
        anew = await read(fresh)
        known = {key(row): row for row in await read(kept)}
        rows += len(anew)
        found += [
            f"{name} {key(row)}: {known.get(key(row), 'missing')} instead of {row}"
            for row in anew
            if known.get(key(row)) != row
        ]
    return Comparison(rows=rows, differences=tuple(found))


_Read = Callable[[UsageStore], Any]
_TABLES: tuple[tuple[str, _Read, Callable[[Any], object]], ...] = (
    ("attempt", lambda store: store.all_attempts(), lambda row: row.key),
    ("node", lambda store: store.node_facts(), lambda row: row.id),
    ("request", lambda store: store.all_token_uses(), lambda row: row.request_id),
    ("observation", lambda store: store.all_observations(), lambda row: row.key),
    ("object", lambda store: store.object_versions(), lambda row: row.sequence),
)


async def _read(bus: Bus, subjects: Iterable[str]) -> AsyncIterator[list[Received]]:
    """What the log holds now on some subjects, in order, in batches."""
    filters = tuple(subjects)
    newest = [last.sequence for each in filters if (last := await bus.last(EVENTS.name, each))]
    if not newest:
        return
    reader = bus.read(EVENTS.name, filters, after=0)
    try:
        reached = 0
        while reached < max(newest):
            batch = await reader.next_batch(BATCH, SILENCE_S)
            if not batch:
                raise Transient(f"{EVENTS.name} delivers nothing for {SILENCE_S} s")
            reached = batch[-1].sequence
            yield batch
    finally:
        await reader.close()


async def _run(url: str) -> int:
    settings = AccountingSettings()
    fresh, kept = UsageStore(url), UsageStore(settings.accounting_url)
    try:
        async with visiting(settings, Service.ACCOUNTING) as bus:
            await rebuild(bus, fresh)
        await kept.prepare()
        found = await compare(kept, fresh)
    finally:
        await fresh.close()
        await kept.close()
    for line in found.differences[:SHOWN_MAX]:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{found.rows} rows made anew, {len(found.differences)} differ\n")
    return 1 if found.differences else 0


def main() -> None:
    """Rebuild, compare, say what differs."""
    parser = argparse.ArgumentParser(prog="python -m muster_accounting.rebuild")
    parser.add_argument("url", help="SQLAlchemy address of an empty store for the new books")
    sys.exit(asyncio.run(_run(parser.parse_args().url)))


if __name__ == "__main__":
    main()
