"""The messages of one commit, with ids that follow from the commit and the place in it.

A message exists only once its commit does, so repeating a commit repeats the same ids, and a commit
that was never applied never used them up.
"""

from dataclasses import dataclass, field

from muster_contracts import envelope
from muster_contracts.subjects import Service
from muster_ledger.store import OutboxMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a message is about: its workload or node, what caused it, and its trace."""

    entity: str
    cause: str = ""
    traceparent: str = ""


@dataclass(slots=True, kw_only=True)
class Announcer:
    """Collects what an owner says in its next commit."""

    service: Service
    shard: str
    epoch: int
    version: int
    _messages: list[OutboxMessage] = field(default_factory=list[OutboxMessage])

    def say(self, subject: str, name: str, body: bytes, about: About, now_ms: int) -> None:
        """Add one message."""
        identity = envelope.derived_id(
            self.service, self.shard, self.epoch, self.version, len(self._messages)
        )
        headers = envelope.to_headers(
            envelope.Envelope(
                id=identity,
                source=f"/muster/{self.service}",
                type=envelope.event_type(self.service, name),
                time_ms=now_ms,
                causation_id=about.cause,
                correlation_id=about.entity,
                traceparent=about.traceparent,
            )
        )
        self._messages.append(
            OutboxMessage(subject=subject, message_id=identity, body=body, headers=headers)
        )

    def take(self) -> tuple[OutboxMessage, ...]:
        """The messages of this commit; what is said next belongs to the one after it."""
        taken, self._messages = tuple(self._messages), []
        return taken

    def committed(self) -> None:
        """Count a commit: call it whenever changes were handed over."""
        self.version += 1
