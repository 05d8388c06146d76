"""Who may do what in the ledger, against a real server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from muster_domain.errors import Forbidden
from muster_ledger.redis_store import RedisStore, RedisStoreOptions
from muster_ledger.store import OUTBOX_START, Commit, Committed, Image, OutboxMessage
from muster_testing.servers import ValkeyServer

from .conftest import ledger_url, password

pytestmark = pytest.mark.servers

P03 = "muster:{p03}:state"
PLACEMENT = "muster:{placement}:state"


@asynccontextmanager
async def entered(server: ValkeyServer, login: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(ledger_url(server, login))
    try:
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def store_of(server: ValkeyServer, login: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(ledger_url(server, login), RedisStoreOptions(synced=True))
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize(("login", "shard"), [("admission", "p03"), ("placement", "placement")])
async def test_an_owner_does_everything_with_its_shard(
    valkey: ValkeyServer, login: str, shard: str
) -> None:
    message = OutboxMessage(subject="muster.evt.x", message_id="m1", body=b"{}")
    async with store_of(valkey, login) as store:
        assert isinstance(await store.claim(shard, 1), Image)
        commit = Commit(
            shard=shard,
            epoch=1,
            expected_version=0,
            watermark=1,
            puts={"a": b"1"},
            outbox=(message,),
        )
        assert await store.commit(commit) == Committed(1)
        (entry,) = await store.read_outbox(shard, OUTBOX_START, 10)
        await store.trim_outbox(shard, entry.position)
        assert (await store.load(shard)).fields == {"a": b"1"}


@pytest.mark.parametrize(
    ("login", "shard"),
    [("admission", "placement"), ("placement", "p03"), ("preemption", "p03")],
)
async def test_nobody_claims_anothers_shard(valkey: ValkeyServer, login: str, shard: str) -> None:
    async with store_of(valkey, login) as store:
        with pytest.raises(Forbidden):
            await store.claim(shard, 1)


async def test_preemption_reads_partitions_and_changes_nothing(valkey: ValkeyServer) -> None:
    async with store_of(valkey, "admission") as store:
        await store.claim("p05", 7)
    async with store_of(valkey, "preemption") as store:
        assert (await store.load("p05")).epoch == 7
        with pytest.raises(Forbidden):
            await store.load("placement")
    async with entered(valkey, "preemption") as client:
        with pytest.raises((NoPermissionError, ResponseError)):
            await client.eval("return redis.call('HSET', KEYS[1], 'epoch', 9)", 1, P03)


FORBIDDEN = [
    ("admission", ("HSET", PLACEMENT, "a", "1")),
    ("admission", ("HGETALL", PLACEMENT)),
    ("admission", ("SET", "muster:{p03}:other", "1")),
    ("admission", ("DEL", P03)),
    ("admission", ("FLUSHALL",)),
    ("admission", ("CONFIG", "GET", "*")),
    ("admission", ("ACL", "LIST")),
    ("admission", ("KEYS", "*")),
    ("admission", ("SCRIPT", "FLUSH")),
    ("admission", ("CLIENT", "LIST")),
    ("admission", ("MONITOR",)),
    ("admission", ("SHUTDOWN",)),
    ("admission", ("HSET", "other", "a", "1")),
    ("admission", ("HSET", "muster:{preemption}:state", "a", "1")),
    ("placement", ("HSET", P03, "a", "1")),
    ("placement", ("XADD", "muster:{p03}:outbox", "*", "a", "1")),
    ("preemption", ("HSET", P03, "a", "1")),
    ("preemption", ("HGETALL", PLACEMENT)),
    ("operator", ("FLUSHALL",)),
    ("operator", ("CONFIG", "SET", "maxmemory", "1")),
    ("operator", ("SET", "elsewhere", "1")),
]


@pytest.mark.parametrize(
    ("login", "words"), FORBIDDEN, ids=[f"{login} {' '.join(words)}" for login, words in FORBIDDEN]
)
async def test_a_command_beyond_ones_rights_is_refused(
    valkey: ValkeyServer, login: str, words: tuple[str, ...]
) -> None:
    async with entered(valkey, login) as client:
        with pytest.raises(NoPermissionError):
            await client.execute_command(*words)


async def test_a_script_has_the_rights_of_its_caller(valkey: ValkeyServer) -> None:
    async with entered(valkey, "placement") as client:
        with pytest.raises(ResponseError, match=r"(?i)permission|ACL"):
            await client.eval("return redis.call('HSET', ARGV[1], 'a', 1)", 0, P03)


@pytest.mark.parametrize(
    "login",
    ["default:x", f"admission:{password('placement')}", "admission:", "nobody:x"],
    ids=["default user", "somebody else's password", "no password", "unknown"],
)
async def test_nobody_enters_without_the_password(valkey: ValkeyServer, login: str) -> None:
    port = valkey.url.rpartition(":")[2]
    client = Redis.from_url(f"redis://{login}@127.0.0.1:{port}")
    with pytest.raises((AuthenticationError, ResponseError)):
        await client.ping()
    await client.aclose()


async def test_without_a_login_nothing_is_answered(valkey: ValkeyServer) -> None:
    port = valkey.url.rpartition(":")[2]
    client = Redis.from_url(f"redis://127.0.0.1:{port}")
    with pytest.raises(AuthenticationError):
        await client.ping()
    await client.aclose()
