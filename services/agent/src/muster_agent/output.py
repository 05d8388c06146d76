"""What pods write, for whoever listens now, and for whoever asks later."""

import asyncio
from collections import deque
from pathlib import Path
from typing import Any, Literal, cast

from muster_agent.pods import RunTask
from muster_agent.runtimes.process import output_file
from muster_agent.runtimes.tail import last_lines
from muster_contracts import codec, subjects
from muster_contracts.commands import PodOutput
from muster_contracts.queries import OutputQuestion, OutputText, Query
from muster_contracts.subjects import Service
from muster_domain.errors import NotFound
from muster_runtime.bus import Bus

WAITING_MAX = 1024
"""Pieces of output that wait for the bus; older ones are dropped for newer ones."""
LINES_MAX = 1000


class OutputWriter:
    """Passes output on as telemetry: bounded, and lost where nobody listens."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=WAITING_MAX)
        self._something = asyncio.Event()

    def write(self, node: str, task: RunTask, stream: str, text: str) -> None:
        """Take some lines; does not wait."""
        output = PodOutput(
            workload_id=task.pod.workload_id,
            pod_uid=task.pod.pod_uid,
            rank=task.pod.rank,
            stream=cast("Literal['stdout', 'stderr']", stream),
            text=text,
        )
        subject = subjects.pod_output(node, task.pod.workload_id)
        self._waiting.append((subject, codec.encode(output)))
        self._something.set()

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._something.wait()
            self._something.clear()
            while self._waiting:
                await self._bus.sample(*self._waiting.popleft())


class OutputReader:
    """Answers `muster.rpc.agent.v1.output.<node>` from the files of this node."""

    def __init__(self, node: str, folder: Path) -> None:
        self._node = node
        self._folder = folder

    async def serve(self, bus: Bus) -> None:
        """Answer from now on, as long as the connection lives."""
        subject = subjects.query(Service.AGENT, Query.OUTPUT, subjects.token(self._node))
        await bus.answer(subject, self._answer)

    async def _answer(self, question: dict[str, Any]) -> bytes:
        asked = codec.decode_object(OutputQuestion, question)
        path = output_file(self._folder, asked.pod_uid, asked.container, asked.stream)
        if not path.exists():
            raise NotFound(f"{self._node} has no output of pod {asked.pod_uid}")
        lines = min(LINES_MAX, max(1, asked.lines))
        text = await asyncio.to_thread(last_lines, path, lines)
        return codec.encode(OutputText(text=text))
