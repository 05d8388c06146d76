"""Being cancelled for certain.

Before Python 3.12 `asyncio.wait_for`, which nats-py awaits every answer with, loses a cancellation
that comes together with the answer. The task goes on then, though it is counted as cancelled.
"""

import asyncio
from typing import TypeVar

_T = TypeVar("_T")

CANCEL_AGAIN_S = 1.0


def raise_if_cancelled() -> None:
    """End a task whose cancellation was lost on the way; every endless loop asks once a turn."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def end(task: "asyncio.Task[_T]") -> None:
    """Cancel a task until it has ended, whatever it ends with."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=CANCEL_AGAIN_S)
    if not task.cancelled():
        task.exception()
