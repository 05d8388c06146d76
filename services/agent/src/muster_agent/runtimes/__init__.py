"""Ways to run a pod: as processes, in containers, or only on paper.

A runtime starts a run at most once, however often it is asked, also across restarts of the agent,
and says when the run began and when nothing of it exists any more.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from muster_agent.pods import RunBegan, RunEnded, RunTask
from muster_contracts.commands import RunPod

Observe = Callable[[RunBegan | RunEnded], None]
"""Takes what a runtime saw; does not wait."""

Write = Callable[[RunTask, str, str], None]
"""Takes lines that a run wrote: the run, `stdout` or `stderr`, the text. May lose them."""


Processors = Callable[[RunPod], tuple[int, ...]]
"""The processors that a pod is kept to; none for all."""


Divide = Callable[[RunPod], Awaitable[tuple[str, ...]]]
"""Makes a pod's MIG instances and gives their UUIDs. Raises `Conflict` where it cannot."""


class Runtime(Protocol):
    """Runs containers. No call waits for a container."""

    def run(self, task: RunTask) -> None:
        """Start the run, or watch it if it was started before."""
        ...

    def stop(self, task: RunTask, *, kill: bool) -> None:
        """Ask the run to end, or kill it. One that was never started never will be."""
        ...

    def checkpoint(self, task: RunTask) -> None:
        """Send a run that has begun the signal upon which it saves its work."""
        ...

    def forget(self, pod_uid: str) -> None:
        """The pod is over and recorded."""
        ...

    async def close(self) -> None:
        """Stop watching. What runs goes on."""
        ...
