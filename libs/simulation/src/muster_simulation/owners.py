"""A process that owns a shard: the chassis' owner loop, one step at a time, with crashes."""

from collections.abc import Callable
from typing import Generic, TypeVar

from muster_contracts.envelope import MESSAGE_ID
from muster_ledger.store import (
    OUTBOX_START,
    Commit,
    Committed,
    FencedOff,
    Image,
    StaleVersion,
)
from muster_runtime.machine import Changes, Machine
from muster_simulation.invariants import InvariantBroken
from muster_simulation.world import NO_FAULTS, World

M = TypeVar("M", bound=Machine)

TURN_MS_MAX = 40
IDLE_TURN_MS_MAX = 400
"""Between turns in which nothing happened, once there are no faults whose chance is per turn."""
IDLE_WAIT_MS = 1_000
"""An owner decides when something came or is due, and at least so often, as the chassis' does."""
BATCH_MAX = 24
RESTART_MS_MAX = 2_000


class OwnerProcess(Generic[M]):
    """Owns one shard; when it crashes, the next one claims it under a higher epoch.

    After a `takeover` the old owner goes on for a while, not knowing: the fence must hold it off.
    """

    def __init__(
        self,
        world: World,
        shard: str,
        build: Callable[[Image], M],
        committed: Callable[[M], None],
    ) -> None:
        self._world = world
        self._shard = shard
        self._build = build
        self._committed = committed
        self.machine: M | None = None
        self._epoch = 0
        self._version = 0
        self._position = 0
        self._cursor = 0
        self._decide_at_ms = 0
        self._claim()

    @property
    def idle(self) -> bool:
        """Whether it has read everything and published everything."""
        machine = self.machine
        if machine is None:
            return False
        unread, _ = self._world.log.read(self._cursor, machine.inputs(), 1)
        return not unread and not self._world.shards.read_outbox(self._shard, OUTBOX_START, 1)

    def _claim(self) -> None:
        world = self._world
        self._epoch = world.next_epoch()
        image = world.shards.claim(self._shard, self._epoch)
        if isinstance(image, FencedOff):
            raise InvariantBroken("INV-12", f"epoch {self._epoch} is not the highest")
        self.machine = self._build(image)
        self._version = image.version
        self._position = self._cursor = image.watermark
        self._decide_at_ms = world.now_ms
        self._committed(self.machine)
        self._turn(self._epoch)

    def _crash(self) -> None:
        self.machine = None
        self._world.after(self._world.chance("restart").randrange(RESTART_MS_MAX), self._claim)

    def _turn(self, epoch: int, *, idle: bool = False) -> None:
        longest_ms = IDLE_TURN_MS_MAX if idle and self._world.faults == NO_FAULTS else TURN_MS_MAX
        delay = self._world.chance(f"turn {self._shard}").randrange(1, longest_ms)
        self._world.after(delay, lambda: self._step(epoch))

    def _step(self, epoch: int) -> None:
        machine = self.machine
        if machine is None or epoch != self._epoch:
            return
        world = self._world
        if world.happens("takeover", world.faults.takeover):
            self._be_taken_over(machine)
            return
        count = world.chance(f"batch {self._shard}").randrange(1, BATCH_MAX)
        batch, cursor = world.log.read(self._cursor, machine.inputs(), count)
        for received in batch:
            machine.ingest(received, world.now_ms)
        changes = (
            self._decide(machine) if batch or world.now_ms >= self._decide_at_ms else Changes()
        )
        watermark = batch[-1].sequence if batch else self._position
        if changes and not self._commit(changes, watermark):
            self._crash()
            return
        self._position, self._cursor = watermark, cursor
        if changes:
            self._committed(machine)
        if not self._relay():
            self._crash()
            return
        self._turn(epoch, idle=not batch and not changes)

    def _decide(self, machine: M) -> Changes:
        now_ms = self._world.now_ms
        changes = machine.decide(now_ms)
        wake_ms = machine.wake_at_ms()
        idle_ms = now_ms + IDLE_WAIT_MS
        self._decide_at_ms = idle_ms if wake_ms is None else min(idle_ms, wake_ms)
        return changes

    def _commit(self, changes: Changes, watermark: int) -> bool:
        world = self._world
        if world.happens("crash before commit", world.faults.crash_before_commit):
            return False
        result = world.shards.commit(self._commit_of(changes, watermark))
        match result:
            case Committed(version=version):
                self._version = version
            case FencedOff() | StaleVersion():
                raise InvariantBroken("INV-12", f"{self._shard}: {result}")
        return not world.happens("crash after commit", world.faults.crash_after_commit)

    def _commit_of(self, changes: Changes, watermark: int) -> Commit:
        return Commit(
            shard=self._shard,
            epoch=self._epoch,
            expected_version=self._version,
            watermark=watermark,
            puts=changes.puts,
            deletes=changes.deletes,
            outbox=changes.outbox,
        )

    def _relay(self) -> bool:
        world = self._world
        for entry in world.shards.read_outbox(self._shard, OUTBOX_START, 1000):
            message = entry.message
            headers = {**message.headers, MESSAGE_ID: message.message_id}
            world.publish(message.subject, headers, message.body)
            if world.happens("crash in relay", world.faults.crash_in_relay):
                return False
            world.shards.trim_outbox(self._shard, entry.position)
        return True

    def _be_taken_over(self, zombie: M) -> None:
        """Somebody else claims the shard; the old owner tries one more commit and is refused."""
        world = self._world
        batch, _ = world.log.read(self._cursor, zombie.inputs(), BATCH_MAX)
        for received in batch:
            zombie.ingest(received, world.now_ms)
        watermark = batch[-1].sequence if batch else self._position
        late = self._commit_of(zombie.decide(world.now_ms), watermark)
        self._claim()
        if not isinstance(world.shards.commit(late), FencedOff):
            raise InvariantBroken("INV-12", f"{self._shard}: written after a takeover")
