"""The servers of a stack, its folder and its lock; services have their tests in tests/."""

import socket
from pathlib import Path

import pytest
from redis import Redis

from muster_domain.errors import Conflict, NotFound
from muster_ledger.redis_store import RedisStore
from muster_runtime.embedded import LOOPBACK
from muster_stack.plan import StackOptions
from muster_stack.stack import Stack
from muster_testing.waiting import wait_until

pytestmark = pytest.mark.servers

SERVERS_ONLY = StackOptions(services=())


def test_data_and_secrets_stay_for_the_next_time(tmp_path: Path) -> None:
    with Stack(tmp_path, SERVERS_ONLY) as stack:
        token = stack.tokens["admin"]
        ledger(stack).hset("muster:{p00}:state", "a", "1")
    with Stack(tmp_path, SERVERS_ONLY) as stack:
        assert stack.tokens["admin"] == token
        assert ledger(stack).hget("muster:{p00}:state", "a") == b"1"


def ledger(stack: Stack) -> Redis:
    return Redis.from_url(stack.ledger_login().full_url)


async def test_every_owner_reaches_its_ledger(tmp_path: Path) -> None:
    with Stack(tmp_path, SERVERS_ONLY) as stack:
        store = RedisStore(stack.ledger_login("admission").full_url)
        await store.ping()
        await store.close()


def test_two_stacks_do_not_share_a_folder(tmp_path: Path) -> None:
    with Stack(tmp_path, SERVERS_ONLY), pytest.raises(Conflict, match="another stack"):
        Stack(tmp_path, SERVERS_ONLY).start()


@pytest.mark.parametrize("name", ["nats", "redis"])
def test_a_server_that_dies_is_started_again(tmp_path: Path, name: str) -> None:
    with Stack(tmp_path, SERVERS_ONLY) as stack:
        server = stack.nats if name == "nats" else stack.redis
        before = server.pid
        server.kill()
        wait_until(lambda: server.pid not in {None, before}, 60, lambda: f"{name} stays down")


def test_a_server_that_was_killed_on_purpose_stays_down(tmp_path: Path) -> None:
    with Stack(tmp_path, SERVERS_ONLY) as stack:
        stack.kill_nats()
        stack.kill_redis()
        assert stack.nats.pid is None
        stack.restart_nats()
        stack.restart_redis()
        assert stack.nats.running
        assert stack.redis.running


def test_what_there_is_not_is_named(tmp_path: Path) -> None:
    stack = Stack(tmp_path, SERVERS_ONLY)
    with pytest.raises(NotFound, match="no process 'admission'"):
        stack.kill("admission")


def test_nothing_runs_after_a_failed_start(tmp_path: Path) -> None:
    stack = Stack(tmp_path, StackOptions(services=(), nats_sync_interval="nonsense"))
    with pytest.raises(Exception, match="nats-server"):
        stack.start()
    assert not stack.nats.running
    with Stack(tmp_path, SERVERS_ONLY):
        pass


def test_a_port_that_somebody_has_is_named_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as somebody:
        port = somebody.getsockname()[1]
        stack = Stack(tmp_path, StackOptions(services=(), http_port=port))
        with pytest.raises(Conflict, match=f"port {port} is taken; give --http-port another"):
            stack.start()
        assert not stack.nats.running
    with Stack(tmp_path, StackOptions(services=(), http_port=port)):
        pass
