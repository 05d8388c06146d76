"""Kueue's loads through the decision core alone, in virtual time: what the rules themselves take.

Nothing travels and nothing is stored, so wall time and waits are those of an owner without cost;
what the machine spends on it is the processor time: of the whole run, arrivals and ends included,
and within `decide` alone.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muster_domain.nodes import Node
from muster_manifests.catalogue import ObjectCatalogue
from muster_scheduling.admission import Budget, Decision, decide
from muster_scheduling.snapshot.view import Snapshot
from muster_simulation.house import House
from muster_simulation.manifests import configuration_of, load_documents
from muster_simulation.premises import Guest, Happening, What

from . import meter
from .kueue_load import (
    BLOCK,
    CPU,
    HOST,
    MEMORY,
    NODE_CPU,
    NODES_OF_RACK,
    NOMINAL_CPU,
    RACK,
    RACKS,
    Load,
)

MEMORY_MILLI = 256 * 2**30 * 1000

Figures = dict[str, Any]


def measure(load: Load, say: Callable[[str], None]) -> Figures:
    """Run a load to its end."""
    catalogue = ObjectCatalogue()
    for number, document in enumerate(load_documents(load.objects(), load.name)):
        catalogue.put_document(number + 1, document)
    happened: Counter[What] = Counter()
    timed = _Timed()

    def tell(happening: Happening) -> None:
        happened[happening.what] += 1

    house = House(configuration_of(catalogue), tell=tell, decide=timed.decide)
    if load.topology:
        house.add_nodes(_nodes())
    class_of: dict[str, str] = {}
    for one, workload in load.workloads():
        class_of[workload.id] = one.name
        house.at(workload.created_at_ms, lambda workload=workload: house.submit(workload))
    start = time.process_time()
    house.drain()
    cpu_s = time.process_time() - start
    figures = {
        **_figures(house, load, class_of, cpu_s),
        "decide_cpu_s": round(timed.spent_s, 2),
        "within_decide_per_second": round(house.looked_at / timed.spent_s),
        "evictions": happened[What.EVICTED],
        "unseated": happened[What.UNSEATED],
    }
    say(
        f"  {load.name}, core: {figures['workloads']:,} workloads in {figures['wall_s']} virtual "
        f"seconds, {figures['decisions_per_second']:,} decisions a second of the whole run, "
        f"{figures['within_decide_per_second']:,} of deciding alone"
    )
    return figures


@dataclass(slots=True)
class _Timed:
    """`decide`, and how much processor time it took."""

    spent_s: float = 0.0

    def decide(self, snapshot: Snapshot, budget: Budget) -> Decision:
        """Decide."""
        start = time.process_time()
        decision = decide(snapshot, budget)
        self.spent_s += time.process_time() - start
        return decision


def _figures(house: House, load: Load, class_of: dict[str, str], cpu_s: float) -> Figures:
    guests = list(house.guests.values())
    first_ms = min(guest.submitted_ms for guest in guests)
    wall_s = (house.now_ms - first_ms) / 1000
    held = sum(_cpu_milli(guest) * guest.held_ms for guest in guests) / 1e6
    waits: dict[str, list[float]] = {one.name: [] for one in load.classes}
    for guest in guests:
        if guest.first_admitted_ms is not None:
            waited_s = (guest.first_admitted_ms - guest.submitted_ms) / 1000
            waits[class_of[guest.workload.id]].append(waited_s)
    return {
        "workloads": len(guests),
        "wall_s": round(wall_s, 1),
        "ideal_s": round(load.ideal_s(), 1),
        "per_second": round(len(guests) / wall_s, 1),
        "usage_percent": round(100 * held / (wall_s * NOMINAL_CPU * len(load.queues)), 1),
        "wait": {name: meter.waits_s(found) for name, found in waits.items()},
        "cpu_s": round(cpu_s, 2),
        "decisions": house.looked_at,
        "decisions_per_second": round(house.looked_at / cpu_s),
    }


def _cpu_milli(guest: Guest) -> int:
    return guest.workload.total_requests[CPU]


def _nodes() -> tuple[Node, ...]:
    """One block of ten racks of 64 machines."""
    return tuple(
        Node(
            name=f"r{rack}-n{number:02}",
            allocatable={CPU: NODE_CPU * 1000, MEMORY: MEMORY_MILLI},
            labels={BLOCK: "b0", RACK: f"r{rack}", HOST: f"r{rack}-n{number:02}"},
        )
        for rack in range(RACKS)
        for number in range(NODES_OF_RACK)
    )
