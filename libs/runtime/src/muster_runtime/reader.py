"""Reading a stream in order from a known sequence, in batches, without acknowledgements.

The reader's owner keeps the sequence it has applied together with its state, so what is delivered
twice is skipped and what was lost on the way is read again: the server numbers what it delivers,
and a gap in those numbers starts a new consumer after the last good message.
"""

import asyncio
import json
import secrets
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nats.errors import Error as NatsError
from nats.js.api import DEFAULT_PREFIX, AckPolicy, ConsumerConfig, DeliverPolicy

from muster_domain.errors import Transient
from muster_runtime.cancellation import raise_if_cancelled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

PULL_BATCH = 512
PULL_EXPIRES_S = 20
HEARTBEAT_S = 5
SILENCE_MAX_S = 15
FORGET_AFTER_S = 300
_TOKENS_WITHOUT_DOMAIN = 9
_CONTROL = {"404", "408", "409", "503"}


@dataclass(frozen=True, slots=True)
class Received:
    """One message of a stream. `published_ms` is the server's clock at arrival."""

    sequence: int
    subject: str
    headers: "Mapping[str, str]"
    body: bytes
    published_ms: int


class Mark(NamedTuple):
    """What the server writes into the reply subject of a message that a consumer delivers.

    `attempt` counts deliveries of the message, `pending` the messages still to be delivered.
    """

    attempt: int
    stream_sequence: int
    consumer_sequence: int
    published_ns: int
    pending: int

    @classmethod
    def of(cls, reply: str) -> "Mark":
        """Read `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.` and the five numbers."""
        tokens = reply.split(".")
        first = 4 if len(tokens) == _TOKENS_WITHOUT_DOMAIN else 6
        return cls(*map(int, tokens[first : first + 5]))

    @property
    def published_ms(self) -> int:
        """The server's clock when the message was stored."""
        return self.published_ns // 1_000_000


class Reader:
    """An endless, gapless read of some subjects of one stream.

    A single subject stands in the subject of the request that creates the consumer, so the bus can
    hold a reader to it; the consumer's name cannot be guessed, so nobody else takes from it.
    """

    def __init__(
        self,
        client: "Client",
        stream: str,
        subjects: tuple[str, ...],
        *,
        after: int,
        api_prefix: str = DEFAULT_PREFIX,
    ) -> None:
        self._client = client
        self._api = api_prefix
        self._stream = stream
        self._subjects = subjects
        self._position = after
        self._buffer: deque[Received] = deque()
        self._arrived = asyncio.Event()
        self._subscription: Subscription | None = None
        self._consumer = ""
        self._consumer_sequence: int = 0
        self._asked = 0
        self._broken = False
        self._last_word_s = 0.0
        self._connection = 0
        self.pending = 0
        """Messages of these subjects that the server still holds after the last one delivered."""

    async def next_batch(self, limit: int, wait_s: float) -> list[Received]:
        """Up to `limit` messages in stream order; empty when none came within `wait_s`.

        Raises `Transient` when the bus cannot be reached to start reading again.
        """
        raise_if_cancelled()
        if self._subscription is None or self._stale():
            await self._restart()
        await self._ask_ahead()
        if not self._buffer:
            self._arrived.clear()
            try:
                async with asyncio.timeout(max(wait_s, 0)):
                    await self._arrived.wait()
            except TimeoutError:
                return []
        count = min(limit, len(self._buffer))
        batch = [self._buffer.popleft() for _ in range(count)]
        await self._ask_ahead()
        return batch

    async def close(self) -> None:
        """Stop reading and forget the consumer."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None and self._client.is_connected:
            await subscription.unsubscribe()
            await self._client.publish(
                f"{self._api}.CONSUMER.DELETE.{self._stream}.{self._consumer}", b""
            )

    def _stale(self) -> bool:
        """Whether nothing more would come: requests do not outlive the connection either."""
        silent_s = asyncio.get_running_loop().time() - self._last_word_s
        is_new = self._client.stats["reconnects"] != self._connection
        return self._broken or is_new or silent_s > SILENCE_MAX_S

    async def _restart(self) -> None:
        await self.close()
        self._asked = 0
        self._consumer_sequence = 0
        self._broken = False
        self._connection = self._client.stats["reconnects"]
        one = self._subjects[0] if len(self._subjects) == 1 else None
        config = ConsumerConfig(
            name=secrets.token_hex(11),
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._position + 1,
            ack_policy=AckPolicy.NONE,
            filter_subject=one,
            filter_subjects=None if one else list(self._subjects),
            inactive_threshold=FORGET_AFTER_S,
            max_deliver=1,
            mem_storage=True,
            num_replicas=1,
        )
        try:
            jetstream = self._client.jetstream(prefix=self._api)
            info = await jetstream.add_consumer(self._stream, config)
            self._consumer = info.name
            self.pending = info.num_pending or 0
            self._subscription = await self._client.subscribe(
                self._client.new_inbox(),
                cb=self._on_message,
                pending_msgs_limit=-1,
                pending_bytes_limit=-1,
            )
            self._last_word_s = asyncio.get_running_loop().time()
            await self._ask()
        except (NatsError, OSError, TimeoutError) as error:
            self._subscription = None
            raise Transient(f"cannot read {self._stream}: {error}") from error

    async def _ask_ahead(self) -> None:
        if self._asked < PULL_BATCH // 2 and len(self._buffer) < PULL_BATCH * 2:
            await self._ask()

    async def _ask(self) -> None:
        if self._subscription is None:
            return
        self._asked += PULL_BATCH
        request = {
            "batch": PULL_BATCH,
            "expires": PULL_EXPIRES_S * 1_000_000_000,
            "idle_heartbeat": HEARTBEAT_S * 1_000_000_000,
        }
        await self._client.publish(
            f"{self._api}.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}",
            json.dumps(request).encode(),
            reply=self._subscription.subject,
        )

    async def _on_message(self, message: "Msg") -> None:
        self._last_word_s = asyncio.get_running_loop().time()
        status = (message.headers or {}).get("Status")
        if status is not None and not message.reply:
            await self._on_status(status, message)
            return
        mark = Mark.of(message.reply)
        if mark.consumer_sequence != self._consumer_sequence + 1:
            self._broken = True
        if self._broken:
            self._arrived.set()
            return
        self._consumer_sequence = mark.consumer_sequence
        self._position = mark.stream_sequence
        self.pending = mark.pending
        self._asked -= 1
        self._buffer.append(
            Received(
                sequence=mark.stream_sequence,
                subject=message.subject,
                headers=message.headers or {},
                body=message.data,
                published_ms=mark.published_ms,
            )
        )
        self._arrived.set()

    async def _on_status(self, status: str, message: "Msg") -> None:
        if status not in _CONTROL:
            return
        description = ((message.headers or {}).get("Description") or "").lower()
        if status == "503" or "deleted" in description or "not found" in description:
            self._broken = True
            self._arrived.set()
            return
        self._asked = 0
        await self._ask()
