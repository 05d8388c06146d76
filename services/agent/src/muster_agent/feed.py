"""Commands from the stream to the host, each node from where it left off."""

import asyncio
from typing import TYPE_CHECKING, cast

import structlog

from muster_agent.host import Arrived, Host
from muster_contracts import codec, subjects
from muster_contracts.commands import PodCommand
from muster_contracts.streams import PODS
from muster_domain.errors import InvalidValue, Transient
from muster_runtime.bus import Bus, DeadLetter
from muster_runtime.reader import Received

if TYPE_CHECKING:
    from prometheus_client import Counter

FILTERS_MAX = 64
"""More nodes than this in one process read all commands and drop those of others."""
BATCH_MAX = 512
WAIT_S = 5.0
RETRY_S = 1.0

_log = structlog.get_logger()


class Feed:
    """Reads what is wanted of the pods of this process."""

    def __init__(self, bus: Bus, host: Host, *, dead_letters: "Counter") -> None:
        self._bus = bus
        self._host = host
        self._dead_letters = dead_letters
        self._nodes = frozenset(host.names)
        self.trouble = "has not read its commands yet"
        """Why commands do not arrive; empty when they do."""

    async def run(self) -> None:
        """Read until cancelled; outages of the bus are waited out."""
        filters = tuple(subjects.pod_commands_for(name) for name in self._host.names)
        if len(filters) > FILTERS_MAX:
            filters = PODS.subjects
        reader = self._bus.read(PODS.name, filters, after=self._host.position)
        try:
            while True:
                await self._host.room()
                try:
                    batch = await reader.next_batch(BATCH_MAX, WAIT_S)
                    await self._take(batch)
                    self.trouble = ""
                except Transient as error:
                    self.trouble = str(error)
                    _log.warning("commands wait", error=str(error))
                    await asyncio.sleep(RETRY_S)
        finally:
            await reader.close()

    async def _take(self, batch: list[Received]) -> None:
        letters: list[DeadLetter] = []
        for received in batch:
            node = subjects.untoken(received.subject.split(".")[5])
            if node not in self._nodes:
                continue
            try:
                command = codec.decode(cast("type[PodCommand]", PodCommand), received.body)
            except InvalidValue as error:
                _log.error("dead letter", sequence=received.sequence, reason=str(error))
                letters.append(DeadLetter(received=received, stream=PODS.name, reason=str(error)))
            else:
                self._host.offer(node, Arrived(received.sequence, command))
        if letters:
            self._dead_letters.inc(len(letters))
            await self._bury(letters)

    async def _bury(self, letters: list[DeadLetter]) -> None:
        while True:
            try:
                await self._bus.bury(letters)
            except Transient as error:
                _log.warning("dead letters wait", error=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                return
