"""What a service that owns facts looks like to the chassis: a state machine without IO.

It is fed the log in order and asked to decide; what it changed comes back as data and is committed
in one call. It never awaits, reads a clock or talks to anybody.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from muster_ledger.store import OutboxMessage
from muster_runtime.reader import Received


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Everything one cycle changed: absolute values and the messages that say so."""

    puts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    deletes: tuple[str, ...] = ()
    outbox: tuple[OutboxMessage, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.puts or self.deletes or self.outbox)


class Machine(Protocol):
    """Owns the facts of one shard."""

    def inputs(self) -> tuple[str, ...]:
        """The subjects of the log that it reads."""
        ...

    def ingest(self, received: Received, now_ms: int) -> None:
        """Take in one message. Raises `InvalidValue` for one that cannot be digested.

        The same message twice changes nothing the second time.
        """
        ...

    def decide(self, now_ms: int) -> Changes:
        """Decide on everything taken in, and let go of what the time has ended."""
        ...

    def wake_at_ms(self) -> int | None:
        """When `decide` must be called though nothing arrived; now or earlier means at once."""
        ...
