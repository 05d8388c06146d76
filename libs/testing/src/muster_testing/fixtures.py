"""Servers as pytest fixtures: a plugin that the root `conftest.py` loads.

Embedded by default; with `MUSTER_TEST_ENGINE=docker` and an engine that has the images, from
containers. Both live as long as the session and are shared: use a shard or stream of your own.
"""

from collections.abc import Iterator

import pytest

from muster_domain.errors import NotFound
from muster_testing.containers import NatsContainerServer, RedisContainerServer, docker_is_chosen
from muster_testing.postgres import PostgresServer
from muster_testing.servers import KillableServer, NatsServer, ValkeyServer


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableServer]:
    """Valkey, or Redis from a container."""
    if docker_is_chosen():
        with RedisContainerServer() as server:
            yield server
        return
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableServer]:
    """NATS with JetStream."""
    if docker_is_chosen():
        with NatsContainerServer() as server:
            yield server
        return
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """PostgreSQL; skips where the machine has none."""
    try:
        server = PostgresServer()
    except NotFound as error:
        pytest.skip(str(error))
    with server:
        yield server
