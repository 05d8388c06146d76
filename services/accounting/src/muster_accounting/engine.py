"""The database: how it is opened, brought up to date, and what its silence means."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Executable, Table, event, inspect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from muster_domain.errors import Conflict, Transient

P = ParamSpec("P")
T = TypeVar("T")

BUSY_TIMEOUT_MS = 5000
MIGRATION_TIMEOUT_MS = 60_000
"""So long a replica waits for another one that migrates."""
MIGRATIONS = "muster_accounting:migrations"
MIGRATION_LOCK = 0x6D757374
"""PostgreSQL's name of the lock under which one replica migrates and the others wait."""
VERSIONS = "alembic_version"


def open_engine(url: str) -> AsyncEngine:
    """The database at an address of SQLAlchemy; SQLite keeps a write-ahead log."""
    engine = create_async_engine(url, pool_pre_ping=True)
    if engine.dialect.name == "sqlite":

        def configure(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
            with suppress(
                sqlite3.OperationalError
            ):  # somebody else is at it; SQLite waits for none
                cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=NORMAL")
            cursor.close()

        event.listen(engine.sync_engine, "connect", configure)
    return engine


def migrate(connection: Connection) -> None:
    """Bring the tables up to the newest revision, one replica at a time. Raises `Conflict`."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA busy_timeout={MIGRATION_TIMEOUT_MS}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        connection.exec_driver_sql(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    else:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
    tables = inspect(connection).get_table_names()
    if tables and VERSIONS not in tables:
        raise Conflict(
            f"the store has tables ({', '.join(sorted(tables))}) and no revision of ours; move it "
            "away and it is rebuilt from the log"
        )
    config = Config()
    config.set_main_option("script_location", MIGRATIONS)
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise Conflict(f"the store is of a later version than this program: {error}") from error


def insert_new(connection: AsyncConnection, table: Table) -> Executable:
    """A statement that adds rows, and leaves alone those whose primary key is there."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table).on_conflict_do_nothing()
    return postgresql.insert(table).on_conflict_do_nothing()


def unbroken(
    write: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Awaitable[T]]:
    """A write that comes to its own end even where who asked for it is cancelled.

    A statement of SQLite that is left half read keeps the file locked until it is collected.
    """

    @wraps(write)
    async def to_its_end(*args: P.args, **kwargs: P.kwargs) -> T:
        task = asyncio.create_task(write(*args, **kwargs))
        try:
            return await asyncio.shield(task)
        finally:
            if not task.done():
                await asyncio.wait([task])

    return to_its_end


@asynccontextmanager
async def answering() -> AsyncGenerator[None, None]:
    """What is done inside asks the database. Raises `Transient` where it does not answer."""
    try:
        yield
    except (OperationalError, InterfaceError, OSError) as error:
        raise Transient(f"the store does not answer: {error}") from error
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        raise Transient(f"the store does not answer: {error}") from error
