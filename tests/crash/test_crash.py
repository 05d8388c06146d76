"""Thousands of jobs flow while every process is killed in turn; at the end nothing is amiss.

`MUSTER_CRASH_JOBS` and `MUSTER_CRASH_SEED` draw other runs.
"""

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from muster_contracts.queries import Phase
from muster_stack.bus import joined
from muster_stack.demo.api import Api
from muster_stack.demo.report import examine
from muster_stack.stack import Stack
from muster_testing.waiting import wait_until, wait_until_async

from . import house
from .checks import broken_promises, differing_books, rebuilt_otherwise
from .faults import FAULTS, Fault
from .traffic import Traffic, draw

pytestmark = [pytest.mark.crash, pytest.mark.timeout(1800)]

JOBS = int(os.environ.get("MUSTER_CRASH_JOBS", "3000"))
SEED = int(os.environ.get("MUSTER_CRASH_SEED", "1"))
READY_S = 120.0
UNDER_WAY_S = 120.0
END_S = 300.0
UNFINISHED = [str(phase) for phase in Phase if phase is not Phase.FINISHED]


class Story:
    """Prints what happens with the seconds since the start."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def say(self, text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - self._began_s:6.1f} s  {text}\n")
        sys.stdout.flush()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path / "stack", house.OPTIONS) as stack:
        yield stack


@asynccontextmanager
async def submitters(stack: Stack) -> AsyncIterator[Traffic]:
    async with (
        joined(stack.bus_login("ci-ci")) as bus,
        httpx.AsyncClient(
            base_url=stack.gateway_url, headers=stack.headers("admin"), timeout=15.0
        ) as http,
    ):
        yield Traffic(http, bus)


@pytest.fixture
def api(stack: Stack) -> Iterator[Api]:
    api = Api(stack.gateway_url, stack.headers("admin"))
    yield api
    api.close()


async def test_nothing_is_lost_and_nothing_happens_twice(
    stack: Stack, api: Api, tmp_path: Path
) -> None:
    story = Story()
    await asyncio.to_thread(_open, api)
    waves = draw(SEED, len(FAULTS) + 1, JOBS // (len(FAULTS) + 1))
    plans = [plan for wave in waves for plan in wave]
    story.say(f"{len(plans)} jobs, {len(FAULTS)} faults, seed {SEED}")
    async with submitters(stack) as traffic, asyncio.TaskGroup() as group:
        for fault, wave in zip([*FAULTS, None], waves, strict=True):
            for plan in wave:
                group.create_task(traffic.play(plan))
            if fault is not None:
                await _strike(stack, fault, traffic, story)
    story.say(f"all submitters are done: {dict(traffic.counts)}")
    await asyncio.to_thread(_wait_ended, stack, len(plans), story)
    findings = await asyncio.to_thread(examine, stack, api)
    check, wrong = await broken_promises(stack, plans, traffic.accepted)
    wrong += await differing_books(stack, tmp_path)
    wrong += await asyncio.to_thread(rebuilt_otherwise, stack)
    story.say(f"log: {dict(sorted(check.counts.items()))}")
    story.say(f"evictions: {dict(Counter(findings.audit.eviction_reasons))}")
    assert not findings.broken
    assert not wrong, "\n".join(wrong[:20])
    assert findings.audit.eviction_reasons.count("Preempted") > 0, "nobody had to give way"


async def _strike(stack: Stack, fault: Fault, traffic: Traffic, story: Story) -> None:
    """Break something amid the wave: some of it is through the door, some is not."""
    before = traffic.counts["accepted"]

    async def is_under_way() -> bool:
        return traffic.counts["accepted"] >= before + 20

    await wait_until_async(is_under_way, UNDER_WAY_S, lambda: "nothing is accepted any more")
    live = await asyncio.to_thread(_settled_live, stack)
    assert live, "a fault while nothing runs proves nothing"
    story.say(f"{fault.name}; {live} jobs live, {traffic.counts['accepted']} accepted")
    await asyncio.to_thread(fault.strike, stack, story.say)


def _open(api: Api) -> None:
    wait_until(lambda: len(api.nodes()) == house.NODES, READY_S, lambda: "nodes are missing")
    api.submit(house.objects())
    wait_until(
        lambda: len(api.quota()["queues"]) > len(house.TEAMS),
        READY_S,
        lambda: "queues are missing",
    )


def _settled_live(stack: Stack) -> int:
    """How many workloads have not ended, once every owner answers."""
    seen = -1

    def every_owner_answers() -> bool:
        nonlocal seen
        seen = _live(stack)
        return seen >= 0

    wait_until(every_owner_answers, READY_S, lambda: "not every owner answers")
    return seen


def _live(stack: Stack) -> int:
    """How many workloads have not ended; -1 while not every owner answers."""
    return _count(stack, UNFINISHED)


def _count(stack: Stack, phases: list[str]) -> int:
    try:
        answer = httpx.get(
            f"{stack.gateway_url}/v1/workloads",
            params={"phase": phases, "limit": "1"},
            headers=stack.headers("admin"),
            timeout=15.0,
        )
    except httpx.TransportError:
        return -1
    if answer.status_code != httpx.codes.OK or answer.json()["silent"]:
        return -1
    return int(answer.json()["page"]["total"])


def _wait_ended(stack: Stack, expected: int, story: Story) -> None:
    last = (-2, -2)

    def have_ended() -> bool:
        nonlocal last
        now = (_live(stack), _count(stack, [str(Phase.FINISHED)]))
        if now != last:
            story.say(f"{now[0]} jobs live, {now[1]} ended")
            last = now
        return now == (0, expected)

    wait_until(have_ended, END_S, lambda: f"live and ended: {last}, submitted {expected}")
