"""What placement measures."""

from collections import Counter
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge

from muster_domain.nodes import NodeCondition
from muster_placement.machine import PlacementMachine

GPU = "nvidia.com/gpu"


class PlacementMetrics:
    """Gauges over nodes and seats, computed when they are read."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._nodes = Gauge("muster_nodes", "Nodes by condition", ["condition"], registry=registry)
        self._gpus = Gauge("muster_gpus", "GPUs by state", ["state"], registry=registry)
        self._gangs = Gauge("muster_gangs_seated", "Gangs that hold seats", registry=registry)
        self._requests = Gauge(
            "muster_gangs_waiting", "Gangs that wait for seats", registry=registry
        )

    def refresh(self, machines: Sequence[PlacementMachine]) -> None:
        """Take the figures from the machines that this replica owns."""
        conditions: Counter[NodeCondition] = Counter()
        free = total = gangs = requests = 0
        for machine in machines:
            floor = machine.floor
            gangs += len(floor.gangs)
            requests += len(floor.requests)
            for name, entry in floor.nodes.items():
                conditions[entry.condition] += 1
                total += entry.node.allocatable.get(GPU, 0) // 1000
                free += max(0, floor.table.free(name).get(GPU, 0)) // 1000
        for condition in NodeCondition:
            self._nodes.labels(condition).set(conditions[condition])
        self._gpus.labels("free").set(free)
        self._gpus.labels("seated").set(total - free)
        self._gangs.set(gangs)
        self._requests.set(requests)
