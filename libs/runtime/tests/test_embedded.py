"""Servers as child processes: found, configured, started, killed, started again."""

import http.client
import socket
import stat
from pathlib import Path

import pytest

from muster_domain.errors import NotFound
from muster_runtime.embedded import (
    DEFAULT_USER_OFF,
    LOOPBACK,
    PORTS,
    EmbeddedServer,
    EmbeddedServerError,
    NatsConfig,
    NatsProbe,
    RedisConfig,
    RedisProbe,
    _find,
    find_nats_server,
    find_redis_server,
    free_ports,
    nats_server,
    redis_server,
)

PASSWORD = "p:w/é$1"  # noqa: S105 - of a server that lives for one test


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\nexit 3\n")
    path.chmod(0o755)
    return path


def test_the_environment_goes_before_the_wheel_and_the_wheel_before_the_path(
    tmp_path: Path,
) -> None:
    chosen, wheel = program(tmp_path / "chosen"), program(tmp_path / "wheel")
    (tmp_path / "bin").mkdir()
    on_path = program(tmp_path / "bin" / "serverd")
    path = {"PATH": str(tmp_path / "bin")}
    names = ("absent", "serverd")

    def find(wheel: Path | None, environment: dict[str, str]) -> Path:
        return _find("CHOSEN", wheel, names, "a-wheel", environment)

    assert find(wheel, {"CHOSEN": str(chosen), **path}) == chosen
    assert find(wheel, path) == wheel
    assert find(tmp_path / "not-there", path) == on_path
    assert find(None, path) == on_path
    with pytest.raises(NotFound, match=r"install the a-wheel wheel.*serverd.*or set CHOSEN"):
        find(None, {"PATH": str(tmp_path)})
    with pytest.raises(NotFound, match=r"CHOSEN=.*not-there is not a program"):
        find(wheel, {"CHOSEN": str(tmp_path / "not-there")})


def test_both_wheels_are_found_without_a_path() -> None:
    assert find_nats_server({}).name == "nats-server"
    assert find_redis_server({}).name == "valkey-server"


def test_free_ports_differ_and_can_be_bound() -> None:
    ports = free_ports(20)

    assert len(set(ports)) == 20
    assert all(port in PORTS for port in ports)
    for port in ports:
        with socket.socket() as listener:
            listener.bind((LOOPBACK, port))


@pytest.mark.servers
def test_valkey_keeps_its_data_when_it_is_killed(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    acl = (DEFAULT_USER_OFF, f"user me on >{PASSWORD} ~* &* +@all")
    config = RedisConfig(folder=tmp_path, port=port, acl_lines=acl)
    server = redis_server(config, user="me", password=PASSWORD)
    server.start()
    try:
        first_pid = server.pid
        assert ask(port, "SET key value", PASSWORD) == b"+OK\r\n"
        server.kill()
        assert not server.running
        assert server.pid is None
        server.restart()
        assert server.pid not in (None, first_pid)
        assert ask(port, "GET key", PASSWORD) == b"$5\r\nvalue\r\n"
        assert not RedisProbe(port, "me", "wrong")()
        assert RedisProbe(port)()
    finally:
        server.stop()
    assert not RedisProbe(port)()
    assert stat.S_IMODE((tmp_path / "valkey.conf").stat().st_mode) == 0o600


@pytest.mark.servers
def test_nats_starts_with_users_and_is_ready_only_while_it_runs(tmp_path: Path) -> None:
    port, monitor_port = free_ports(2)
    accounts = """
    accounts {
      MUSTER: { jetstream: enabled, users: [ {user: muster, password: $EMBEDDED_PASSWORD} ] }
      SYS: { users: [ {user: sys, password: $EMBEDDED_PASSWORD} ] }
    }
    system_account: SYS
    """
    config = NatsConfig(folder=tmp_path, port=port, monitor_port=monitor_port, accounts=accounts)
    server = nats_server(config, environment={"EMBEDDED_PASSWORD": "secret"})
    probe = NatsProbe(monitor_port)
    assert not probe()
    server.start()
    try:
        server.start()
        assert probe()
        assert b'"auth_required":true' in greeting(port)
        assert b'"jetstream":true' in greeting(port)
        server.pause()
        with pytest.raises(OSError, match="timed out"):
            monitor(monitor_port)
        server.resume()
        assert monitor(monitor_port) == http.client.OK
    finally:
        server.stop()
    assert not probe()
    server.stop()
    server.kill()
    with pytest.raises(EmbeddedServerError):
        server.pause()


@pytest.mark.servers
def test_a_server_that_ends_at_once_says_why(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    server = redis_server(RedisConfig(folder=tmp_path, port=port, extra="no-such-setting 1"))

    with pytest.raises(EmbeddedServerError, match="no-such-setting"):
        server.start()
    assert not server.running


def test_an_answer_from_somebody_elses_server_is_not_taken_for_ours(tmp_path: Path) -> None:
    server = EmbeddedServer(command=("/bin/true",), folder=tmp_path, probe=lambda: False)
    with pytest.raises(EmbeddedServerError, match="ended at once"):
        server.start()

    def another_answers() -> bool:
        while server.running:
            pass
        return True

    server = EmbeddedServer(command=("/bin/true",), folder=tmp_path, probe=another_answers)
    with pytest.raises(EmbeddedServerError, match="ended at once"):
        server.start()


def test_a_server_that_is_never_ready_is_ended_at_the_deadline(tmp_path: Path) -> None:
    server = EmbeddedServer(
        command=("/bin/sleep", "60"), folder=tmp_path / "new", probe=lambda: False
    )

    with pytest.raises(EmbeddedServerError, match=r"not ready after 0\.1 s"):
        server.start(deadline_s=0.1)
    assert not server.running


def test_a_server_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap '' TERM; touch {ready}; while :; do /bin/sleep 0.05; done"
    server = EmbeddedServer(command=("/bin/sh", "-c", script), folder=tmp_path, probe=ready.exists)
    server.start()

    server.stop(deadline_s=0.1)
    assert not server.running


def ask(port: int, command: str, password: str) -> bytes:
    with socket.create_connection((LOOPBACK, port), 5) as connection:
        connection.sendall(f"AUTH me {password}\r\n".encode())
        assert connection.recv(100) == b"+OK\r\n"
        connection.sendall(f"{command}\r\n".encode())
        return connection.recv(100)


def greeting(port: int) -> bytes:
    with socket.create_connection((LOOPBACK, port), 5) as connection:
        return connection.recv(4096)


def monitor(port: int) -> int:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=0.2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    finally:
        connection.close()
