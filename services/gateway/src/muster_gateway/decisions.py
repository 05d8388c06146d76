"""The decisions as they fall: who waits for one hears it, and ids find their workloads.

A bounded memory of the stream of decisions. What it does not remember can be asked of the owners.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from muster_contracts import codec, subjects
from muster_contracts.jobs import Decision, Verdict
from muster_contracts.streams import DECISIONS
from muster_domain.errors import InvalidValue, Transient
from muster_runtime.bus import Bus
from muster_runtime.reader import Received

BATCH_MAX = 512
IDLE_WAIT_S = 5.0
RECONNECT_WAIT_S = 0.5
REMEMBERED_MAX = 100_000
REPLAYED_MAX = 2_000
BACKLOG_MAX = 256
"""Decisions that a slow listener may be behind before it is dropped."""
ENDED = frozenset({Verdict.FINISHED, Verdict.REFUSED})

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A decision that fell: what is needed to find its readers, and the message itself."""

    sequence: int
    id: str
    namespace: str
    name: str
    queue: str
    cluster_queue: str
    partition: str
    verdict: str
    body: bytes = b""

    @property
    def ended(self) -> bool:
        """Whether nothing more will be decided about this workload."""
        return self.verdict in ENDED


Wanted = Callable[[Heard], bool]


class Listener:
    """Somebody who hears decisions. `lagging` once too slow; then nothing more arrives."""

    def __init__(self, wanted: Wanted) -> None:
        self.lagging = False
        self._wanted = wanted
        self._backlog: asyncio.Queue[Heard] = asyncio.Queue(BACKLOG_MAX)

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be read."""
        return self._backlog.empty()

    def offer(self, heard: Heard) -> None:
        """Take a decision if it is wanted."""
        if self.lagging or not self._wanted(heard):
            return
        try:
            self._backlog.put_nowait(heard)
        except asyncio.QueueFull:
            self.lagging = True

    async def next(self, timeout_s: float) -> Heard | None:
        """The next decision, or None when none fell in time."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._backlog.get()
        except TimeoutError:
            return None


class DecisionFeed:
    """Reads the stream of decisions and passes them on."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known: OrderedDict[str, Heard] = OrderedDict()
        self._recent: deque[Heard] = deque(maxlen=REPLAYED_MAX)
        self._listeners: set[Listener] = set()
        self._position: int | None = None

    def trouble(self) -> str:
        """Why decisions are not heard; empty when they are."""
        return "has not seen the stream of decisions yet" if self._position is None else ""

    async def run(self) -> None:
        """Read until cancelled; outages of the bus are waited out."""
        while True:
            try:
                if self._position is None:
                    newest = await self._bus.last_sequence(DECISIONS.name)
                    self._position = max(0, newest - REMEMBERED_MAX)
                await self._read_on(self._position)
            except Transient as error:
                _log.warning("decision feed waits", error=str(error))
                await asyncio.sleep(RECONNECT_WAIT_S)

    async def _read_on(self, position: int) -> None:
        reader = self._bus.read(DECISIONS.name, DECISIONS.subjects, after=position)
        try:
            while True:
                for received in await reader.next_batch(BATCH_MAX, IDLE_WAIT_S):
                    self._position = received.sequence
                    self.hear(received)
        finally:
            await reader.close()

    def hear(self, received: Received) -> None:
        """Remember a decision and pass it on; one that cannot be read is passed over."""
        heard = read_heard(received)
        if heard is None:
            _log.error("decision not read", subject=received.subject)
            return
        self.remember(heard)
        self._recent.append(heard)
        for listener in self._listeners:
            listener.offer(heard)

    def remember(self, heard: Heard) -> None:
        """Keep where a workload is decided about, for look-ups by id."""
        self._known[heard.id] = heard
        self._known.move_to_end(heard.id)
        while len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)

    def find(self, identity: str) -> Heard | None:
        """What is remembered of a workload."""
        return self._known.get(identity)

    def begin_with(self, prefix: str) -> list[Heard]:
        """Remembered workloads whose ids begin so."""
        return [heard for identity, heard in self._known.items() if identity.startswith(prefix)]

    @contextmanager
    def listen(
        self, wanted: Wanted, *, after: int | None = None
    ) -> Generator[Listener, None, None]:
        """Hear decisions until the block ends, from the one after `after` as far as remembered."""
        listener = Listener(wanted)
        if after is not None:
            for heard in self._recent:
                if heard.sequence > after:
                    listener.offer(heard)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def last(self, namespace: str, name: str) -> Decision | None:
        """The last decision about the workload of that name. Raises `Transient`."""
        found = await self._bus.last(DECISIONS.name, subjects.decision(namespace, name))
        return None if found is None else codec.decode(Decision, found.body)


def read_heard(received: Received) -> Heard | None:
    """Read as much of a decision as passing it on takes; None for what is no decision."""
    try:
        said = codec.decode(_Said, received.body, bytes_max=codec.ANSWER_BYTES_MAX)
    except InvalidValue:
        return None
    return Heard(
        sequence=received.sequence,
        id=said.id,
        namespace=said.namespace,
        name=said.name,
        queue=said.queue,
        cluster_queue=said.cluster_queue,
        partition=said.partition,
        verdict=said.decision,
        body=received.body,
    )


@dataclass(slots=True, kw_only=True)
class _Said:
    """What is read of a `Decision` to pass it on."""

    id: str
    namespace: str
    name: str
    queue: str
    cluster_queue: str
    partition: str
    decision: str
