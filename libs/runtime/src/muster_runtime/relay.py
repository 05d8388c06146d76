"""Moving committed messages from the outbox to the bus, each at least once and in order."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import stamina

from muster_contracts.envelope import MESSAGE_ID
from muster_domain.errors import Transient
from muster_ledger.store import OUTBOX_START, OutboxEntry, OutboxMessage, OutboxPosition, Store
from muster_runtime.cancellation import raise_if_cancelled
from muster_runtime.publisher import Outgoing

if TYPE_CHECKING:
    from muster_runtime.bus import Bus

BATCH_MAX = 1024
WAITING_MAX = 20_000


class Relay:
    """Publishes the outbox of one shard and trims what the bus has acknowledged.

    A crash between publishing and trimming publishes again under the same ids.
    """

    def __init__(self, bus: "Bus", store: Store, shard: str) -> None:
        self._bus = bus
        self._store = store
        self._shard = shard
        self._waiting: deque[OutboxEntry] = deque()
        self._something = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.published_total = 0

    @property
    def waiting(self) -> int:
        """Messages that are committed and not yet on the bus."""
        return len(self._waiting)

    async def recover(self) -> None:
        """Queue what an earlier owner committed and did not publish. Raises `Transient`."""
        after = OUTBOX_START
        while entries := await self._store.read_outbox(self._shard, after, BATCH_MAX):
            self._waiting.extend(entries)
            after = entries[-1].position
        if self._waiting:
            self._something.set()

    async def offer(self, version: int, messages: tuple[OutboxMessage, ...]) -> None:
        """Queue the messages of a commit; waits while too many are unpublished."""
        self._waiting.extend(
            OutboxEntry(OutboxPosition(version, ordinal), message)
            for ordinal, message in enumerate(messages, start=1)
        )
        self._something.set()
        if len(self._waiting) > WAITING_MAX:
            self._room.clear()
            await self._room.wait()

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            raise_if_cancelled()
            await self._something.wait()
            self._something.clear()
            while self._waiting:
                raise_if_cancelled()
                count = min(BATCH_MAX, len(self._waiting))
                batch = [self._waiting[index] for index in range(count)]
                await self._publish(batch)
                for _ in batch:
                    self._waiting.popleft()
                self.published_total += len(batch)
                if len(self._waiting) <= WAITING_MAX // 2:
                    self._room.set()

    async def _publish(self, batch: list[OutboxEntry]) -> None:
        async for attempt in stamina.retry_context(on=Transient, attempts=None, timeout=None):
            with attempt:
                await self._bus.publish([_outgoing(entry.message) for entry in batch])
                await self._store.trim_outbox(self._shard, batch[-1].position)


def _outgoing(message: OutboxMessage) -> Outgoing:
    return Outgoing(
        subject=message.subject,
        body=message.body,
        headers={**message.headers, MESSAGE_ID: message.message_id},
    )
