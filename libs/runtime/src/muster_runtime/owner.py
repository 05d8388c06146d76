"""Owning a shard: read the log, feed the machine, commit once per cycle, relay.

Crash-only: whatever goes wrong, the shard is claimed again and the machine rebuilt from what was
committed, under the lease's fencing token.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import structlog

from muster_contracts.streams import EVENTS
from muster_contracts.subjects import query
from muster_domain.errors import Fenced, InvalidValue, Transient
from muster_ledger.store import Commit, Committed, FencedOff, Image, StaleVersion, Store
from muster_runtime.bus import Bus, DeadLetter
from muster_runtime.clock import now_ms
from muster_runtime.machine import Changes, Machine
from muster_runtime.reader import Reader, Received
from muster_runtime.relay import Relay
from muster_runtime.telemetry import Metrics, Tracing

BATCH_MAX = 128
"""Messages in one cycle; leases, health and questions wait while a cycle decides."""
IDLE_WAIT_S = 1.0
RESTART_WAIT_S = 0.2
IDLE_COMMIT_AFTER = 2000
"""Messages that changed nothing before the watermark alone is committed."""
DEFECT_TRIES = 3
"""How often a message may break the machine before it is put aside."""

BEAT_MAX_AGE_MS = 20_000
ASK_STORE_EVERY_MS = 5_000
"""How often a shard that has nothing to commit sees whether it could."""

_log = structlog.get_logger()

M = TypeVar("M", bound=Machine)

Reply = Callable[[M, dict[str, Any]], bytes]
"""Answers a question from a machine's state; raises `MusterError` to refuse."""


def _nothing_to_count(_machine: Machine) -> None:
    return


async def _nothing_to_wait_for(_machine: Machine) -> None:
    return


@dataclass(slots=True, kw_only=True)
class Progress:
    """How an owner is doing, for health and for people."""

    shard: str
    epoch: int
    version: int = 0
    watermark: int = 0
    pending: int = 0
    unpublished: int = 0
    beat_ms: int = 0


@dataclass(slots=True, kw_only=True)
class Owner(Generic[M]):
    """Owns shards of one service, each with a machine of its own.

    `prepare` runs before every decision and may wait (for declared objects, say), `committed` after
    every commit. `answers` are
    given for each shard as long as it is owned, on the query subject of the shard.
    """

    bus: Bus
    store: Store
    build: Callable[[Image], M]
    metrics: Metrics
    tracing: Tracing
    prepare: Callable[[M], Awaitable[None]] = _nothing_to_wait_for
    committed: Callable[[M], None] = _nothing_to_count
    answers: Mapping[str, Reply[M]] = field(default_factory=dict[str, Reply[M]])
    progress: dict[str, Progress] = field(default_factory=dict[str, Progress])
    machines: dict[str, M] = field(default_factory=dict[str, M])
    _defects: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])

    async def own(self, shard: str, epoch: int) -> None:
        """Own the shard until cancelled or fenced. Raises `Fenced`."""
        self.progress[shard] = Progress(shard=shard, epoch=epoch, beat_ms=now_ms())
        try:
            while True:
                try:
                    await self._tenure(shard, epoch)
                except* Transient as group:
                    _log.warning("shard restarts", shard=shard, error=str(group.exceptions[0]))
                await asyncio.sleep(RESTART_WAIT_S)
        finally:
            self.progress.pop(shard, None)
            self.machines.pop(shard, None)

    def trouble(self) -> str:
        """Why some shard does not move; empty when all do."""
        late = [
            shard
            for shard, progress in sorted(self.progress.items())
            if progress.beat_ms and now_ms() - progress.beat_ms > BEAT_MAX_AGE_MS
        ]
        return f"no cycle for {BEAT_MAX_AGE_MS // 1000} s in {', '.join(late)}" if late else ""

    def measure(self) -> None:
        """Put the progress of all shards into the metrics; shards that are gone go from them."""
        self.metrics.log_pending.clear()
        self.metrics.outbox_pending.clear()
        for shard, progress in self.progress.items():
            self.metrics.log_pending.labels(shard).set(progress.pending)
            self.metrics.outbox_pending.labels(shard).set(progress.unpublished)

    async def _tenure(self, shard: str, epoch: int) -> None:
        claimed = await self.store.claim(shard, epoch)
        if isinstance(claimed, FencedOff):
            raise Fenced(f"{shard} belongs to epoch {claimed.epoch}, not {epoch}")
        progress = self.progress[shard]
        if claimed.version < progress.version:
            raise Fenced(
                f"{shard} has gone back from version {progress.version} to {claimed.version}; "
                "another epoch must go on, whose messages have other ids"
            )
        progress.version, progress.watermark = claimed.version, claimed.watermark
        machine = self.build(claimed)
        relay = Relay(self.bus, self.store, shard)
        await relay.recover()
        reader = self.bus.read(EVENTS.name, machine.inputs(), after=claimed.watermark)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(reader.close)
            await self._answer(stack, shard, machine)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            relaying = group.create_task(relay.run())
            stack.callback(relaying.cancel)
            await _Tenure(self, shard, machine, relay, reader).run()

    async def _answer(self, stack: AsyncExitStack, shard: str, machine: M) -> None:
        for name, reply in self.answers.items():

            async def handler(question: dict[str, Any], reply: Reply[M] = reply) -> bytes:
                return reply(machine, question)

            subject = query(self.bus.service, name, shard)
            stack.push_async_callback(await self.bus.answer(subject, handler))

    def counts_as_defect(self, shard: str, received: Received) -> bool:
        """Whether a message has broken the shard's machine so often that it is put aside."""
        self._defects[shard, received.sequence] += 1
        return self.is_defect(shard, received)

    def is_defect(self, shard: str, received: Received) -> bool:
        """Whether the shard has put the message aside before."""
        return self._defects[shard, received.sequence] >= DEFECT_TRIES


class _Tenure(Generic[M]):
    """One life of one machine, from a claim to the first thing that goes wrong."""

    def __init__(
        self, owner: Owner[M], shard: str, machine: M, relay: Relay, reader: Reader
    ) -> None:
        self._owner = owner
        self._machine = machine
        self._relay = relay
        self._reader = reader
        self._progress = owner.progress[shard]
        self._unchanged = 0
        self._seen_store_ms = now_ms()

    async def run(self) -> None:
        """Cycle for ever."""
        self._owner.machines[self._progress.shard] = self._machine
        while True:
            batch = await self._reader.next_batch(BATCH_MAX, self._wait_s())
            await self._ingest(batch)
            await self._owner.prepare(self._machine)
            await self._commit(self._machine.decide(now_ms()), batch)
            await self._see_store()
            self._progress.pending = self._reader.pending
            self._progress.unpublished = self._relay.waiting
            self._progress.beat_ms = now_ms()

    async def _see_store(self) -> None:
        if now_ms() - self._seen_store_ms >= ASK_STORE_EVERY_MS:
            await self._owner.store.ping()
            self._seen_store_ms = now_ms()

    def _wait_s(self) -> float:
        wake_ms = self._machine.wake_at_ms()
        if wake_ms is None:
            return IDLE_WAIT_S
        return min(IDLE_WAIT_S, max(0.0, (wake_ms - now_ms()) / 1000))

    async def _ingest(self, batch: list[Received]) -> None:
        letters: list[DeadLetter] = []
        for received in batch:
            if self._owner.is_defect(self._progress.shard, received):
                continue
            try:
                self._machine.ingest(received, now_ms())
            except InvalidValue as error:
                letters.append(DeadLetter(received=received, stream=EVENTS.name, reason=str(error)))
            except Exception as error:
                _log.exception("message broke the machine", sequence=received.sequence)
                if self._owner.counts_as_defect(self._progress.shard, received):
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
                self._owner.committed(self._machine)
                self._seen_store_ms = now_ms()
            case FencedOff(epoch=epoch):
                raise Fenced(f"{progress.shard} belongs to epoch {epoch} now")
            case StaleVersion(version=version):
                raise Transient(f"{progress.shard} is at version {version}")
        for span in spans:
            span.end()
        await self._relay.offer(progress.version, outbox)


def _defect(received: Received, error: Exception) -> DeadLetter:
    return DeadLetter(received=received, stream=EVENTS.name, reason=f"defect: {error!r}")
