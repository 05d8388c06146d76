"""What accounting measures, and the prices and allocations that dashboards of GPU cost ask for."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from muster_accounting.view import View
from muster_contracts.tokens import TokenPriceDrifted, TokenReport
from muster_domain.selectors import Labels
from muster_domain.tokens import DriftStatus
from muster_rating.capacity import CapacitySpan
from muster_rating.opencost.filters import sanitised
from muster_rating.prices import PriceBook
from muster_rating.scopes import price_on_node
from muster_rating.windows import Window

if TYPE_CHECKING:
    from fractions import Fraction

MILLI = 1000
_NODE = ["node", "instance", "provider_id", "instance_type", "region", "arch"]
_ALLOCATION = [
    *("namespace", "pod", "container", "node", "instance"),
    *("resource", "cluster_queue", "label_team"),
]
_PAIR = ["flavor", "resource"]
_MODEL = ["namespace", "model"]
_NODE_LABELS = (
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "kubernetes.io/arch",
)
_NOT_COMPARED = (DriftStatus.NO_TOKENS, DriftStatus.UNPRICED)


class AccountingMetrics:
    """Counters as facts come in, gauges when they are read.

    `labels` are those of workloads that allocations carry beside their team.
    """

    def __init__(self, registry: CollectorRegistry, labels: Sequence[str] = ()) -> None:
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
        self.zombies = Counter(
            "muster_accounting_zombies",
            "Intervals that were open though their attempt was over, and were closed",
            registry=registry,
        )
        self.recount_difference = Gauge(
            "muster_accounting_recount_difference",
            "Attempts that hold quota in the books or at admission only; anything but 0 is a loss",
            registry=registry,
        )
        self._hourly_cost = Gauge(
            "node_gpu_hourly_cost",
            "Price of one GPU and hour of the node",
            [*_NODE, "flavor", "resource", "currency"],
            registry=registry,
        )
        self._total_cost = Gauge(
            "node_total_hourly_cost",
            "Price of everything on the node for an hour",
            [*_NODE, "currency"],
            registry=registry,
        )
        self._gpu_count = Gauge(
            "node_gpu_count",
            "GPUs of the node",
            [*_NODE, "flavor", "resource", "currency"],
            registry=registry,
        )
        self._labels = tuple(labels)
        self._allocation = Gauge(
            "container_gpu_allocation",
            "GPUs that a workload holds on the node",
            [*_ALLOCATION, *(f"label_{sanitised(name)}" for name in self._labels)],
            registry=registry,
        )
        self._add_comparisons(registry)

    def _add_comparisons(self, registry: CollectorRegistry) -> None:
        """What is compared: quota with capacity, token money with hardware."""
        self._nominal = Gauge(
            "muster_accounting_nominal_quota",
            "Nominal quota of all ClusterQueues together",
            _PAIR,
            registry=registry,
        )
        self._usable = Gauge(
            "muster_accounting_usable_capacity",
            "Capacity of the nodes that take pods",
            _PAIR,
            registry=registry,
        )
        self._unpriced_capacity = Gauge(
            "muster_accounting_unpriced_capacity",
            "Capacity that has no price, and so is in no amount",
            _PAIR,
            registry=registry,
        )
        self._drift = Gauge(
            "muster_token_drift_ratio",
            "Token money of this month less the cost of its hardware, by that cost",
            _MODEL,
            registry=registry,
        )
        self._drifted = Gauge(
            "muster_token_price_drifted",
            "1 where the last word about a model is that its price is out of step",
            [*_MODEL, "status"],
            registry=registry,
        )
        self._suggested = Gauge(
            "muster_token_suggested_price",
            "Price of a million input or output tokens that would recover the hardware",
            [*_MODEL, "direction", "currency"],
            registry=registry,
        )
        self._unpriced = Gauge(
            "muster_tokens_unpriced",
            "Models that were asked this month and have no price",
            registry=registry,
        )

    def refresh(self, view: View | None, prices: PriceBook, now_ms: int) -> None:
        """Take the gauges from the view; none where this replica only stands by."""
        for gauge in (self._hourly_cost, self._total_cost, self._gpu_count, self._allocation):
            gauge.clear()
        for gauge in (self._nominal, self._usable, self._unpriced_capacity):
            gauge.clear()
        self._open.set(0 if view is None else sum(a.is_open for a in view.open.values()))
        if view is None:
            return
        now = Window(now_ms, now_ms + 1)
        spans = [span for span in view.spans if now.overlap_ms(span.start_ms, span.end_ms)]
        for node, of_node in groupby(spans, key=lambda span: span.node):
            self._show_node(
                _node_labels(view.node_labels(node), node), list(of_node), prices, now_ms
            )
        self._show_quota(view, spans)
        self._show_unpriced(spans, prices, now_ms)
        self._show_allocations(view)

    def show_drift(self, report: TokenReport, words: Iterable[TokenPriceDrifted] = ()) -> None:
        """Take the gauges of tokens from a report on this month and the last word on each model."""
        self._drifted.clear()
        for word in words:
            if word.status is not DriftStatus.OK:
                self._drifted.labels(word.namespace, word.model, word.status).set(1)
        self._drift.clear()
        self._suggested.clear()
        self._unpriced.set(len(report.unpriced))
        for model in report.models:
            named = (model.namespace, model.model)
            if model.drift_permille is not None and model.status not in _NOT_COMPARED:
                self._drift.labels(*named).set(model.drift_permille / MILLI)
            for direction, price in (
                ("input", model.suggested_input),
                ("output", model.suggested_output),
            ):
                if price:
                    labels = (*named, direction, report.currency)
                    self._suggested.labels(*labels).set(float(price))

    def _show_node(
        self, node: tuple[str, ...], spans: list[CapacitySpan], prices: PriceBook, now_ms: int
    ) -> None:
        total: Fraction | None = None
        for span in spans:
            price = price_on_node(prices, span, now_ms)
            hourly = None if price is None else price.hourly / price.per_milli
            if hourly is not None:
                total = (total or 0) + hourly * span.quantity_milli
            if not is_gpu(span.resource):
                continue
            labels = (*node, span.flavor, span.resource, prices.currency)
            self._gpu_count.labels(*labels).set(span.quantity_milli / MILLI)
            if hourly is not None:
                self._hourly_cost.labels(*labels).set(float(hourly * MILLI))
        if total is not None:
            self._total_cost.labels(*node, prices.currency).set(float(total))

    def _show_unpriced(self, spans: Sequence[CapacitySpan], prices: PriceBook, now_ms: int) -> None:
        unpriced: dict[tuple[str, str], int] = {}
        for span in spans:
            if price_on_node(prices, span, now_ms) is None:
                pair = span.flavor, span.resource
                unpriced[pair] = unpriced.get(pair, 0) + span.quantity_milli
        for pair, quantity in unpriced.items():
            self._unpriced_capacity.labels(*pair).set(quantity / MILLI)

    def _show_quota(self, view: View, spans: list[CapacitySpan]) -> None:
        nominal: dict[tuple[str, str], int] = {
            pair: sum(quota.nominal_milli for quota in queues.values())
            for pair, queues in view.declarations.catalogs[-1].quotas.items()
        }
        usable = dict.fromkeys(nominal, 0)
        for span in spans:
            pair = span.flavor, span.resource
            if span.usable and pair in usable:
                usable[pair] += span.quantity_milli
        for pair, quantity in nominal.items():
            self._nominal.labels(*pair).set(quantity / MILLI)
            self._usable.labels(*pair).set(usable[pair] / MILLI)

    def _show_allocations(self, view: View) -> None:
        held: dict[tuple[str, ...], int] = {}
        for attempt in view.open.values():
            seating = attempt.last_seating
            if attempt.opening is None or seating is None:
                continue
            owner = attempt.opening.owner
            for seat in seating.seats:
                for charge in seat.charges:
                    if not is_gpu(charge.resource):
                        continue
                    labels = (
                        owner.namespace,
                        owner.workload,
                        owner.workload,
                        seat.node,
                        seat.node,
                        charge.resource,
                        owner.cluster_queue,
                        owner.team,
                        *(owner.labels.get(name, "") for name in self._labels),
                    )
                    held[labels] = held.get(labels, 0) + charge.quantity_milli
        for labels, quantity in held.items():
            self._allocation.labels(*labels).set(quantity / MILLI)


def _node_labels(labels: Labels, node: str) -> tuple[str, ...]:
    return (node, node, node, *(labels.get(name, "") for name in _NODE_LABELS))


def is_gpu(resource: str) -> bool:
    """Whether a resource counts GPUs or parts of them, by its name."""
    return resource.rpartition("/")[2].startswith(("gpu", "mig-"))
