"""Pods on paper: each runs for as long as its annotation says and ends with the code it says."""

import asyncio
from collections.abc import Callable

from muster_agent.pods import (
    EXIT_CANNOT_RUN,
    EXIT_LOST,
    ContainerRun,
    RunBegan,
    RunEnded,
    RunTask,
)
from muster_agent.runtimes import Observe
from muster_contracts.commands import RunPod

DURATION = "muster.dev/simulated-duration-ms"
EXIT_CODE = "muster.dev/simulated-exit-code"
START_DURATION = "muster.dev/simulated-start-ms"
"""How long the pod takes to begin; none by default."""
STOP_DURATION = "muster.dev/simulated-stop-ms"
"""How long the pod takes to end when it is asked to; none by default."""

EXIT_TERMINATED = 143
EXIT_KILLED = 137


class SimulatedRuntime:
    """Ends runs by timer. A run that was seen before goes on as if it had never been let go.

    `divide` makes a pod's MIG instances, on paper as well.
    """

    def __init__(
        self,
        *,
        duration_ms: int,
        observe: Observe,
        now_ms: Callable[[], int],
        divide: Callable[[RunPod], None] | None = None,
    ) -> None:
        self._divide = divide
        self._duration_ms = duration_ms
        self._observe = observe
        self._now_ms = now_ms
        self._timers: dict[str, dict[ContainerRun, asyncio.TimerHandle]] = {}
        self._asked: set[ContainerRun] = set()
        self._cut: set[ContainerRun] = set()

    def run(self, task: RunTask) -> None:
        """As `Runtime`."""
        if task.id in self._timers.get(task.id.pod_uid, {}) or self._lost_power(task):
            return
        try:
            duration_ms = _annotation(task, DURATION, self._duration_ms)
            start_ms = _annotation(task, START_DURATION, 0)
            exit_code = _annotation(task, EXIT_CODE, 0)
        except ValueError as error:
            self._end_in(0, task, EXIT_CANNOT_RUN, str(error))
            return
        if self._divide is not None and task.pod.instances:
            self._divide(task.pod)

        def begin() -> None:
            now_ms = self._now_ms()
            since_ms = now_ms if task.since_ms is None else task.since_ms
            self._end_in(since_ms + duration_ms - now_ms, task, exit_code)
            self._observe(RunBegan(task.id))

        if start_ms and task.since_ms is None:
            timers = self._timers.setdefault(task.id.pod_uid, {})
            timers[task.id] = asyncio.get_running_loop().call_later(start_ms / 1000, begin)
        else:
            begin()

    def stop(self, task: RunTask, *, kill: bool) -> None:
        """As `Runtime`."""
        if self._lost_power(task):
            return
        if kill:
            self._end_in(0, task, EXIT_KILLED)
        elif task.id not in self._asked:
            self._asked.add(task.id)
            try:
                delay_ms = _annotation(task, STOP_DURATION, 0)
            except ValueError:
                delay_ms = 0
            self._end_in(delay_ms, task, EXIT_TERMINATED)

    def checkpoint(self, task: RunTask) -> None:
        """As `Runtime`; on paper there is nothing to save."""

    def forget(self, pod_uid: str) -> None:
        """As `Runtime`."""
        for run, timer in self._timers.pop(pod_uid, {}).items():
            timer.cancel()
            self._asked.discard(run)

    def cut_power(self, pod_uid: str) -> None:
        """What runs of the pod is gone, and nobody is there to say so."""
        self._cut.update(self._timers.get(pod_uid, {}))
        self.forget(pod_uid)

    async def close(self) -> None:
        """As `Runtime`."""
        for pod_uid in list(self._timers):
            self.forget(pod_uid)

    def _lost_power(self, task: RunTask) -> bool:
        if task.id not in self._cut:
            return False
        self._cut.discard(task.id)
        self._end_in(0, task, EXIT_LOST, "the node lost power", lost=True)
        return True

    def _end_in(
        self, delay_ms: int, task: RunTask, code: int, message: str = "", *, lost: bool = False
    ) -> None:
        timers = self._timers.setdefault(task.id.pod_uid, {})
        if task.id in timers:
            timers[task.id].cancel()
        end = RunEnded(id=task.id, exit_code=code, message=message, lost=lost)
        loop = asyncio.get_running_loop()
        timers[task.id] = loop.call_later(max(0, delay_ms) / 1000, self._observe, end)


def _annotation(task: RunTask, name: str, default: int) -> int:
    written = task.pod.annotations.get(name)
    if written is None:
        return default
    if not written.strip().isdecimal():
        raise ValueError(f"annotation {name}: {written!r} is not a whole number")
    return int(written)
