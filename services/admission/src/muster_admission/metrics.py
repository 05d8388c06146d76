"""What admission counts as things happen: Kueue's metrics under `muster_`, with Kueue's labels.

`muster_admission.gauges` has what is computed when it is read. Series of a ClusterQueue, LocalQueue
or cohort that is gone go with it.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram

from muster_admission.attempts import Attempts
from muster_admission.gauges import AdmissionGauges
from muster_admission.series import DOOR, QUEUE, Counts, Times
from muster_contracts.stored import Record
from muster_domain.states import Admitted, Evicting, Finished, Pending, Reserved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster_admission.book import Book
    from muster_admission.machine import AdmissionMachine

BUCKETS_S = (1, *(2.5 * 2**power for power in range(13)))
LONG_BUCKETS_S = (1, *(2.5 * 2**power for power in range(15)))
"""For times that may last days: until admission, and of execution."""
_CLASS = ("priority_class",)
_CAUSES = ("reason", "underlying_cause")


class AdmissionMetrics:
    """Counters that grow as things happen, gauges that are computed when they are read."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._twins: list[Counts | Times] = []
        self._count_attempts()
        self._count_workloads()
        self._time_workloads()
        self.gauges = AdmissionGauges(registry)
        self._queues: frozenset[str] = frozenset()
        self._doors: frozenset[tuple[str, str]] = frozenset()
        self._cohorts: frozenset[str] = frozenset()

    def _count_attempts(self) -> None:
        self.attempts = self._counter(
            "muster_admission_attempts_total", "Decisions about somebody who waits", ("result",)
        )
        self.attempt_duration = Histogram(
            "muster_admission_attempt_duration_seconds",
            "Time of a cycle that decided about somebody",
            ("result",),
            registry=self._registry,
        )
        self.recomputations = self._counter(
            "muster_preemption_target_recomputations_total",
            "What became of preemptors whose first victims could not be taken",
            (QUEUE, "result"),
        )

    def _count_workloads(self) -> None:
        self.quota_reserved = self._counts(
            "muster_quota_reserved_workloads_total",
            "muster_local_queue_quota_reserved_workloads_total",
            "Workloads that got quota",
            _CLASS,
        )
        self.admitted = self._counts(
            "muster_admitted_workloads_total",
            "muster_local_queue_admitted_workloads_total",
            "Workloads that were admitted",
            _CLASS,
        )
        self.finished = self._counts(
            "muster_finished_workloads_total",
            "muster_local_queue_finished_workloads_total",
            "Workloads that ended",
            (*_CLASS, "outcome"),
        )
        self.evicted = self._counts(
            "muster_evicted_workloads_total",
            "muster_local_queue_evicted_workloads_total",
            "Workloads that were evicted",
            (*_CAUSES, *_CLASS),
        )
        self.evicted_once = self._counter(
            "muster_evicted_workloads_once_total",
            "Workloads that were evicted for this for the first time",
            (QUEUE, *_CAUSES, *_CLASS),
        )
        self.preempted = self._counter(
            "muster_preempted_workloads_total",
            "Workloads that gave way",
            ("preempting_cluster_queue", "reason"),
        )
        self.replaced_slices = self._counter(
            "muster_replaced_workload_slices_total",
            "Workloads that got more pods while they ran",
            (QUEUE,),
        )
        self.cohort_admitted = self._counter(
            "muster_cohort_subtree_admitted_workloads_total",
            "Workloads that were admitted in a whole cohort",
            ("cohort", *_CLASS),
        )

    def _time_workloads(self) -> None:
        self.quota_wait = self._times(
            "muster_quota_reserved_wait_time_seconds",
            "muster_local_queue_quota_reserved_wait_time_seconds",
            "From creation or last requeue to quota",
        )
        self.admission_wait = self._times(
            "muster_admission_wait_time_seconds",
            "muster_local_queue_admission_wait_time_seconds",
            "From creation or last requeue to admission",
            LONG_BUCKETS_S,
        )
        self.checks_wait = self._times(
            "muster_admission_checks_wait_time_seconds",
            "muster_local_queue_admission_checks_wait_time_seconds",
            "From quota to admission",
        )
        self.ready_wait = self._times(
            "muster_ready_wait_time_seconds",
            "muster_local_queue_ready_wait_time_seconds",
            "From creation or last requeue to the first run",
        )
        self.admitted_until_ready = self._times(
            "muster_admitted_until_ready_wait_time_seconds",
            "muster_local_queue_admitted_until_ready_wait_time_seconds",
            "From admission to the first run",
        )
        self.execution = self._times(
            "muster_execution_time_seconds",
            "muster_local_queue_execution_time_seconds",
            "Admitted, in all attempts, until the end",
            LONG_BUCKETS_S,
        )
        self.ready_to_evicted = self._histogram(
            "muster_pods_ready_to_evicted_time_seconds",
            "From all pods running to the eviction",
            (QUEUE, *_CAUSES),
        )
        self.eviction_latency = self._histogram(
            "muster_workload_eviction_latency_seconds",
            "From the eviction to quota back",
            (QUEUE, "reason"),
        )

    @contextmanager
    def attempt(self, made: Attempts) -> Generator[None]:
        """Time one cycle, and count it if it decided about anybody."""
        start_s = time.perf_counter()
        yield
        if made.result is not None:
            self.attempts.labels(made.result).inc()
            self.attempt_duration.labels(made.result).observe(time.perf_counter() - start_s)
        for queue, outcome in made.recomputed:
            self.recomputations.labels(queue, outcome).inc()
        made.recomputed.clear()

    def count(self, book: "Book") -> None:
        """Count what the last commit of a partition made of its workloads."""
        for before, after in book.steps:
            self._count(book, before, after)
        book.steps.clear()

    def refresh(self, machines: "Sequence[AdmissionMachine]") -> None:
        """Compute the gauges, and drop the series of what is gone."""
        catalogs = [machine.book.view.catalog for machine in machines]
        queues = frozenset(name for catalog in catalogs for name in catalog.queues)
        for gone in sorted(self._queues - queues):
            for metric in self._by_queue:
                metric.remove_by_labels({QUEUE: gone})
            self.preempted.remove_by_labels({"preempting_cluster_queue": gone})
        doors = frozenset(
            (door.name, door.namespace)
            for catalog in catalogs
            for door in catalog.configuration.local_queues.values()
            if door.cluster_queue in catalog.queues
        )
        for gone in sorted(self._doors - doors):
            for twin in self._twins:
                twin.by_door.remove_by_labels(dict(zip(DOOR, gone, strict=True)))
        cohorts = frozenset(
            cohort.name
            for catalog in catalogs
            for entry in catalog.queues.values()
            for cohort in entry.node.ancestors
        )
        for gone in sorted(self._cohorts - cohorts):
            self.cohort_admitted.remove_by_labels({"cohort": gone})
        self._queues, self._doors, self._cohorts = queues, doors, cohorts
        self.gauges.refresh([(machine.book, machine.turn.attempts) for machine in machines])

    @property
    def _by_queue(self) -> tuple[Counter | Histogram, ...]:
        return (
            *(twin.by_queue for twin in self._twins),
            self.evicted_once,
            self.replaced_slices,
            self.ready_to_evicted,
            self.eviction_latency,
            self.recomputations,
        )

    def _count(self, book: "Book", before: Record, after: Record) -> None:
        if isinstance(before.state, Evicting) and not isinstance(after.state, Evicting):
            self._released(before, before.state, after)
        match after.state:
            case Reserved() as state if not isinstance(before.state, Reserved):
                priority_class = after.workload.priority_class
                self.quota_reserved.count(after, priority_class)
                waited_ms = state.reserved_at_ms - _waiting_since_ms(after, state)
                self.quota_wait.observe(after, waited_ms, priority_class)
            case Admitted() as state:
                self._admitted(book, before, after, state)
            case Evicting() as state if not isinstance(before.state, Evicting):
                self._evicted(book, after, state)
            case Finished() as state:
                self._finished(before, after, state)
            case _:
                pass

    def _admitted(self, book: "Book", before: Record, after: Record, state: Admitted) -> None:
        priority_class = after.workload.priority_class
        since_ms = _waiting_since_ms(after, state)
        if isinstance(before.state, Reserved):
            self.admitted.count(after, priority_class)
            entry = book.view.catalog.queues.get(after.cluster_queue)
            for cohort in entry.node.ancestors if entry is not None else ():
                self.cohort_admitted.labels(cohort.name, priority_class).inc()
            waited_ms = state.admitted_at_ms - since_ms
            self.admission_wait.observe(after, waited_ms, priority_class)
            checked_ms = state.admitted_at_ms - state.reserved_at_ms
            self.checks_wait.observe(after, checked_ms, priority_class)
        earlier = before.state
        if isinstance(earlier, Admitted) and _grew(earlier, state):
            self.replaced_slices.labels(after.cluster_queue).inc()
        first = state.history.was_ready and not before.state.history.was_ready
        if first and state.ready_at_ms is not None:
            self.ready_wait.observe(after, state.ready_at_ms - since_ms, priority_class)
            waited_ms = state.ready_at_ms - state.admitted_at_ms
            self.admitted_until_ready.observe(after, waited_ms, priority_class)

    def _evicted(self, book: "Book", after: Record, state: Evicting) -> None:
        name, why = after.cluster_queue, (str(state.reason), str(state.cause))
        priority_class = after.workload.priority_class
        self.evicted.count(after, *why, priority_class)
        times = {(count.reason, count.cause): count.count for count in state.history.evictions}
        if times.get(why) == 1:
            self.evicted_once.labels(name, *why, priority_class).inc()
        if state.ready_at_ms is not None:
            ran_ms = state.since_ms - state.ready_at_ms
            self.ready_to_evicted.labels(name, *why).observe(max(0, ran_ms) / 1000)
        preemptor = book.records.get(state.preemptor)
        if state.preemption_reason is not None and preemptor is not None:
            self.preempted.labels(preemptor.cluster_queue, state.preemption_reason).inc()

    def _released(self, before: Record, gone: Evicting, after: Record) -> None:
        match after.state:
            case Finished(finished_at_ms=at_ms) | Pending(waiting_since_ms=int(at_ms)):
                took_s = max(0, at_ms - gone.since_ms) / 1000
                latency = self.eviction_latency.labels(before.cluster_queue, str(gone.reason))
                latency.observe(took_s)
            case _:
                pass

    def _finished(self, before: Record, after: Record, state: Finished) -> None:
        priority_class = after.workload.priority_class
        self.finished.count(after, priority_class, state.outcome)
        match before.state:
            case Admitted(past_execution_ms=past_ms, admitted_at_ms=at_ms):
                ran_ms = past_ms + state.finished_at_ms - at_ms
                self.execution.observe(after, ran_ms, priority_class)
            case Evicting(past_execution_ms=past_ms) if past_ms:
                self.execution.observe(after, past_ms, priority_class)
            case _:
                pass

    def _counts(self, name: str, mirror: str, text: str, labels: tuple[str, ...]) -> Counts:
        twin = Counts(
            self._counter(name, text, (QUEUE, *labels)),
            self._counter(mirror, text, (*DOOR, *labels)),
        )
        self._twins.append(twin)
        return twin

    def _times(
        self, name: str, mirror: str, text: str, buckets_s: tuple[float, ...] = BUCKETS_S
    ) -> Times:
        twin = Times(
            self._histogram(name, text, (QUEUE, *_CLASS), buckets_s),
            self._histogram(mirror, text, (*DOOR, *_CLASS)),
        )
        self._twins.append(twin)
        return twin

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def _histogram(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...],
        buckets_s: tuple[float, ...] = BUCKETS_S,
    ) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets_s, registry=self._registry)


def _grew(before: Admitted, after: Admitted) -> bool:
    """Whether a slice has its seats: in Kueue it would replace the one before it."""
    more = len(after.placement.pods) > len(before.placement.pods)
    return more and after.placement.resizes > before.placement.resizes


def _waiting_since_ms(record: Record, state: Reserved | Admitted) -> int:
    """Creation, or the last time that it began to wait again."""
    if state.waiting_since_ms is not None:
        return state.waiting_since_ms
    return record.workload.created_at_ms
