"""Keeping a catalogue of declared objects abreast of the stream of objects."""

import asyncio

import structlog
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from muster_contracts import codec, subjects
from muster_contracts.events import ObjectApplied, ObjectDeleted
from muster_contracts.streams import OBJECTS
from muster_domain.errors import InvalidValue, MusterError, Transient
from muster_manifests.catalogue import ObjectCatalogue, ObjectKey
from muster_runtime.bus import Bus
from muster_runtime.reader import Reader, Received

BATCH_MAX = 512
IDLE_WAIT_S = 5.0
RECONNECT_WAIT_S = 0.5

_log = structlog.get_logger()


class ObjectFeed:
    """Reads the stream of objects into a catalogue, for ever."""

    def __init__(self, bus: Bus, catalogue: ObjectCatalogue) -> None:
        self.catalogue = catalogue
        self.unreadable_total = 0
        """Objects in the stream that this version could not read."""
        self._bus = bus
        self._moved = asyncio.Condition()
        self._goal: int | None = None

    def trouble(self) -> str:
        """Why the catalogue is not complete yet; empty when it is."""
        if self._goal is None:
            return "has not seen the stream of objects yet"
        left = self._goal - self.catalogue.sequence
        return f"{left} objects are not read yet" if left > 0 else ""

    async def wait_for(self, sequence: int, timeout_s: float) -> None:
        """Return once the catalogue has taken in `sequence`. Raises `Transient`."""
        try:
            async with asyncio.timeout(timeout_s), self._moved:
                await self._moved.wait_for(lambda: self.catalogue.sequence >= sequence)
        except TimeoutError as error:
            raise Transient(f"object {sequence} is not read after {timeout_s} s") from error

    async def wait_complete(self, timeout_s: float) -> None:
        """Return once everything that was there at the start is taken in. Raises `Transient`."""
        if not self.trouble():
            return
        try:
            async with asyncio.timeout(timeout_s), self._moved:
                await self._moved.wait_for(lambda: not self.trouble())
        except TimeoutError as error:
            raise Transient(f"objects: {self.trouble()}") from error

    async def abreast(self, timeout_s: float) -> None:
        """Return once everything that is in the stream now is taken in. Raises `Transient`."""
        newest = await self._bus.last_sequence(OBJECTS.name)
        if newest > self.catalogue.sequence:
            await self.wait_for(newest, timeout_s)

    async def run(self) -> None:
        """Read until cancelled; outages of the bus are waited out."""
        while True:
            reader = self._bus.read(OBJECTS.name, OBJECTS.subjects, after=self.catalogue.sequence)
            try:
                await self._look_ahead()
                while True:
                    await self._take(await reader.next_batch(BATCH_MAX, IDLE_WAIT_S))
            except Transient as error:
                _log.warning("object feed waits", error=str(error))
                await asyncio.sleep(RECONNECT_WAIT_S)
            finally:
                await _close(reader)

    async def _look_ahead(self) -> None:
        try:
            info = await self._bus.client.jetstream().stream_info(OBJECTS.name)
        except (NotFoundError, NatsError, OSError, TimeoutError) as error:
            raise Transient(f"cannot see {OBJECTS.name}: {error}") from error
        self._goal = info.state.last_seq
        if info.state.messages == 0:
            self.catalogue.advance(self._goal)
        async with self._moved:
            self._moved.notify_all()

    async def _take(self, batch: list[Received]) -> None:
        if not batch:
            return
        for received in batch:
            try:
                apply_object(self.catalogue, received)
            except MusterError as error:
                self.unreadable_total += 1
                _log.error("object not read", subject=received.subject, reason=str(error))
                self.catalogue.advance(received.sequence)
        async with self._moved:
            self._moved.notify_all()


def apply_object(catalogue: ObjectCatalogue, received: Received) -> None:
    """Put one message of the stream into the catalogue. Raises `InvalidValue`, `ManifestError`."""
    address = subjects.parse_object(received.subject)
    key = ObjectKey(address.kind, address.namespace, address.name)
    name = received.headers.get("ce-type", "").rpartition(".")[2]
    match codec.decode_event(name, received.body):
        case ObjectApplied() as fact:
            catalogue.put(
                received.sequence, fact.namespace, fact.document, by=fact.by, text=fact.text
            )
        case ObjectDeleted():
            catalogue.remove(received.sequence, key)
        case _:
            raise InvalidValue(f"{name} says nothing about an object", field="ce-type")


async def _close(reader: Reader) -> None:
    try:
        await reader.close()
    except (NatsError, OSError) as error:
        _log.debug("reader not closed", error=str(error))
