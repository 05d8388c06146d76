"""How busy the devices of pods are: samples in, what was seen in blocks of minutes out.

A sample stands for the time since the one before it, where that is not too long ago and a device
belonged to the same attempt at both. What was not looked at is told as such, and never guessed: a
device that several attempts share is nobody's alone, and one whose driver does not say is not seen.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from muster_contracts.commands import RunPod
from muster_contracts.observations import BLOCK_MS, MINUTE_MS, MINUTES, DevicesObserved, ObservedUse
from muster_contracts.pod_environment import GPU_RESOURCE

Holder = tuple[str, int]
"""(workload id, attempt)."""
MILLI = 1000
PERCENT_MILLI = 10
GAPS_MAX = 3
"""A sample stands for at most so many intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """At one moment, by index: which devices worked for how many percent of the time, and whose."""

    at_ms: int
    percents: Mapping[int, int]
    holders: Mapping[int, Holder]


@dataclass(slots=True)
class _Minutes:
    observed: list[int] = field(default_factory=lambda: [0] * MINUTES)
    busy: list[int] = field(default_factory=lambda: [0] * MINUTES)


class Sampler:
    """Adds samples of one node up. Reads no clock."""

    def __init__(self, node: str, gap_max_ms: int) -> None:
        self._node = node
        self._gap_max_ms = gap_max_ms
        self._last: Sample | None = None
        self._blocks: dict[int, dict[Holder, _Minutes]] = {}

    def take(self, sample: Sample) -> tuple[DevicesObserved, ...]:
        """Take a sample in; what is now complete, in order of time."""
        before, self._last = self._last, sample
        if before is not None and 0 < sample.at_ms - before.at_ms <= self._gap_max_ms:
            for start_ms, end_ms in _by_minute(before.at_ms, sample.at_ms):
                self._add(before, sample, start_ms, end_ms - start_ms)
        now_ms = sample.at_ms // BLOCK_MS * BLOCK_MS
        complete = sorted(from_ms for from_ms in self._blocks if from_ms != now_ms)
        return tuple(self._told(from_ms) for from_ms in complete)

    def _add(self, before: Sample, sample: Sample, start_ms: int, length_ms: int) -> None:
        block = self._blocks.setdefault(start_ms // BLOCK_MS * BLOCK_MS, {})
        minute = start_ms % BLOCK_MS // MINUTE_MS
        for index, percent in sample.percents.items():
            holder = sample.holders.get(index)
            if holder is None or before.holders.get(index) != holder:
                continue
            minutes = block.setdefault(holder, _Minutes())
            minutes.observed[minute] += MILLI * length_ms
            minutes.busy[minute] += PERCENT_MILLI * percent * length_ms

    def _told(self, from_ms: int) -> DevicesObserved:
        block = self._blocks.pop(from_ms)
        return DevicesObserved(
            node=self._node,
            from_ms=from_ms,
            uses=tuple(
                ObservedUse(
                    workload_id=workload_id,
                    attempt=attempt,
                    resource=GPU_RESOURCE,
                    observed=tuple(block[workload_id, attempt].observed),
                    busy=tuple(block[workload_id, attempt].busy),
                )
                for workload_id, attempt in sorted(block)
            ),
        )


def _by_minute(start_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
    while start_ms < end_ms:
        until_ms = min(end_ms, (start_ms // MINUTE_MS + 1) * MINUTE_MS)
        yield start_ms, until_ms
        start_ms = until_ms


def holders_of(pods: Iterable[RunPod]) -> dict[int, Holder]:
    """Whose each GPU is, by its index; one that several attempts share is nobody's."""
    found: dict[int, set[Holder]] = {}
    for pod in pods:
        for index in pod.devices.get(GPU_RESOURCE, ()):
            found.setdefault(index, set()).add((pod.workload_id, pod.attempt))
    return {index: min(found[index]) for index in sorted(found) if len(found[index]) == 1}


async def observe(
    sampler: Sampler,
    *,
    interval_s: float,
    percents: Callable[[], Mapping[int, int]],
    pods: Callable[[], Iterable[RunPod]],
    now_ms: Callable[[], int],
    tell: Callable[[DevicesObserved], None],
) -> None:
    """Sample until cancelled; `tell` takes each block that is complete."""
    while True:
        holders = holders_of(pods())
        found = await asyncio.to_thread(percents) if holders else dict[int, int]()
        for fact in sampler.take(Sample(at_ms=now_ms(), percents=found, holders=holders)):
            tell(fact)
        await asyncio.sleep(interval_s)
