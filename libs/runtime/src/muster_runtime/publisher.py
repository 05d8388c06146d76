"""Publishing to JetStream many messages at a time, each acknowledged by the server.

One inbox carries all acknowledgements, so a batch costs one round trip; messages of one connection
keep their order. An acknowledgement that does not come is `Transient`: the caller repeats the whole
batch with the same ids and the server drops what it has already.

Order outlives the connection too: what a lost connection had not sent is thrown away. Sent over
the next one, as nats-py does, it would be stored before the repetition of what was lost.
"""

import asyncio
import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nats.errors import Error as NatsError

from muster_domain.errors import Conflict, InvalidValue, Transient

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nats.aio.client import Client
    from nats.aio.msg import Msg

IN_FLIGHT_MAX = 2048
ACK_TIMEOUT_S = 10.0
TOGETHER_MAX = 1000
_WRONG_LAST_SEQUENCE = 10071


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message to a stream. `headers` holds the id that makes it idempotent."""

    subject: str
    body: bytes
    headers: "Mapping[str, str]" = field(default_factory=dict[str, str])


class _Acks:
    """Acknowledgements of messages that are under way together, one future for all of them."""

    def __init__(self, count: int) -> None:
        self.sequences = [0] * count
        self.all: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._missing = count

    def take(self, index: int, sequence: int) -> None:
        """One message is stored."""
        self.sequences[index] = sequence
        self._missing -= 1
        if not self._missing and not self.all.done():
            self.all.set_result(None)

    def refuse(self, why: str) -> None:
        """One message is not known to be stored."""
        if not self.all.done():
            self.all.set_exception(Transient(why))


class Publisher:
    """Publishes batches over one connection."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._inbox = client.new_inbox()
        self._numbers = itertools.count()
        self._waiting: dict[str, tuple[_Acks, int]] = {}
        self._connection = 0
        self._started = False
        drop_unsent_with_connection(client, self._lose_connection)

    async def publish(self, messages: Iterable[Outgoing]) -> list[int]:
        """Stream sequences of the messages, in order. Raises `Transient`."""
        await self._start()
        pending = list(messages)
        sequences: list[int] = []
        for start in range(0, len(pending), IN_FLIGHT_MAX):
            sequences += await self._publish_slice(pending[start : start + IN_FLIGHT_MAX])
        return sequences

    async def publish_together(
        self, messages: "Sequence[Outgoing]", expected_last: int | None
    ) -> int:
        """Publish all or nothing to one stream; returns its last sequence.

        Raises `InvalidValue` for too many messages, `Conflict` when the stream's last sequence is
        not `expected_last`, `Transient` when the outcome is not known.
        """
        if not 0 < len(messages) <= TOGETHER_MAX:
            raise InvalidValue(
                f"{len(messages)} messages at once", fix=f"send 1 to {TOGETHER_MAX} in one go"
            )
        batch = f"{self._inbox.rsplit('.', 1)[1]}-{next(self._numbers)}"
        together = [
            _in_batch(message, batch, number) for number, message in enumerate(messages, start=1)
        ]
        if expected_last is not None:
            together[0][1]["Nats-Expected-Last-Sequence"] = str(expected_last)
        (last, last_headers) = together.pop()
        last_headers["Nats-Batch-Commit"] = "1"
        try:
            for message, headers in together:
                await self._client.publish(message.subject, message.body, headers=headers)
            reply = await self._client.request(
                last.subject, last.body, timeout=ACK_TIMEOUT_S, headers=last_headers
            )
        except (NatsError, OSError, TimeoutError) as error:
            raise Transient(f"the bus did not take the messages: {error}") from error
        return _committed(reply.data)

    async def _publish_slice(self, messages: list[Outgoing]) -> list[int]:
        acks = _Acks(len(messages))
        tokens: list[str] = []
        connection = self._connection
        try:
            for index, message in enumerate(messages):
                token = str(next(self._numbers))
                self._waiting[token] = (acks, index)
                tokens.append(token)
                self._check_connection(connection)
                await self._client.publish(
                    message.subject,
                    message.body,
                    reply=f"{self._inbox}.{token}",
                    headers=dict(message.headers) or None,
                )
            async with asyncio.timeout(ACK_TIMEOUT_S):
                await acks.all
                return acks.sequences
        except TimeoutError as error:
            raise Transient("the bus did not acknowledge in time") from error
        except (NatsError, OSError) as error:
            raise Transient(f"the bus did not take the message: {error}") from error
        finally:
            for token in tokens:
                self._waiting.pop(token, None)
            if acks.all.done() and not acks.all.cancelled():
                acks.all.exception()

    def _check_connection(self, connection: int) -> None:
        """Raise `Transient` unless this is still the connection that the batch began on."""
        if connection != self._connection or not self._client.is_connected:
            raise Transient("the connection to the bus was lost")

    def _lose_connection(self) -> None:
        self._connection += 1
        waiting, self._waiting = self._waiting, {}
        for acks, _ in waiting.values():
            acks.refuse("the connection to the bus was lost")

    async def _start(self) -> None:
        if not self._started:
            self._started = True
            await self._client.subscribe(
                f"{self._inbox}.*",
                cb=self._on_ack,
                pending_msgs_limit=-1,
                pending_bytes_limit=-1,
            )

    async def _on_ack(self, message: "Msg") -> None:
        waiting = self._waiting.pop(message.subject.rsplit(".", 1)[1], None)
        if waiting is None:
            return
        acks, index = waiting
        if message.headers and message.headers.get("Status") == "503":
            acks.refuse("no stream takes that subject, or none is up")
            return
        answer = json.loads(message.data)
        if "error" in answer:
            acks.refuse(f"the stream refused: {answer['error']}")
        else:
            acks.take(index, int(answer["seq"]))


def drop_unsent_with_connection(client: "Client", then: Callable[[], None]) -> None:
    """Let nothing that waits to be sent outlive its connection; call `then` when one is lost.

    nats-py keeps such commands for the next connection and offers no option against it. What it
    needs of them there, it makes anew: subscriptions are made again, answers are asked for again.
    """
    earlier = client._disconnected_cb  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    async def on_disconnect() -> None:
        client._pending.clear()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        client._pending_data_size = 0  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        then()
        if earlier is not None:
            await earlier()

    client._disconnected_cb = on_disconnect  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def _in_batch(message: Outgoing, batch: str, number: int) -> tuple[Outgoing, dict[str, str]]:
    place = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
    return message, {**message.headers, **place}


def _committed(body: bytes) -> int:
    answer = json.loads(body)
    refusal = answer.get("error")
    if refusal is None:
        return int(answer["seq"])
    if refusal.get("err_code") == _WRONG_LAST_SEQUENCE:
        raise Conflict("the stream has moved on in the meantime")
    raise Transient(f"the stream refused: {refusal}")
