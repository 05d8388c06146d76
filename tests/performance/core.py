"""The decision core alone: what a decision costs while few or very many wait behind it.

Eight ClusterQueues in two cohorts; quota for 100 workloads. In every turn those that run end and
the next hundred are decided about, so that each decision admits a hundred. The cost is processor
time; it is flat when the columns of the table do not grow downwards.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from statistics import median
from typing import Any

from muster_domain.queues import (
    ClusterQueue,
    FlavorQuotas,
    LocalQueue,
    PreemptionPolicy,
    ReclaimWithinCohort,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
)
from muster_domain.selectors import Selector
from muster_domain.workload import LocalQueueRef, Owner, PodSet, Workload
from muster_scheduling import AdmissionView, Configuration, PendingWorkload, prepare
from muster_scheduling.admission import Budget, Decision, ReserveQuota, decide

GPU = "nvidia.com/gpu"
FLAVOR = "any"
NAMESPACE = "ns"
QUEUES = tuple(f"q{number}" for number in range(8))
SIZES = (1, 2, 4, 8)
ADMITTED_A_TURN = 100
TURNS = 9
SINGLES = 2_000

Figures = dict[str, Any]


def measure(sizes: tuple[int, ...], say: Callable[[str], None]) -> list[Figures]:
    """One row for each number of pending workloads."""
    rows: list[Figures] = []
    for pending in sizes:
        rows.append(_measure(pending))
        gc.collect()
        say(f"  {pending:>9,} pending: {rows[-1]['decision_ms']} ms a decision")
    return rows


def _measure(pending: int) -> Figures:
    bench = _Bench()
    start = time.process_time()
    for _ in range(pending):
        bench.view.add_pending(bench.next_workload(), 0)
    filled_s = time.process_time() - start
    bench.turn()
    turns = [bench.turn() for _ in range(TURNS)]
    decided_s = median(taken for taken, _ in turns)
    admitted = median(len(reserved) for _, reserved in turns)
    added_us = _each_us(lambda: bench.view.add_pending(bench.next_workload(), 0), SINGLES)
    return {
        "pending": pending,
        "admitted_a_decision": admitted,
        "decision_ms": round(decided_s * 1000, 2),
        "admissions_per_second": round(admitted / decided_s),
        "fill_us_each": round(filled_s * 1e6 / pending, 1),
        "add_us": added_us,
        "release_us": bench.release_us(),
    }


class _Bench:
    """A view, and workloads that nobody has submitted yet."""

    def __init__(self) -> None:
        self.view = AdmissionView(_configuration())
        self._numbers = count()
        self._templates = [
            prepare(_workload(queue, size), self.view.policy) for queue in QUEUES for size in SIZES
        ]

    def next_workload(self) -> PendingWorkload:
        """The next one; queues and sizes take turns, submitters their time."""
        number = next(self._numbers)
        template = self._templates[number % len(self._templates)]
        name = f"w{number:07}"
        return replace(template, id=name, key=f"{NAMESPACE}/{name}", queued_at_ms=number)

    def turn(self) -> tuple[float, list[str]]:
        """Everybody who runs ends, and the next are decided about; seconds and ids admitted.

        As many come as go, so that equally many wait in every turn.
        """
        for workload_id in list(self.view.holders):
            self.view.release(workload_id)
            self.view.add_pending(self.next_workload(), 0)
        start = time.process_time()
        decision = decide(self.view.snapshot(0), _BUDGET, victims_inline=False)
        self.view.apply(decision)
        return time.process_time() - start, _reserved(decision)

    def release_us(self) -> float:
        """Mean cost of one holder's end."""
        taken: list[float] = []
        for _ in range(TURNS):
            _, reserved = self.turn()
            start = time.process_time()
            for workload_id in reserved:
                self.view.release(workload_id)
            taken.append((time.process_time() - start) * 1e6 / max(1, len(reserved)))
        return round(median(taken), 1)


_BUDGET = Budget(workloads=1_000)


def _reserved(decision: Decision) -> list[str]:
    return [
        effect.workload_id
        for group in decision.groups
        for effect in group.effects
        if isinstance(effect, ReserveQuota)
    ]


def _each_us(act: Callable[[], object], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        act()
    return round((time.process_time() - start) * 1e6 / times, 1)


def _configuration() -> Configuration:
    gpus = ADMITTED_A_TURN * sum(SIZES) // len(SIZES) // len(QUEUES) + max(SIZES) // 2
    return Configuration(
        cluster_queues={name: _queue(name, gpus) for name in QUEUES},
        flavors={FLAVOR: ResourceFlavor(name=FLAVOR)},
        local_queues={
            f"{NAMESPACE}/{name}": LocalQueue(namespace=NAMESPACE, name=name, cluster_queue=name)
            for name in QUEUES
        },
    )


def _queue(name: str, gpus: int) -> ClusterQueue:
    quotas = FlavorQuotas(flavor=FLAVOR, resources={GPU: ResourceQuota(nominal_milli=gpus * 1000)})
    return ClusterQueue(
        name=name,
        cohort=f"c{QUEUES.index(name) % 2}",
        resource_groups=(ResourceGroup(covered_resources=(GPU,), flavors=(quotas,)),),
        namespace_selector=Selector(),
        preemption=PreemptionPolicy(reclaim_within_cohort=ReclaimWithinCohort.ANY),
    )


def _workload(queue: str, gpus: int) -> Workload:
    return Workload(
        id="template",
        namespace=NAMESPACE,
        name="template",
        queue=LocalQueueRef(name=queue),
        pod_sets=(PodSet(name="main", count=1, requests={GPU: gpus * 1000}),),
        owner=Owner(api_version="batch/v1", kind="Job", name="template"),
        created_at_ms=0,
    )
