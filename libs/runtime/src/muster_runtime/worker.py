"""Working off a durable consumer that replicas share: pull, digest, publish, then acknowledge.

The order is the point: a message is acknowledged only after everything it caused is on the bus, so
a crash anywhere means that it comes again, and what it caused carries ids derived from it.

| the digest                 | the message                                                    |
|----------------------------|----------------------------------------------------------------|
| returns messages           | they are published, then acknowledged                          |
| raises `Transient`         | comes again after a growing delay; the last time it is buried  |
| raises `Unusable`          | its messages are published, it is buried, never comes again    |
| raises `MusterError`       | is buried, never comes again                                   |
| raises anything else       | a defect: comes again late, the last time it is buried         |
"""

import asyncio
import itertools
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import structlog
from nats.errors import Error as NatsError

from muster_contracts.streams import Durable
from muster_domain.errors import MusterError, Transient
from muster_runtime.bus import Bus, DeadLetter
from muster_runtime.cancellation import raise_if_cancelled
from muster_runtime.publisher import Outgoing
from muster_runtime.reader import Mark, Received

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from prometheus_client import Counter

BUFFER_MAX = 256
"""Messages asked for or waiting at once; all of them fit into one acknowledgement wait."""
BATCH_MAX = 128
PULL_EXPIRES_S = 20
HEARTBEAT_S = 5
SILENCE_MAX_S = 15
IDLE_WAIT_S = 1.0
RECONNECT_WAIT_S = 0.5
RETRY_FIRST_S = 0.5
RETRY_MAX_S = 60.0
ATTEMPTS_MAX = 20
"""Deliveries after which a message that still fails is buried: a quarter of an hour. The consumer
itself delivers without limit, so that crashes cannot use a message up."""
DEFECT_RETRY_S = 30.0

_log = structlog.get_logger()


class Unusable(MusterError):
    """A message that nothing can be made of, and what is to be said about it all the same."""

    def __init__(self, reason: str, answers: tuple[Outgoing, ...] = ()) -> None:
        super().__init__(reason)
        self.answers = answers


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message and how often it has been delivered, this time included."""

    received: Received
    attempt: int


Digest = Callable[[Delivery], Awaitable[list[Outgoing]]]
"""What a message causes; several are digested at once. Raises as the table above says."""


@dataclass(frozen=True, slots=True)
class Done:
    """Everything it caused is published."""

    outgoing: tuple[Outgoing, ...] = ()
    kind: Literal["done"] = "done"


@dataclass(frozen=True, slots=True)
class Retry:
    """Deliver it again after `delay_s`."""

    delay_s: float
    reason: str
    kind: Literal["retry"] = "retry"


@dataclass(frozen=True, slots=True)
class Dead:
    """Put it aside with the reason, after saying `outgoing`."""

    reason: str
    outgoing: tuple[Outgoing, ...] = ()
    kind: Literal["dead"] = "dead"


Disposition = Done | Retry | Dead


class Worker:
    """One replica's share of a durable consumer."""

    def __init__(
        self, bus: Bus, durable: Durable, digest: Digest, *, dead_letters: "Counter"
    ) -> None:
        self._bus = bus
        self._durable = durable
        self._digest = digest
        self._dead_letters = dead_letters
        self._subscription: Subscription | None = None
        self._buffer: deque[Msg] = deque()
        self._arrived = asyncio.Event()
        self._asked = 0
        self._broken = False
        self._connection = 0
        self._last_word_s: float | None = None
        self._reconnects = 0
        self.done_total = 0

    def trouble(self) -> str:
        """Why it is not working; empty when it is."""
        if self._last_word_s is None:
            return "has not heard from its consumer yet"
        silent_s = asyncio.get_running_loop().time() - self._last_word_s
        return (
            f"no word from its consumer for {int(silent_s)} s" if silent_s > SILENCE_MAX_S else ""
        )

    async def run(self) -> None:
        """Work until cancelled; outages of the bus are waited out."""
        try:
            while True:
                raise_if_cancelled()
                try:
                    await self._round()
                except (NatsError, OSError, TimeoutError, Transient) as error:
                    _log.warning("worker waits", consumer=self._durable.name, error=str(error))
                    self._broken = True
                    await asyncio.sleep(RECONNECT_WAIT_S)
        finally:
            await self._stop()

    async def _round(self) -> None:
        if self._subscription is None or self._broken or self._has_lost_touch():
            await self._restart()
        await self._ask_ahead()
        if not self._buffer:
            self._arrived.clear()
            try:
                async with asyncio.timeout(IDLE_WAIT_S):
                    await self._arrived.wait()
            except TimeoutError:
                return
        await self._work_off(list(itertools.islice(self._buffer, BATCH_MAX)))

    async def _work_off(self, batch: "list[Msg]") -> None:
        deliveries = [delivery_of(message) for message in batch]
        dispositions = await asyncio.gather(*(self._dispose(delivery) for delivery in deliveries))
        outgoing = [
            message
            for disposition in dispositions
            if not isinstance(disposition, Retry)
            for message in disposition.outgoing
        ]
        letters = [
            DeadLetter(
                received=delivery.received,
                stream=self._durable.stream,
                reason=disposition.reason,
            )
            for delivery, disposition in zip(deliveries, dispositions, strict=True)
            if isinstance(disposition, Dead)
        ]
        try:
            await self._bus.publish(outgoing)
            await self._bury(letters)
        except Transient as error:
            _log.warning("nothing acknowledged", consumer=self._durable.name, error=str(error))
            dispositions = [
                Retry(backoff_s(delivery.attempt), str(error)) for delivery in deliveries
            ]
        for message, disposition in zip(batch, dispositions, strict=True):
            await self._settle(message, disposition)
            self._buffer.popleft()

    async def _dispose(self, delivery: Delivery) -> Disposition:
        try:
            return Done(tuple(await self._digest(delivery)))
        except Unusable as error:
            return Dead(str(error), error.answers)
        except Transient as error:
            return _again(delivery, backoff_s(delivery.attempt), str(error))
        except MusterError as error:
            return Dead(str(error))
        except Exception as error:  # noqa: BLE001 - one message must not stop the others
            _log.exception("message broke the digest", sequence=delivery.received.sequence)
            return _again(delivery, DEFECT_RETRY_S, f"defect: {error!r}")

    async def _bury(self, letters: list[DeadLetter]) -> None:
        if not letters:
            return
        for letter in letters:
            _log.error("dead letter", sequence=letter.received.sequence, reason=letter.reason)
        self._dead_letters.inc(len(letters))
        await self._bus.bury(letters)

    async def _settle(self, message: "Msg", disposition: Disposition) -> None:
        match disposition:
            case Done():
                word = b"+ACK"
                self.done_total += 1
            case Dead():
                word = b"+TERM"
            case Retry(delay_s=delay_s):
                delay = {"delay": int(delay_s * 1_000_000_000)}
                word = b"-NAK " + json.dumps(delay).encode()
        await self._bus.client.publish(message.reply, word)

    def _has_lost_touch(self) -> bool:
        """Whether the server may have forgotten that it was asked: after silence or a reconnect."""
        return self._bus.client.stats["reconnects"] != self._reconnects or bool(self.trouble())

    async def _restart(self) -> None:
        await self._stop()
        client = self._bus.client
        self._asked = 0
        self._broken = False
        self._reconnects = client.stats["reconnects"]
        self._subscription = await client.subscribe(
            client.new_inbox(),
            cb=self._on_message,
            pending_msgs_limit=-1,
            pending_bytes_limit=-1,
        )
        await client.jetstream().consumer_info(self._durable.stream, self._durable.name)
        self._last_word_s = asyncio.get_running_loop().time()

    async def _stop(self) -> None:
        """Stop asking, and give back what is not settled so that it comes again at once."""
        subscription, self._subscription = self._subscription, None
        unsettled = list(self._buffer)
        self._buffer.clear()
        if subscription is not None and self._bus.client.is_connected:
            await subscription.unsubscribe()
            for message in unsettled:
                await self._bus.client.publish(message.reply, b"-NAK")

    async def _ask_ahead(self) -> None:
        room = BUFFER_MAX - self._asked - len(self._buffer)
        if self._subscription is None or room < BUFFER_MAX // 2:
            return
        self._asked += room
        request = {
            "batch": room,
            "expires": PULL_EXPIRES_S * 1_000_000_000,
            "idle_heartbeat": HEARTBEAT_S * 1_000_000_000,
        }
        await self._bus.client.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{self._durable.stream}.{self._durable.name}",
            json.dumps(request).encode(),
            reply=self._subscription.subject,
        )

    async def _on_message(self, message: "Msg") -> None:
        self._last_word_s = asyncio.get_running_loop().time()
        status = (message.headers or {}).get("Status")
        if status is not None and not message.reply:
            self._on_status(status, ((message.headers or {}).get("Description") or "").lower())
            return
        self._asked -= 1
        self._buffer.append(message)
        self._arrived.set()

    def _on_status(self, status: str, description: str) -> None:
        if status == "100":
            return
        self._asked = 0
        if status == "503" or "deleted" in description or "not found" in description:
            self._broken = True
        self._arrived.set()


def _again(delivery: Delivery, delay_s: float, reason: str) -> Retry | Dead:
    if delivery.attempt < ATTEMPTS_MAX:
        return Retry(delay_s, reason)
    return Dead(f"given up after {delivery.attempt} deliveries: {reason}")


def backoff_s(attempt: int) -> float:
    """How long a message rests after its `attempt`-th delivery."""
    return min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(attempt - 1, 20))


def delivery_of(message: "Msg") -> Delivery:
    """Read a message that a consumer delivered."""
    mark = Mark.of(message.reply)
    return Delivery(
        Received(
            sequence=mark.stream_sequence,
            subject=message.subject,
            headers=message.headers or {},
            body=message.data,
            published_ms=mark.published_ms,
        ),
        mark.attempt,
    )
