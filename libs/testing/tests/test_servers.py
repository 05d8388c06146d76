"""The servers and fixtures that other tests stand on."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from muster_domain.errors import NotFound
from muster_testing.containers import RedisContainerServer, docker_is_chosen
from muster_testing.servers import KillableServer, NatsServer, ValkeyServer

SECRET = "of/a:test"  # noqa: S105 - of a server that lives for one test


@pytest.mark.servers
def test_the_fixtures_are_running_servers(valkey: KillableServer, nats: KillableServer) -> None:
    assert urlsplit(valkey.url).scheme == "redis"
    assert talk(valkey.url, b"PING\r\n") == b"+PONG\r\n"
    assert urlsplit(nats.url).scheme == "nats"
    assert talk(nats.url, b"").startswith(b"INFO {")


@pytest.mark.servers
def test_a_killed_server_comes_back_at_its_address_with_its_data(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path) as valkey:
        url = valkey.url
        talk(url, b"SET a 1\r\n")
        valkey.kill()
        with pytest.raises(ConnectionRefusedError):
            talk(url, b"PING\r\n")
        valkey.restart()
        assert talk(valkey.url, b"GET a\r\n") == b"$1\r\n1\r\n"
    with pytest.raises(ConnectionRefusedError):
        talk(url, b"PING\r\n")


@pytest.mark.servers
def test_users_are_the_only_way_in(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path / "valkey", user="me", password=SECRET) as valkey:
        assert talk(valkey.url, b"PING\r\n").startswith(b"-NOAUTH")
        assert urlsplit(valkey.url).username == "me"
    accounts = 'authorization { user: me, password: "secret" }'
    with NatsServer(tmp_path / "nats", accounts=accounts, login="me:secret") as nats:
        assert b'"auth_required":true' in talk(nats.url, b"")
        assert nats.url.startswith("nats://me:secret@")


@pytest.mark.servers
def test_a_server_whose_port_was_taken_starts_at_another(tmp_path: Path) -> None:
    valkey = ValkeyServer(tmp_path)
    port = urlsplit(valkey.url).port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with valkey:
            assert urlsplit(valkey.url).port != port
            assert talk(valkey.url, b"PING\r\n") == b"+PONG\r\n"


def test_containers_are_used_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_TEST_ENGINE", raising=False)
    assert not docker_is_chosen()
    monkeypatch.setenv("MUSTER_TEST_ENGINE", "docker")
    assert docker_is_chosen()


def test_a_missing_engine_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotFound, match="no engine answers"):
        RedisContainerServer()


def talk(url: str, request: bytes) -> bytes:
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), 5) as connection:
        connection.sendall(request)
        return connection.recv(4096)
