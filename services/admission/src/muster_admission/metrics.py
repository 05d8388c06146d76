"""What admission measures: Kueue's metrics under the prefix `muster_`, with Kueue's labels."""

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from muster_admission.books_check import discrepancies
from muster_contracts.stored import Record
from muster_domain.states import Admitted, Evicting, Finished, Reserved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster_admission.book import Book
    from muster_admission.machine import AdmissionMachine

_BUCKETS_S = (1, *(2.5 * 2**power for power in range(15)))


class AdmissionMetrics:
    """Counters that grow as things happen, gauges that are computed when they are read."""

    def __init__(self, registry: CollectorRegistry) -> None:
        queue = ["cluster_queue"]
        self.quota_reserved = Counter(
            "muster_quota_reserved_workloads",
            "Workloads that got quota",
            queue,
            registry=registry,
        )
        self.admitted = Counter(
            "muster_admitted_workloads", "Workloads that were admitted", queue, registry=registry
        )
        self.finished = Counter(
            "muster_finished_workloads",
            "Workloads that ended",
            [*queue, "outcome"],
            registry=registry,
        )
        self.evicted = Counter(
            "muster_evicted_workloads",
            "Workloads that were evicted",
            [*queue, "reason", "underlying_cause"],
            registry=registry,
        )
        self.preempted = Counter(
            "muster_preempted_workloads",
            "Workloads that were preempted",
            ["preempting_cluster_queue", "reason"],
            registry=registry,
        )
        self.quota_wait = Histogram(
            "muster_quota_reserved_wait_time_seconds",
            "From creation or last requeue to quota",
            queue,
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.admission_wait = Histogram(
            "muster_admission_wait_time_seconds",
            "From creation or last requeue to admission",
            queue,
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.checks_wait = Histogram(
            "muster_admission_checks_wait_time_seconds",
            "From quota to admission",
            queue,
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._declare_gauges(registry)

    def _declare_gauges(self, registry: CollectorRegistry) -> None:
        queue = ["cluster_queue"]
        self.pending = Gauge(
            "muster_pending_workloads",
            "Workloads that wait",
            [*queue, "status"],
            registry=registry,
        )
        self.reserving = Gauge(
            "muster_reserving_active_workloads", "Workloads with quota", queue, registry=registry
        )
        self.active = Gauge(
            "muster_admitted_active_workloads", "Admitted workloads", queue, registry=registry
        )
        amounts = ["cohort", *queue, "flavor", "resource"]
        self.nominal = Gauge(
            "muster_cluster_queue_nominal_quota", "Nominal quota", amounts, registry=registry
        )
        self.usage = Gauge(
            "muster_cluster_queue_resource_reservation", "Charged", amounts, registry=registry
        )
        self.status = Gauge(
            "muster_cluster_queue_status",
            "1 for the status that holds",
            [*queue, "status"],
            registry=registry,
        )
        self.discrepancies = Gauge(
            "muster_ledger_discrepancies",
            "Quotas on which ledger, states and usage differ; anything but 0 is a defect",
            ["partition"],
            registry=registry,
        )

    def count(self, book: "Book") -> None:
        """Count what the last commit of a partition made of its workloads."""
        for before, after in book.steps:
            self._count(book, before, after)
        book.steps.clear()

    def _count(self, book: "Book", before: Record, after: Record) -> None:
        name = after.cluster_queue
        match after.state:
            case Reserved() as state:
                self.quota_reserved.labels(name).inc()
                waited_ms = max(0, state.reserved_at_ms - state.queued_at_ms)
                self.quota_wait.labels(name).observe(waited_ms / 1000)
            case Admitted() as state if isinstance(before.state, Reserved):
                self.admitted.labels(name).inc()
                waited_ms = max(0, state.admitted_at_ms - state.queued_at_ms)
                self.admission_wait.labels(name).observe(waited_ms / 1000)
                checked_ms = max(0, state.admitted_at_ms - state.reserved_at_ms)
                self.checks_wait.labels(name).observe(checked_ms / 1000)
            case Evicting() as state if not isinstance(before.state, Evicting):
                self.evicted.labels(name, state.reason, state.cause).inc()
                preemptor = book.records.get(state.preemptor)
                if state.preemption_reason is not None and preemptor is not None:
                    self.preempted.labels(preemptor.cluster_queue, state.preemption_reason).inc()
            case Finished(outcome=outcome):
                self.finished.labels(name, outcome).inc()
            case _:
                pass

    def refresh(self, machines: "Sequence[AdmissionMachine]") -> None:
        """Compute the gauges; series of queues that are gone go with them."""
        for gauge in (
            self.pending,
            self.reserving,
            self.active,
            self.nominal,
            self.usage,
            self.status,
            self.discrepancies,
        ):
            gauge.clear()
        for machine in machines:
            self._refresh(machine)

    def _refresh(self, machine: "AdmissionMachine") -> None:
        book = machine.book
        self.discrepancies.labels(book.partition).set(len(discrepancies(book)))
        for name, entry in book.view.catalog.queues.items():
            queue = book.view.queues[name]
            self.pending.labels(name, "active").set(queue.active)
            self.pending.labels(name, "inadmissible").set(len(queue) - queue.active)
            holders = [book.records[holder] for holder in book.view.admitted.get(name, {})]
            self.reserving.labels(name).set(len(holders))
            admitted = sum(isinstance(record.state, Admitted) for record in holders)
            self.active.labels(name).set(admitted)
            self.status.labels(name, "active").set(int(entry.active))
            self.status.labels(name, "pending").set(int(not entry.active))
            for (flavor, resource), quota in entry.node.quotas.items():
                labels = (entry.queue.cohort, name, flavor, resource)
                self.nominal.labels(*labels).set(quota.nominal / 1000)
                self.usage.labels(*labels).set(entry.node.used((flavor, resource)) / 1000)
