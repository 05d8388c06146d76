import asyncio

import pytest

from muster_runtime import cancellation
from muster_runtime.cancellation import end, raise_if_cancelled


async def loses_cancellations(count: int, lost: list[int]) -> None:
    """As `asyncio.wait_for` before Python 3.12 does when its answer is there already."""
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if len(lost) == count:
                raise
            lost.append(len(lost))


async def test_a_task_is_cancelled_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "CANCEL_AGAIN_S", 0.01)
    lost: list[int] = []
    task = asyncio.create_task(loses_cancellations(3, lost))
    await asyncio.sleep(0)
    await asyncio.wait_for(end(task), 60)
    assert task.cancelled()
    assert len(lost) == 3


async def test_a_task_that_ends_by_a_failure_has_ended() -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    task = asyncio.create_task(fails())
    await asyncio.wait_for(end(task), 60)
    assert task.done()


async def test_a_loop_that_lost_its_cancellation_ends_at_its_next_turn() -> None:
    turns = 0

    async def loop() -> None:
        nonlocal turns
        while True:
            raise_if_cancelled()
            turns += 1
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    task = asyncio.create_task(loop())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=5)
    assert task.cancelled()
    assert turns == 1


async def test_a_deadline_inside_a_loop_is_no_cancellation() -> None:
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        raise_if_cancelled()
