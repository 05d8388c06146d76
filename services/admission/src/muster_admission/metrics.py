"""What admission counts as things happen: Kueue's metrics under `muster_`, with Kueue's labels.

`muster_admission.gauges` has what is computed when it is read. Series of a ClusterQueue that is
gone go with it.
"""

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram

from muster_admission.gauges import AdmissionGauges
from muster_contracts.stored import Record
from muster_domain.states import Admitted, Evicting, Finished, Pending, Reserved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster_admission.book import Book
    from muster_admission.machine import AdmissionMachine

BUCKETS_S = (1, *(2.5 * 2**power for power in range(15)))
_QUEUE = "cluster_queue"


class AdmissionMetrics:
    """Counters that grow as things happen, gauges that are computed when they are read."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        classed = (_QUEUE, "priority_class")
        evictions = (_QUEUE, "reason", "underlying_cause", "priority_class")
        self.quota_reserved = self._counter("muster_quota_reserved_workloads", "Got quota", classed)
        self.admitted = self._counter("muster_admitted_workloads", "Were admitted", classed)
        self.finished = self._counter("muster_finished_workloads", "Ended", (*classed, "outcome"))
        self.evicted = self._counter("muster_evicted_workloads", "Were evicted", evictions)
        self.evicted_once = self._counter(
            "muster_evicted_workloads_once", "Were evicted for this for the first time", evictions
        )
        self.preempted = self._counter(
            "muster_preempted_workloads", "Gave way", ("preempting_cluster_queue", "reason")
        )
        self.quota_wait = self._histogram(
            "muster_quota_reserved_wait_time_seconds",
            "From creation or last requeue to quota",
            classed,
        )
        self.admission_wait = self._histogram(
            "muster_admission_wait_time_seconds",
            "From creation or last requeue to admission",
            classed,
        )
        self.checks_wait = self._histogram(
            "muster_admission_checks_wait_time_seconds", "From quota to admission", classed
        )
        self.ready_wait = self._histogram(
            "muster_ready_wait_time_seconds",
            "From creation or last requeue to the first run",
            classed,
        )
        self.admitted_until_ready = self._histogram(
            "muster_admitted_until_ready_wait_time_seconds",
            "From admission to the first run",
            classed,
        )
        self.execution = self._histogram(
            "muster_execution_time_seconds", "Admitted, in all attempts, until the end", classed
        )
        self.ready_to_evicted = self._histogram(
            "muster_pods_ready_to_evicted_time_seconds",
            "From all pods running to the eviction",
            evictions[:3],
        )
        self.eviction_latency = self._histogram(
            "muster_workload_eviction_latency_seconds",
            "From the eviction to quota back",
            evictions[:2],
        )
        self.gauges = AdmissionGauges(registry)
        self._queues: frozenset[str] = frozenset()

    def count(self, book: "Book") -> None:
        """Count what the last commit of a partition made of its workloads."""
        for before, after in book.steps:
            self._count(book, before, after)
        book.steps.clear()

    def refresh(self, machines: "Sequence[AdmissionMachine]") -> None:
        """Compute the gauges, and drop the series of queues that are gone."""
        queues = frozenset(
            name for machine in machines for name in machine.book.view.catalog.queues
        )
        for gone in sorted(self._queues - queues):
            for metric in self._by_queue:
                metric.remove_by_labels({_QUEUE: gone})
            self.preempted.remove_by_labels({"preempting_cluster_queue": gone})
        self._queues = queues
        self.gauges.refresh([machine.book for machine in machines])

    @property
    def _by_queue(self) -> tuple[Counter | Histogram, ...]:
        return (
            self.quota_reserved,
            self.admitted,
            self.finished,
            self.evicted,
            self.evicted_once,
            self.quota_wait,
            self.admission_wait,
            self.checks_wait,
            self.ready_wait,
            self.admitted_until_ready,
            self.execution,
            self.ready_to_evicted,
            self.eviction_latency,
        )

    def _count(self, book: "Book", before: Record, after: Record) -> None:
        labels = (after.cluster_queue, after.workload.priority_class)
        if isinstance(before.state, Evicting) and not isinstance(after.state, Evicting):
            self._released(before, before.state, after)
        match after.state:
            case Reserved() as state if not isinstance(before.state, Reserved):
                self.quota_reserved.labels(*labels).inc()
                waited_ms = state.reserved_at_ms - _waiting_since_ms(after, state)
                _observe(self.quota_wait, labels, waited_ms)
            case Admitted() as state:
                self._admitted(before, after, state)
            case Evicting() as state if not isinstance(before.state, Evicting):
                self._evicted(book, after, state)
            case Finished() as state:
                self._finished(before, after, state)
            case _:
                pass

    def _admitted(self, before: Record, after: Record, state: Admitted) -> None:
        labels = (after.cluster_queue, after.workload.priority_class)
        since_ms = _waiting_since_ms(after, state)
        if isinstance(before.state, Reserved):
            self.admitted.labels(*labels).inc()
            _observe(self.admission_wait, labels, state.admitted_at_ms - since_ms)
            _observe(self.checks_wait, labels, state.admitted_at_ms - state.reserved_at_ms)
        first = state.history.was_ready and not before.state.history.was_ready
        if first and state.ready_at_ms is not None:
            _observe(self.ready_wait, labels, state.ready_at_ms - since_ms)
            waited_ms = state.ready_at_ms - state.admitted_at_ms
            _observe(self.admitted_until_ready, labels, waited_ms)

    def _evicted(self, book: "Book", after: Record, state: Evicting) -> None:
        name = after.cluster_queue
        why = (name, str(state.reason), str(state.cause))
        classed = (*why, after.workload.priority_class)
        self.evicted.labels(*classed).inc()
        times = {(count.reason, count.cause): count.count for count in state.history.evictions}
        if times.get(why[1:]) == 1:
            self.evicted_once.labels(*classed).inc()
        if state.ready_at_ms is not None:
            _observe(self.ready_to_evicted, why, state.since_ms - state.ready_at_ms)
        preemptor = book.records.get(state.preemptor)
        if state.preemption_reason is not None and preemptor is not None:
            self.preempted.labels(preemptor.cluster_queue, state.preemption_reason).inc()

    def _released(self, before: Record, gone: Evicting, after: Record) -> None:
        labels = (before.cluster_queue, str(gone.reason))
        match after.state:
            case Finished(finished_at_ms=at_ms):
                _observe(self.eviction_latency, labels, at_ms - gone.since_ms)
            case Pending(waiting_since_ms=int(at_ms)):
                _observe(self.eviction_latency, labels, at_ms - gone.since_ms)
            case _:
                pass

    def _finished(self, before: Record, after: Record, state: Finished) -> None:
        labels = (after.cluster_queue, after.workload.priority_class)
        self.finished.labels(*labels, state.outcome).inc()
        match before.state:
            case Admitted(past_execution_ms=past_ms, admitted_at_ms=at_ms):
                _observe(self.execution, labels, past_ms + state.finished_at_ms - at_ms)
            case Evicting(past_execution_ms=past_ms) if past_ms:
                _observe(self.execution, labels, past_ms)
            case _:
                pass

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, f"Workloads: {text}", labels, registry=self._registry)

    def _histogram(self, name: str, text: str, labels: tuple[str, ...]) -> Histogram:
        return Histogram(name, text, labels, buckets=BUCKETS_S, registry=self._registry)


def _waiting_since_ms(record: Record, state: Reserved | Admitted) -> int:
    """Creation, or the last time that it began to wait again."""
    if state.waiting_since_ms is not None:
        return state.waiting_since_ms
    return record.workload.created_at_ms


def _observe(histogram: Histogram, labels: tuple[str, ...], elapsed_ms: int) -> None:
    histogram.labels(*labels).observe(max(0, elapsed_ms) / 1000)
