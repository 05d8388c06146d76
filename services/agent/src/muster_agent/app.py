"""The agent service: everything is put together here."""

import asyncio
import ctypes
import sys
from collections.abc import Coroutine
from functools import partial
from typing import cast

import aiodocker
import structlog
from prometheus_client import Gauge

from muster_agent.contact import Contact, Pulse
from muster_agent.control import Control
from muster_agent.feed import Feed
from muster_agent.host import Host, NodeTerms, Observed, Seen
from muster_agent.inventory import NodeIdentity
from muster_agent.letters import Postman
from muster_agent.lookout import Lookout
from muster_agent.machine import RestartRules
from muster_agent.mig import Divider
from muster_agent.nvml import Gpus
from muster_agent.observing import GAPS_MAX, Sampler, observe
from muster_agent.output import OutputReader, OutputWriter
from muster_agent.runtimes import Runtime
from muster_agent.runtimes.docker import DockerRuntime
from muster_agent.runtimes.keeper import steady_ms
from muster_agent.runtimes.process import ProcessRuntime, prune_output
from muster_agent.runtimes.simulated import SimulatedRuntime
from muster_agent.settings import AgentSettings, parse_labels, parse_taints
from muster_agent.simulation import divided, simulated_nodes
from muster_agent.store import AgentStore
from muster_contracts.commands import RunPod
from muster_contracts.streams import PODS
from muster_contracts.subjects import Service
from muster_domain.errors import Transient
from muster_runtime.bus import Bus
from muster_runtime.clock import now_ms
from muster_runtime.service import Chassis, run

REMEMBER_ENDED_MS = 31 * 24 * 3600 * 1000
HOUSEKEEPING_S = 3600
REPORT_AGAIN_EVERY = 24
RETRY_S = 0.5
_PR_SET_DUMPABLE = 4

_log = structlog.get_logger()


def main() -> None:
    """Run the agent until it is told to stop."""
    _close_own_memory()
    run(Service.AGENT, AgentSettings(), work)


async def work(chassis: Chassis) -> None:
    """Be the agent of this machine, or of simulated ones."""
    settings = cast("AgentSettings", chassis.settings)
    store = AgentStore(settings.folder, survive_power_loss=not settings.agent_simulate)
    try:
        agent = _Agent(chassis, settings, store)
        await (agent.simulate() if settings.agent_simulate else agent.serve_machine())
    finally:
        store.close()


class _Agent:
    """The parts that every kind of agent has."""

    def __init__(self, chassis: Chassis, settings: AgentSettings, store: AgentStore) -> None:
        self._bus: Bus = chassis.bus
        self._chassis = chassis
        self._settings = settings
        self._store = store
        self._contact = Contact(settings.folder / "lease", settings)
        self._postman = Postman(chassis.bus, store)
        self._output = OutputWriter(chassis.bus)
        self._host = Host(store, _terms(settings), now_ms=now_ms, committed=self._postman.wake)

    async def simulate(self) -> None:
        """Be the agent of nodes that exist on paper."""
        nodes = simulated_nodes(self._settings.agent_simulate)
        await self._boot(tuple(node.name for node in nodes))
        for node in nodes:
            self._host.offer(node.name, Seen(node))
        by_name = {node.name: node for node in nodes}

        def divide(pod: RunPod) -> None:
            node = by_name.get(pod.environment.get("MUSTER_NODE", ""))
            after = node if node is None else divided(node, pod.instances)
            if after is not None and after != node:
                by_name[after.name] = after
                self._host.offer(after.name, Seen(after))

        runtime = SimulatedRuntime(
            duration_ms=self._settings.agent_simulated_duration_ms,
            observe=self._host.observe,
            now_ms=now_ms,
            divide=divide,
        )
        await Control(self._host, runtime, self._settings).listen(self._bus)
        await self._run(runtime)

    async def serve_machine(self) -> None:
        """Be the agent of this machine."""
        settings = self._settings
        name = settings.node_name
        await self._boot((name,))
        identity = NodeIdentity(
            name=name,
            labels=parse_labels(settings.agent_labels),
            taints=parse_taints(settings.agent_taints),
            address=settings.agent_address,
            replicas=settings.agent_gpu_replicas,
        )
        gpus = Gpus(divided=settings.agent_mig == "dynamic")
        lookout = Lookout(
            identity,
            settings.folder,
            gpus,
            active=lambda: self._host.active_pods(name),
            seen=lambda node: self._host.offer(name, Seen(node)),
        )
        await lookout.look()
        await OutputReader(name, settings.folder).serve(self._bus)
        runtime = self._runtime(name, lookout)
        watching = [lookout.run(settings.agent_inventory_interval_ms / 1000)]
        if settings.agent_sample_interval_ms:
            watching.append(self._observe(name, gpus, settings.agent_sample_interval_ms))
        await self._run(runtime, *watching)

    async def _observe(self, name: str, gpus: Gpus, interval_ms: int) -> None:
        await observe(
            Sampler(name, GAPS_MAX * interval_ms),
            interval_s=interval_ms / 1000,
            percents=gpus.busy_percents,
            pods=lambda: self._host.active_pods(name).values(),
            now_ms=now_ms,
            tell=lambda fact: self._host.offer(name, Observed(fact)),
        )

    def _runtime(self, name: str, lookout: Lookout) -> Runtime:
        write = partial(self._output.write, name)
        divider = Divider(lambda: self._host.active_pods(name))

        async def divide(pod: RunPod) -> tuple[str, ...]:
            instances = await divider.divide(pod)
            if instances:
                await lookout.look()
            return instances

        if self._settings.agent_runtime == "docker":
            return DockerRuntime(
                aiodocker.Docker(),
                observe=self._host.observe,
                write=write,
                identify=lookout.identify,
                processors=lookout.processors,
                divide=divide,
            )
        return ProcessRuntime(
            self._settings.folder,
            self._contact.path,
            observe=self._host.observe,
            write=write,
            identify=lookout.identify,
            processors=lookout.processors,
            divide=divide,
        )

    async def _boot(self, names: tuple[str, ...]) -> None:
        origin = await _until_declared(self._bus)
        cut_off = self._contact.cut_off(steady_ms())
        if cut_off is not None:
            _log.warning("the node was silent for too long", message=cut_off.message)
        for name in names:
            self._host.boot(name, origin=origin, cut_off=cut_off)

    async def _run(self, runtime: Runtime, *more: Coroutine[None, None, None]) -> None:
        feed = Feed(self._bus, self._host, dead_letters=self._chassis.metrics.dead_letters)
        pulse = Pulse(
            self._bus,
            self._contact,
            self._settings,
            living=self._host.living,
            cut_off=self._host.cut_off,
        )
        self._chassis.checks["commands"] = lambda: feed.trouble
        self._chassis.checks["contact"] = self._trouble_of_contact
        self._measure()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._host.run(runtime))
                group.create_task(self._postman.run())
                group.create_task(self._output.run())
                group.create_task(pulse.run())
                group.create_task(feed.run())
                group.create_task(self._keep_house())
                for one in more:
                    group.create_task(one)
        finally:
            await runtime.close()

    async def _keep_house(self) -> None:
        rounds = 0
        while True:
            alive = frozenset(self._host.pods_alive())
            await asyncio.to_thread(self._store.forget_ended, now_ms() - REMEMBER_ENDED_MS)
            await asyncio.to_thread(
                prune_output, self._settings.folder, alive, self._settings.agent_keep_output_s
            )
            await asyncio.sleep(HOUSEKEEPING_S)
            rounds += 1
            if rounds % REPORT_AGAIN_EVERY == 0:
                self._host.report_again()

    def _trouble_of_contact(self) -> str:
        cut_off = self._contact.cut_off(steady_ms())
        return cut_off.message if cut_off is not None else ""

    def _measure(self) -> None:
        registry = self._chassis.metrics.registry
        pods = Gauge("muster_agent_pods", "Pods that are not over", registry=registry)
        waiting = Gauge(
            "muster_agent_letters_waiting", "Events not acknowledged by the bus", registry=registry
        )
        silence = Gauge(
            "muster_agent_silence_seconds", "Time since the bus last answered", registry=registry
        )

        def refresh() -> None:
            pods.set(len(self._host.pods_alive()))
            waiting.set(self._store.letters_waiting())
            silence.set(self._contact.silent_ms(steady_ms()) / 1000)

        self._chassis.before_scrape.append(refresh)


def _terms(settings: AgentSettings) -> NodeTerms:
    runs = settings.agent_simulate or settings.agent_runtime != "none"
    return NodeTerms(
        restarts=RestartRules(
            failures_max=settings.agent_restarts_max,
            pause_first_ms=settings.agent_restart_pause_ms,
        ),
        heartbeat_interval_ms=settings.agent_heartbeat_interval_ms,
        refusal="" if runs else "this node runs no pods: MUSTER_AGENT_RUNTIME is none",
    )


async def _until_declared(bus: Bus) -> int:
    """The last command there is, once the stream of commands exists."""
    while True:
        try:
            return await bus.last_sequence(PODS.name)
        except Transient as error:
            _log.warning("waits for the streams", error=str(error))
            await asyncio.sleep(RETRY_S)


def _close_own_memory() -> None:
    """Keep pods, which run as the same user, out of the agent's memory and environment."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)
