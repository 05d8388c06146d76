"""What admission measures by looking: the queues, their quota and who waits, when it is asked.

Every scrape computes all series anew, so what is gone leaves none behind. A limit that nobody set
is +Inf.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING, assert_never

from prometheus_client import CollectorRegistry, Gauge

from muster_admission.books_check import discrepancies
from muster_admission.door_gauges import LocalQueueGauges
from muster_admission.series import QUEUE
from muster_domain.conditions import PendingReason, UnadmittedReason
from muster_domain.states import Admitted, Evicting, Finished, Pending, Reserved
from muster_scheduling.fairness.share import share_of
from muster_scheduling.quota import QuotaNode
from muster_scheduling.quota.tree import is_unlimited

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster_admission.attempts import Attempts
    from muster_admission.book import Book
    from muster_contracts.stored import Record
    from muster_scheduling.snapshot.catalog import QueueEntry


class AdmissionGauges:
    """Gauges over all partitions that this process holds."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._all: list[Gauge] = []
        self.doors = LocalQueueGauges(registry)
        queue = (QUEUE,)
        amounts = ("cohort", "cluster_queue", "flavor", "resource")
        pairs = ("cohort", "flavor", "resource")
        add = self._gauge
        self.pending = add("muster_pending_workloads", "Workloads that wait", (*queue, "status"))
        self.shapes = add(
            "muster_pending_scheduling_hashes", "Shapes that wait", (*queue, "status")
        )
        self.unadmitted = add(
            "muster_unadmitted_workloads",
            "Workloads that are not admitted, by why",
            (*queue, "reason", "underlying_cause"),
        )
        self.reserving = add("muster_reserving_active_workloads", "Workloads with quota", queue)
        self.active = add("muster_admitted_active_workloads", "Admitted workloads", queue)
        self.retained = add(
            "muster_retained_workloads", "Ended workloads that are remembered", queue
        )
        self.status = add("muster_cluster_queue_status", "1 for what holds", (*queue, "status"))
        self.info = add(
            "muster_cluster_queue_info", "Where it stands", (*queue, "parent_cohort", "root_cohort")
        )
        self.nominal = add("muster_cluster_queue_nominal_quota", "Nominal quota", amounts)
        self.borrowing = add("muster_cluster_queue_borrowing_limit", "Most above nominal", amounts)
        self.lending = add(
            "muster_cluster_queue_lending_limit", "Most that others may use", amounts
        )
        self.reservation = add("muster_cluster_queue_resource_reservation", "Charged", amounts)
        self.usage = add("muster_cluster_queue_resource_usage", "Charged to the admitted", amounts)
        self.waiting = add(
            "muster_cluster_queue_resource_pending",
            "Asked for by those who wait",
            (*queue, "resource"),
        )
        self.share = add(
            "muster_cluster_queue_weighted_share",
            "Weighted share in thousandths",
            (*queue, "cohort"),
        )
        self.cohort_share = add("muster_cohort_weighted_share", "The same of a cohort", ("cohort",))
        self.cohort_quota = add("muster_cohort_subtree_quota", "Quota of a whole cohort", pairs)
        self.cohort_usage = add(
            "muster_cohort_subtree_resource_reservations", "Charged in a whole cohort", pairs
        )
        self.cohort_active = add(
            "muster_cohort_subtree_admitted_active_workloads",
            "Admitted workloads of a whole cohort",
            ("cohort",),
        )
        self.cohort_info = add(
            "muster_cohort_info", "Where it stands", ("cohort", "parent_cohort", "root_cohort")
        )
        self.skips = add(
            "muster_admission_cycle_preemption_skips",
            "Workloads whose victims were not to be had in the last cycle",
            queue,
        )
        self.discrepancies = add(
            "muster_ledger_discrepancies",
            "Quotas on which ledger, states and usage differ; anything but 0 is a defect",
            ("partition",),
        )

    def refresh(self, partitions: "Sequence[tuple[Book, Attempts]]") -> None:
        """Compute everything anew."""
        for gauge in self._all:
            gauge.clear()
        self.doors.refresh([book for book, _ in partitions])
        for book, attempts in partitions:
            self.discrepancies.labels(book.partition).set(len(discrepancies(book)))
            for entry in book.view.catalog.queues.values():
                self._queue(book, entry)
                self.skips.labels(entry.name).set(attempts.skipped[entry.name])
                self._quota(book, entry)
            for node in _cohorts(book):
                self._cohort(book, node)
            self._workloads(book)

    def _queue(self, book: "Book", entry: "QueueEntry") -> None:
        name, queue = entry.name, book.view.queues[entry.name]
        aside = sum(place == name for place in book.aside.values())
        self.pending.labels(name, "active").set(queue.active)
        self.pending.labels(name, "inadmissible").set(len(queue) - queue.active + aside)
        shapes: dict[bool, set[str]] = {True: set(), False: set()}
        waiting: Counter[str] = Counter()
        for workload in queue.workloads.values():
            shapes[queue.is_active(workload.id)].add(workload.shape)
            waiting.update(workload.asks())
        self.shapes.labels(name, "active").set(len(shapes[True]))
        self.shapes.labels(name, "inadmissible").set(len(shapes[False]))
        for resource, quantity_milli in waiting.items():
            self.waiting.labels(name, resource).set(quantity_milli / 1000)
        self.reserving.labels(name).set(len(book.view.admitted.get(name, {})))
        self.active.labels(name).set(_admitted_count(book, name))
        self.retained.labels(name).set(0)
        self.status.labels(name, "active").set(int(entry.active))
        self.status.labels(name, "pending").set(int(not entry.active))
        self.status.labels(name, "terminating").set(0)
        root = entry.root if entry.queue.cohort else ""
        self.info.labels(name, entry.queue.cohort, root).set(1)
        self.share.labels(name, entry.queue.cohort).set(_share(entry.node))

    def _quota(self, book: "Book", entry: "QueueEntry") -> None:
        admitted: Counter[tuple[str, str]] = Counter()
        for holder in book.view.admitted.get(entry.name, {}):
            state = book.records[holder].state
            if isinstance(state, Admitted):
                admitted.update(state.admission.usage)
        for pair, quota in entry.node.quotas.items():
            labels = (entry.queue.cohort, entry.name, *pair)
            self.nominal.labels(*labels).set(_amount(quota.nominal))
            self.borrowing.labels(*labels).set(_amount(quota.borrowing_limit))
            self.lending.labels(*labels).set(_amount(quota.lending_limit))
            self.reservation.labels(*labels).set(entry.node.used(pair) / 1000)
            self.usage.labels(*labels).set(admitted[pair] / 1000)

    def _cohort(self, book: "Book", node: QuotaNode) -> None:
        parent = node.parent.name if node.parent is not None else ""
        self.cohort_info.labels(node.name, parent, node.root.name).set(1)
        self.cohort_active.labels(node.name).set(
            sum(_admitted_count(book, queue.name) for queue in _queues_below(node))
        )
        self.cohort_share.labels(node.name).set(_share(node))
        for pair, quantity_milli in node.subtree.items():
            self.cohort_quota.labels(node.name, *pair).set(_amount(quantity_milli))
            used_milli = sum(queue.used(pair) for queue in _queues_below(node))
            self.cohort_usage.labels(node.name, *pair).set(used_milli / 1000)

    def _workloads(self, book: "Book") -> None:
        for record in book.records.values():
            self._workload(book, record)

    def _workload(self, book: "Book", record: "Record") -> None:
        workload, name = record.workload, record.cluster_queue
        match record.state:
            case Pending(explanation=stored):
                why = book.explanations.get(workload.id, stored)
                reason = why.reason
                if not book.view.queue_of.get(workload.id) and workload.id not in book.aside:
                    reason = PendingReason.MISCONFIGURED
                self.unadmitted.labels(name, reason, "").inc()
            case Reserved():
                reason = UnadmittedReason.UNSATISFIED_ADMISSION_CHECKS
                self.unadmitted.labels(name, reason, "").inc()
            case Finished():
                self.retained.labels(name).inc()
            case Admitted() | Evicting():
                pass
            case _:
                assert_never(record.state)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        gauge = Gauge(name, text, labels, registry=self._registry)
        self._all.append(gauge)
        return gauge


def _amount(quantity_milli: int | None) -> float:
    if quantity_milli is None or is_unlimited(quantity_milli):
        return math.inf
    return quantity_milli / 1000


def _share(node: QuotaNode) -> float:
    """Not a number where something is borrowed without weight, as Kueue says it."""
    share = share_of(node)
    return math.nan if share.unbounded else share.per_mille


def _admitted_count(book: "Book", queue: str) -> int:
    holders = book.view.admitted.get(queue, {})
    return sum(isinstance(book.records[holder].state, Admitted) for holder in holders)


def _cohorts(book: "Book") -> "Iterable[QuotaNode]":
    found: dict[str, QuotaNode] = {}
    for entry in book.view.catalog.queues.values():
        for node in entry.node.ancestors:
            found[node.name] = node
    return [found[name] for name in sorted(found)]


def _queues_below(node: QuotaNode) -> "Iterable[QuotaNode]":
    yield from node.queues
    for cohort in node.cohorts:
        yield from _queues_below(cohort)
