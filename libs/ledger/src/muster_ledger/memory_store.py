"""The store's rules in plain dictionaries, for the simulator and for tests.

`MemoryShards` is synchronous and holds the data; `MemoryStore` puts the asynchronous interface and
injected faults in front of it, so that several owners with faults of their own share one truth.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TypeVar

from muster_domain.errors import Transient
from muster_ledger.encoding import commit_id
from muster_ledger.store import (
    Commit,
    CommitResult,
    Committed,
    FencedOff,
    Image,
    OutboxEntry,
    OutboxPosition,
    StaleVersion,
    check_exact,
    check_outbox_count,
    check_shard,
)

_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class _Shard:
    epoch: int = 0
    version: int = 0
    watermark: int = 0
    commit_id: str = ""
    fields: dict[str, bytes] = field(default_factory=dict[str, bytes])
    outbox: list[OutboxEntry] = field(default_factory=list[OutboxEntry])

    def copy(self) -> "_Shard":
        return replace(self, fields=dict(self.fields), outbox=list(self.outbox))

    def apply(self, commit: Commit) -> None:
        self.fields.update(commit.puts)
        for name in commit.deletes:
            self.fields.pop(name, None)
        self.outbox.extend(
            OutboxEntry(OutboxPosition(commit.version, ordinal), message)
            for ordinal, message in enumerate(commit.outbox, start=1)
        )
        self.version = commit.version
        self.watermark = commit.watermark
        self.commit_id = commit_id(commit)

    def entries_through(self, position: OutboxPosition) -> int:
        return bisect_right(self.outbox, position, key=lambda entry: entry.position)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All shards at one moment."""

    shards: Mapping[str, _Shard]


class MemoryShards:
    """Shards by name, under the rules of `store.Store`."""

    def __init__(self) -> None:
        self._shards: dict[str, _Shard] = {}

    def claim(self, shard: str, epoch: int) -> Image | FencedOff:
        """As `Store.claim`."""
        check_exact("epoch", epoch)
        stored = self._get(shard)
        if stored.epoch > epoch:
            return FencedOff(stored.epoch)
        stored.epoch = epoch
        return self.load(shard)

    def load(self, shard: str) -> Image:
        """As `Store.load`."""
        stored = self._get(shard)
        return Image(
            shard=shard,
            epoch=stored.epoch,
            version=stored.version,
            watermark=stored.watermark,
            fields=dict(stored.fields),
        )

    def commit(self, commit: Commit) -> CommitResult:
        """As `Store.commit`."""
        stored = self._get(commit.shard)
        if stored.epoch > commit.epoch:
            return FencedOff(stored.epoch)
        if stored.commit_id == commit_id(commit):
            return Committed(stored.version)
        if stored.epoch != commit.epoch or stored.version != commit.expected_version:
            return StaleVersion(stored.version)
        stored.apply(commit)
        return Committed(commit.version)

    def read_outbox(self, shard: str, after: OutboxPosition, count: int) -> tuple[OutboxEntry, ...]:
        """As `Store.read_outbox`."""
        check_outbox_count(count)
        stored = self._get(shard)
        first = stored.entries_through(after)
        return tuple(stored.outbox[first : first + count])

    def trim_outbox(self, shard: str, through: OutboxPosition) -> None:
        """As `Store.trim_outbox`."""
        stored = self._get(shard)
        del stored.outbox[: stored.entries_through(through)]

    def checkpoint(self) -> Checkpoint:
        """Copy what a disk would hold now."""
        return Checkpoint({name: shard.copy() for name, shard in self._shards.items()})

    def restore(self, checkpoint: Checkpoint) -> None:
        """Forget everything since a checkpoint: a server that lost its last second."""
        self._shards = {name: shard.copy() for name, shard in checkpoint.shards.items()}

    def _get(self, shard: str) -> _Shard:
        check_shard(shard)
        return self._shards.setdefault(shard, _Shard())


class Operation(Enum):
    """What a fault can befall."""

    CLAIM = auto()
    LOAD = auto()
    COMMIT = auto()
    READ_OUTBOX = auto()
    TRIM_OUTBOX = auto()
    PING = auto()


class Fault(Enum):
    """How a call fails: before it took effect, or after (the answer is lost)."""

    BEFORE = auto()
    AFTER = auto()


FaultPlan = Callable[[Operation, str], Fault | None]
"""Asked once per call, with the shard ("" for ping): how shall it fail, if at all?"""


def no_faults(_operation: Operation, _shard: str) -> None:
    """Let every call succeed."""


class MemoryStore:
    """A `Store` over `MemoryShards`. None of its methods ever waits."""

    def __init__(
        self, shards: MemoryShards | None = None, *, faults: FaultPlan = no_faults
    ) -> None:
        self.shards = MemoryShards() if shards is None else shards
        self._faults = faults

    async def claim(self, shard: str, epoch: int) -> Image | FencedOff:
        """As `Store.claim`."""
        return self._call(Operation.CLAIM, shard, lambda: self.shards.claim(shard, epoch))

    async def load(self, shard: str) -> Image:
        """As `Store.load`."""
        return self._call(Operation.LOAD, shard, lambda: self.shards.load(shard))

    async def commit(self, commit: Commit) -> CommitResult:
        """As `Store.commit`."""
        return self._call(Operation.COMMIT, commit.shard, lambda: self.shards.commit(commit))

    async def read_outbox(
        self, shard: str, after: OutboxPosition, count: int
    ) -> tuple[OutboxEntry, ...]:
        """As `Store.read_outbox`."""
        return self._call(
            Operation.READ_OUTBOX, shard, lambda: self.shards.read_outbox(shard, after, count)
        )

    async def trim_outbox(self, shard: str, through: OutboxPosition) -> None:
        """As `Store.trim_outbox`."""
        self._call(Operation.TRIM_OUTBOX, shard, lambda: self.shards.trim_outbox(shard, through))

    async def ping(self) -> None:
        """As `Store.ping`."""
        self._call(Operation.PING, "", lambda: None)

    async def close(self) -> None:
        """Nothing to let go of."""

    def _call(self, operation: Operation, shard: str, act: Callable[[], _T]) -> _T:
        fault = self._faults(operation, shard)
        if fault is Fault.BEFORE:
            raise Transient(f"{operation.name}: the store did not answer (injected, before)")
        answer = act()
        if fault is Fault.AFTER:
            raise Transient(f"{operation.name}: the store did not answer (injected, after)")
        return answer
