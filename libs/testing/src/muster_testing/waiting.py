"""Waiting for something outside this process, with a deadline instead of a guess."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

_T = TypeVar("_T")
POLL_S = 0.2


def wait_until(
    look: Callable[[], _T | None], deadline_s: float, otherwise: Callable[[], str]
) -> _T:
    """What `look` finds first that is neither None nor False.

    Raises `TimeoutError` with what `otherwise` says when the deadline is over.
    """
    until = time.monotonic() + deadline_s
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() > until:
            raise TimeoutError(f"not within {deadline_s:g} s: {otherwise()}")
        time.sleep(POLL_S)


async def wait_until_async(
    look: Callable[[], Awaitable[_T | None]],
    deadline_s: float,
    otherwise: Callable[[], str],
    *,
    every_s: float = POLL_S,
) -> _T:
    """`wait_until` for a `look` that awaits; it is called again `every_s` after it came back."""
    loop = asyncio.get_running_loop()
    until = loop.time() + deadline_s
    while True:
        found = await look()
        if found is not None and found is not False:
            return found
        if loop.time() > until:
            raise TimeoutError(f"not within {deadline_s:g} s: {otherwise()}")
        await asyncio.sleep(every_s)
