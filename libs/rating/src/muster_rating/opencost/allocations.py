"""Raw allocations: what each attempt held on each node in one window, and what nobody held.

An allocation is an attempt on a node: the pods that an attempt has on one node are alike, and are
counted together under the workload's name.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from muster_domain.money import split
from muster_domain.selectors import Labels
from muster_rating.attempts import Owner, Pair, settled
from muster_rating.capacity import CapacitySpan
from muster_rating.holdings import Holding, holdings_by_pair
from muster_rating.metering import balance, balances_by_node, seats_of
from muster_rating.observations import Observations, observed_of
from muster_rating.prices import Price, PriceBook, RatedWindow
from muster_rating.report import Books
from muster_rating.scopes import by_price, rated_windows
from muster_rating.slices import add, add_all
from muster_rating.windows import Window

CLUSTER = "muster"
UNALLOCATED = "__unallocated__"
IDLE = "__idle__"
UNAVAILABLE = "__unavailable__"
OVERALLOCATED = "__overallocated__"
COMPONENTS = ("cpu", "gpu", "ram")
"""What OpenCost counts. Every resource but CPU and memory that has devices is a GPU."""
_COMPONENT_OF = {"cpu": "cpu", "memory": "ram"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """Whose an allocation is and where; where members differ a merged one has an empty text."""

    cluster: str = CLUSTER
    node: str = ""
    namespace: str = ""
    controller_kind: str = ""
    controller: str = ""
    pod: str = ""
    cluster_queue: str = ""
    local_queue: str = ""
    team: str = ""
    user: str = ""
    priority_class: str = ""
    labels: Labels = field(default_factory=dict[str, str])
    annotations: Labels = field(default_factory=dict[str, str])


@dataclass(slots=True, kw_only=True)
class Allocation:
    """Time in milli-unit-milliseconds and exact micro-units of the currency, by component.

    `observed` is the part of the time that was looked at, and `busy` that in which devices worked.
    """

    properties: Properties
    start_ms: int
    end_ms: int
    time: dict[str, int] = field(default_factory=dict[str, int])
    cost: dict[str, Fraction] = field(default_factory=dict[str, Fraction])
    idle_cost: dict[str, Fraction] = field(default_factory=dict[str, Fraction])
    shared_cost: Fraction = Fraction(0)
    observed: dict[str, int] = field(default_factory=dict[str, int])
    busy: dict[str, int] = field(default_factory=dict[str, int])
    special: str = ""
    """`__idle__` and the like for what nobody held."""

    @property
    def total_cost(self) -> Fraction:
        """Everything that it costs."""
        return sum(self.cost.values(), self.shared_cost)

    def add(self, other: "Allocation") -> None:
        """Take another one in: the span covers both, only equal properties stay."""
        self.properties = _common(self.properties, other.properties)
        self.start_ms = min(self.start_ms, other.start_ms)
        self.end_ms = max(self.end_ms, other.end_ms)
        for into, part in ((self.cost, other.cost), (self.idle_cost, other.idle_cost)):
            for component, amount in part.items():
                into[component] = into.get(component, Fraction(0)) + amount
        add_all(self.time, other.time)
        add_all(self.observed, other.observed)
        add_all(self.busy, other.busy)
        self.shared_cost += other.shared_cost

    def copy(self) -> "Allocation":
        """One of its own."""
        return replace(
            self,
            time=dict(self.time),
            cost=dict(self.cost),
            idle_cost=dict(self.idle_cost),
            observed=dict(self.observed),
            busy=dict(self.busy),
        )


_FIELD_OF = {
    "controllerkind": "controller_kind",
    "controllername": "controller",
    "queue": "cluster_queue",
    "clusterqueue": "cluster_queue",
    "localqueue": "local_queue",
    "workload": "pod",
    "priorityclass": "priority_class",
}


def field_of(properties: Properties, name: str) -> str:
    """A property by OpenCost's name or Muster's."""
    lowered = name.lower()
    value: str = getattr(properties, _FIELD_OF.get(lowered, lowered))
    return value


def labels_of(properties: Properties, name: str) -> Mapping[str, str]:
    """The labels or the annotations."""
    return properties.labels if name == "label" else properties.annotations


def component_of(resource: str) -> str:
    """What of OpenCost's a resource counts as; empty for none."""
    return _COMPONENT_OF.get(resource, "gpu" if "/" in resource else "")


class HeldAndThere:
    """Books, sorted once for any number of windows: what was held and what there was, by pair."""

    def __init__(self, books: Books) -> None:
        self.holdings = holdings_by_pair(settled(books.attempts))
        self.spans: dict[Pair, list[CapacitySpan]] = {}
        for span in books.capacity:
            self.spans.setdefault((span.flavor, span.resource), []).append(span)
        self.observations = books.observations


def raw_allocations(books: HeldAndThere, prices: PriceBook, window: Window) -> list[Allocation]:
    """What everybody held and what nobody held, sorted; their costs sum to the capacity's."""
    held: dict[tuple[str, int, str], Allocation] = {}
    nobodys: dict[tuple[str, str], Allocation] = {}
    holdings, spans = books.holdings, books.spans
    for pair in sorted({*holdings, *spans}):
        if not component_of(pair[1]):
            continue
        of_pair = [h for h in holdings.get(pair, ()) if window.overlap_ms(h.reserved_ms, h.end_ms)]
        capacity = [s for s in spans.get(pair, ()) if window.overlap_ms(s.start_ms, s.end_ms)]
        for rated in rated_windows(prices, pair, spans.get(pair, ()), window):
            _add_held(held, of_pair, pair, rated)
            _add_observed(held, books.observations, of_pair, pair, rated.window)
            for part in by_price(pair, of_pair, capacity, rated):
                left = _nobodys(pair, part.holdings, part.capacity, rated.window)
                for (special, node), quantity in left.items():
                    entry = nobodys.setdefault(
                        (special, node),
                        Allocation(
                            properties=Properties(node=node),
                            start_ms=window.start_ms,
                            end_ms=window.end_ms,
                            special=special,
                        ),
                    )
                    _charge(entry, component_of(pair[1]), quantity, _rate(part.price))
    found = [held[key] for key in sorted(held)]
    return found + [nobodys[key] for key in sorted(nobodys)]


def _add_held(
    into: dict[tuple[str, int, str], Allocation],
    holdings: Iterable[Holding],
    pair: Pair,
    rated: RatedWindow,
) -> None:
    for holding in holdings:
        if holding.seated_ms is None:
            continue
        part = rated.window.clip(holding.seated_ms, holding.end_ms)
        if not part.length_ms:
            continue
        for node, quantity in seats_of(holding, pair):
            key = (*holding.attempt.key, node)
            entry = into.get(key)
            if entry is None:
                properties = _properties(holding.owner, node)
                entry = into[key] = Allocation(
                    properties=properties, start_ms=part.start_ms, end_ms=part.end_ms
                )
            entry.start_ms = min(entry.start_ms, part.start_ms)
            entry.end_ms = max(entry.end_ms, part.end_ms)
            rate = _rate(rated.price_on(node))
            _charge(entry, component_of(pair[1]), quantity * part.length_ms, rate)


def _add_observed(
    into: Mapping[tuple[str, int, str], Allocation],
    observations: Observations,
    holdings: Iterable[Holding],
    pair: Pair,
    window: Window,
) -> None:
    component = component_of(pair[1])
    for holding in holdings if observations else ():
        for one in observed_of(observations, holding, pair, window):
            entry = into.get((*holding.attempt.key, one.node))
            if entry is not None:
                add(entry.observed, component, one.observed)
                add(entry.busy, component, one.busy)


def _rate(price: Price | None) -> Fraction:
    return Fraction(0) if price is None else price.micros_per_unit


def _charge(entry: Allocation, component: str, quantity: int, rate: Fraction) -> None:
    entry.time[component] = entry.time.get(component, 0) + quantity
    entry.cost[component] = entry.cost.get(component, Fraction(0)) + rate * quantity


def _nobodys(
    pair: Pair, holdings: Sequence[Holding], spans: Sequence[CapacitySpan], window: Window
) -> dict[tuple[str, str], int]:
    total = balance(pair, holdings, spans, window)
    idle = total.idle + total.reserved
    on_nodes = balances_by_node(pair, holdings, spans, window)
    on_node = {node: of.idle for node, of in on_nodes.items()}
    parts = split(idle, list(on_node.values()))
    found = {(IDLE, node): part for node, part in zip(on_node, parts, strict=True) if part}
    if not sum(on_node.values()) and idle:
        found[IDLE, ""] = idle
    if total.unavailable:
        found[UNAVAILABLE, ""] = total.unavailable
    if total.overallocated:
        found[OVERALLOCATED, ""] = -total.overallocated
    return found


def _properties(owner: Owner, node: str) -> Properties:
    return Properties(
        node=node,
        namespace=owner.namespace,
        controller_kind=owner.kind.lower(),
        controller=owner.workload,
        pod=owner.workload,
        cluster_queue=owner.cluster_queue,
        local_queue=owner.local_queue,
        team=owner.team,
        user=owner.user,
        priority_class=owner.priority_class,
        labels=owner.labels,
        annotations=owner.annotations,
    )


_TEXTS = (
    "cluster", "node", "namespace", "controller_kind", "controller", "pod", "cluster_queue",
    "local_queue", "team", "user", "priority_class",
)  # fmt: skip


def _common(left: Properties, right: Properties) -> Properties:
    if left == right:
        return left
    different = {name: "" for name in _TEXTS if getattr(left, name) != getattr(right, name)}
    labels = _equal(left.labels, right.labels)
    annotations = _equal(left.annotations, right.annotations)
    return replace(left, labels=labels, annotations=annotations, **different)


def _equal(left: Labels, right: Labels) -> Labels:
    return {name: value for name, value in left.items() if right.get(name) == value}
