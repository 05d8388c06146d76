"""What an owner commits, and what a store answers.

A shard ("p03", "placement") is the unit of commit: one owner at a time, one hash of fields, one
outbox. Each owner holds a lease whose revision is its *epoch*; a store remembers the highest epoch
that claimed the shard and lets nobody below it write. *Version* counts commits from 0. *Watermark*
is the input sequence up to which the state includes its input. Epoch, version and watermark are
exact integers below 2^53, so a store may compare them in Lua; quantities are opaque bytes to it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, Protocol

from muster_domain.errors import InvalidValue

EXACT_MAX = 2**53 - 1
VALUE_BYTES_MAX = 1024 * 1024
NAME_BYTES_MAX = 1024
COMMIT_ENTRIES_MAX = 100_000
COMMIT_BYTES_MAX = 64 * 1024 * 1024
OUTBOX_READ_MAX = 10_000
_SHARD = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class OutboxPosition(NamedTuple):
    """Where an outbox entry stands: the version that wrote it, then its place in that commit."""

    version: int
    ordinal: int

    def __str__(self) -> str:
        return f"{self.version}-{self.ordinal}"

    @classmethod
    def parse(cls, text: str) -> "OutboxPosition":
        """Read what `str` wrote. Raises `InvalidValue` for anything else."""
        version, dash, ordinal = text.partition("-")
        if not (dash and version.isdecimal() and ordinal.isdecimal()):
            raise InvalidValue(f"{text!r} is not an outbox position", fix="write version-ordinal")
        return cls(int(version), int(ordinal))


OUTBOX_START = OutboxPosition(0, 0)
"""Before every entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMessage:
    """One message to publish; `message_id` is derived, so publishing twice is publishing once."""

    subject: str
    message_id: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A message that waits in the outbox."""

    position: OutboxPosition
    message: OutboxMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Everything one cycle changed, as absolute values.

    It applies whole or not at all, and only if the shard's epoch is `epoch` and its version is
    `expected_version`. Raises `InvalidValue` when a bound is exceeded or a field is both put and
    deleted.
    """

    shard: str
    epoch: int
    expected_version: int
    watermark: int
    puts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    deletes: tuple[str, ...] = ()
    outbox: tuple[OutboxMessage, ...] = ()

    def __post_init__(self) -> None:
        check_shard(self.shard)
        check_exact("epoch", self.epoch)
        check_exact("expected_version", self.expected_version + 1)
        check_exact("watermark", self.watermark)
        _check_bounds(self)
        if any(name in self.puts for name in self.deletes):
            raise InvalidValue("a field is both put and deleted", field="deletes")

    @property
    def version(self) -> int:
        """The shard's version once this is applied."""
        return self.expected_version + 1


@dataclass(frozen=True, slots=True)
class Committed:
    """Applied, now or by an earlier call with the very same commit."""

    version: int


@dataclass(frozen=True, slots=True)
class FencedOff:
    """A higher epoch claimed the shard. Nothing was changed; the caller's lease is over."""

    epoch: int


@dataclass(frozen=True, slots=True)
class StaleVersion:
    """The shard is not what the caller believes: claim it again and read it. Nothing was changed.

    Also the answer to an epoch that never claimed the shard (the store lost the claim in a crash).
    """

    version: int


CommitResult = Committed | FencedOff | StaleVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A shard as it stood after commit `version`. A shard that nobody wrote is all zeros."""

    shard: str
    epoch: int
    version: int
    watermark: int
    fields: Mapping[str, bytes]


class Store(Protocol):
    """Where owners keep their state.

    Every method raises `Transient` when the store does not answer. After a `Transient` from
    `commit` nobody knows whether it was applied: send the very same commit again.
    """

    async def claim(self, shard: str, epoch: int) -> Image | FencedOff:
        """Raise the fence to `epoch` and read everything; one epoch may claim more than once."""
        ...

    async def load(self, shard: str) -> Image:
        """Read everything, without a fence."""
        ...

    async def commit(self, commit: Commit) -> CommitResult:
        """Apply a commit. The first of these that holds is the answer.

        1. a higher epoch claimed the shard: `FencedOff`
        2. this very commit is the last one applied: `Committed`
        3. the epoch did not claim the shard, or the version differs: `StaleVersion`
        4. `Committed`
        """
        ...

    async def read_outbox(
        self, shard: str, after: OutboxPosition, count: int
    ) -> tuple[OutboxEntry, ...]:
        """Read the first `count` entries after a position, in the order of their commits."""
        ...

    async def trim_outbox(self, shard: str, through: OutboxPosition) -> None:
        """Forget entries up to and including a position, none after it.

        A store may keep some of them until the last message of their commit is trimmed.
        """
        ...

    async def ping(self) -> None:
        """Return when the store answers."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


def check_shard(shard: str) -> None:
    """Raise `InvalidValue` unless this may name a shard."""
    if not _SHARD.fullmatch(shard):
        raise InvalidValue(
            f"{shard!r} cannot name a shard", field="shard", fix="use a-z, 0-9 and -, 63 at most"
        )


def check_exact(name: str, number: int) -> None:
    """Raise `InvalidValue` unless a store can compare this number exactly."""
    if not 0 <= number <= EXACT_MAX:
        raise InvalidValue(f"{number} is outside 0..2^53-1", field=name)


def check_outbox_count(count: int) -> None:
    """Raise `InvalidValue` unless one read may ask for so many entries."""
    if not 1 <= count <= OUTBOX_READ_MAX:
        raise InvalidValue(f"{count} is outside 1..{OUTBOX_READ_MAX}", field="count")


def _check_bounds(commit: Commit) -> None:
    entries = len(commit.puts) + len(commit.deletes) + len(commit.outbox)
    if entries > COMMIT_ENTRIES_MAX:
        raise InvalidValue(f"a commit of {entries} entries; {COMMIT_ENTRIES_MAX} is the limit")
    names = [*commit.puts, *commit.deletes]
    names += chain.from_iterable((m.subject, m.message_id) for m in commit.outbox)
    if max(map(len, names), default=0) > NAME_BYTES_MAX:
        raise InvalidValue(f"a name is longer than {NAME_BYTES_MAX}")
    values = [len(value) for value in commit.puts.values()]
    values += [len(message.body) for message in commit.outbox]
    if max(values, default=0) > VALUE_BYTES_MAX:
        raise InvalidValue(f"a value of {max(values)} bytes; {VALUE_BYTES_MAX} is the limit")
    if sum(values) > COMMIT_BYTES_MAX:
        raise InvalidValue(f"a commit of {sum(values)} bytes; {COMMIT_BYTES_MAX} is the limit")
