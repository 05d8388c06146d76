"""One trace goes from the job event through every service to the decision."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster_contracts import subjects
from muster_contracts.jobs import Verdict
from muster_contracts.streams import DECISIONS, EVENTS
from muster_contracts.subjects import JobVerb, Service
from muster_runtime.bus import Bus
from muster_runtime.reader import Received
from muster_stack.bus import joined
from muster_stack.demo.api import Api
from muster_stack.plan import StackOptions
from muster_stack.stack import Stack
from muster_testing.waiting import wait_until, wait_until_async

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

DEADLINE_S = 90.0
SERVICES = (Service.GATEWAY, Service.ADMISSION, Service.PLACEMENT, Service.AGENT)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu]
      flavors:
        - name: any
          resources: [{name: cpu, nominalQuota: 8}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs, namespace: team}
spec: {clusterQueue: team}
"""
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "traced",
        "namespace": "team",
        "labels": {"kueue.x-k8s.io/queue-name": "jobs"},
    },
    "spec": {
        "template": {
            "metadata": {"annotations": {"muster.dev/simulated-duration-ms": "100"}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {"name": "main", "image": "ci:1", "resources": {"limits": {"cpu": "1"}}}
                ],
            },
        }
    },
}


@dataclass(frozen=True)
class Span:
    service: str
    name: str
    trace: str
    identity: str
    parent: str


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    options = StackOptions(
        services=SERVICES,
        simulate="1x0gpu",
        environment={"MUSTER_TRACE_RATIO": "1"},
        service_environment={
            service: {"MUSTER_TRACE_FILE": str(tmp_path / f"{service}.spans")}
            for service in SERVICES
        },
    )
    with Stack(tmp_path / "stack", options) as stack:
        yield stack


def spans(folder: Path) -> list[Span]:
    found: list[Span] = []
    for service in SERVICES:
        path = folder / f"{service}.spans"
        for line in path.read_text().splitlines() if path.exists() else ():
            span = json.loads(line)
            found.append(
                Span(
                    service=service,
                    name=span["name"],
                    trace=span["context"]["trace_id"].removeprefix("0x"),
                    identity=span["context"]["span_id"].removeprefix("0x"),
                    parent=(span["parent_id"] or "").removeprefix("0x"),
                )
            )
    return found


async def submit_and_wait(stack: Stack) -> tuple[Received, list[Received]]:
    """The last decision about the job, and the log."""
    async with joined(stack.bus_login("ci-ci")) as ci, joined(stack.bus_login()) as client:
        await ci.request(
            subjects.job("team", JobVerb.SUBMIT),
            json.dumps(JOB).encode(),
            timeout=10,
            headers={"Nats-Msg-Id": "traced", "traceparent": f"00-{TRACE}-{CALLER}-01"},
        )
        bus = Bus(client, Service.GATEWAY)

        async def finished() -> Received | None:
            last = await bus.last(DECISIONS.name, subjects.decision("team", "traced"))
            is_over = last is not None and f'"{Verdict.FINISHED}"'.encode() in last.body
            return last if is_over else None

        decision = await wait_until_async(finished, DEADLINE_S, lambda: "the job does not end")
        return decision, await bus.read_to_end(EVENTS.name, "muster.evt.>")


async def test_one_trace_goes_from_the_job_event_to_the_decision(
    stack: Stack, tmp_path: Path
) -> None:
    api = Api(stack.gateway_url, stack.headers("admin"))
    try:
        await asyncio.to_thread(api.submit, QUEUES)
        await asyncio.to_thread(wait_until, api.nodes, DEADLINE_S, lambda: "there is no node")
    finally:
        api.close()
    decision, log = await submit_and_wait(stack)
    await asyncio.to_thread(stack.stop)

    assert decision.headers["traceparent"].split("-")[1] == TRACE
    traced = {
        subjects.event_name(received.subject)
        for received in log
        if received.headers.get("traceparent", "").split("-")[1:2] == [TRACE]
    }
    assert traced >= {
        "workload_submitted",
        "quota_reserved",
        "gang_placed",
        "workload_admitted",
        "gang_finished",
        "workload_finished",
    }

    ours = [span for span in spans(tmp_path) if span.trace == TRACE]
    assert {span.service for span in ours} >= {"gateway", "admission", "placement"}
    known = {CALLER, *(span.identity for span in ours)}
    assert [span for span in ours if span.parent not in known] == [], "the trace is broken"
    assert [span.name for span in ours if span.parent == CALLER] == ["job submit"]
    assert decision.headers["traceparent"].split("-")[2] in known
