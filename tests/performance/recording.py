"""One job's way through the services' own machines, written down for the bare path to repeat.

The bare path sends the same messages and makes the same commits, with bodies of the same sizes, and
decides nothing. Where a recorded name holds the job's id or name, a mark stands for it.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry

from muster_admission.machine import AdmissionMachine
from muster_admission.metrics import AdmissionMetrics
from muster_admission.settings import AdmissionSettings
from muster_agent.simulation import simulated_nodes
from muster_contracts import codec, events, subjects
from muster_contracts.partitions import PLACEMENT_SHARD, partition_of
from muster_domain.errors import InvalidValue
from muster_gateway import events as said
from muster_gateway.bodies import read_body
from muster_gateway.events import Cause
from muster_gateway.intake import resolve_jobs
from muster_gateway.resolution import Sender
from muster_ledger.store import Image, OutboxMessage
from muster_manifests import LoadOptions, load, load_objects
from muster_manifests.catalogue import ObjectCatalogue
from muster_placement.machine import PlacementMachine
from muster_placement.settings import PlacementSettings
from muster_runtime.configuration import configuration_of
from muster_runtime.machine import Changes, Machine
from muster_runtime.publisher import Outgoing
from muster_runtime.reader import Received

from . import house

_TRACEPARENT = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"
NOW_MS = 1_800_000_000_000
ID, NAME, NAMESPACE, PARTITION = "<id>", "<name>", "<namespace>", "<partition>"


@dataclass(slots=True, kw_only=True)
class Message:
    """A message as it was said; its body is base64."""

    subject: str
    headers: dict[str, str]
    body: str


@dataclass(slots=True, kw_only=True)
class Reaction:
    """What one fact makes an owner commit. Values are base64.

    `shared` are fields that do not name the job: one commit writes them once, however many jobs.
    """

    puts: dict[str, str] = field(default_factory=dict[str, str])
    shared: dict[str, str] = field(default_factory=dict[str, str])
    deletes: list[str] = field(default_factory=list[str])
    outbox: list[Message] = field(default_factory=list[Message])


@dataclass(slots=True, kw_only=True)
class Recording:
    """Reactions of each owner by the name of the fact, and what the gateway publishes."""

    submitted: Message
    partitions: dict[str, str]
    """By namespace."""
    admission: dict[str, Reaction]
    placement: dict[str, Reaction]

    def write(self, path: Path) -> None:
        """Keep it for the processes of the bare path."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def read(path: Path) -> Recording:
    """A recording that was written."""
    return codec.decode(Recording, path.read_bytes(), bytes_max=1 << 24)


def record(*, managed: bool) -> Recording:
    """Send one job through the machines."""
    return _Recorder(managed=managed).run()


def submission(declared: ObjectCatalogue, team: house.Team, job: bytes, key: str) -> Outgoing:
    """What the gateway publishes for a job, made by the gateway's own functions."""
    body = read_body(job, {})
    if body.manifest is None:
        raise InvalidValue("the job has no manifest")
    options = LoadOptions(default_namespace=team.name, name_seed=key)
    loaded = load_objects((body.manifest,), source="job", options=options)
    sender = Sender(
        key=key, received_ms=NOW_MS, user=body.user, external_lease_ms=body.external_lease_ms
    )
    (found,) = resolve_jobs(loaded.documents, sender, declared)
    cause = Cause(at_ms=NOW_MS, causation_id=key, traceparent=_TRACEPARENT)
    return said.submitted(found.resolved, found.document, declared.sequence, cause)


def received(fact: Outgoing | OutboxMessage, sequence: int) -> Received:
    """A message as its reader gets it."""
    return Received(
        sequence=sequence,
        subject=fact.subject,
        headers=fact.headers,
        body=fact.body,
        published_ms=NOW_MS,
    )


class _Recorder:
    def __init__(self, *, managed: bool) -> None:
        self._managed = managed
        self._catalogue = catalogue()
        self._sequence = 0
        self._team = house.TEAMS[0]
        self._name = house.job_name(0, "record")
        self._placement = placement_machine(self._catalogue)
        self._partition = ""
        self._id = ""

    def run(self) -> Recording:
        said_first = submission(
            self._catalogue, self._team, house.job_body(self._name, managed=self._managed), "record"
        )
        self._partition = said_first.subject.split(".")[5]
        self._id = said_first.subject.split(".")[7]
        admission = admission_machine(self._catalogue, self._partition)
        reserved = self._react(admission, [said_first])
        placed = self._react(self._placement, reserved.outbox)
        admitted = self._react(admission, placed.outbox)
        started = self._react(self._placement, admitted.outbox)
        return Recording(
            submitted=self._message(said_first.subject, said_first.headers, said_first.body),
            partitions=self._partitions(),
            admission={
                "workload_submitted": self._reaction(reserved),
                "gang_placed": self._reaction(admitted),
            },
            placement={
                "quota_reserved": self._reaction(placed),
                "workload_admitted": self._reaction(started),
            },
        )

    def _react(self, machine: Machine, facts: Sequence[Outgoing | OutboxMessage]) -> Changes:
        for fact in facts:
            if not fact.subject.startswith("muster.evt."):
                continue
            self._sequence += 1
            machine.ingest(received(fact, self._sequence), NOW_MS)
        return machine.decide(NOW_MS)

    def _partitions(self) -> dict[str, str]:
        return {team.name: partition_of(self._catalogue.root_of(team.name)) for team in house.TEAMS}

    def _reaction(self, changes: Changes) -> Reaction:
        return Reaction(
            puts={
                self._marked(name): _text(value)
                for name, value in changes.puts.items()
                if self._id in name
            },
            shared={n: _text(v) for n, v in changes.puts.items() if self._id not in n},
            deletes=[self._marked(name) for name in changes.deletes],
            outbox=[self._message(m.subject, m.headers, m.body) for m in changes.outbox],
        )

    def _message(self, subject: str, headers: Mapping[str, str], body: bytes) -> Message:
        return Message(subject=self._marked(subject), headers=dict(headers), body=_text(body))

    def _marked(self, name: str) -> str:
        marks = {
            self._id: ID,
            self._name: NAME,
            self._team.name: NAMESPACE,
            self._partition: PARTITION,
        }
        for text, mark in marks.items():
            name = name.replace(text, mark)
        return name


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def catalogue() -> ObjectCatalogue:
    """The objects of the house, declared."""
    found = ObjectCatalogue()
    for number, document in enumerate(load(house.objects(), source="objects").documents, start=1):
        found.put_document(number, document)
    return found


def admission_machine(declared: ObjectCatalogue, partition: str) -> AdmissionMachine:
    """Admission of one partition, with nothing in it."""
    machine = AdmissionMachine(
        _empty(partition), AdmissionSettings(), AdmissionMetrics(CollectorRegistry())
    )
    machine.configure(configuration_of(declared, partition), declared.sequence, NOW_MS)
    return machine


def placement_machine(declared: ObjectCatalogue) -> PlacementMachine:
    """Placement with all nodes of the house registered."""
    machine = PlacementMachine(_empty(PLACEMENT_SHARD), PlacementSettings(), NOW_MS)
    machine.configure(dict(declared.flavors), dict(declared.topologies))
    name = codec.EVENT_NAMES[events.NodeRegistered]
    for number, node in enumerate(simulated_nodes(house.SIMULATED_NODES), start=1):
        fact = events.NodeRegistered(node=node, incarnation=1, heartbeat_interval_ms=2_000)
        heard = Outgoing(subject=subjects.node_event(name, node.name), body=codec.encode(fact))
        machine.ingest(received(heard, number), NOW_MS)
    machine.decide(NOW_MS)
    return machine


def _empty(shard: str) -> Image:
    return Image(shard=shard, epoch=1, version=0, watermark=0, fields={})
