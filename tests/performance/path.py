"""Submission to decision, through the real services and through bare ones, in one run.

The ratio of the two is what the logic costs. Rates of wall time depend on who else uses the
machine; processor time per workload hardly does.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg

from muster_contracts import subjects
from muster_contracts.envelope import MESSAGE_ID
from muster_contracts.subjects import JobVerb, Service
from muster_runtime.embedded import LOOPBACK, free_ports
from muster_runtime.publisher import Outgoing, Publisher
from muster_stack.bus import joined
from muster_stack.demo.api import Api
from muster_stack.plan import StackOptions, clean_environment
from muster_stack.process import ProcessSpec, SupervisedProcess
from muster_stack.reaper import Reaper
from muster_stack.stack import Login, Stack
from muster_testing.waiting import wait_until

from . import house, meter, recording

ADMITTED = b'"decision":"admitted"'
BARE_SERVICES = (
    Service.GATEWAY,
    Service.ADMISSION,
    Service.PLACEMENT,
    Service.PREEMPTION,
    Service.ACCOUNTING,
)
LEDGER_USERS = (Service.ADMISSION, Service.PLACEMENT, Service.PREEMPTION)
OPEN_DEADLINE_S = 60.0
ANSWER_DEADLINE_S = 120.0
TICK_S = 0.01
LOG_SHOWN = 4_000

Figures = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPlan:
    """How much is measured. A burst is published at once, as fast as the bus takes it."""

    rates: tuple[int, ...] = (100, 300)
    rate_seconds: float = 6.0
    burst: int = 3000
    bursts: int = 3
    managed: bool = False
    warm_up: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A path that is up: its processes, and how CI gets to its bus."""

    pids: Mapping[str, int]
    login: Login
    logs: Path


def measure(folder: Path, plan: PathPlan, say: Say) -> Figures:
    """Both paths one after the other, and what they amount to side by side."""
    figures: Figures = {}
    for name, path in (("bare", bare_path), ("real", real_path)):
        with path(folder / name, managed=plan.managed) as running:
            say(f"{name} path is up")
            try:
                figures[name] = uvloop.run(_measure_path(running, plan, say))
            except meter.ProcessGone as error:
                log = running.logs / f"{error.name}.log"
                say(log.read_text(encoding="utf-8")[-LOG_SHOWN:] if log.exists() else "no log")
                raise
    bare, real = figures["bare"]["saturation"], figures["real"]["saturation"]
    figures["ratio"] = {
        "throughput": round(real["per_second"] / bare["per_second"], 3),
        "cpu": round(bare["cpu_us"]["all"] / real["cpu_us"]["all"], 3),
    }
    return figures


@contextmanager
def real_path(folder: Path, *, managed: bool) -> Generator[Running]:
    """The whole stack with simulated nodes, its queues declared."""
    del managed
    folder.mkdir(parents=True)
    options = StackOptions(
        simulate=house.SIMULATED_NODES, log_level="WARNING", environment={"MUSTER_TRACE_RATIO": "0"}
    )
    with Stack(folder, options) as stack:
        api = Api(stack.gateway_url, stack.headers("admin"))
        try:
            wait_until(
                lambda: len(api.nodes()) == house.NODES,
                OPEN_DEADLINE_S,
                lambda: "nodes are missing",
            )
            api.submit(house.objects())
        finally:
            api.close()
        pids = {name: process.pid for name, process in stack.processes.items()}
        yield _running(stack, pids)


@contextmanager
def bare_path(folder: Path, *, managed: bool) -> Generator[Running]:
    """The same servers, and processes that only copy."""
    folder.mkdir(parents=True)
    file = folder / "recording.json"
    recording.record(managed=managed).write(file)
    with ExitStack() as exits:
        stack = exits.enter_context(Stack(folder, StackOptions(services=())))
        reaper = Reaper()
        exits.callback(reaper.close)
        processes: list[SupervisedProcess] = []
        for service, port in zip(BARE_SERVICES, free_ports(len(BARE_SERVICES)), strict=True):
            spec = _bare_spec(stack, service, port, file)
            process = SupervisedProcess(spec, folder / "log" / f"{service}.log", reaper)
            processes.append(process)
            process.start()
            exits.callback(process.stop)
        for process in processes:
            process.wait_ready(OPEN_DEADLINE_S)
        yield _running(stack, {process.spec.name: process.pid for process in processes})


def _running(stack: Stack, pids: Mapping[str, int | None]) -> Running:
    everything = {**pids, "nats": stack.nats.pid, "valkey": stack.redis.pid}
    return Running(
        pids={name: pid for name, pid in everything.items() if pid is not None},
        login=stack.bus_login("ci-ci"),
        logs=stack.folder / "log",
    )


def _bare_spec(stack: Stack, service: Service, port: int, file: Path) -> ProcessSpec:
    bus = stack.bus_login(service)
    told = {
        "MUSTER_NATS_URL": bus.url,
        "MUSTER_NATS_USER": bus.user,
        "MUSTER_NATS_PASSWORD": bus.password,
        "MUSTER_HTTP_HOST": LOOPBACK,
        "MUSTER_HTTP_PORT": str(port),
        "MUSTER_INSTANCE": str(service),
        "MUSTER_LOG_LEVEL": "WARNING",
        "MUSTER_TRACE_RATIO": "0",
    }
    if service in LEDGER_USERS:
        ledger = stack.ledger_login(service)
        told |= {
            "MUSTER_REDIS_URL": ledger.url,
            "MUSTER_REDIS_USER": ledger.user,
            "MUSTER_REDIS_PASSWORD": ledger.password,
        }
    return ProcessSpec(
        name=str(service),
        command=(sys.executable, "-m", "tests.performance.bare", str(service), str(file)),
        environment={**clean_environment(), **told},
        http_port=port,
    )


@dataclass(slots=True)
class _Submitter:
    """CI: publishes jobs and notes when it reads that each is admitted."""

    client: Client
    managed: bool
    sent_s: dict[str, float] = field(default_factory=dict[str, float])
    admitted_s: dict[str, float] = field(default_factory=dict[str, float])
    _goal: set[str] = field(default_factory=set[str])
    _done: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: "count[int]" = field(default_factory=count)

    async def listen(self) -> Publisher:
        """Hear the decisions of all teams from now on; returns how to publish."""
        for team in house.TEAMS:
            await self.client.subscribe(
                f"muster.v1.decisions.{team.name}.>",
                cb=self._on_decision,
                pending_msgs_limit=-1,
                pending_bytes_limit=-1,
            )
        await self.client.flush()
        return Publisher(self.client)

    def jobs(self, run: str, how_many: int) -> list[Outgoing]:
        """Jobs that nobody has sent yet, the teams taking turns."""
        found: list[Outgoing] = []
        for number in (next(self._numbers) for _ in range(how_many)):
            name = house.job_name(number, run)
            team = house.TEAMS[number % len(house.TEAMS)].name
            found.append(
                Outgoing(
                    subject=subjects.job(team, JobVerb.SUBMIT),
                    body=house.job_body(name, managed=self.managed),
                    headers={MESSAGE_ID: name},
                )
            )
        return found

    def expect(self, jobs: Sequence[Outgoing]) -> list[str]:
        """Wait for these from now on."""
        names = [job.headers[MESSAGE_ID] for job in jobs]
        self._goal.update(names)
        self._done.clear()
        return names

    async def answered(self) -> None:
        """Return once every expected job is admitted. Raises `TimeoutError`."""
        async with asyncio.timeout(ANSWER_DEADLINE_S):
            await self._done.wait()

    async def _on_decision(self, message: Msg) -> None:
        if ADMITTED not in message.data:
            return
        name = message.subject.rsplit(".", 1)[1]
        if name in self._goal:
            self._goal.discard(name)
            self.admitted_s[name] = time.perf_counter()
            if not self._goal:
                self._done.set()


async def _measure_path(running: Running, plan: PathPlan, say: Say) -> Figures:
    async with _submitter(running.login, managed=plan.managed) as (submitter, publisher):
        await _burst(running, submitter, publisher, "warm", plan.warm_up)
        rates = []
        for rate in plan.rates:
            figures = await _at_rate(running, submitter, publisher, rate, plan.rate_seconds)
            rates.append({"offered_per_second": rate, **figures})
            say(f"  at {rate}/s: p50 {figures['p50_ms']} ms, p99 {figures['p99_ms']} ms")
        bursts = []
        for number in range(plan.bursts):
            burst = await _burst(running, submitter, publisher, f"burst{number}", plan.burst)
            bursts.append(burst)
            say(f"  burst: {burst['per_second']:.0f}/s, {burst['cpu_us']['all']} us each")
    return {
        "rates": rates,
        "saturation": _middle_burst(bursts),
        "memory_mib": meter.memory_mib(running.pids),
    }


@asynccontextmanager
async def _submitter(
    login: Login, *, managed: bool
) -> AsyncGenerator[tuple[_Submitter, Publisher]]:
    async with joined(login) as client:
        submitter = _Submitter(client, managed)
        yield submitter, await submitter.listen()


async def _at_rate(
    running: Running, submitter: _Submitter, publisher: Publisher, rate: int, seconds: float
) -> Figures:
    jobs = submitter.jobs(f"rate{rate}", round(rate * seconds))
    names = submitter.expect(jobs)
    before = meter.usage(running.pids)
    start = time.perf_counter()
    at = 0
    async with asyncio.TaskGroup() as group:
        while at < len(jobs):
            until = min(len(jobs), round((time.perf_counter() - start + TICK_S) * rate))
            now = time.perf_counter()
            submitter.sent_s |= dict.fromkeys(names[at:until], now)
            if until > at:
                group.create_task(publisher.publish(jobs[at:until]))
            at = until
            await asyncio.sleep(TICK_S)
    await submitter.answered()
    waits = [submitter.admitted_s[name] - submitter.sent_s[name] for name in names]
    cpu = meter.usage(running.pids).per(before, len(jobs))
    return {**meter.spread_ms(waits), "cpu_us": cpu}


async def _burst(
    running: Running, submitter: _Submitter, publisher: Publisher, run: str, how_many: int
) -> Figures:
    jobs = submitter.jobs(run, how_many)
    names = submitter.expect(jobs)
    before = meter.usage(running.pids)
    start = time.perf_counter()
    await publisher.publish(jobs)
    published = time.perf_counter()
    await submitter.answered()
    took_s = max(submitter.admitted_s[name] for name in names) - start
    return {
        "count": how_many,
        "published_per_second": round(how_many / (published - start)),
        "per_second": round(how_many / took_s, 1),
        "cpu_us": meter.usage(running.pids).per(before, how_many),
    }


def _middle_burst(bursts: Sequence[Figures]) -> Figures:
    names = bursts[0]["cpu_us"]
    return {
        "count": bursts[0]["count"],
        "per_second": meter.middle([burst["per_second"] for burst in bursts]),
        "per_second_each": [burst["per_second"] for burst in bursts],
        "cpu_us": {n: round(median(burst["cpu_us"][n] for burst in bursts)) for n in names},
    }
