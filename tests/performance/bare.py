"""A process of the bare path: a service's reads, commits and messages, and none of its logic.

`python -m tests.performance.bare SERVICE RECORDING` runs on the real chassis, so whatever the bus,
the ledger and the chassis cost is in it. Preemption and accounting only read here.
"""

import asyncio
import base64
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster_contracts import subjects
from muster_contracts.envelope import MESSAGE_ID
from muster_contracts.partitions import PARTITIONS, PLACEMENT_SHARD
from muster_contracts.streams import DECISIONS, EVENTS, FRONT_DOOR
from muster_contracts.subjects import Service
from muster_ledger.store import Image, OutboxMessage
from muster_runtime.leases import Leases
from muster_runtime.machine import Changes
from muster_runtime.owner import Owner
from muster_runtime.publisher import Outgoing
from muster_runtime.reader import Received
from muster_runtime.service import Chassis, run
from muster_runtime.settings import ServiceSettings
from muster_runtime.storage import open_store
from muster_runtime.worker import Delivery, Worker

from . import recording
from .recording import ID, NAME, NAMESPACE, PARTITION, Reaction, Recording

READ_BATCH = 512
READ_WAIT_S = 1.0
ID_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose event it is. In the bare path an id is the job's name, filled up with zeros."""

    partition: str
    namespace: str
    id: str

    def fill(self, marked: str) -> str:
        """A recorded name for this job."""
        return (
            marked.replace(ID, self.id)
            .replace(NAME, self.id.lstrip("0"))
            .replace(NAMESPACE, self.namespace)
            .replace(PARTITION, self.partition)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A `recording.Message` with its body decoded."""

    subject: str
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, message: recording.Message) -> "Template":
        """Read a recorded message."""
        return cls(
            subject=message.subject,
            headers=message.headers,
            body=base64.b64decode(message.body),
        )

    def headers_with(self, identity: str) -> dict[str, str]:
        """The recorded headers under another message id."""
        return {**self.headers, "ce-id": identity, MESSAGE_ID: identity}


class _Template:
    """A reaction that is ready to be copied."""

    def __init__(self, reaction: Reaction) -> None:
        self.puts = {name: base64.b64decode(value) for name, value in reaction.puts.items()}
        self.shared = {name: base64.b64decode(value) for name, value in reaction.shared.items()}
        self.deletes = tuple(reaction.deletes)
        self.outbox = tuple(Template.of(message) for message in reaction.outbox)


@dataclass(slots=True)
class BareMachine:
    """Repeats the recorded reaction to each fact under the fact's own names."""

    image: Image
    subjects: tuple[str, ...]
    reactions: Mapping[str, _Template]
    _version: int = 0
    _puts: dict[str, bytes] = field(default_factory=dict[str, bytes])
    _deletes: list[str] = field(default_factory=list[str])
    _outbox: list[OutboxMessage] = field(default_factory=list[OutboxMessage])

    def inputs(self) -> tuple[str, ...]:
        """As the real machine."""
        return self.subjects

    def ingest(self, received: Received, _now_ms: int) -> None:
        """Copy the reaction."""
        parts = received.subject.split(".")
        reaction = self.reactions.get(parts[4])
        if reaction is None:
            return
        about = Subject(*parts[5:8])
        for name, value in reaction.puts.items():
            self._puts[about.fill(name)] = value
        self._puts.update(reaction.shared)
        for marked in reaction.deletes:
            name = about.fill(marked)
            self._puts.pop(name, None)
            self._deletes.append(name)
        for template in reaction.outbox:
            identity = f"{self.image.shard}-{self.image.epoch}-{self._version}-{len(self._outbox)}"
            self._outbox.append(
                OutboxMessage(
                    subject=about.fill(template.subject),
                    message_id=identity,
                    body=template.body,
                    headers=template.headers_with(identity),
                )
            )

    def decide(self, _now_ms: int) -> Changes:
        """Hand over what was copied."""
        changes = Changes(puts=self._puts, deletes=tuple(self._deletes), outbox=tuple(self._outbox))
        self._puts, self._deletes, self._outbox = {}, [], []
        self._version += 1
        return changes

    def wake_at_ms(self) -> int | None:
        """Never by itself."""
        return None


def main() -> None:
    """Run the named service."""
    service, file = Service(sys.argv[1]), Path(sys.argv[2])
    recorded = recording.read(file)
    settings = ServiceSettings()

    async def work(chassis: Chassis) -> None:
        match service:
            case Service.GATEWAY:
                await _gateway(chassis, recorded)
            case Service.ADMISSION:
                await _own(chassis, settings, PARTITIONS, _admission(recorded))
            case Service.PLACEMENT:
                await _own(chassis, settings, (PLACEMENT_SHARD,), _placement(recorded))
            case _:
                await _read(chassis, EVENTS.name, ("muster.evt.>",))

    run(service, settings, work)


def _admission(recorded: Recording) -> Callable[[Image], BareMachine]:
    reactions = {name: _Template(reaction) for name, reaction in recorded.admission.items()}

    def build(image: Image) -> BareMachine:
        heard = tuple(
            subjects.workload_events_of(speaker, partition)
            for speaker in (Service.GATEWAY, Service.PLACEMENT, Service.PREEMPTION)
            for partition in (image.shard, "all")
        )
        return BareMachine(image, heard, reactions)

    return build


def _placement(recorded: Recording) -> Callable[[Image], BareMachine]:
    reactions = {name: _Template(reaction) for name, reaction in recorded.placement.items()}
    heard = (subjects.events_of(Service.ADMISSION), subjects.events_of(Service.AGENT))
    return lambda image: BareMachine(image, heard, reactions)


async def _own(
    chassis: Chassis,
    settings: ServiceSettings,
    shards: tuple[str, ...],
    build: Callable[[Image], BareMachine],
) -> None:
    owner: Owner[BareMachine] = Owner(
        bus=chassis.bus,
        store=open_store(settings),
        build=build,
        metrics=chassis.metrics,
        tracing=chassis.tracing,
    )
    leases = Leases(
        chassis.bus.client,
        service=chassis.service,
        instance=chassis.settings.instance,
        shards=shards,
    )
    chassis.checks["shards"] = lambda: "" if len(owner.machines) == len(shards) else "not owned"
    await leases.run(owner.own)


async def _gateway(chassis: Chassis, recorded: Recording) -> None:
    template = Template.of(recorded.submitted)

    async def digest(delivery: Delivery) -> list[Outgoing]:
        received = delivery.received
        name = received.headers[MESSAGE_ID]
        namespace = received.subject.split(".")[3]
        await chassis.bus.last(DECISIONS.name, subjects.decision(namespace, name))
        about = Subject(recorded.partitions[namespace], namespace, name.rjust(ID_LENGTH, "0"))
        headers = template.headers_with(f"submitted-{name}")
        return [Outgoing(subject=about.fill(template.subject), body=template.body, headers=headers)]

    worker = Worker(chassis.bus, FRONT_DOOR, digest, dead_letters=chassis.metrics.dead_letters)
    chassis.checks["consumer"] = worker.trouble
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        group.create_task(_read(chassis, DECISIONS.name, ("muster.v1.decisions.>",)))


async def _read(chassis: Chassis, stream: str, filters: tuple[str, ...]) -> None:
    reader = chassis.bus.read(stream, filters, after=0)
    while True:
        await reader.next_batch(READ_BATCH, READ_WAIT_S)


if __name__ == "__main__":
    main()
