"""The smallest machine that owns facts: it counts, and says each count."""

from collections.abc import Callable
from dataclasses import dataclass, field

from muster_domain.errors import InvalidValue
from muster_ledger.store import Image, OutboxMessage
from muster_runtime.machine import Changes
from muster_runtime.reader import Received

COUNTED = "muster.evt.admission.v1.counted"
BROKEN = b"broken"
UNREADABLE = b"unreadable"


@dataclass(slots=True)
class CountingMachine:
    """Adds up the facts of the gateway; a fact it has seen counts once."""

    image: Image
    inputs_read: tuple[str, ...] = ("muster.evt.gateway.v1.*.p00.>",)
    on_decide: Callable[["CountingMachine"], None] = lambda _machine: None
    seen: set[str] = field(default_factory=set[str])
    _version: int = 0
    _new: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._version = self.image.version
        self.seen = {name.removeprefix("s/") for name in self.image.fields}

    def inputs(self) -> tuple[str, ...]:
        return self.inputs_read

    def ingest(self, received: Received, now_ms: int) -> None:
        del now_ms
        if received.body == UNREADABLE:
            raise InvalidValue("nobody can read this", field="body")
        if received.body == BROKEN:
            raise ZeroDivisionError("a defect")
        identity = received.body.decode()
        if identity not in self.seen:
            self.seen.add(identity)
            self._new.append(identity)

    def decide(self, now_ms: int) -> Changes:
        del now_ms
        self.on_decide(self)
        new, self._new = self._new, []
        if not new:
            return Changes()
        self._version += 1
        shard = self.image.shard
        return Changes(
            puts={f"s/{identity}": b"1" for identity in new},
            outbox=tuple(
                OutboxMessage(
                    subject=f"{COUNTED}.{shard}.team-a.w{identity}",
                    message_id=f"{shard}/{self.image.epoch}/{self._version}/{number}",
                    body=identity.encode(),
                )
                for number, identity in enumerate(new)
            ),
        )

    def wake_at_ms(self) -> int | None:
        return None
