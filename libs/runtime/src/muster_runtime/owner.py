"""Owning a shard: read the log, feed the machine, commit once per cycle, relay.

Crash-only: whatever goes wrong, the shard is claimed again and the machine rebuilt from what was
committed, under the lease's fencing token.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from muster_contracts.streams import EVENTS
from muster_domain.errors import Fenced, InvalidValue, Transient
from muster_ledger.store import Commit, Committed, FencedOff, Image, StaleVersion, Store
from muster_runtime.bus import Bus, DeadLetter
from muster_runtime.clock import now_ms
from muster_runtime.machine import Changes, Machine
from muster_runtime.reader import Reader, Received
from muster_runtime.relay import Relay
from muster_runtime.telemetry import Metrics, Tracing

BATCH_MAX = 512
IDLE_WAIT_S = 1.0
IDLE_COMMIT_AFTER = 2000
"""Messages that changed nothing before the watermark alone is committed."""
DEFECT_TRIES = 3
"""How often a message may break the machine before it is put aside."""

_log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class Progress:
    """How an owner is doing, for health and for people."""

    shard: str
    epoch: int
    version: int
    watermark: int
    pending: int = 0
    unpublished: int = 0
    beat_ms: int = 0


@dataclass(slots=True, kw_only=True)
class Owner:
    """Owns shards of one service, each with a machine of its own."""

    bus: Bus
    store: Store
    build: Callable[[Image], Machine]
    metrics: Metrics
    tracing: Tracing
    before_decision: Callable[[Machine], "asyncio.Future[None] | None"] = lambda _machine: None
    progress: dict[str, Progress] = field(default_factory=dict[str, Progress])
    machines: dict[str, Machine] = field(default_factory=dict[str, Machine])
    _defects: Counter[int] = field(default_factory=Counter[int])

    async def own(self, shard: str, epoch: int) -> None:
        """Own the shard until cancelled or fenced. Raises `Fenced`."""
        try:
            while True:
                try:
                    await self._tenure(shard, epoch)
                except* Transient as group:
                    _log.warning("shard restarts", shard=shard, error=str(group.exceptions[0]))
                await asyncio.sleep(0.2)
        finally:
            self.progress.pop(shard, None)
            self.machines.pop(shard, None)

    async def _tenure(self, shard: str, epoch: int) -> None:
        claimed = await self.store.claim(shard, epoch)
        if isinstance(claimed, FencedOff):
            raise Fenced(f"{shard} belongs to epoch {claimed.epoch}, not {epoch}")
        machine = self.build(claimed)
        relay = Relay(self.bus, self.store, shard)
        await relay.recover()
        reader = self.bus.read(EVENTS.name, machine.inputs(), after=claimed.watermark)
        self.progress[shard] = Progress(
            shard=shard, epoch=epoch, version=claimed.version, watermark=claimed.watermark
        )
        try:
            async with asyncio.TaskGroup() as group:
                relaying = group.create_task(relay.run())
                tenure = _Tenure(self, shard, machine, relay, reader)
                try:
                    await tenure.run()
                finally:
                    relaying.cancel()
        finally:
            await reader.close()

    def counts_as_defect(self, received: Received) -> bool:
        """Whether a message has broken the machine so often that it is put aside."""
        self._defects[received.sequence] += 1
        return self._defects[received.sequence] >= DEFECT_TRIES

    def is_defect(self, received: Received) -> bool:
        """Whether the message was put aside before."""
        return self._defects[received.sequence] >= DEFECT_TRIES


class _Tenure:
    """One life of one machine, from a claim to the first thing that goes wrong."""

    def __init__(
        self, owner: Owner, shard: str, machine: Machine, relay: Relay, reader: Reader
    ) -> None:
        self._owner = owner
        self._machine = machine
        self._relay = relay
        self._reader = reader
        self._progress = owner.progress[shard]
        self._unchanged = 0

    async def run(self) -> None:
        """Cycle for ever."""
        self._owner.machines[self._progress.shard] = self._machine
        while True:
            batch = await self._reader.next_batch(BATCH_MAX, self._wait_s())
            await self._ingest(batch)
            ready = self._owner.before_decision(self._machine)
            if ready is not None:
                await ready
            await self._commit(self._machine.decide(now_ms()), batch)
            self._progress.pending = self._reader.pending
            self._progress.unpublished = self._relay.waiting
            self._progress.beat_ms = now_ms()

    def _wait_s(self) -> float:
        wake_ms = self._machine.wake_at_ms()
        if wake_ms is None:
            return IDLE_WAIT_S
        return min(IDLE_WAIT_S, max(0.0, (wake_ms - now_ms()) / 1000))

    async def _ingest(self, batch: list[Received]) -> None:
        letters: list[DeadLetter] = []
        for received in batch:
            if self._owner.is_defect(received):
                continue
            try:
                self._machine.ingest(received, now_ms())
            except InvalidValue as error:
                letters.append(DeadLetter(received=received, stream=EVENTS.name, reason=str(error)))
            except Exception as error:
                _log.exception("message broke the machine", sequence=received.sequence)
                if self._owner.counts_as_defect(received):
                    await self._bury([_defect(received, error)])
                raise Transient("the machine is rebuilt after a defect") from error
        if letters:
            await self._bury(letters)

    async def _bury(self, letters: list[DeadLetter]) -> None:
        for letter in letters:
            _log.error("dead letter", sequence=letter.received.sequence, reason=letter.reason)
        self._owner.metrics.dead_letters.inc(len(letters))
        await self._owner.bus.bury(letters)

    async def _commit(self, changes: Changes, batch: list[Received]) -> None:
        progress = self._progress
        watermark = batch[-1].sequence if batch else progress.watermark
        if not changes:
            self._unchanged += len(batch)
            if self._unchanged < IDLE_COMMIT_AFTER:
                progress.watermark = watermark
                return
        self._unchanged = 0
        outbox, spans = self._owner.tracing.continue_outbox(changes.outbox)
        commit = Commit(
            shard=progress.shard,
            epoch=progress.epoch,
            expected_version=progress.version,
            watermark=watermark,
            puts=changes.puts,
            deletes=changes.deletes,
            outbox=outbox,
        )
        with self._owner.metrics.commit_seconds.time():
            result = await self._owner.store.commit(commit)
        match result:
            case Committed(version=version):
                progress.version = version
                progress.watermark = watermark
            case FencedOff(epoch=epoch):
                raise Fenced(f"{progress.shard} belongs to epoch {epoch} now")
            case StaleVersion(version=version):
                raise Transient(f"{progress.shard} is at version {version}")
        for span in spans:
            span.end()
        await self._relay.offer(progress.version, outbox)


def _defect(received: Received, error: Exception) -> DeadLetter:
    return DeadLetter(received=received, stream=EVENTS.name, reason=f"defect: {error!r}")
