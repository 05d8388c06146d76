"""Kueue's loads through the running services: real bus, real ledger, jobs that CI runs itself.

As Kueue's own runner does it: jobs are published when they are due, and a job that was admitted is
reported finished after its run time. One that is preempted meanwhile starts from the beginning.
"""

import asyncio
import heapq
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
import uvloop
from nats.aio.msg import Msg

from muster_contracts import subjects
from muster_contracts.envelope import MESSAGE_ID
from muster_contracts.subjects import JobVerb
from muster_domain.conditions import EvictionReason
from muster_domain.workload import PodSet, TopologyMode, Workload
from muster_manifests.topology_requests import PREFERRED, REQUIRED, SLICE_SIZE, SLICE_TOPOLOGY
from muster_runtime.publisher import Outgoing, Publisher
from muster_simulation.manifests import DURATION
from muster_stack.demo.api import Api
from muster_stack.plan import StackOptions
from muster_stack.stack import Login, Stack
from muster_testing.waiting import wait_until

from . import meter
from .kueue_load import (
    BLOCK,
    CPU,
    NAMESPACE,
    NODE_CPU,
    NODES_OF_RACK,
    NOMINAL_CPU,
    RACK,
    RACKS,
    JobClass,
    Load,
)

NODES = 24
LARGE_NODES = f"{NODES}x0gpu,cpu=1000,memory=1Ti"
RACKED_NODES = (
    f"{RACKS * NODES_OF_RACK}x0gpu,cpu={NODE_CPU},memory=256Gi:"
    f"{BLOCK}=b0,{RACK}=r{{n/{NODES_OF_RACK}}}"
)
HEARTBEAT_MS = 5_000
"""Of each machine; hundreds of them would otherwise be most of what the services hear."""
OBJECTS_AT_ONCE = 500
LEASE_MS = 3_600_000
TICK_S = 0.01
OPEN_DEADLINE_S = 60.0
END_DEADLINE_S = 7_200.0
TELL_EVERY_S = 15.0
CUT_SHORT = frozenset(EvictionReason)
"""Reasons of an eviction; a job that ended is shown as `evicted` too, with its outcome."""

Figures = dict[str, Any]


def measure(folder: Path, load: Load, say: Callable[[str], None]) -> Figures:
    """Run a load to its end on a stack of its own."""
    with _stack(folder, load) as (stack, pids):
        before = meter.usage(pids)
        figures = uvloop.run(_run(stack.bus_login("ci-ci"), load, say))
        figures["cpu_us"] = meter.usage(pids).per(before, figures["workloads"])
    say(
        f"  {load.name}, live: {figures['workloads']:,} workloads in {figures['wall_s']} s, "
        f"{figures['per_second']} a second"
    )
    return figures


@contextmanager
def _stack(folder: Path, load: Load) -> Iterator[tuple[Stack, dict[str, int]]]:
    folder.mkdir(parents=True, exist_ok=True)
    options = StackOptions(
        simulate=RACKED_NODES if load.topology else LARGE_NODES,
        log_level="WARNING",
        environment={
            "MUSTER_TRACE_RATIO": "0",
            "MUSTER_AGENT_HEARTBEAT_INTERVAL_MS": str(HEARTBEAT_MS),
        },
    )
    nodes = RACKS * NODES_OF_RACK if load.topology else NODES
    with Stack(folder, options) as stack:
        api = Api(stack.gateway_url, stack.headers("admin"))
        try:
            wait_until(lambda: len(api.nodes()) == nodes, OPEN_DEADLINE_S, lambda: "no nodes yet")
            objects = [json.dumps(manifest) for manifest in load.objects()]
            for first in range(0, len(objects), OBJECTS_AT_ONCE):
                api.submit("\n---\n".join(objects[first : first + OBJECTS_AT_ONCE]))
        finally:
            api.close()
        pids = {name: process.pid for name, process in stack.processes.items()}
        pids |= {"nats": stack.nats.pid, "valkey": stack.redis.pid}
        yield stack, {name: pid for name, pid in pids.items() if pid is not None}


@dataclass(slots=True)
class _Job:
    """One job as its submitter sees it. Times in seconds of the submitter's clock."""

    workload: Workload
    of: JobClass
    sent_s: float = 0.0
    first_admitted_s: float | None = None
    running_since_s: float | None = None
    held_s: float = 0.0
    runs: int = 0
    ended: bool = False


@dataclass(slots=True)
class _Runner:
    """Submits, runs what is admitted, and reports what has ended."""

    publisher: Publisher
    jobs: dict[str, _Job]
    say: Callable[[str], None]
    due: list[tuple[float, str, int]] = field(default_factory=list[tuple[float, str, int]])
    left: int = 0
    evictions: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def submit(self) -> None:
        """Publish every job when it is due, the due ones of one tick together."""
        waiting = list(self.jobs.values())
        start_s = time.perf_counter()
        at = 0
        async with asyncio.TaskGroup() as group:
            while at < len(waiting):
                now_ms = (time.perf_counter() - start_s) * 1000
                until = at
                while until < len(waiting) and waiting[until].workload.created_at_ms <= now_ms:
                    until += 1
                for job in waiting[at:until]:
                    job.sent_s = time.perf_counter()
                if until > at:
                    messages = [_submission(job) for job in waiting[at:until]]
                    group.create_task(self.publisher.publish(messages))
                at = until
                await self._moment()

    async def finish(self) -> None:
        """Report what has run for long enough, until everything has ended."""
        while not self.done.is_set():
            now_s = time.perf_counter()
            ended: list[Outgoing] = []
            while self.due and self.due[0][0] <= now_s:
                _, name, run = heapq.heappop(self.due)
                job = self.jobs[name]
                if job.runs == run and job.running_since_s is not None:
                    ended.append(_end(name, run))
            if ended:
                await self.publisher.publish(ended)
            await self._moment()

    async def tell(self) -> None:
        """Say now and then how far it is."""
        start_s = time.perf_counter()
        while not self.done.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(TELL_EVERY_S):
                    await self.done.wait()
            ended = len(self.jobs) - self.left
            running = sum(job.running_since_s is not None for job in self.jobs.values())
            self.say(
                f"    {time.perf_counter() - start_s:.0f} s: {ended:,} of {len(self.jobs):,} have "
                f"ended, {running:,} run, {self.evictions:,} evictions"
            )

    async def hear(self, message: Msg) -> None:
        """Take a decision."""
        decision = json.loads(message.data)
        job = self.jobs.get(decision["name"])
        if job is None or job.ended:
            return
        now_s = time.perf_counter()
        match decision["decision"]:
            case "admitted" if job.running_since_s is None:
                job.runs += 1
                job.running_since_s = now_s
                if job.first_admitted_s is None:
                    job.first_admitted_s = now_s
                heapq.heappush(self.due, (now_s + job.of.run_ms / 1000, decision["name"], job.runs))
            case "preempted" | "evicted" | "requeued":
                cut_short = decision["reason"] in CUT_SHORT
                self.evictions += cut_short and job.running_since_s is not None
                self._stop(job, now_s)
            case "finished" | "refused":
                self._stop(job, now_s)
                job.ended = True
                self.left -= 1
                if self.left == 0:
                    self.done.set()
            case _:
                pass

    async def _moment(self) -> None:
        """Let a tick pass, or less where everything has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TICK_S):
                await self.done.wait()

    @staticmethod
    def _stop(job: _Job, now_s: float) -> None:
        if job.running_since_s is not None:
            job.held_s += now_s - job.running_since_s
            job.running_since_s = None


async def _run(login: Login, load: Load, say: Callable[[str], None]) -> Figures:
    jobs = {workload.name: _Job(workload, one) for one, workload in load.workloads()}
    client = await nats.connect(
        login.url,
        user=login.user,
        password=login.password,
        inbox_prefix=login.inbox_prefix.encode(),
    )
    try:
        runner = _Runner(Publisher(client), jobs, say, left=len(jobs))
        await client.subscribe(
            f"muster.v1.decisions.{NAMESPACE}.>",
            cb=runner.hear,
            pending_msgs_limit=-1,
            pending_bytes_limit=-1,
        )
        await client.flush()
        start_s = time.perf_counter()
        async with asyncio.timeout(END_DEADLINE_S), asyncio.TaskGroup() as group:
            group.create_task(runner.submit())
            group.create_task(runner.finish())
            group.create_task(runner.tell())
        return _figures(load, jobs, time.perf_counter() - start_s, runner.evictions)
    finally:
        await client.close()


def _figures(load: Load, jobs: dict[str, _Job], wall_s: float, evictions: int) -> Figures:
    held = sum(job.workload.total_requests[CPU] * job.held_s for job in jobs.values()) / 1000
    waits: dict[str, list[float]] = {one.name: [] for one in load.classes}
    for job in jobs.values():
        if job.first_admitted_s is not None:
            waits[job.of.name].append(job.first_admitted_s - job.sent_s)
    return {
        "workloads": len(jobs),
        "wall_s": round(wall_s, 1),
        "ideal_s": round(load.ideal_s(), 1),
        "per_second": round(len(jobs) / wall_s, 1),
        "usage_percent": round(100 * held / (wall_s * NOMINAL_CPU * len(load.queues)), 1),
        "wait": {name: meter.waits_s(found) for name, found in waits.items()},
        "evictions": evictions,
    }


def _submission(job: _Job) -> Outgoing:
    workload = job.workload
    body = {"manifest": _manifest(job), "user": "ci", "external_lease_ms": LEASE_MS}
    return Outgoing(
        subject=subjects.job(NAMESPACE, JobVerb.SUBMIT),
        body=json.dumps(body).encode(),
        headers={MESSAGE_ID: workload.name},
    )


def _end(name: str, run: int) -> Outgoing:
    return Outgoing(
        subject=subjects.job(NAMESPACE, JobVerb.FINISH),
        body=json.dumps({"name": name}).encode(),
        headers={MESSAGE_ID: f"{name}/end/{run}"},
    )


def _manifest(job: _Job) -> dict[str, Any]:
    workload, (pod_set,) = job.workload, job.workload.pod_sets
    requests = {name: f"{milli}m" for name, milli in pod_set.requests.items()}
    annotations = {DURATION: str(job.of.run_ms), **_topology_annotations(pod_set)}
    container = {
        "name": "main",
        "image": "bench:1",
        "resources": {"requests": requests, "limits": requests},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": workload.name,
            "namespace": NAMESPACE,
            "labels": {
                "kueue.x-k8s.io/queue-name": workload.queue.name,
                "kueue.x-k8s.io/priority-class": job.of.name,
            },
        },
        "spec": {
            "parallelism": pod_set.count,
            "completions": pod_set.count,
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


def _topology_annotations(pod_set: PodSet) -> dict[str, str]:
    request = pod_set.topology
    if request is None:
        return {}
    required = request.mode is TopologyMode.REQUIRED
    annotations = {REQUIRED if required else PREFERRED: request.node_label}
    for one in request.slices:
        annotations |= {SLICE_TOPOLOGY: one.node_label, SLICE_SIZE: str(one.size)}
    return annotations
