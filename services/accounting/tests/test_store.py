"""The database itself: how it becomes what the program needs, and what its silence means."""

import asyncio
from collections.abc import Iterator

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

from muster_accounting import schema
from muster_accounting.engine import migrate, open_engine
from muster_accounting.facts import Told
from muster_accounting.store import Progress, UsageStore
from muster_domain.errors import Conflict, NotFound, Transient
from muster_rating.attempts import Attempt
from muster_testing.postgres import PostgresServer

from .homes import Home, PostgresHome


async def prepared(home: Home) -> UsageStore:
    store = UsageStore(home.url)
    try:
        await store.prepare()
    except BaseException:
        await store.close()
        raise
    return store


async def run_sql(home: Home, *statements: str) -> None:
    engine = open_engine(home.url)
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(text(statement))
    await engine.dispose()


async def test_the_revisions_end_in_the_tables_that_the_program_knows(home: Home) -> None:
    def differences(connection: Connection) -> list[object]:
        migrate(connection)
        return compare_metadata(MigrationContext.configure(connection), schema.metadata)

    engine = open_engine(home.url)
    async with engine.begin() as connection:
        found = await connection.run_sync(differences)
    await engine.dispose()

    assert found == []


async def test_replicas_that_start_together_make_the_tables_once(home: Home) -> None:
    stores = await asyncio.gather(*(prepared(home) for _ in range(4)))
    claims = [await store.claim(1, 7) for store in stores]
    for store in stores:
        await store.close()

    assert claims == [Progress(objects_at_birth=7)] * 4


async def test_a_store_of_a_later_version_is_refused(home: Home) -> None:
    await (await prepared(home)).close()
    await run_sql(home, "UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(Conflict, match="later version"):
        await prepared(home)


async def test_tables_of_somebody_else_are_left_alone(home: Home) -> None:
    await run_sql(home, "CREATE TABLE theirs (id INTEGER)")

    with pytest.raises(Conflict, match="theirs"):
        await prepared(home)
    await run_sql(home, "INSERT INTO theirs (id) VALUES (1)")


@pytest.fixture
def doomed() -> Iterator[PostgresServer]:
    """A server that nobody else uses."""
    try:
        server = PostgresServer()
    except NotFound as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.mark.servers
async def test_a_database_that_is_away_is_asked_again(doomed: PostgresServer) -> None:
    home = PostgresHome(doomed)
    store = await prepared(home)
    try:
        await store.claim(1, 0)
        doomed.kill()
        try:
            with pytest.raises(Transient):
                await store.apply_facts(1, 5, 0, Told())
            with pytest.raises(Transient):
                await store.all_attempts()
        finally:
            doomed.restart()
        await store.apply_facts(1, 5, 0, Told())
        assert (await store.claim(2, 0)).events_sequence == 5
    finally:
        await store.close()


async def test_a_write_that_is_cancelled_leaves_nothing_locked(home: Home) -> None:
    """Whoever takes over writes at once, wherever the one before was cut off."""
    first, second = await prepared(home), await prepared(home)
    attempts = tuple(Attempt(workload_id="w", number=number) for number in range(1, 9))
    try:
        for epoch, steps in enumerate(range(40), 1):
            await first.claim(epoch, 0)
            write = asyncio.create_task(first.apply_facts(epoch, epoch, 0, Told(attempts=attempts)))
            for _ in range(steps):
                await asyncio.sleep(0)
            write.cancel()
            await asyncio.gather(write, return_exceptions=True)
            await second.claim(epoch, 0)
    finally:
        await first.close()
        await second.close()
