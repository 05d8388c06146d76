"""A gateway in full on a real bus, with owners small enough to see through."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import uvicorn
from pydantic import SecretStr

from muster_contracts import codec, queries, subjects
from muster_contracts.budgets import BudgetPage, BudgetRow
from muster_contracts.events import WorkloadSubmitted
from muster_contracts.floor import DomainPage, DomainRow
from muster_contracts.jobs import Decision, Verdict
from muster_contracts.partitions import PARTITIONS, PLACEMENT_SHARD
from muster_contracts.subjects import Service
from muster_domain.conditions import Explanation, Outcome
from muster_domain.errors import NotFound
from muster_domain.nodes import NodeCondition
from muster_gateway.access import token_digest
from muster_gateway.composition import Gateway, compose
from muster_gateway.http.app import build_api
from muster_gateway.settings import GatewaySettings
from muster_runtime.bus import Bus
from muster_runtime.publisher import Outgoing
from muster_runtime.service import Chassis
from muster_runtime.telemetry import Metrics, Tracing
from muster_testing.connection import connected_bus, until

TOKENS = {
    "admin-token": {"name": "root", "role": "admin", "namespaces": "*"},
    "operator-token": {"name": "olga", "role": "operator", "namespaces": "*"},
    "anna-token": {"name": "anna", "role": "user", "namespaces": ["team-a"]},
    "ci-token": {"name": "ci", "role": "ci", "namespaces": ["team-a", "team-b"]},
    "checker-token": {"name": "licences", "role": "checker", "namespaces": "*"},
    "viewer-token": {"name": "vera", "role": "viewer", "namespaces": "*"},
}
ADMIN = "admin-token"
BASE = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: a100}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: gpus}
spec:
  cohort: site
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu]
    flavors:
    - name: a100
      resources:
      - {name: cpu, nominalQuota: 64}
      - {name: nvidia.com/gpu, nominalQuota: 8}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: main, namespace: team-a}  # the door of team a
spec: {clusterQueue: gpus}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: default, namespace: team-b}
spec: {clusterQueue: gpus}
"""


def job_manifest(
    name: str = "train", *, namespace: str = "team-a", queue: str = "main", gpus: int = 1
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if queue:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    container = {
        "name": "main",
        "image": "trainer",
        "resources": {"limits": {"nvidia.com/gpu": gpus}, "requests": {"cpu": 1}},
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"parallelism": 1, "completions": 1, "template": {"spec": spec}},
    }


def settings_for(url: str, changes: Mapping[str, Any]) -> GatewaySettings:
    tokens = {token_digest(token): entry for token, entry in TOKENS.items()}
    known = {"nats_url": url, "tokens": SecretStr(json.dumps(tokens)), "query_timeout_s": 2.0}
    return GatewaySettings(**{**known, **changes})


Handler = Callable[[str, dict[str, Any]], Awaitable[bytes]]


@dataclass(slots=True)
class Admission:
    """Decides as it is told, in place of the real one: queued, or refused above eight GPUs."""

    bus: Bus
    silent: set[str] = field(default_factory=set[str])
    submitted: dict[str, WorkloadSubmitted] = field(default_factory=dict[str, WorkloadSubmitted])
    events: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    deciding: bool = True
    places: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    budgets: tuple[BudgetRow, ...] = ()
    quotas: tuple[queries.QuotaRow, ...] = ()

    async def run(self) -> None:
        reader = self.bus.read("MUSTER_EVENTS", ("muster.evt.gateway.v1.>",), after=0)
        while True:
            for received in await reader.next_batch(100, 1.0):
                self.events.append((received.subject, received.body))
                fact = codec.decode_event(subjects.event_name(received.subject), received.body)
                if isinstance(fact, WorkloadSubmitted) and fact.workload.id not in self.submitted:
                    if self.deciding:
                        await self.decide(fact)
                    self.submitted[fact.workload.id] = fact

    async def decide(self, fact: WorkloadSubmitted, verdict: Verdict | None = None) -> None:
        workload = fact.workload
        gpus = workload.total_requests.get("nvidia.com/gpu", 0)
        refused = gpus > 8000
        reason = "ExceedsMaxQuota" if refused else "WaitingForQuota"
        decision = Decision(
            id=workload.id,
            namespace=workload.namespace,
            name=workload.name,
            decision=verdict or (Verdict.REFUSED if refused else Verdict.QUEUED),
            reason=reason,
            message=f"asks {gpus // 1000} GPUs of 8",
            queue=workload.queue.name,
            cluster_queue=fact.cluster_queue,
            partition=partition_in(self.events, workload.id),
            attempt=0,
            at_ms=1,
            outcome=Outcome.REFUSED if refused else None,
        )
        subject = subjects.decision(workload.namespace, workload.name)
        await self.bus.publish([Outgoing(subject=subject, body=codec.encode(decision))])

    async def answer(self) -> None:
        for partition in PARTITIONS:
            for name, handler in (
                ("workloads", self._workloads),
                ("workload", self._workload),
                ("quota", self._quota),
                ("plan", self._plan),
                ("verify", self._verify),
                ("budgets", self._budgets),
            ):
                await self._serve(name, partition, handler)
        await self.bus.answer(
            subjects.query(Service.PLACEMENT, "nodes", PLACEMENT_SHARD), self._nodes
        )
        await self.bus.answer(
            subjects.query(Service.PLACEMENT, "domains", PLACEMENT_SHARD), self._domains
        )

    async def _serve(self, name: str, partition: str, handler: Handler) -> None:
        async def respond(question: dict[str, Any]) -> bytes:
            if partition in self.silent:
                await asyncio.sleep(60)
            return await handler(partition, question)

        await self.bus.answer(subjects.query(Service.ADMISSION, name, partition), respond)

    def _rows(self, partition: str) -> list[queries.WorkloadRow]:
        return [
            self._placed(row_of(fact, partition))
            for fact in self.submitted.values()
            if partition_in(self.events, fact.workload.id) == partition
        ]

    def _placed(self, row: queries.WorkloadRow) -> queries.WorkloadRow:
        if row.name not in self.places:
            return row
        place, behind_door = self.places[row.name]
        return replace(row, position_in_cluster_queue=place, position_in_local_queue=behind_door)

    async def _workloads(self, partition: str, question: dict[str, Any]) -> bytes:
        asked = codec.decode(queries.WorkloadsQuestion, json.dumps(question).encode())
        rows = [
            row
            for row in self._rows(partition)
            if row.id.startswith(asked.id_prefix)
            and (not asked.namespaces or row.namespace in asked.namespaces)
            and asked.queue in ("", row.queue)
            and asked.cluster_queue in ("", row.cluster_queue)
            and (not asked.phases or row.phase in asked.phases)
        ]
        rows.sort(key=queries.row_order)
        part = tuple(rows[asked.offset : asked.offset + asked.limit])
        return codec.encode(queries.WorkloadPage(rows=part, total=len(rows)))

    async def _workload(self, partition: str, question: dict[str, Any]) -> bytes:
        for row in self._rows(partition):
            if row.id == question["id"]:
                stranger = queries.Ahead(
                    id="f" * 32,
                    namespace="team-b",
                    name="secret",
                    user="bob",
                    priority=0,
                    requests_milli={"nvidia.com/gpu": 8000},
                )
                return codec.encode(
                    queries.WorkloadDetail(
                        row=row,
                        explanation=Explanation(reason=row.reason, message=row.message),
                        ahead=(stranger,),
                        ahead_total=1,
                    )
                )
        raise NotFound(f"no workload {question['id']}")

    async def _quota(self, partition: str, question: dict[str, Any]) -> bytes:
        rows = self._rows(partition)
        names = sorted({row.cluster_queue for row in rows})
        asked = question["cluster_queue"]
        quotas = self.quotas if partition == PARTITIONS[0] else ()
        queues = tuple(
            queries.QueueRow(
                name=name,
                cohort="site",
                strategy="BestEffortFIFO",
                active=True,
                reason="",
                pending=sum(row.cluster_queue == name for row in rows),
                inadmissible=0,
                reserving=0,
                admitted=0,
                local_queues=(),
            )
            for name in names
            if asked in ("", name)
        )
        return codec.encode(queries.QuotaPage(queues=queues, rows=quotas))

    async def _plan(self, _partition: str, question: dict[str, Any]) -> bytes:
        asked = codec.decode(queries.PlanQuestion, json.dumps(question).encode())
        explanation = Explanation(reason="WaitingForQuota", message=asked.cluster_queue)
        return codec.encode(
            queries.Plan(verdict=queries.PlanVerdict.WAIT, explanation=explanation, ahead_total=2)
        )

    async def _verify(self, partition: str, _question: dict[str, Any]) -> bytes:
        return codec.encode(
            queries.LedgerReport(
                partition=partition, version=1, holds=0, workloads=0, discrepancies=()
            )
        )

    async def _budgets(self, partition: str, _question: dict[str, Any]) -> bytes:
        rows = self.budgets if partition == PARTITIONS[0] else ()
        return codec.encode(BudgetPage(rows=rows))

    async def _nodes(self, question: dict[str, Any]) -> bytes:
        asked = question["names"]
        names = [name for number in range(250) if (name := f"n{number:03d}") in asked or not asked]
        part = names[question["offset"] : question["offset"] + question["limit"]]
        nodes = tuple(
            queries.NodeRow(
                name=name,
                condition=NodeCondition.READY,
                allocatable_milli={"nvidia.com/gpu": 8000},
                free_milli={"nvidia.com/gpu": 7000},
                labels={},
                devices=(
                    queries.DeviceRow(
                        index=0,
                        resource="nvidia.com/gpu",
                        model="A100",
                        health="healthy",
                        holder="team-b/secret",
                        shares=(queries.CardShare(holder="team-b/secret", milli=500),),
                    ),
                ),
                workloads=("team-b/secret",),
                last_heartbeat_ms=0,
            )
            for name in part
        )
        return codec.encode(
            queries.NodePage(nodes=nodes, largest_gang_of_one_gpu=1750, total=len(names))
        )

    async def _domains(self, question: dict[str, Any]) -> bytes:
        """A floor of three racks, told in pages of two."""
        paths = ((), ("r1",), ("r2",), ("r3",))
        rows = tuple(
            DomainRow(
                topology="dc" if path else "",
                level="rack" if path else "",
                path=path,
                nodes=1,
                ready=1,
                allocatable_milli={},
                free_milli={},
                largest=tuple(len(pod) for pod in question["pods"]),
            )
            for path in paths[question["offset"] : question["offset"] + 2]
        )
        pods = tuple(question["pods"])
        return codec.encode(DomainPage(pods=pods, domains=rows, total=len(paths)))


def partition_in(events: list[tuple[str, bytes]], workload_id: str) -> str:
    return next(
        subject.split(".")[5]
        for subject, _ in events
        if subject.endswith(workload_id) and ".workload_submitted." in subject
    )


def row_of(fact: WorkloadSubmitted, partition: str) -> queries.WorkloadRow:
    workload = fact.workload
    return queries.WorkloadRow(
        id=workload.id,
        namespace=workload.namespace,
        name=workload.name,
        kind=workload.owner.kind,
        queue=workload.queue.name,
        cluster_queue=fact.cluster_queue,
        phase=queries.Phase.PENDING,
        reason="WaitingForQuota",
        message="waits",
        priority=workload.priority,
        requests_milli=workload.total_requests,
        pods=1,
        created_at_ms=workload.created_at_ms,
        attempt=0,
        user=workload.user,
        partition=partition,
    )


@dataclass(slots=True)
class House:
    """Everything a test may touch."""

    url: str
    gateway: Gateway
    chassis: Chassis
    bus: Bus
    admission: Admission

    def client(self, token: str = ADMIN) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=20)

    async def apply(self, text: str = BASE) -> dict[str, Any]:
        async with self.client() as client:
            response = await client.post("/v1/jobs", content=text)
        assert response.status_code == 202, response.text
        return response.json()

    async def seen(self, count: int) -> None:
        await until(lambda: len(self.admission.submitted) >= count, 60)


@asynccontextmanager
async def open_house(nats_url: str, **changes: object) -> AsyncGenerator[House, None]:
    settings = settings_for(nats_url, changes)
    async with (
        connected_bus(nats_url, Service.GATEWAY, fresh=True) as bus,
        connected_bus(nats_url, Service.ADMISSION) as other,
    ):
        chassis = Chassis(
            settings=settings,
            service=Service.GATEWAY,
            bus=bus,
            metrics=Metrics(),
            tracing=Tracing(settings, Service.GATEWAY),
        )
        chassis.checks["bus"] = lambda: "" if bus.client.is_connected else "not connected"
        gateway = compose(chassis, settings)
        admission = Admission(other)
        await admission.answer()
        config = uvicorn.Config(build_api(gateway), port=0, log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        tasks = [
            asyncio.create_task(gateway.work()),
            asyncio.create_task(admission.run()),
            asyncio.create_task(server.serve()),
        ]
        try:
            await until(lambda: server.started and not chassis.troubles())
            port = server.servers[0].sockets[0].getsockname()[1]
            yield House(f"http://127.0.0.1:{port}", gateway, chassis, other, admission)
        finally:
            server.should_exit = True
            await tasks[2]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            chassis.tracing.shutdown()
