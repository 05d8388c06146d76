"""What was observed of devices: to rows and back, and merged with what is known."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from sqlalchemy import insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from muster_accounting import schema
from muster_accounting.rows import Row
from muster_rating.observations import Observation, ObservationKey

KEYS_MAX = 100
"""Keys in one statement; each has five parts, and SQLite takes a bounded number of them."""

_table = schema.observations
_key = (
    _table.c.hour_ms,
    _table.c.workload_id,
    _table.c.number,
    _table.c.node,
    _table.c.resource,
)


def observation_of(row: Row) -> Observation:
    """The observation of a row."""
    return Observation(**row)


async def merge_observations(
    connection: AsyncConnection, told: Iterable[Observation]
) -> list[Observation]:
    """Merge what is told into what is known; returns what it changed, as it is now."""
    ordered = list(told)
    known = await _known(connection, sorted({one.key for one in ordered}))
    merged = dict(known)
    for one in ordered:
        before = merged.get(one.key)
        merged[one.key] = one if before is None else before.merge(one)
    added = [merged[key] for key in sorted(merged) if key not in known]
    changed = [merged[key] for key in sorted(known) if merged[key] != known[key]]
    if added:
        await connection.execute(insert(_table), [asdict(one) for one in added])
    for one in changed:
        of_key = [column == part for column, part in zip(_key, one.key, strict=True)]
        values = {"minutes": one.minutes, "observed": one.observed, "busy": one.busy}
        await connection.execute(update(_table).where(*of_key).values(values))
    return [*added, *changed]


async def _known(
    connection: AsyncConnection, keys: Sequence[ObservationKey]
) -> dict[ObservationKey, Observation]:
    found: dict[ObservationKey, Observation] = {}
    for start in range(0, len(keys), KEYS_MAX):
        some = keys[start : start + KEYS_MAX]
        query = select(_table).where(tuple_(*_key).in_(some))
        for row in (await connection.execute(query)).mappings():
            one = observation_of(row)
            found[one.key] = one
    return found
