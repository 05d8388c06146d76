"""A real agent process on a real bus, and what placement and people would see of it."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from nats import connect

from muster_contracts import codec, subjects
from muster_contracts.commands import AgentControl, ControlAction, NodeHeartbeat, PodCommand
from muster_contracts.envelope import MESSAGE_ID
from muster_contracts.events import NodeRegistered, PodFinished, PodRestarting, PodStarted
from muster_contracts.streams import EVENTS
from muster_contracts.subjects import Service
from muster_runtime.bus import Bus
from muster_runtime.declare import declare
from muster_runtime.publisher import Outgoing

DEADLINE_S = 60.0
LEASE_MS = 600_000
"""No node is cut off by a machine that is busy with other things, unless a test is about that."""
_numbers = itertools.count()


async def until(condition: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition. Fails when the deadline is over."""
    end_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end_s, "it did not happen in time"
        await asyncio.sleep(0.02)


class Bench:
    """Says what placement says and hears what it hears, about some nodes."""

    def __init__(self, bus: Bus, folder: Path, url: str) -> None:
        self.bus = bus
        self.folder = folder
        self.url = url
        self.facts: list[NodeRegistered | PodStarted | PodRestarting | PodFinished] = []
        self.beats: list[NodeHeartbeat] = []
        self.agents: list[subprocess.Popen[bytes]] = []

    def start_agent(self, **settings: str | int) -> subprocess.Popen[bytes]:
        """Start an agent; settings are those of `AgentSettings`, in lower case."""
        environment = {name: value for name, value in os.environ.items() if "MUSTER" not in name}
        environment |= {
            "MUSTER_NATS_URL": self.url,
            "MUSTER_AGENT_DATA_DIR": str(self.folder / "agent"),
            "MUSTER_AGENT_HEARTBEAT_INTERVAL_MS": "100",
            "MUSTER_AGENT_INVENTORY_INTERVAL_MS": "500",
            "MUSTER_LOG_LEVEL": "WARNING",
            "MUSTER_NODE_LEASE_MS": str(LEASE_MS),
            **{f"MUSTER_{name.upper()}": str(value) for name, value in settings.items()},
        }
        agent = subprocess.Popen([sys.executable, "-m", "muster_agent"], env=environment)
        self.agents.append(agent)
        return agent

    async def say(self, node: str, *commands: PodCommand) -> None:
        """Publish commands, each as a message of its own."""
        await self.bus.publish(
            [
                Outgoing(
                    subject=subjects.pod_command(node, command.pod_uid),
                    body=codec.encode(command),
                    headers={MESSAGE_ID: f"bench-{os.getpid()}-{next(_numbers)}"},
                )
                for command in commands
            ]
        )

    async def control(self, node: str, action: ControlAction) -> None:
        """Cut the power of a simulated node or turn it on."""
        body = codec.encode(AgentControl(action=action))
        await self.bus.sample(subjects.telemetry("control", node), body)

    def registrations(self, node: str) -> list[NodeRegistered]:
        """What the node said of itself."""
        return [
            fact
            for fact in self.facts
            if isinstance(fact, NodeRegistered) and fact.node.name == node
        ]

    def started(self, uid: str) -> list[PodStarted]:
        """Whether the pod was reported to run."""
        return [f for f in self.facts if isinstance(f, PodStarted) and f.pod_uid == uid]

    def finished(self, uid: str) -> list[PodFinished]:
        """Whether the pod was reported to be over."""
        return [f for f in self.facts if isinstance(f, PodFinished) and f.pod_uid == uid]

    async def end_of(self, uid: str) -> PodFinished:
        """Wait for the one end of a pod."""
        await until(lambda: self.finished(uid))
        (end,) = self.finished(uid)
        return end

    async def hear(self) -> None:
        """Read the log until cancelled."""
        after = await self.bus.last_sequence(EVENTS.name)
        reader = self.bus.read(EVENTS.name, (subjects.events_of(Service.AGENT),), after=after)
        await self.bus.listen(subjects.telemetry_of_all("heartbeat"), self._on_beat)
        try:
            while True:
                for received in await reader.next_batch(512, 0.5):
                    name = subjects.event_name(received.subject)
                    fact = codec.decode_event(name, received.body)
                    assert isinstance(
                        fact, NodeRegistered | PodStarted | PodRestarting | PodFinished
                    )
                    self.facts.append(fact)
        finally:
            await reader.close()

    def _on_beat(self, body: bytes) -> None:
        self.beats.append(codec.decode(NodeHeartbeat, body))

    def end_agents(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to all agents and wait for their end."""
        for agent in self.agents:
            if agent.poll() is None:
                agent.send_signal(number)
        for agent in self.agents:
            agent.wait(DEADLINE_S)
        self.agents.clear()


@asynccontextmanager
async def bench_on(url: str, folder: Path) -> AsyncIterator[Bench]:
    """A bench on a bus with all streams."""
    client = await connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
    bench = Bench(Bus(client, Service.PLACEMENT), folder, url)
    try:
        await declare(client)
        hearing = asyncio.create_task(bench.hear())
        try:
            yield bench
        finally:
            bench.end_agents()
            hearing.cancel()
            await asyncio.wait([hearing])
    finally:
        await client.close()
