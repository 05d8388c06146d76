from pathlib import Path

import pytest

from muster_testing.fixtures import nats, postgres

from .homes import Home, PostgresHome, SqliteHome

__all__ = ["nats", "postgres"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.servers)])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """Where books are kept: whatever holds in one database has to hold in the other."""
    if request.param == "sqlite":
        return SqliteHome(tmp_path)
    return PostgresHome(request.getfixturevalue("postgres"))
