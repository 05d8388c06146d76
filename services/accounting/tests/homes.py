"""Where the books of a test are: a file, or a database of a server."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from muster_testing.postgres import PostgresServer

_NUMBERS = itertools.count(1)


class Home(Protocol):
    """One store, empty at first."""

    @property
    def url(self) -> str:
        """Its address."""
        ...

    def another(self) -> "Home":
        """A second one of the kind, empty too."""
        ...


@dataclass(frozen=True)
class SqliteHome:
    """A file."""

    folder: Path
    number: int = field(default_factory=lambda: next(_NUMBERS))

    @property
    def url(self) -> str:
        return f"sqlite+aiosqlite:///{self.folder / f'books-{self.number}.db'}"

    def another(self) -> Home:
        return SqliteHome(self.folder)


@dataclass
class PostgresHome:
    """A database."""

    server: PostgresServer
    url: str = ""

    def __post_init__(self) -> None:
        self.url = self.server.database(f"books_{next(_NUMBERS)}")

    def another(self) -> Home:
        return PostgresHome(self.server)
