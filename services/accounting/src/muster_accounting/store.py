"""The store of usage, in SQL: what was applied and how far, always in one transaction.

Every change names the epoch of the writer's lease. A writer whose lease has gone to somebody else
changes nothing.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    Executable,
    Select,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from muster_accounting import schema
from muster_accounting.engine import answering, insert_new, migrate, open_engine, unbroken
from muster_accounting.facts import Told
from muster_accounting.observation_rows import merge_observations, observation_of
from muster_accounting.rollup_rows import roll_of, roll_row
from muster_accounting.rows import attempt_of, attempt_row, node_fact_of, node_fact_row
from muster_accounting.statement_rows import statement_of, statement_row
from muster_accounting.token_rows import token_sum_of, token_use_of, token_use_row
from muster_contracts import codec
from muster_contracts.tokens import TokenPriceDrifted
from muster_domain.errors import Fenced, Transient
from muster_domain.tokens import TokenUse
from muster_rating.attempts import Attempt
from muster_rating.capacity import NodeFact
from muster_rating.observations import Observation
from muster_rating.prices import ALWAYS_MS
from muster_rating.rollups import Roll
from muster_rating.statements import Statement
from muster_rating.tokens import TokenSum
from muster_rating.windows import Window

SHARD = "accounting"
KEYS_MAX = 200
"""Keys in one statement; SQLite takes a bounded number of parameters."""
READERS_MAX = 4
FAR_MS = 2**62
"""After everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far each stream is applied, and the time of the newest fact."""

    events_sequence: int = 0
    objects_sequence: int = 0
    objects_at_birth: int = 0
    facts_until_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectVersion:
    """One version of a declared object as it came over the bus."""

    sequence: int
    at_ms: int
    subject: str
    type: str
    body: bytes


@dataclass(slots=True)
class Watch:
    """`from_ms`: nothing before it has changed since the watch began."""

    from_ms: int = FAR_MS


class UsageStore:
    """Reads and writes the tables. One writer at a time, any number of readers."""

    def __init__(self, url: str) -> None:
        self._engine = open_engine(url)
        self._writing = asyncio.Lock()
        self._reading = asyncio.Semaphore(READERS_MAX)
        self._closed = False
        self._watch = Watch()

    async def prepare(self) -> None:
        """Bring the tables up to the newest revision.

        Raises `Conflict` for tables that a later version made, or that nobody migrated, and
        `Transient`.
        """
        async with answering(), self._engine.begin() as connection:
            await connection.run_sync(migrate)

    async def close(self) -> None:
        """Wait for what is under way, then let go of all connections."""
        self._closed = True
        async with self._writing:
            for _ in range(READERS_MAX):
                await self._reading.acquire()
            await self._engine.dispose()
            for _ in range(READERS_MAX):
                self._reading.release()

    @unbroken
    async def claim(self, epoch: int, objects_there: int) -> Progress:
        """Become the writer. `objects_there` is the last declared object at this moment.

        Raises `Fenced` where a later epoch has written, `Transient`.
        """
        table = schema.progress
        async with self._transaction() as connection:
            await connection.execute(
                insert_new(connection, table),
                {
                    "shard": SHARD,
                    "epoch": epoch,
                    "events_sequence": 0,
                    "objects_sequence": 0,
                    "objects_at_birth": objects_there,
                    "facts_until_ms": 0,
                },
            )
            await _fence(connection, epoch, {})
            row = (await connection.execute(select(table))).mappings().one()
            return Progress(
                events_sequence=row["events_sequence"],
                objects_sequence=row["objects_sequence"],
                objects_at_birth=row["objects_at_birth"],
                facts_until_ms=row["facts_until_ms"],
            )

    @unbroken
    async def apply_facts(
        self, epoch: int, sequence: int, until_ms: int, told: Told
    ) -> list[Attempt]:
        """Merge facts and move the watermark to `sequence`; returns the attempts as they are now.

        The same facts again change nothing. Raises `Fenced`, `Transient`.
        """
        async with self._transaction() as connection:
            await _fence(
                connection, epoch, {"events_sequence": sequence, "facts_until_ms": until_ms}
            )
            known, merged = await _merge_attempts(connection, told.attempts)
            await _add_node_facts(connection, told.nodes)
            await _add_token_uses(connection, told.uses)
            observed = await merge_observations(connection, told.observations)
            since = [changed_from(known.get(attempt.key), attempt) for attempt in merged]
            since += [fact.at_ms for fact in told.nodes]
            since += [one.hour_ms for one in observed]
            await self._forget_rolls(connection, since)
            return merged

    @unbroken
    async def apply_objects(
        self, epoch: int, sequence: int, versions: Sequence[ObjectVersion]
    ) -> None:
        """Keep versions of objects and move their watermark. Raises `Fenced`, `Transient`."""
        async with self._transaction() as connection:
            await _fence(connection, epoch, {"objects_sequence": sequence})
            await _add_objects(connection, versions)
            born = (await connection.execute(select(schema.progress.c.objects_at_birth))).scalar()
            since = [ALWAYS_MS if v.sequence <= (born or 0) else v.at_ms for v in versions]
            await self._forget_rolls(connection, since)

    async def watch_changes(self) -> "Watch":
        """From now on, see from when on anything changes. Only the last watch is kept."""
        async with self._writing:
            self._watch = Watch()
            return self._watch

    @unbroken
    async def add_rolls(self, epoch: int, rolls: Sequence[Roll], watch: "Watch") -> int:
        """Keep rolls, unless what they were made from has changed since; returns how many.

        Raises `Fenced`, `Transient`.
        """
        rows = await asyncio.to_thread(lambda: [roll_row(roll) for roll in rolls])
        async with self._transaction() as connection:
            await _fence(connection, epoch, {})
            if any(roll.window.end_ms > watch.from_ms for roll in rolls):
                return 0
            if rows:
                await connection.execute(insert_new(connection, schema.rollups), rows)
            return len(rows)

    async def rolled_windows(self, window: Window) -> list[Window]:
        """Every window inside that has a roll, in order. Raises `Transient`."""
        table = schema.rollups
        query = (
            select(table.c.start_ms, table.c.end_ms)
            .where(table.c.start_ms >= window.start_ms, table.c.end_ms <= window.end_ms)
            .order_by(table.c.start_ms, table.c.end_ms)
        )
        return [Window(row["start_ms"], row["end_ms"]) for row in await self._rows(query)]

    async def rolls(self, windows: Sequence[Window]) -> list[Roll]:
        """The rolls of windows, in order; one that is gone meanwhile is left out.

        Raises `Transient`.
        """
        table = schema.rollups
        rows: list[Any] = []
        for start in range(0, len(windows), KEYS_MAX):
            keys = [(w.start_ms, w.end_ms) for w in windows[start : start + KEYS_MAX]]
            query = select(table).where(tuple_(table.c.start_ms, table.c.end_ms).in_(keys))
            rows += await self._rows(query.order_by(table.c.start_ms))
        return await asyncio.to_thread(lambda: [roll_of(row) for row in rows])

    async def first_opening_ms(self) -> int | None:
        """When the first attempt was opened. Raises `Transient`."""
        (row,) = await self._rows(select(func.min(schema.attempts.c.opened_ms).label("first_ms")))
        return row["first_ms"]

    async def _forget_rolls(self, connection: AsyncConnection, since: Sequence[int]) -> None:
        if not since:
            return
        from_ms = min(since)
        self._watch.from_ms = min(self._watch.from_ms, from_ms)
        await connection.execute(delete(schema.rollups).where(schema.rollups.c.end_ms > from_ms))

    async def attempts_in(self, window: Window) -> list[Attempt]:
        """Every attempt that may have held something in the window. Raises `Transient`.

        Those that follow an attempt whose end is not known come with it, since they bound it.
        """
        table, following = schema.attempts, schema.attempts.alias()
        inside = select(table).where(
            table.c.opened_ms < window.end_ms,
            or_(table.c.closed_ms.is_(None), table.c.closed_ms > window.start_ms),
        )
        bounding = (
            select(following)
            .join(table, table.c.workload_id == following.c.workload_id)
            .where(table.c.closed_ms.is_(None), following.c.number > table.c.number)
        )
        found = {attempt.key: attempt for attempt in await self._attempts(inside)}
        for attempt in await self._attempts(bounding):
            found.setdefault(attempt.key, attempt)
        return [found[key] for key in sorted(found)]

    async def statements(self, zone: str) -> list[Statement]:
        """The statements that were issued for months of a zone, in order. Raises `Transient`."""
        table = schema.statements
        rows = await self._rows(select(table).where(table.c.zone == zone).order_by(table.c.number))
        return [statement_of(row) for row in rows]

    @unbroken
    async def add_statement(self, epoch: int, zone: str, statement: Statement) -> None:
        """Keep a statement for ever. The same number again changes nothing.

        Raises `Fenced`, `Transient`.
        """
        async with self._transaction() as connection:
            await _fence(connection, epoch, {})
            row = statement_row(zone, statement)
            await connection.execute(insert_new(connection, schema.statements), row)

    async def open_attempts(self) -> list[Attempt]:
        """Every attempt whose end is not known. Raises `Transient`."""
        return await self._attempts(
            select(schema.attempts).where(schema.attempts.c.closed_ms.is_(None))
        )

    async def all_attempts(self) -> list[Attempt]:
        """Everything, in order. Raises `Transient`."""
        table = schema.attempts
        return await self._attempts(select(table).order_by(table.c.workload_id, table.c.number))

    async def node_facts(self) -> list[NodeFact]:
        """Everything known of nodes, by node and time. Raises `Transient`."""
        table = schema.node_facts
        rows = await self._rows(select(table).order_by(table.c.node, table.c.at_ms, table.c.id))
        return [node_fact_of(row) for row in rows]

    async def token_sums(self, window: Window) -> list[TokenSum]:
        """Token use in a window, summed over requests that are alike. Raises `Transient`."""
        table = schema.token_uses
        alike = [
            table.c[name]
            for name in ("model", "namespace", "team", "key_hash", "user_name", "tags")
        ]
        query = (
            select(
                *alike,
                func.count().label("requests"),
                func.sum(table.c.prompt_tokens).label("prompt_tokens"),
                func.sum(table.c.completion_tokens).label("completion_tokens"),
                func.coalesce(func.sum(table.c.reported_nanos), 0).label("reported_nanos"),
            )
            .where(table.c.at_ms >= window.start_ms, table.c.at_ms < window.end_ms)
            .group_by(*alike)
            .order_by(*alike)
        )
        return [token_sum_of(row, window) for row in await self._rows(query)]

    async def drift_words(self) -> dict[TokenPriceDrifted, bool]:
        """The last word about each model, and whether the log has it. Raises `Transient`."""
        table = schema.drift_words
        rows = await self._rows(select(table).order_by(table.c.namespace, table.c.model))
        return {codec.decode(TokenPriceDrifted, row["body"]): bool(row["said"]) for row in rows}

    @unbroken
    async def keep_drift_words(
        self, epoch: int, words: Iterable[TokenPriceDrifted], *, said: bool
    ) -> None:
        """Keep words, each in the place of the one before. Raises `Fenced`, `Transient`."""
        table = schema.drift_words
        async with self._transaction() as connection:
            await _fence(connection, epoch, {})
            for word in words:
                of_model = (table.c.namespace == word.namespace, table.c.model == word.model)
                await connection.execute(delete(table).where(*of_model))
                row = {
                    "namespace": word.namespace,
                    "model": word.model,
                    "body": codec.encode(word),
                    "said": int(said),
                }
                await connection.execute(insert(table), row)

    async def observations_in(self, window: Window) -> list[Observation]:
        """What was observed in the hours that begin in a window, by key. Raises `Transient`."""
        table = schema.observations
        inside = (table.c.hour_ms >= window.start_ms, table.c.hour_ms < window.end_ms)
        return await self._observations(select(table).where(*inside))

    async def all_observations(self) -> list[Observation]:
        """Everything that was observed, by key. Raises `Transient`."""
        return await self._observations(select(schema.observations))

    async def _observations(self, query: Select[Any]) -> list[Observation]:
        rows = await self._rows(query.order_by(*schema.observations.primary_key))
        return await asyncio.to_thread(lambda: [observation_of(row) for row in rows])

    async def all_token_uses(self) -> list[TokenUse]:
        """Every request, by id. Raises `Transient`."""
        table = schema.token_uses
        return [token_use_of(row) for row in await self._rows(select(table).order_by("request_id"))]

    async def objects_at_birth(self) -> int:
        """The last declared object when the books began; 0 for none yet. Raises `Transient`."""
        rows = await self._rows(select(schema.progress.c.objects_at_birth))
        return rows[0]["objects_at_birth"] if rows else 0

    async def object_versions(self, *, after: int = 0) -> list[ObjectVersion]:
        """Versions of declared objects after a sequence, in order. Raises `Transient`."""
        table = schema.objects
        rows = await self._rows(
            select(table).where(table.c.sequence > after).order_by(table.c.sequence)
        )
        return [ObjectVersion(**row) for row in rows]

    async def _attempts(self, query: Select[Any]) -> list[Attempt]:
        rows = await self._rows(query)
        return await asyncio.to_thread(lambda: [attempt_of(row) for row in rows])

    async def _rows(self, query: Executable) -> Sequence[Any]:
        async with answering(), self._reading:
            self._check_open()
            async with self._engine.connect() as connection:
                return (await connection.execute(query)).mappings().all()

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[AsyncConnection, None]:
        async with answering(), self._writing:
            self._check_open()
            async with self._engine.begin() as connection:
                yield connection

    def _check_open(self) -> None:
        if self._closed:
            raise Transient("the store is closed")


async def _fence(connection: AsyncConnection, epoch: int, changes: dict[str, int]) -> None:
    table = schema.progress
    moved = await connection.execute(
        update(table)
        .where(table.c.shard == SHARD, table.c.epoch <= epoch)
        .values(epoch=epoch, **changes)
    )
    if moved.rowcount == 0:
        raise Fenced(f"accounting belongs to a later epoch than {epoch}")


def changed_from(before: Attempt | None, after: Attempt) -> int:
    """From when on what is told of an attempt is another; `FAR_MS` where nothing is.

    That it was preempted makes what it held lost, from its seats or what it saved on.
    """
    old = before or Attempt(workload_id=after.workload_id, number=after.number)
    found = [
        part.at_ms
        for mine, other in (
            (old.opening, after.opening),
            (old.seating, after.seating),
            (old.closing, after.closing),
        )
        if mine != other
        for part in (mine, other)
        if part is not None
    ]
    found += [each.at_ms for each in {*old.resizes} ^ {*after.resizes}]
    if old.lost_from_ms != after.lost_from_ms and after.seating is not None:
        found.append(after.seating.at_ms)
    return min(found, default=FAR_MS)


async def _merge_attempts(
    connection: AsyncConnection, facts: Iterable[Attempt]
) -> tuple[dict[tuple[str, int], Attempt], list[Attempt]]:
    """What was known of the attempts, and what is known now."""
    told: dict[tuple[str, int], Attempt] = {}
    for fact in facts:
        before = told.get(fact.key)
        told[fact.key] = fact if before is None else before.merge(fact)
    known = await _known_attempts(connection, sorted(told))
    merged = {key: known[key].merge(fact) if key in known else fact for key, fact in told.items()}
    table = schema.attempts
    added = [attempt_row(merged[key]) for key in sorted(merged) if key not in known]
    changed = [merged[key] for key in sorted(known) if merged[key] != known[key]]
    if added:
        await connection.execute(insert(table), added)
    if changed:
        by_key = (
            table.c.workload_id == bindparam("of_id"),
            table.c.number == bindparam("of_number"),
        )
        rows = [
            {**attempt_row(attempt), "of_id": attempt.workload_id, "of_number": attempt.number}
            for attempt in changed
        ]
        await connection.execute(update(table).where(*by_key), rows)
    return known, [merged[key] for key in sorted(merged)]


async def _known_attempts(
    connection: AsyncConnection, keys: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], Attempt]:
    table = schema.attempts
    found: dict[tuple[str, int], Attempt] = {}
    for start in range(0, len(keys), KEYS_MAX):
        some = keys[start : start + KEYS_MAX]
        query = select(table).where(tuple_(table.c.workload_id, table.c.number).in_(some))
        for row in (await connection.execute(query)).mappings():
            attempt = attempt_of(row)
            found[attempt.key] = attempt
    return found


async def _add_node_facts(connection: AsyncConnection, facts: Iterable[NodeFact]) -> None:
    rows = [node_fact_row(fact) for fact in facts]
    if rows:
        await connection.execute(insert_new(connection, schema.node_facts), rows)


async def _add_token_uses(connection: AsyncConnection, uses: Iterable[TokenUse]) -> None:
    rows = [token_use_row(use) for use in uses]
    if rows:
        await connection.execute(insert_new(connection, schema.token_uses), rows)


async def _add_objects(connection: AsyncConnection, versions: Iterable[ObjectVersion]) -> None:
    rows = [asdict(version) for version in versions]
    if rows:
        await connection.execute(insert_new(connection, schema.objects), rows)
