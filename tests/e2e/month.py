"""A month in virtual time: admission and placement as they run, an obedient node, and the books.

Nothing is faked between the services: they read each other's messages off one log, commit to one
store, and accounting reads what came of it. Only the clock jumps from event to event.
"""

import heapq
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry

from muster_accounting.bookkeeper import Bookkeeper, read_facts
from muster_accounting.metrics import AccountingMetrics
from muster_accounting.store import UsageStore
from muster_accounting.token_answers import TokenTerms
from muster_admission.machine import AdmissionMachine
from muster_admission.metrics import AdmissionMetrics
from muster_admission.settings import AdmissionSettings
from muster_contracts import codec, envelope, events, subjects
from muster_contracts.commands import RunPod, StopPod
from muster_contracts.envelope import MESSAGE_ID
from muster_contracts.partitions import PLACEMENT_SHARD, partition_of
from muster_contracts.queries import CostLine, CostQuestion, CostReport
from muster_contracts.streams import EVENTS, PODS
from muster_contracts.subjects import Service
from muster_contracts.tokens import TokenReport, TokensQuestion
from muster_domain.nodes import Device, Node
from muster_domain.queue_tree import tree_root
from muster_gateway.events import Cause
from muster_gateway.token_rows import read_rows, reported
from muster_ledger.memory_store import MemoryShards
from muster_ledger.store import OUTBOX_START, Commit, Committed
from muster_manifests.catalogue import ObjectCatalogue
from muster_placement.machine import PlacementMachine
from muster_placement.settings import PlacementSettings
from muster_rating.prices import HOUR_MS, PriceBook
from muster_runtime.machine import Machine
from muster_runtime.reader import Received
from muster_simulation.log import VirtualLog
from muster_simulation.manifests import configuration_of, load_documents, workload_of

GPU = "nvidia.com/gpu"
DURATION = "muster.dev/simulated-duration-ms"
M = TypeVar("M", bound=Machine)
Manifest = dict[str, Any]


@dataclass(slots=True)
class Owner(Generic[M]):
    """One owner of a shard: reads, decides, commits once, publishes its outbox."""

    shard: str
    machine: M
    log: VirtualLog
    shards: MemoryShards
    publish: Callable[[str, dict[str, str], bytes], None]
    epoch: int
    version: int = 0
    position: int = 0

    def step(self, now_ms: int) -> bool:
        """One cycle; whether anything moved."""
        batch, cursor = self.log.read(self.position, self.machine.inputs(), 100)
        for received in batch:
            self.machine.ingest(received, now_ms)
        changes = self.machine.decide(now_ms)
        self.position = cursor
        if not changes:
            return bool(batch)
        done = self.shards.commit(
            Commit(
                shard=self.shard,
                epoch=self.epoch,
                expected_version=self.version,
                watermark=cursor,
                puts=changes.puts,
                deletes=changes.deletes,
                outbox=changes.outbox,
            )
        )
        assert isinstance(done, Committed), done
        self.version = done.version
        for entry in self.shards.read_outbox(self.shard, OUTBOX_START, 1000):
            message = entry.message
            headers = {**message.headers, MESSAGE_ID: message.message_id}
            self.publish(message.subject, headers, message.body)
            self.shards.trim_outbox(self.shard, entry.position)
        return True


@dataclass(slots=True)
class Month:
    """Everything from one start on. Times are hours after it."""

    start_ms: int
    manifests: list[Manifest]
    log: VirtualLog = field(default_factory=lambda: VirtualLog(0))
    objects: list[Received] = field(default_factory=list[Received])
    shards: MemoryShards = field(default_factory=MemoryShards)
    now_ms: int = 0
    _owners: list[Owner[Any]] = field(default_factory=list[Owner[Any]])
    _nodes: list[str] = field(default_factory=list[str])
    _catalogue: ObjectCatalogue = field(default_factory=ObjectCatalogue)
    _planned: list[tuple[int, int, Callable[[], None]]] = field(
        default_factory=list[tuple[int, int, Callable[[], None]]]
    )
    _order: "itertools.count[int]" = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.now_ms = self.start_ms
        for document in load_documents(self.manifests, "month"):
            self._catalogue.put_document(self._catalogue.sequence + 1, document)
        for manifest in self.manifests:
            self._declare(manifest)
        configuration = configuration_of(self._catalogue)
        metrics = AdmissionMetrics(CollectorRegistry())
        placement = self._own(
            PLACEMENT_SHARD, lambda image: PlacementMachine(image, PlacementSettings(), self.now_ms)
        )
        placement.machine.configure(dict(configuration.flavors), {})
        partitions = {self._partition(name) for name in configuration.cluster_queues}
        for partition in sorted(partitions):
            owner = self._own(
                partition,
                lambda image: AdmissionMachine(image, AdmissionSettings(), metrics),
            )
            owner.machine.configure(configuration, 0, self.now_ms)

    def admission(self, partition: str) -> AdmissionMachine:
        """The machine that admits in a partition."""
        found = (owner.machine for owner in self._owners if owner.shard == partition)
        return next(machine for machine in found if isinstance(machine, AdmissionMachine))

    def node(self, name: str, gpus: int, labels: dict[str, str]) -> None:
        """A node registers."""
        node = Node(
            name=name,
            allocatable={GPU: gpus * 1000},
            labels=labels,
            devices=tuple(Device(index=index, resource=GPU) for index in range(gpus)),
        )
        fact = events.NodeRegistered(node=node, incarnation=1, heartbeat_interval_ms=2000)
        self._nodes.append(name)
        self._say(Service.AGENT, fact, subjects.node_event("node_registered", name))

    def submit(self, manifest: Manifest, cluster_queue: str, at_h: int) -> None:
        """A job arrives at an hour."""

        def arrive() -> None:
            (document,) = load_documents([manifest], "job")
            identity = f"wl-{manifest['metadata']['namespace']}-{document.name}"
            workload = workload_of(document, self._catalogue, identity, self.now_ms)
            fact = events.WorkloadSubmitted(
                workload=workload, cluster_queue=cluster_queue, objects_sequence=0
            )
            subject = subjects.workload_event(
                Service.GATEWAY,
                "workload_submitted",
                self._partition(cluster_queue),
                workload.namespace,
                workload.id,
            )
            self._say(Service.GATEWAY, fact, subject)

        self._plan(self.start_ms + at_h * HOUR_MS, arrive)

    def use_tokens(self, rows: Sequence[dict[str, object]], at_h: int) -> None:
        """A proxy reports rows of its spend log, through the gateway's own code."""

        def report() -> None:
            uses = read_rows(json.dumps(rows).encode())
            for fact in reported(uses, by="litellm", cause=Cause(at_ms=self.now_ms)):
                self._publish(fact.subject, dict(fact.headers), fact.body)

        self._plan(self.start_ms + at_h * HOUR_MS, report)

    def run(self, until_h: int) -> None:
        """Let time pass to an hour."""
        until_ms = self.start_ms + until_h * HOUR_MS
        self._settle()
        while self._planned and self._planned[0][0] <= until_ms:
            self.now_ms = self._planned[0][0]
            while self._planned and self._planned[0][0] == self.now_ms:
                heapq.heappop(self._planned)[2]()
            self._settle()
        self.now_ms = until_ms
        self._settle()

    def _own(self, shard: str, build: Callable[[Any], M]) -> Owner[M]:
        image = self.shards.claim(shard, 1)
        owner = Owner(shard, build(image), self.log, self.shards, self._publish, epoch=1)
        self._owners.append(owner)
        return owner

    def _settle(self) -> None:
        for owner in self._owners:
            if isinstance(owner.machine, PlacementMachine):
                for name in self._nodes:
                    owner.machine.heard(name, self.now_ms)
        moved = True
        while moved:
            moved = False
            for owner in self._owners:
                moved = owner.step(self.now_ms) or moved

    def _partition(self, cluster_queue: str) -> str:
        queue = self._catalogue.cluster_queues[cluster_queue]
        return partition_of(tree_root(cluster_queue, queue.cohort, {}))

    def _plan(self, at_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._planned, (at_ms, next(self._order), action))

    def _publish(self, subject: str, headers: dict[str, str], body: bytes) -> None:
        if EVENTS.holds(subject):
            self.log.append(subject, headers, body, self.now_ms)
        elif PODS.holds(subject):
            self._obey(subject, body)

    def _obey(self, subject: str, body: bytes) -> None:
        """The agent: it starts what it is told to, and says when it has ended."""
        node = next(name for name in self._nodes if subjects.pod_command(name, "")[:-1] in subject)
        if b'"desired":"run"' in body:
            command = codec.decode(RunPod, body)
            started = events.PodStarted(
                pod_uid=command.pod_uid,
                workload_id=command.workload_id,
                attempt=command.attempt,
                node=node,
            )
            self._say(Service.AGENT, started, subjects.node_event("pod_started", node))
            ends_ms = self.now_ms + int(command.annotations[DURATION])
            self._plan(ends_ms, lambda: self._end(command, node, stopped=False))
        else:
            self._end(codec.decode(StopPod, body), node, stopped=True)

    def _end(self, command: RunPod | StopPod, node: str, *, stopped: bool) -> None:
        finished = events.PodFinished(
            pod_uid=command.pod_uid,
            workload_id=command.workload_id,
            attempt=command.attempt,
            node=node,
            exit_code=143 if stopped else 0,
            stopped=stopped,
        )
        self._say(Service.AGENT, finished, subjects.node_event("pod_finished", node))

    def _say(self, owner: Service, fact: events.Event, subject: str) -> None:
        said = envelope.Envelope(
            id=envelope.derived_id(owner, len(self.log.messages)),
            source=f"/muster/{owner}",
            type=envelope.event_type(owner, codec.EVENT_NAMES[type(fact)]),
            time_ms=self.now_ms,
        )
        self.log.append(subject, envelope.to_headers(said), codec.encode(fact), self.now_ms)

    def _declare(self, manifest: Manifest) -> None:
        metadata = manifest["metadata"]
        kind, name = manifest["kind"], metadata["name"]
        namespace = metadata.get("namespace", "")
        fact = events.ObjectApplied(kind=kind, namespace=namespace, name=name, document=manifest)
        said = envelope.Envelope(
            id=f"object-{len(self.objects)}",
            source="/muster/gateway",
            type=envelope.event_type(Service.GATEWAY, "object_applied"),
            time_ms=self.now_ms,
        )
        self.objects.append(
            Received(
                sequence=len(self.objects) + 1,
                subject=subjects.declared_object(kind, namespace, name),
                headers=envelope.to_headers(said),
                body=codec.encode(fact),
                published_ms=self.now_ms,
            )
        )


@dataclass(slots=True)
class Accounts:
    """Accounting's own bookkeeper over the month's log."""

    month: Month
    store: UsageStore
    keeper: Bookkeeper

    @classmethod
    async def open(
        cls, month: Month, folder: Path, prices: PriceBook, terms: TokenTerms
    ) -> "Accounts":
        """Read the whole log, every message of it three times."""
        store = UsageStore(f"sqlite+aiosqlite:///{folder / 'usage.db'}")
        await store.prepare()
        metrics = AccountingMetrics(CollectorRegistry())
        keeper = await Bookkeeper.claim(store, prices, terms, metrics, 1, 0)
        await keeper.take_objects(month.objects)
        messages = [m for m in month.log.messages for _ in range(3)]
        facts, letters = read_facts(messages)
        assert letters == []
        await keeper.take_facts(facts, month.log.messages[-1].sequence)
        return cls(month, store, keeper)

    async def report(self, until_h: int = 720, **asked: Any) -> CostReport:  # noqa: ANN401 - fields
        """A report on the first hours of the month."""
        start_ms = self.month.start_ms
        question = CostQuestion(start_ms=start_ms, end_ms=start_ms + until_h * HOUR_MS, **asked)
        return await self.keeper.report(question, self.month.now_ms)

    async def tokens(self, by: str, until_h: int = 720, **asked: Any) -> TokenReport:  # noqa: ANN401 - fields
        """The same about tokens."""
        start_ms = self.month.start_ms
        end_ms = start_ms + until_h * HOUR_MS
        question = TokensQuestion(by=by, start_ms=start_ms, end_ms=end_ms, **asked)
        return await self.keeper.tokens(question, self.month.now_ms)


def rows(report: CostReport) -> list[CostLine]:
    """Every row but the last."""
    empty = not report.idle.charged_time
    return [*report.lines, *([] if empty else [report.idle])]
