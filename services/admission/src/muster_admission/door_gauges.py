"""What admission measures of LocalQueues by looking: Kueue's mirrors of those of ClusterQueues.

Only a LocalQueue that is declared and whose ClusterQueue exists has series.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING, assert_never

from prometheus_client import CollectorRegistry, Gauge

from muster_admission.book import door_of
from muster_admission.series import DOOR
from muster_domain.queues import StopPolicy
from muster_domain.states import Admitted, Evicting, Finished, Pending, Reserved
from muster_scheduling.fairness.history import FINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster_admission.book import Book
    from muster_contracts.stored import Record
    from muster_domain.queues import LocalQueue
    from muster_scheduling.snapshot.catalog import QueueEntry

_PAIRS = (*DOOR, "flavor", "resource")


class LocalQueueGauges:
    """Gauges over the LocalQueues of all partitions that this process holds."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._all: list[Gauge] = []
        add = self._gauge
        self.status = add(
            "muster_local_queue_status", "1 for whether it lets anybody in", (*DOOR, "active")
        )
        self.pending = add(
            "muster_local_queue_pending_workloads", "Workloads that wait", (*DOOR, "status")
        )
        self.reserving = add(
            "muster_local_queue_reserving_active_workloads", "Workloads with quota", DOOR
        )
        self.admitted = add(
            "muster_local_queue_admitted_active_workloads", "Admitted workloads", DOOR
        )
        self.retained = add(
            "muster_local_queue_retained_workloads", "Ended workloads that are remembered", DOOR
        )
        self.reservation = add("muster_local_queue_resource_reservation", "Charged", _PAIRS)
        self.usage = add("muster_local_queue_resource_usage", "Charged to the admitted", _PAIRS)
        self.used_lately = add(
            "muster_local_queue_admission_fair_sharing_usage",
            "Weighted use by which LocalQueues take turns; +Inf for those without weight",
            DOOR,
        )

    def refresh(self, books: "Sequence[Book]") -> None:
        """Compute everything anew."""
        for gauge in self._all:
            gauge.clear()
        for book in books:
            self._refresh(book)

    def _refresh(self, book: "Book") -> None:
        entries = book.view.catalog.queues
        doors = {
            key: door
            for key, door in book.view.catalog.configuration.local_queues.items()
            if door.cluster_queue in entries
        }
        records: dict[str, list[Record]] = {key: [] for key in doors}
        for record in book.records.values():
            if door_of(record) in records:
                records[door_of(record)].append(record)
        for key, door in doors.items():
            entry = entries[door.cluster_queue]
            self._state(book, door, entry)
            self._workloads(book, door, entry, records[key])

    def _state(self, book: "Book", door: "LocalQueue", entry: "QueueEntry") -> None:
        labels = (door.name, door.namespace)
        active = door.stop_policy is StopPolicy.NONE and entry.active
        for word, holds in (("True", active), ("False", not active), ("Unknown", False)):
            self.status.labels(*labels, word).set(int(holds))
        if book.view.shares_turns(entry):
            without_weight, used = book.view.usage_key(door.key)
            lately = math.inf if without_weight else float(used / (FINE * 1000))
            self.used_lately.labels(*labels).set(lately)

    def _workloads(
        self, book: "Book", door: "LocalQueue", entry: "QueueEntry", records: "list[Record]"
    ) -> None:
        labels = (door.name, door.namespace)
        waiting = dict.fromkeys(("active", "inadmissible"), 0)
        reserved: Counter[tuple[str, str]] = Counter()
        admitted: Counter[tuple[str, str]] = Counter()
        reserving = running = ended = 0
        for record in records:
            match record.state:
                case Pending():
                    queue = book.view.queues.get(record.cluster_queue)
                    tried = queue is not None and queue.is_active(record.workload.id)
                    waiting["active" if tried else "inadmissible"] += 1
                case Reserved(admission=admission) | Evicting(admission=admission):
                    reserving += 1
                    reserved.update(admission.usage)
                case Admitted(admission=admission):
                    reserving += 1
                    running += 1
                    reserved.update(admission.usage)
                    admitted.update(admission.usage)
                case Finished():
                    ended += 1
                case _:
                    assert_never(record.state)
        for status, count in waiting.items():
            self.pending.labels(*labels, status).set(count)
        self.reserving.labels(*labels).set(reserving)
        self.admitted.labels(*labels).set(running)
        self.retained.labels(*labels).set(ended)
        for pair in entry.node.quotas:
            self.reservation.labels(*labels, *pair).set(reserved[pair] / 1000)
            self.usage.labels(*labels, *pair).set(admitted[pair] / 1000)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        gauge = Gauge(name, text, labels, registry=self._registry)
        self._all.append(gauge)
        return gauge
