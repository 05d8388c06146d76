"""The three loads of Kueue's own scheduler tests, and what Kueue made of them.

Numbers of `test/performance/scheduler` of Kueue at ff69552e: the means that its thresholds were set
by. Kueue runs its scheduler against a real API server, with 50 queries a second allowed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from muster_domain.workload import (
    LocalQueueRef,
    Owner,
    PodSet,
    SliceConstraint,
    TopologyMode,
    TopologyRequest,
    Workload,
)
from muster_simulation.manifests import DURATION

NAMESPACE = "bench"
CPU, MEMORY = "cpu", "memory"
NOMINAL_CPU = 20
BORROWING_CPU = 100
KUEUE = "kueue.x-k8s.io/v1beta2"
BLOCK, RACK, HOST = "block", "rack", "kubernetes.io/hostname"
RACKS, NODES_OF_RACK = 10, 64
NODE_CPU = 96

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """Equal jobs of one queue: `count` of them, one `every_ms`, each running for `run_ms`."""

    name: str
    priority: int
    count: int
    every_ms: int
    run_ms: int
    pods: int
    pod_cpu_milli: int
    slice_size: int = 1

    @property
    def cpu_milli(self) -> int:
        """What one job asks."""
        return self.pods * self.pod_cpu_milli


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Kueue's means: seconds from first to last, usage of nominal in percent, waits in seconds."""

    wall_s: float
    usage_percent: float
    wait_s: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Who asks what when; `topology` seats the pods by rack."""

    name: str
    cohorts: int
    queues_of_cohort: int
    classes: tuple[JobClass, ...]
    kueue: Published
    topology: bool = False

    @property
    def queues(self) -> tuple[str, ...]:
        """Names of all ClusterQueues, and of the LocalQueues before them."""
        return tuple(
            f"q{cohort:02}-{number:03}"
            for cohort in range(self.cohorts)
            for number in range(self.queues_of_cohort)
        )

    def part(self, fraction: float) -> "Load":
        """The first part of every row of jobs; at least one job of each."""
        classes = tuple(
            JobClass(
                name=one.name,
                priority=one.priority,
                count=max(1, round(one.count * fraction)),
                every_ms=one.every_ms,
                run_ms=one.run_ms,
                pods=one.pods,
                pod_cpu_milli=one.pod_cpu_milli,
                slice_size=one.slice_size,
            )
            for one in self.classes
        )
        return Load(
            name=self.name,
            cohorts=self.cohorts,
            queues_of_cohort=self.queues_of_cohort,
            classes=classes,
            kueue=self.kueue,
            topology=self.topology,
        )

    def ideal_s(self) -> float:
        """Seconds that the load takes where every queue always uses just its nominal quota."""
        asked = sum(one.count * one.cpu_milli * one.run_ms for one in self.classes)
        return asked / 1e6 / NOMINAL_CPU

    def workloads(self) -> Iterator[tuple[JobClass, Workload]]:
        """All jobs in the order of their arrival; `created_at_ms` counts from the beginning."""
        jobs = [
            (one.every_ms * (number + 1), queue, one, number)
            for queue in self.queues
            for one in self.classes
            for number in range(one.count)
        ]
        for at_ms, queue, one, number in sorted(
            jobs, key=lambda job: (job[0], job[1], job[2].name)
        ):
            yield one, self._workload(at_ms, queue, one, number)

    def _workload(self, at_ms: int, queue: str, one: JobClass, number: int) -> Workload:
        name = f"{queue}-{one.name}-{number:04}"
        pod_set = PodSet(
            name="main",
            count=one.pods,
            requests={CPU: one.pod_cpu_milli},
            annotations={DURATION: str(one.run_ms)},
            topology=_topology(one, number) if self.topology else None,
        )
        return Workload(
            id=name,
            namespace=NAMESPACE,
            name=name,
            queue=LocalQueueRef(name=queue),
            pod_sets=(pod_set,),
            owner=Owner(api_version="batch/v1", kind="Job", name=name),
            created_at_ms=at_ms,
            priority=one.priority,
        )

    def objects(self) -> list[Manifest]:
        """Everything that must be applied first."""
        spec: Manifest = {}
        if self.topology:
            spec = {"topologyName": "racks", "nodeLabels": {BLOCK: "b0"}}
        found = [_object("ResourceFlavor", "default", spec)]
        if self.topology:
            levels = [{"nodeLabel": label} for label in (BLOCK, RACK, HOST)]
            found.insert(0, _object("Topology", "racks", {"levels": levels}))
        found += [
            {
                "apiVersion": KUEUE,
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": one.name},
                "value": one.priority,
            }
            for one in self.classes
        ]
        for queue in self.queues:
            found.append(_object("ClusterQueue", queue, _queue(queue.split("-")[0])))
            door = _object("LocalQueue", queue, {"clusterQueue": queue})
            door["metadata"]["namespace"] = NAMESPACE
            found.append(door)
        return found


def _topology(one: JobClass, number: int) -> TopologyRequest:
    """Jobs take turns: the rack is required, preferred, or preferred with slices on one node."""
    if number % 3 == 0:
        return TopologyRequest(mode=TopologyMode.REQUIRED, node_label=RACK)
    slices = (SliceConstraint(node_label=HOST, size=one.slice_size),) if number % 3 == 2 else ()
    return TopologyRequest(mode=TopologyMode.PREFERRED, node_label=RACK, slices=slices)


def _object(kind: str, name: str, spec: Manifest) -> Manifest:
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _queue(cohort: str) -> Manifest:
    quota = {"name": CPU, "nominalQuota": NOMINAL_CPU, "borrowingLimit": BORROWING_CPU}
    return {
        "cohortName": cohort,
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "resourceGroups": [
            {
                "coveredResources": [CPU],
                "flavors": [{"name": "default", "resources": [quota]}],
            }
        ],
    }


def _classes(
    small: tuple[int, int, int], medium: tuple[int, int, int], large: tuple[int, int, int]
) -> tuple[JobClass, ...]:
    """Count, interval and run time of each; the sizes are the same everywhere."""
    sizes = (("small", 50, 1), ("medium", 100, 5), ("large", 200, 20))
    return tuple(
        JobClass(
            name=name,
            priority=priority,
            count=count,
            every_ms=every_ms,
            run_ms=run_ms,
            pods=1,
            pod_cpu_milli=cpu * 1000,
        )
        for (name, priority, cpu), (count, every_ms, run_ms) in zip(
            sizes, (small, medium, large), strict=True
        )
    )


def _gangs(classes: tuple[JobClass, ...]) -> tuple[JobClass, ...]:
    pods = {"small": 2, "medium": 4, "large": 8}
    return tuple(
        JobClass(
            name=one.name,
            priority=one.priority,
            count=one.count,
            every_ms=one.every_ms,
            run_ms=one.run_ms,
            pods=pods[one.name],
            pod_cpu_milli=one.cpu_milli // pods[one.name],
            slice_size=pods[one.name] // 2,
        )
        for one in classes
    )


_BASELINE = _classes((350, 100, 200), (100, 500, 500), (50, 1200, 1000))

LOADS: dict[str, Load] = {
    load.name: load
    for load in (
        Load(
            name="baseline",
            cohorts=5,
            queues_of_cohort=6,
            classes=_BASELINE,
            kueue=Published(
                wall_s=351.1,
                usage_percent=55.9,
                wait_s={"large": 16.5, "medium": 76.8, "small": 215.5},
            ),
        ),
        Load(
            name="large-scale",
            cohorts=10,
            queues_of_cohort=100,
            classes=_classes((35, 60, 150), (11, 300, 350), (4, 700, 700)),
            kueue=Published(
                wall_s=1179.4,
                usage_percent=38.6,
                wait_s={"large": 105.6, "medium": 256.4, "small": 700.4},
            ),
        ),
        Load(
            name="tas",
            cohorts=5,
            queues_of_cohort=6,
            classes=_gangs(_BASELINE),
            kueue=Published(
                wall_s=401.5,
                usage_percent=62.4,
                wait_s={"large": 39.0, "medium": 106.5, "small": 242.5},
            ),
            topology=True,
        ),
    )
}
