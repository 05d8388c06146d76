"""One connection to the bus, and everything a service does over it.

FastStream's broker owns the connection and its life; the hot paths (ordered reads, batched
publishing) run over the same connection.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.js.api import DEFAULT_PREFIX as DEFAULT_API_PREFIX
from nats.js.errors import NotFoundError

from muster_contracts import envelope
from muster_contracts.subjects import Service, dead_letter
from muster_domain.errors import (
    Conflict,
    Forbidden,
    InvalidValue,
    MusterError,
    NotFound,
    Transient,
)
from muster_runtime.publisher import Outgoing, Publisher
from muster_runtime.reader import Reader, Received

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

Answer = Callable[[dict[str, Any]], Awaitable[bytes]]
"""Answers a query: a JSON object in, JSON out; raises `MusterError` to refuse."""

READ_BATCH = 1000
READ_SILENCE_S = 30
_REFUSALS: dict[str, type[MusterError]] = {
    "invalid": InvalidValue,
    "conflict": Conflict,
    "not_found": NotFound,
    "forbidden": Forbidden,
    "transient": Transient,
}
_REFUSAL_HEADER = "Muster-Refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that cannot be digested, and why."""

    received: Received
    stream: str
    reason: str


class Bus:
    """What a service may do on the bus."""

    def __init__(
        self, client: "Client", service: Service, *, api_prefix: str = DEFAULT_API_PREFIX
    ) -> None:
        self.client = client
        self.service = service
        self._api_prefix = api_prefix
        self._publisher = Publisher(client)

    async def publish(self, messages: list[Outgoing]) -> list[int]:
        """Publish to streams; returns stream sequences. Raises `Transient`."""
        return await self._publisher.publish(messages)

    async def publish_together(
        self, messages: list[Outgoing], *, expected_last: int | None = None
    ) -> int:
        """Publish to one atomic stream, all or nothing; returns the last stream sequence.

        `expected_last` is the stream's last sequence that the messages were made from. Raises
        `Conflict` when the stream has moved on since, `Transient` when it is not known whether they
        were stored.
        """
        return await self._publisher.publish_together(messages, expected_last)

    def read(self, stream: str, subjects: tuple[str, ...], *, after: int) -> Reader:
        """Read subjects of a stream in order, from the message after `after`."""
        return Reader(self.client, stream, subjects, after=after, api_prefix=self._api_prefix)

    async def read_to_end(self, stream: str, subject: str, *, after: int = 0) -> list[Received]:
        """What a stream holds now behind a sequence on a subject, which may have wildcards.

        Raises `Transient` when the bus does not answer, or delivers nothing for `READ_SILENCE_S`.
        """
        found: list[Received] = []
        newest = await self.last(stream, subject)
        if newest is None or newest.sequence <= after:
            return found
        reader = self.read(stream, (subject,), after=after)
        try:
            while not found or found[-1].sequence < newest.sequence:
                batch = await reader.next_batch(READ_BATCH, READ_SILENCE_S)
                if not batch:
                    raise Transient(f"{stream} delivers nothing for {READ_SILENCE_S} s")
                found += batch
        finally:
            await reader.close()
        return found

    async def last(self, stream: str, subject: str) -> Received | None:
        """The last message on a subject, or None. Raises `Transient`."""
        try:
            jetstream = self.client.jetstream(prefix=self._api_prefix)
            found = await jetstream.get_last_msg(stream, subject, direct=True)
        except NotFoundError:
            return None
        except (NatsError, OSError, TimeoutError) as error:
            raise Transient(f"the bus did not answer: {error}") from error
        return Received(
            sequence=found.seq or 0,
            subject=found.subject or subject,
            headers=cast("dict[str, str]", found.headers or {}),
            body=found.data or b"",
            published_ms=0,
        )

    async def bury(self, letters: list[DeadLetter]) -> None:
        """Put messages aside in the dead-letter stream, each once."""
        await self.publish(
            [
                Outgoing(
                    subject=dead_letter(self.service, letter.stream),
                    body=letter.received.body,
                    headers={
                        envelope.MESSAGE_ID: envelope.derived_id(
                            self.service, letter.stream, letter.received.sequence
                        ),
                        "Muster-Reason": letter.reason.replace("\n", " ")[:500],
                        "Muster-Subject": letter.received.subject,
                        "Muster-Sequence": str(letter.received.sequence),
                    },
                )
                for letter in letters
            ]
        )

    async def ask(self, subject: str, question: dict[str, Any], *, timeout_s: float = 2.0) -> bytes:
        """Ask an owner. Raises what the owner raised, or `Transient` when nobody answers."""
        try:
            reply = await self.client.request(
                subject, json.dumps(question).encode(), timeout=timeout_s
            )
        except NoRespondersError as error:
            raise Transient(f"nobody answers {subject} at the moment") from error
        except (NatsError, OSError, TimeoutError) as error:
            raise Transient(f"no answer from {subject} in {timeout_s} s") from error
        kind = (reply.headers or {}).get(_REFUSAL_HEADER)
        if kind is not None:
            refusal = json.loads(reply.data)
            if kind == "invalid":
                raise InvalidValue(refusal["problem"], field=refusal["field"], fix=refusal["fix"])
            raise _REFUSALS.get(kind, Transient)(refusal["problem"])
        return reply.data

    async def answer(self, subject: str, handler: Answer) -> Callable[[], Awaitable[None]]:
        """Answer questions on a subject until the returned function is called."""

        async def on_question(message: "Msg") -> None:
            headers: dict[str, str] = {}
            try:
                body = await handler(json.loads(message.data or b"{}"))
            except MusterError as error:
                headers[_REFUSAL_HEADER] = _refusal_kind(error)
                body = json.dumps(_refusal_body(error)).encode()
            except (ValueError, KeyError, TypeError) as error:
                headers[_REFUSAL_HEADER] = "invalid"
                body = json.dumps({"problem": repr(error), "field": "query", "fix": ""}).encode()
            await self.client.publish(message.reply, body, headers=headers or None)

        subscription = await self.client.subscribe(subject, cb=on_question)
        return subscription.unsubscribe

    async def sample(self, subject: str, body: bytes) -> None:
        """Say something that may be lost: nothing is kept for a bus that is away."""
        if not self.client.is_connected:
            return
        with suppress(NatsError, OSError):
            await self.client.publish(subject, body)

    async def in_touch(self, timeout_s: float) -> bool:
        """Whether the bus answers, and so has what was published before."""
        if not self.client.is_connected:
            return False
        try:
            async with asyncio.timeout(timeout_s):
                await self.client.flush()
        except (NatsError, OSError, TimeoutError):
            return False
        return True

    async def last_sequence(self, stream: str) -> int:
        """The sequence of a stream's newest message, 0 if it never had one. Raises `Transient`."""
        try:
            found = await self.client.jetstream(prefix=self._api_prefix).stream_info(stream)
        except (NatsError, OSError, TimeoutError) as error:
            raise Transient(f"cannot look at {stream}: {error}") from error
        return found.state.last_seq

    async def listen(
        self, subject: str, take: Callable[[bytes], None]
    ) -> Callable[[], Awaitable[None]]:
        """Pass every sample on a telemetry subject to `take`, which must not wait.

        Until the returned function is called or the connection closes.
        """

        async def on_sample(message: "Msg") -> None:
            take(message.data)

        subscription = await self.client.subscribe(subject, cb=on_sample)
        return subscription.unsubscribe

    async def wait_connected(self) -> None:
        """Return once the connection is up."""
        while not self.client.is_connected:  # noqa: ASYNC110 - nats-py offers no event for it
            await asyncio.sleep(0.05)


def _refusal_kind(error: MusterError) -> str:
    return next((name for name, kind in _REFUSALS.items() if isinstance(error, kind)), "transient")


def _refusal_body(error: MusterError) -> dict[str, str]:
    if isinstance(error, InvalidValue):
        return {"problem": error.problem, "field": error.field, "fix": error.fix}
    return {"problem": str(error), "field": "", "fix": ""}
