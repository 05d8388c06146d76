"""Putting preemption together: follow admission's log, answer its requests."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any, cast

import structlog
from prometheus_client import Counter, Histogram

from muster_contracts import codec, envelope, events, subjects
from muster_contracts.partitions import PARTITIONS, PLACEMENT_SHARD
from muster_contracts.queries import Query, Seats, SeatsQuestion
from muster_contracts.stored import is_admission_fact
from muster_contracts.streams import EVENTS
from muster_contracts.subjects import Service
from muster_domain.errors import InvalidValue, Transient
from muster_ledger.store import Store
from muster_manifests.catalogue import ObjectCatalogue
from muster_preemption.projection import Projection
from muster_preemption.search import Asking, search
from muster_preemption.settings import PreemptionSettings
from muster_runtime.clock import now_ms
from muster_runtime.configuration import configuration_of
from muster_runtime.leases import Leases
from muster_runtime.objects import ObjectFeed
from muster_runtime.publisher import Outgoing
from muster_runtime.reader import Reader, Received
from muster_runtime.service import Chassis, run
from muster_runtime.storage import open_store

OBJECTS_WAIT_S = 30.0
BATCH_MAX = 512
IDLE_WAIT_S = 1.0
RESTART_WAIT_S = 0.2

_log = structlog.get_logger()


def main() -> None:
    """Run the preemption service."""
    settings = PreemptionSettings()

    async def work(chassis: Chassis) -> None:
        await _work(chassis, settings)

    run(Service.PREEMPTION, settings, work)


async def _work(chassis: Chassis, settings: PreemptionSettings) -> None:
    catalogue = ObjectCatalogue()
    feed = ObjectFeed(chassis.bus, catalogue)
    follower = Follower(chassis, open_store(settings), catalogue, _metrics(chassis))
    leases = Leases(
        chassis.bus.client,
        service=Service.PREEMPTION,
        instance=chassis.settings.instance,
        shards=PARTITIONS,
    )
    chassis.checks["objects"] = feed.trouble
    async with asyncio.TaskGroup() as group:
        group.create_task(feed.run())
        await feed.wait_complete(OBJECTS_WAIT_S)
        group.create_task(leases.run(follower.follow))


@dataclass(frozen=True, slots=True)
class _Metrics:
    proposals: Counter
    search_seconds: Histogram


def _metrics(chassis: Chassis) -> _Metrics:
    registry = chassis.metrics.registry
    return _Metrics(
        Counter(
            "muster_preemption_proposals",
            "Answers to admission",
            ["result"],
            registry=registry,
        ),
        Histogram("muster_preemption_search_seconds", "One search for victims", registry=registry),
    )


class Follower:
    """Follows partitions and answers what admission asks about them.

    An answer that is lost, or given twice, does no harm: admission asks again, and checks.
    """

    def __init__(
        self, chassis: Chassis, store: Store, catalogue: ObjectCatalogue, metrics: _Metrics
    ) -> None:
        self._bus = chassis.bus
        self._store = store
        self._catalogue = catalogue
        self._metrics = metrics
        self._tracing = chassis.tracing

    async def follow(self, partition: str, _epoch: int) -> None:
        """Follow a partition until cancelled."""
        while True:
            try:
                await self._follow(partition)
            except Transient as error:
                _log.warning("partition is read again", partition=partition, error=str(error))
            await asyncio.sleep(RESTART_WAIT_S)

    async def _follow(self, partition: str) -> None:
        image = await self._store.load(partition)
        projection = Projection(image)
        facts = subjects.workload_events_of(Service.ADMISSION, partition)
        reader = self._bus.read(EVENTS.name, (facts,), after=image.watermark)
        try:
            while True:
                await self._step(projection, reader)
        finally:
            await reader.close()

    async def _step(self, projection: Projection, reader: Reader) -> None:
        requests: dict[str, tuple[events.PreemptionRequested, Received]] = {}
        for received in await reader.next_batch(BATCH_MAX, IDLE_WAIT_S):
            try:
                fact = codec.decode_event(subjects.event_name(received.subject), received.body)
            except InvalidValue as error:
                _log.error("fact not read", sequence=received.sequence, reason=str(error))
                continue
            if isinstance(fact, events.PreemptionRequested):
                requests[fact.workload_id] = (fact, received)
            elif is_admission_fact(fact):
                projection.apply(fact, now_ms())
        if projection.configured_at != self._catalogue.sequence:
            configuration = configuration_of(self._catalogue, projection.partition)
            projection.configure(configuration, self._catalogue.sequence)
        answers = [await self._answer(projection, *request) for request in requests.values()]
        await self._bus.publish([message for message in answers if message is not None])

    async def _answer(
        self, projection: Projection, request: events.PreemptionRequested, received: Received
    ) -> Outgoing | None:
        traceparent = received.headers.get("traceparent", "")
        span, below = self._tracing.start("preemption search", traceparent)
        with span, self._metrics.search_seconds.time():
            fact = await self._search(search(projection, request, now_ms()), request.workload_id)
        if fact is None:
            return None
        name = codec.EVENT_NAMES[type(fact)]
        self._metrics.proposals.labels(name).inc()
        headers = envelope.to_headers(
            envelope.Envelope(
                id=envelope.derived_id(Service.PREEMPTION, received.headers.get("ce-id", "")),
                source="/muster/preemption",
                type=envelope.event_type(Service.PREEMPTION, name),
                time_ms=now_ms(),
                causation_id=received.headers.get("ce-id", ""),
                correlation_id=request.workload_id,
                traceparent=below,
            )
        )
        namespace = subjects.event_namespace(received.subject)
        subject = subjects.workload_event(
            Service.PREEMPTION, name, projection.partition, namespace, request.workload_id
        )
        return Outgoing(subject=subject, body=codec.encode(fact), headers=headers)

    async def _search(self, asking: Asking, workload_id: str) -> events.PreemptionFact | None:
        """Carry the search's questions to placement."""
        try:
            asked = next(asking)
            while True:
                asked = asking.send(await self._seats(asked, workload_id))
        except StopIteration as end:
            return cast("events.PreemptionFact | None", end.value)

    async def _seats(self, asked: SeatsQuestion, workload_id: str) -> Seats | None:
        subject = subjects.query(Service.PLACEMENT, Query.SEATS, PLACEMENT_SHARD)
        try:
            reply = await self._bus.ask(
                subject, cast("dict[str, Any]", json.loads(codec.encode(asked)))
            )
        except (Transient, InvalidValue) as error:
            _log.warning("seats not known", workload=workload_id, error=str(error))
            return None
        return codec.decode(Seats, reply)
