"""Series that are kept twice, as Kueue has them: by ClusterQueue, and by LocalQueue."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

from muster_domain.workload import LocalQueueRef, Workload

if TYPE_CHECKING:
    from muster_contracts.stored import Record

QUEUE = "cluster_queue"
DOOR = ("name", "namespace")


@dataclass(frozen=True, slots=True)
class Counts:
    """Counted by ClusterQueue and, for those that came through one, by LocalQueue."""

    by_queue: Counter
    by_door: Counter

    def count(self, record: "Record", *labels: str) -> None:
        """Count one for the workload's queues."""
        self.by_queue.labels(record.cluster_queue, *labels).inc()
        door = door_labels(record.workload)
        if door is not None:
            self.by_door.labels(*door, *labels).inc()


@dataclass(frozen=True, slots=True)
class Times:
    """Times by ClusterQueue and, for those that came through one, by LocalQueue."""

    by_queue: Histogram
    by_door: Histogram

    def observe(self, record: "Record", elapsed_ms: int, *labels: str) -> None:
        """Note a time for the workload's queues; clocks that differ make none below 0."""
        elapsed_s = max(0, elapsed_ms) / 1000
        self.by_queue.labels(record.cluster_queue, *labels).observe(elapsed_s)
        door = door_labels(record.workload)
        if door is not None:
            self.by_door.labels(*door, *labels).observe(elapsed_s)


def door_labels(workload: Workload) -> tuple[str, str] | None:
    """Name and namespace of the workload's LocalQueue; `None` for Volcano's jobs."""
    if isinstance(workload.queue, LocalQueueRef):
        return workload.queue.name, workload.namespace
    return None
