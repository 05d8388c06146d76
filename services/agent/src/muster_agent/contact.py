"""Whether the node still reaches the bus, and until when its pods may run without it.

The time of the last proven contact is in a file with the end of the lease that follows from it.
Keepers read it, so that processes end in time even if the agent does not run; an agent that starts
reads from it how long the node was silent.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from muster_agent.pods import CutOff
from muster_agent.runtimes.keeper import steady_ms
from muster_agent.settings import AgentSettings
from muster_contracts import codec, subjects
from muster_contracts.commands import NodeHeartbeat
from muster_runtime.bus import Bus

_log = structlog.get_logger()


class Contact:
    """Knows the last contact. All times are on the steady clock of `keeper`."""

    def __init__(self, path: Path, settings: AgentSettings) -> None:
        self.path = path
        self._settings = settings
        self._keepers_ms = settings.node_lease_ms - settings.agent_stop_window_ms // 4
        self._last_ms = self._read()

    def renew(self, at_ms: int) -> None:
        """The bus answered something sent at this time."""
        self._last_ms = at_ms
        draft = self.path.with_suffix(".draft")
        draft.write_text(str(at_ms + self._keepers_ms))
        draft.replace(self.path)

    def silent_ms(self, now_ms: int) -> int:
        """For how long the bus has not been heard; 0 if this is the first time since boot."""
        return 0 if self._last_ms is None else max(0, now_ms - self._last_ms)

    def cut_off(self, now_ms: int) -> CutOff | None:
        """What is to happen to the pods, if the node has been silent for too long."""
        silent_ms = self.silent_ms(now_ms)
        if silent_ms < self._settings.silence_max_ms:
            return None
        killed_by_ms = self._settings.node_lease_ms - self._settings.agent_stop_window_ms // 2
        return CutOff(
            grace_ms=max(0, killed_by_ms - silent_ms),
            message=f"the node was cut off for {silent_ms // 1000} s and stopped its pods",
        )

    def _read(self) -> int | None:
        try:
            last_ms = int(self.path.read_text()) - self._keepers_ms
        except (FileNotFoundError, ValueError):
            return None
        return last_ms if last_ms <= steady_ms() else None


class Pulse:
    """Gives signs of life, learns from the answers, and says when the node is cut off."""

    def __init__(
        self,
        bus: Bus,
        contact: Contact,
        settings: AgentSettings,
        *,
        living: Callable[[], Iterable[NodeHeartbeat]],
        cut_off: Callable[[CutOff], None],
    ) -> None:
        self._bus = bus
        self._contact = contact
        self._interval_s = settings.agent_heartbeat_interval_ms / 1000
        self._check_s = settings.agent_stop_window_ms / 1000 / 16
        self._living = living
        self._cut_off = cut_off

    async def run(self) -> None:
        """Beat and watch until cancelled; the first beat comes before the first judgement."""
        await self._beat()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat_on())
            group.create_task(self._watch())

    async def _beat_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            next_s = loop.time() + self._interval_s
            await self._beat()
            await asyncio.sleep(max(0.0, next_s - loop.time()))

    async def _beat(self) -> None:
        sent_ms = steady_ms()
        for beat in self._living():
            await self._bus.sample(subjects.telemetry("heartbeat", beat.node), codec.encode(beat))
        if await self._bus.in_touch(self._interval_s):
            self._contact.renew(sent_ms)

    async def _watch(self) -> None:
        said = False
        while True:
            cut_off = self._contact.cut_off(steady_ms())
            if cut_off is not None and not said:
                _log.error("the node is cut off", message=cut_off.message)
                self._cut_off(cut_off)
            said = cut_off is not None
            await asyncio.sleep(self._check_s)
