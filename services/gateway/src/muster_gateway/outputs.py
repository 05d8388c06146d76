"""What pods write, passed on while it is written. It may be lost here; the node keeps it."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from muster_contracts import codec, subjects
from muster_contracts.commands import PodOutput
from muster_domain.errors import InvalidValue
from muster_runtime.bus import Bus

PIECES_MAX = 1_000
"""Pieces of output that a slow reader may be behind; older ones are dropped and counted."""


class OutputListener:
    """One reader of one workload's output."""

    def __init__(self) -> None:
        self.dropped = 0
        """Pieces that were lost because the reader was too slow."""
        self._backlog: deque[PodOutput] = deque()
        self._arrived = asyncio.Event()

    def hear(self, body: bytes) -> None:
        """Take a piece of output; the oldest makes room. What is no output is passed over."""
        try:
            output = codec.decode(PodOutput, body)
        except InvalidValue:
            return
        if len(self._backlog) >= PIECES_MAX:
            self._backlog.popleft()
            self.dropped += 1
        self._backlog.append(output)
        self._arrived.set()

    async def next(self, timeout_s: float) -> PodOutput | None:
        """The next piece, or None when nothing was written in time."""
        if not self._backlog:
            self._arrived.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._arrived.wait()
            except TimeoutError:
                return None
        return self._backlog.popleft()


@asynccontextmanager
async def listen_to(bus: Bus, workload_id: str) -> AsyncGenerator[OutputListener, None]:
    """Hear what the workload's pods write, on whatever node, until the block ends."""
    listener = OutputListener()
    stop = await bus.listen(subjects.pod_output_of(workload_id), listener.hear)
    try:
        yield listener
    finally:
        await stop()
