"""How long the whole takes from nothing to ready, and what its processes weigh then."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster_stack.plan import StackOptions
from muster_stack.stack import Stack

from . import house, meter

Figures = dict[str, Any]


def measure(folder: Path, times: int, say: Callable[[str], None]) -> Figures:
    """Start an empty stack with simulated nodes several times."""
    taken: list[float] = []
    memory: dict[str, int] = {}
    for number in range(times):
        place = folder / f"start{number}"
        place.mkdir(parents=True)
        options = StackOptions(simulate=house.SIMULATED_NODES, log_level="WARNING")
        start = time.perf_counter()
        with Stack(place, options) as stack:
            taken.append(time.perf_counter() - start)
            pids = {name: process.pid for name, process in stack.processes.items()}
            pids |= {"nats": stack.nats.pid, "valkey": stack.redis.pid}
            memory = meter.memory_mib({n: pid for n, pid in pids.items() if pid is not None})
        say(f"  ready after {taken[-1]:.1f} s")
    return {
        "ready_s": meter.middle(taken),
        "ready_s_each": [round(seconds, 2) for seconds in taken],
        "memory_mib": {**memory, "all": sum(memory.values())},
    }
