"""What accounting measures, and the prices and allocations that dashboards of GPU cost ask for."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from muster_accounting.view import View
from muster_rating.capacity import CapacitySpan
from muster_rating.prices import PriceBook

MILLI = 1000
_NODE = ["node", "instance", "flavor", "resource", "currency"]
_ALLOCATION = ["namespace", "pod", "node", "resource", "cluster_queue", "label_team"]


class AccountingMetrics:
    """Counters as facts come in, gauges when they are read."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.facts = Counter(
            "muster_accounting_facts", "Facts that were applied", ["kind"], registry=registry
        )
        self.clamped = Counter(
            "muster_accounting_clamped",
            "Attempts of which a later step has an earlier time and counts as zero",
            registry=registry,
        )
        self.report_seconds = Histogram(
            "muster_accounting_report_seconds", "Time of one cost report", registry=registry
        )
        self.facts_until = Gauge(
            "muster_accounting_facts_until_timestamp_seconds",
            "Time of the newest fact that is applied",
            registry=registry,
        )
        self._open = Gauge(
            "muster_accounting_intervals_open",
            "Attempts that hold quota",
            registry=registry,
        )
        self._hourly_cost = Gauge(
            "node_gpu_hourly_cost",
            "Price of one GPU and hour of the node",
            _NODE,
            registry=registry,
        )
        self._gpu_count = Gauge("node_gpu_count", "GPUs of the node", _NODE, registry=registry)
        self._allocation = Gauge(
            "container_gpu_allocation",
            "GPUs that a workload holds on the node",
            _ALLOCATION,
            registry=registry,
        )

    def refresh(self, view: View | None, prices: PriceBook, now_ms: int) -> None:
        """Take the gauges from the view; none where this replica only stands by."""
        self._hourly_cost.clear()
        self._gpu_count.clear()
        self._allocation.clear()
        self._open.set(0 if view is None else sum(a.is_open for a in view.open.values()))
        if view is None:
            return
        for span in view.spans:
            is_now = span.start_ms <= now_ms and (span.end_ms is None or now_ms < span.end_ms)
            if is_now and is_gpu(span.resource):
                self._show_node(span, prices, now_ms)
        self._show_allocations(view)

    def _show_node(self, span: CapacitySpan, prices: PriceBook, now_ms: int) -> None:
        labels = (span.node, span.node, span.flavor, span.resource, prices.currency)
        self._gpu_count.labels(*labels).set(span.quantity_milli / MILLI)
        price = prices.at(span.flavor, span.resource, now_ms)
        if price is not None:
            self._hourly_cost.labels(*labels).set(float(price.hourly * MILLI / price.per_milli))

    def _show_allocations(self, view: View) -> None:
        held: dict[tuple[str, ...], int] = {}
        for attempt in view.open.values():
            if attempt.opening is None or attempt.seating is None:
                continue
            owner = attempt.opening.owner
            for seat in attempt.seating.seats:
                for charge in seat.charges:
                    if not is_gpu(charge.resource):
                        continue
                    labels = (
                        owner.namespace,
                        owner.workload,
                        seat.node,
                        charge.resource,
                        owner.cluster_queue,
                        owner.team,
                    )
                    held[labels] = held.get(labels, 0) + charge.quantity_milli
        for labels, quantity in held.items():
            self._allocation.labels(*labels).set(quantity / MILLI)


def is_gpu(resource: str) -> bool:
    """Whether a resource counts GPUs or parts of them, by its name."""
    return resource.rpartition("/")[2].startswith(("gpu", "mig-"))
