"""Who owns a shard: leases in a key-value bucket, whose revision is the fencing token.

A holder renews well before the bucket forgets the key. It stops working when it could not renew in
time; should it be paused instead, the ledger refuses its lower token.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from nats.errors import Error as NatsError
from nats.js.errors import BadRequestError, KeyNotFoundError, KeyWrongLastSequenceError, NoKeysError

from muster_contracts.streams import LEASES
from muster_runtime.cancellation import end, raise_if_cancelled

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js.kv import KeyValue

RENEW_EVERY_S = LEASES.ttl_s / 3
LOST_AFTER_S = LEASES.ttl_s * 0.8

Work = Callable[[str, int], Awaitable[None]]
"""Owns a shard under a fencing token until cancelled."""

_log = structlog.get_logger()


@dataclass(slots=True)
class _Held:
    revision: int
    renewed_s: float
    task: asyncio.Task[None]


class Leases:
    """Takes a fair share of the shards of one service and works on each while its lease lasts."""

    def __init__(
        self, client: "Client", *, service: str, instance: str, shards: tuple[str, ...]
    ) -> None:
        self._client = client
        self._service = service
        self._instance = instance
        self._mark = f"{instance}/{secrets.token_hex(8)}".encode()
        """What this very process writes into a lease; a namesake after a crash writes another."""
        self._shards = shards
        self._held: dict[str, _Held] = {}

    @property
    def held(self) -> tuple[str, ...]:
        """The shards that this replica owns now, sorted."""
        return tuple(sorted(self._held))

    async def run(self, work: Work) -> None:
        """Take and keep leases until cancelled; a failure of the work ends this with it."""
        try:
            while True:
                raise_if_cancelled()
                due_s = asyncio.get_running_loop().time() + RENEW_EVERY_S
                await self._round(work)
                await self._pause(due_s)
        finally:
            await self._give_back()

    async def _pause(self, due_s: float) -> None:
        """Rest until the next round is due: what a slow round took comes off the rest."""
        tasks = [held.task for held in self._held.values()]
        if not tasks:
            await asyncio.sleep(RENEW_EVERY_S / 4)
            return
        rest_s = max(0.0, due_s - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait(tasks, timeout=rest_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def _round(self, work: Work) -> None:
        try:
            bucket = await self._client.jetstream().key_value(LEASES.name)
            await self._renew(bucket)
            await self._drop_lost()
            await bucket.put(self._member_key(self._instance), b"")
            await self._settle(bucket, work)
        except (NatsError, OSError, TimeoutError) as error:
            _log.warning("lease round failed", service=self._service, error=str(error))
        await self._drop_lost()

    async def _renew(self, bucket: "KeyValue") -> None:
        """Renew all leases together: one after the other they outlast their time on a busy bus."""
        held = list(self._held.items())
        outcomes = await asyncio.gather(
            *(self._renew_one(bucket, shard, lease) for shard, lease in held),
            return_exceptions=True,
        )
        for (shard, _), failure in zip(held, outcomes, strict=True):
            if isinstance(failure, (KeyWrongLastSequenceError, KeyNotFoundError)):
                await self._drop(shard, "somebody else holds the lease")
        for failure in outcomes:
            if failure is not None and not isinstance(
                failure, (KeyWrongLastSequenceError, KeyNotFoundError)
            ):
                raise failure

    async def _renew_one(self, bucket: "KeyValue", shard: str, held: _Held) -> None:
        sent_s = asyncio.get_running_loop().time()
        try:
            held.revision = await bucket.update(self._key(shard), self._mark, last=held.revision)
        except KeyWrongLastSequenceError:
            held.revision = await self._own_revision(bucket, shard)
        held.renewed_s = sent_s

    async def _own_revision(self, bucket: "KeyValue", shard: str) -> int:
        """The revision of a renewal that was made though its answer was lost.

        Raises `KeyWrongLastSequenceError` when the lease is another process's.
        """
        entry = await bucket.get(self._key(shard))
        if entry.value != self._mark or entry.revision is None:
            raise KeyWrongLastSequenceError
        return entry.revision

    async def _settle(self, bucket: "KeyValue", work: Work) -> None:
        try:
            keys = await bucket.keys()
        except (NoKeysError, KeyNotFoundError):
            keys = []
        members = [key for key in keys if key.startswith(self._member_key(""))]
        share = -(-len(self._shards) // max(1, len(members)))
        for shard in self.held[share:]:
            revision = await self._drop(shard, "another replica is to have it")
            await self._delete(bucket, shard, revision)
        for shard in self._shards:
            if len(self._held) >= share:
                return
            if self._key(shard) not in keys:
                await self._take(bucket, shard, work)

    async def _take(self, bucket: "KeyValue", shard: str, work: Work) -> None:
        sent_s = asyncio.get_running_loop().time()
        try:
            revision = await bucket.create(self._key(shard), self._mark)
        except KeyWrongLastSequenceError:
            return
        _log.info("lease taken", service=self._service, shard=shard, epoch=revision)
        task = asyncio.create_task(self._work(work, shard, revision), name=f"own {shard}")
        self._held[shard] = _Held(revision=revision, renewed_s=sent_s, task=task)

    async def _work(self, work: Work, shard: str, epoch: int) -> None:
        await work(shard, epoch)

    async def _drop_lost(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for shard, held in list(self._held.items()):
            if now_s - held.renewed_s > LOST_AFTER_S:
                await self._drop(shard, "the lease could not be renewed")

    async def _drop(self, shard: str, why: str) -> int:
        """Stop working on a shard; returns the revision under which it was held last."""
        held = self._held.pop(shard)
        _log.warning("lease dropped", service=self._service, shard=shard, reason=why)
        await end(held.task)
        return held.revision

    async def _delete(self, bucket: "KeyValue", shard: str, revision: int) -> None:
        """Let somebody else take the shard at once, unless somebody has."""
        with suppress(BadRequestError):
            await bucket.delete(self._key(shard), last=revision)

    async def _give_back(self) -> None:
        revisions = {shard: await self._drop(shard, "the service stops") for shard in self.held}
        if not self._client.is_connected:
            return
        try:
            bucket = await self._client.jetstream().key_value(LEASES.name)
            for shard, revision in revisions.items():
                await self._delete(bucket, shard, revision)
            await bucket.delete(self._member_key(self._instance))
        except (NatsError, OSError, TimeoutError) as error:
            _log.warning("leases not given back", service=self._service, error=str(error))

    def _key(self, shard: str) -> str:
        return f"{self._service}.shard.{shard}"

    def _member_key(self, instance: str) -> str:
        return f"{self._service}.member.{instance}"
