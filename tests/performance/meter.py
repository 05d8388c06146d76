"""Processor time and memory of processes, and what a row of numbers amounts to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

import psutil

MIB = 1024 * 1024


class ProcessGone(RuntimeError):
    """A process ended, or was started anew, while it was measured."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} ended while it was measured")
        self.name = name


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds of processor time by process name since its start."""

    seconds: Mapping[str, float]

    def per(self, before: "Usage", count: int) -> dict[str, int]:
        """Microseconds for each of `count` things done since `before`, and their sum as `all`."""
        each = {
            name: round((spent - before.seconds[name]) * 1e6 / count)
            for name, spent in self.seconds.items()
        }
        return {**each, "all": sum(each.values())}


def usage(pids: Mapping[str, int]) -> Usage:
    """What the processes have used so far. Raises `ProcessGone`."""
    return Usage({name: _seconds(name, pid) for name, pid in pids.items()})


def memory_mib(pids: Mapping[str, int]) -> dict[str, int]:
    """Resident memory by process name."""
    return {name: psutil.Process(pid).memory_info().rss // MIB for name, pid in pids.items()}


def _seconds(name: str, pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess as error:
        raise ProcessGone(name) from error
    return times.user + times.system


def spread_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile in ms, and how many there are."""
    if len(seconds) < 2:
        return {"p50_ms": 0.0, "p99_ms": 0.0, "count": len(seconds)}
    hundredths = quantiles(seconds, n=100, method="inclusive")
    return {
        "p50_ms": round(median(seconds) * 1000, 2),
        "p99_ms": round(hundredths[98] * 1000, 2),
        "count": len(seconds),
    }


def waits_s(seconds: Sequence[float]) -> dict[str, float]:
    """Mean, median and 99th percentile in seconds, and how many there are."""
    if not seconds:
        return {"mean_s": 0.0, "p50_s": 0.0, "p99_s": 0.0, "count": 0}
    ordered = sorted(seconds)
    return {
        "mean_s": round(sum(ordered) / len(ordered), 2),
        "p50_s": round(ordered[len(ordered) // 2], 2),
        "p99_s": round(ordered[len(ordered) * 99 // 100], 2),
        "count": len(ordered),
    }


def middle(figures: Sequence[float]) -> float:
    """The median, with three figures after the point."""
    return round(median(figures), 3)
