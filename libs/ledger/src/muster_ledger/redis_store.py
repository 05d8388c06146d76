"""The store on Redis 7 and Valkey: one Lua call per commit.

Keys of shard p03, all in one hash slot: `muster:{p03}:meta` (epoch, version, watermark, commit),
`muster:{p03}:state` (a hash of opaque fields) and `muster:{p03}:outbox` (a stream of chunks of
messages; a chunk's id is the position of its last message).

Durability is the server's `appendfsync`. With `always` an answered commit survives the death of the
process and of the machine. With `everysec` both can lose what was answered while a sync of the file
was under way; the owner then gets `StaleVersion`, claims again and reads its input once more from
the older watermark, but what its relay had published by then was published. `synced` has every
commit wait until the server confirms (WAITAOF, Redis 7.2) that its file is on disk, whatever the
server is set to; with `everysec` that takes up to a second.
"""

import hashlib
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar, cast

from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff

from muster_domain.errors import Forbidden, InvalidValue, Transient
from muster_ledger.encoding import CHUNK_MESSAGES_MAX, encode, unpack
from muster_ledger.store import (
    Commit,
    CommitResult,
    Committed,
    FencedOff,
    Image,
    OutboxEntry,
    OutboxPosition,
    StaleVersion,
    check_exact,
    check_outbox_count,
    check_shard,
)

_T = TypeVar("_T")
_SCAN_COUNT = 2000
_READ_ATTEMPTS = 3
_READ_RETRIES = 2
_META = ("epoch", "version", "watermark", "commit")
_TRANSIENT = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,
    OSError,
)
_DENIED = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.NoPermissionError,
)
_TRANSIENT_CODES = ("MISCONF", "NOREPLICAS", "MASTERDOWN", "BUSY", "LOADING", "OOM", "READONLY")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisStoreOptions:
    """How a store talks to its server. `synced`: a commit returns once it is on the disk."""

    synced: bool = False
    sync_timeout_ms: int = 3000
    timeout_ms: int = 5000
    connections_max: int = 64


class _Script:
    def __init__(self, name: str) -> None:
        self.text = (Path(__file__).parent / "lua" / name).read_text(encoding="utf-8")
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


class RedisStore:
    """A `Store` on one server. Nothing is read or connected before the first call."""

    def __init__(self, url: str, options: RedisStoreOptions = RedisStoreOptions()) -> None:
        self._options = options
        self._client = Redis.from_url(
            url,
            max_connections=options.connections_max,
            socket_timeout=options.timeout_ms / 1000,
            socket_connect_timeout=options.timeout_ms / 1000,
            retry=Retry(NoBackoff(), 0),
        )
        self._read_again = Retry(ExponentialBackoff(cap=0.25, base=0.025), _READ_RETRIES)
        self._commit = _Script("commit.lua")
        self._claim = _Script("claim.lua")
        self._read = _Script("read.lua")

    async def claim(self, shard: str, epoch: int) -> Image | FencedOff:
        """As `Store.claim`."""
        check_exact("epoch", epoch)
        keys = _Keys.of(shard)
        with _translated():
            answer = await self._run(self._client, self._claim, [keys.meta], [epoch])
            stored = int(cast("bytes", answer))
            if stored > epoch:
                return FencedOff(stored)
            image = await self._retried(lambda: self._image(shard))
        return image if image.epoch == epoch else FencedOff(image.epoch)

    async def load(self, shard: str) -> Image:
        """As `Store.load`."""
        with _translated():
            return await self._retried(lambda: self._image(shard))

    async def commit(self, commit: Commit) -> CommitResult:
        """As `Store.commit`."""
        keys = _Keys.of(commit.shard)
        names = [keys.meta, keys.state, keys.outbox]
        with _translated():
            if not self._options.synced:
                answer = await self._run(self._client, self._commit, names, _arguments(commit))
                return _result(answer)
            async with self._client.client() as connection:
                answer = await self._run(connection, self._commit, names, _arguments(commit))
                await self._wait_for_disk(connection)
            return _result(answer)

    async def read_outbox(
        self, shard: str, after: OutboxPosition, count: int
    ) -> tuple[OutboxEntry, ...]:
        """As `Store.read_outbox`."""
        check_outbox_count(count)
        key = _Keys.of(shard).outbox
        entries: list[OutboxEntry] = []
        read = after
        chunks = 1 + count // CHUNK_MESSAGES_MAX
        with _translated():
            while len(entries) < count:
                found = await self._retried(partial(self._chunks, key, read, chunks))
                for last, fields in found:
                    chunk = unpack(last.decode(), fields[b"l"], fields[b"d"])
                    entries.extend(entry for entry in chunk if entry.position > after)
                if len(found) < chunks:
                    break
                read = entries[-1].position
                chunks *= 2
        return tuple(entries[:count])

    async def trim_outbox(self, shard: str, through: OutboxPosition) -> None:
        """As `Store.trim_outbox`."""
        kept_from = OutboxPosition(through.version, through.ordinal + 1)
        with _translated():
            await self._client.xtrim(
                _Keys.of(shard).outbox, minid=str(kept_from), approximate=False
            )

    async def ping(self) -> None:
        """As `Store.ping`."""
        with _translated():
            await self._client.ping()

    async def close(self) -> None:
        """As `Store.close`."""
        await self._client.aclose()

    async def _image(self, shard: str) -> Image:
        """Page through the state; equal meta before and after proves that nobody wrote meanwhile.

        A shard that is written too often for that is read in one blocking step.
        """
        keys = _Keys.of(shard)
        for _ in range(_READ_ATTEMPTS):
            before = await self._meta(keys)
            fields = await self._scan(keys)
            if await self._meta(keys) == before:
                return _image(shard, before, fields)
        answer = await self._run(self._client, self._read, [keys.meta, keys.state], [])
        meta, flat = cast("tuple[list[bytes | None], list[bytes]]", answer)
        return _image(shard, meta, dict(zip(flat[::2], flat[1::2], strict=True)))

    async def _chunks(
        self, key: str, after: OutboxPosition, count: int
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        found = await self._client.xrange(key, min=f"({after}", count=count)
        return cast("list[tuple[bytes, dict[bytes, bytes]]]", found)

    async def _meta(self, keys: "_Keys") -> list[bytes | None]:
        found = self._client.hmget(keys.meta, _META)
        return cast("list[bytes | None]", await found)

    async def _scan(self, keys: "_Keys") -> dict[bytes, bytes]:
        fields: dict[bytes, bytes] = {}
        cursor = 0
        while True:
            page = await self._client.hscan(keys.state, cursor, count=_SCAN_COUNT)
            cursor, found = cast("tuple[int, dict[bytes, bytes]]", page)
            fields.update(found)
            if int(cursor) == 0:
                return fields

    async def _retried(self, do: Callable[[], Awaitable[_T]]) -> _T:
        async def again(_error: Exception) -> None:
            pass

        return await self._read_again.call_with_retry(do, again)

    async def _run(
        self, client: Redis, script: _Script, keys: list[str], arguments: list[bytes | str | int]
    ) -> object:
        try:
            return await client.evalsha(script.sha, len(keys), *keys, *arguments)
        except exceptions.NoScriptError:
            return await client.eval(script.text, len(keys), *keys, *arguments)

    async def _wait_for_disk(self, connection: Redis) -> None:
        try:
            local, _replicas = await connection.waitaof(1, 0, self._options.sync_timeout_ms)
        except exceptions.ResponseError as error:
            raise InvalidValue(
                f"the server cannot confirm that a commit is on disk: {error}",
                field="synced",
                fix="use Redis 7.2 or Valkey with appendonly yes, or set synced to false",
            ) from error
        if local < 1:
            raise Transient(f"commit not on disk after {self._options.sync_timeout_ms} ms")


@dataclass(frozen=True, slots=True)
class _Keys:
    meta: str
    state: str
    outbox: str

    @classmethod
    def of(cls, shard: str) -> "_Keys":
        check_shard(shard)
        tag = f"muster:{{{shard}}}"
        return cls(f"{tag}:meta", f"{tag}:state", f"{tag}:outbox")


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except _DENIED as error:
        raise Forbidden(f"the store refuses these credentials: {error}") from error
    except _TRANSIENT as error:
        raise Transient(f"the store did not answer: {error}") from error
    except exceptions.ResponseError as error:
        if str(error).startswith(_TRANSIENT_CODES):
            raise Transient(f"the store cannot take this now: {error}") from error
        raise


def _arguments(commit: Commit) -> list[bytes | str | int]:
    encoded = encode(commit)
    return [
        commit.epoch,
        commit.expected_version,
        commit.version,
        commit.watermark,
        encoded.id,
        len(encoded.puts),
        len(encoded.deletes),
        len(encoded.chunks),
        *encoded.puts,
        *encoded.deletes,
        *chain.from_iterable(
            (chunk.last_ordinal, chunk.lengths, chunk.data) for chunk in encoded.chunks
        ),
    ]


def _result(answer: object) -> CommitResult:
    verdict, number = cast("tuple[bytes, bytes]", answer)
    match verdict:
        case b"committed":
            return Committed(int(number))
        case b"fenced":
            return FencedOff(int(number))
        case _:
            return StaleVersion(int(number))


def _image(shard: str, meta: list[bytes | None], fields: Mapping[bytes, bytes]) -> Image:
    epoch, version, watermark, _commit = meta
    return Image(
        shard=shard,
        epoch=int(epoch or 0),
        version=int(version or 0),
        watermark=int(watermark or 0),
        fields={name.decode(): value for name, value in fields.items()},
    )
