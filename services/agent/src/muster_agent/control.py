"""Lets people cut the power of simulated nodes and turn it on again."""

from functools import partial

import structlog

from muster_agent.host import Host, PowerBack, PowerCut
from muster_agent.pods import CutOff
from muster_agent.runtimes.keeper import steady_ms
from muster_agent.runtimes.simulated import SimulatedRuntime
from muster_agent.settings import AgentSettings
from muster_contracts import codec, subjects
from muster_contracts.commands import AgentControl, ControlAction
from muster_domain.errors import InvalidValue
from muster_runtime.bus import Bus

_log = structlog.get_logger()


class Control:
    """Hears `AgentControl` for the nodes of this process."""

    def __init__(self, host: Host, runtime: SimulatedRuntime, settings: AgentSettings) -> None:
        self._host = host
        self._runtime = runtime
        self._settings = settings
        self._failed_ms: dict[str, int] = {}

    async def listen(self, bus: Bus) -> None:
        """Hear from now on, as long as the connection lives."""
        for node in self._host.names:
            await bus.listen(subjects.telemetry("control", node), partial(self._heard, node))

    def _heard(self, node: str, body: bytes) -> None:
        try:
            control = codec.decode(AgentControl, body)
        except InvalidValue as error:
            _log.error("control is not understood", node=node, error=str(error))
            return
        _log.warning("control", node=node, action=str(control.action))
        if control.action is ControlAction.FAIL:
            self._failed_ms.setdefault(node, steady_ms())
            self._host.offer(node, PowerCut(self._runtime.cut_power))
        else:
            self._host.offer(node, PowerBack(self._silence(node)))

    def _silence(self, node: str) -> CutOff | None:
        failed_ms = self._failed_ms.pop(node, None)
        if failed_ms is None or steady_ms() - failed_ms < self._settings.silence_max_ms:
            return None
        return CutOff(grace_ms=0, message="the node had no power for longer than its lease")
