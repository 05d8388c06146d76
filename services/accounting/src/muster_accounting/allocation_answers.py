"""What accounting answers in OpenCost's words."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import islice

from muster_accounting.answers import exact
from muster_contracts import codec
from muster_contracts.allocations import (
    AllocationQuestion,
    AllocationRow,
    AllocationSet,
    AllocationSets,
    AssetRow,
    Assets,
    AssetsQuestion,
    NodePrice,
    NodePrices,
)
from muster_domain.errors import InvalidValue
from muster_domain.money import nearest, parse_amount, round_rows
from muster_rating.capacity import CapacitySpan
from muster_rating.opencost.allocations import (
    Allocation,
    Properties,
    component_of,
)
from muster_rating.opencost.filters import ALLOCATION_FIELDS, ASSET_FIELDS, read_filter
from muster_rating.opencost.sets import (
    Key,
    Sets,
    Split,
    Terms,
    accumulated,
    allocation_sets,
    read_aggregate,
    read_share,
)
from muster_rating.opencost.windows import (
    check_resolution,
    read_accumulate_by,
    read_step,
    read_window,
)
from muster_rating.prices import ALWAYS_MS, PriceBook
from muster_rating.report import Books
from muster_rating.scopes import price_on_node, rated_windows
from muster_rating.windows import Window

ANSWER_BYTES_MAX = 1_000_000
"""What fits into one message of the bus."""
_SHOWN = {
    "cluster": "cluster",
    "node": "node",
    "namespace": "namespace",
    "controllerKind": "controller_kind",
    "controller": "controller",
    "pod": "pod",
    "clusterQueue": "cluster_queue",
    "localQueue": "local_queue",
    "team": "team",
    "user": "user",
    "priorityClass": "priority_class",
}


def window_of(question: AllocationQuestion | AssetsQuestion, now_ms: int) -> Window:
    """The window that was asked for. Raises `InvalidValue`."""
    return read_window(question.window, now_ms, question.tz)


def allocations(
    question: AllocationQuestion, books: Books, prices: PriceBook, through_ms: int, now_ms: int
) -> bytes:
    """The sets that were asked for, counted up to `through_ms`, encoded.

    Raises `InvalidValue` for what cannot be asked, and where the answer fits into no message.
    """
    asked = window_of(question, now_ms)
    terms = _terms(question)
    steps = read_step(question.step, asked)
    together = read_accumulate_by(_accumulate_by(question), steps, question.tz)
    windows = [_until(window, through_ms) for window in steps]
    counted = iter(allocation_sets(books, prices, windows, terms))
    found = [accumulated(list(islice(counted, len(of_unit)))) for of_unit in together]
    units = [Window(of_unit[0].start_ms, of_unit[-1].end_ms) for of_unit in together]
    answer = AllocationSets(
        currency=prices.currency,
        sets=tuple(_set(unit, one) for unit, one in zip(units, found, strict=True)),
        provisional=asked.end_ms > through_ms or any(a.is_open for a in books.attempts),
        unpriced=_unpriced(books.capacity, prices, asked),
    )
    body = codec.encode(answer)
    if len(body) > ANSWER_BYTES_MAX:
        count = sum(len(one.rows) for one in answer.sets)
        raise InvalidValue(
            f"{count} allocations are too many for one answer",
            field="aggregate",
            fix="aggregate, filter, accumulate or ask for less time at once",
        )
    return body


def _accumulate_by(question: AllocationQuestion) -> str:
    if question.accumulate and question.accumulate_by not in ("", "all"):
        raise InvalidValue(
            "accumulate=true adds all steps up",
            field="accumulateBy",
            fix="leave one of the two out",
        )
    return "all" if question.accumulate else question.accumulate_by


def _until(window: Window, through_ms: int) -> Window:
    return Window(window.start_ms, max(window.start_ms, min(window.end_ms, through_ms)))


def _terms(question: AllocationQuestion) -> Terms:
    if question.share_split not in list(Split):
        raise InvalidValue(
            f"{question.share_split!r} is no way to share",
            field="shareSplit",
            fix="write weighted or even",
        )
    check_resolution(question.resolution)
    wanted = read_filter(question.filter, ALLOCATION_FIELDS)
    visible = frozenset(question.namespaces)

    def keep(properties: Properties) -> bool:
        return (not visible or properties.namespace in visible) and wanted(properties)

    return Terms(
        key=read_aggregate(question.aggregate),
        keep=keep,
        include_idle=question.include_idle,
        share_idle=question.share_idle,
        idle_by_node=question.idle_by_node,
        share=read_share(question.share_namespaces, question.share_labels),
        share_cost=parse_amount(question.share_cost, field="shareCost"),
        share_split=Split(question.share_split),
    )


def _set(window: Window, found: Sets) -> AllocationSet:
    named = _by_name(found)
    keys = sorted(named)
    totals, _ = round_rows([named[key].total_cost for key in keys])
    rows = [_row(key, named[key], total) for key, total in zip(keys, totals, strict=True)]
    return AllocationSet(start_ms=window.start_ms, end_ms=window.end_ms, rows=tuple(rows))


def _by_name(found: Sets) -> Sets:
    """Keys whose parts read alike once joined are one, as in an answer by name they must be."""
    names: dict[str, Key] = {}
    merged: Sets = {}
    for key in sorted(found):
        first = names.setdefault("/".join(key), key)
        if first in merged:
            merged[first].add(found[key])
        else:
            merged[first] = found[key].copy()
    return merged


def _row(key: Key, allocation: Allocation, total_micros: int) -> AllocationRow:
    properties = allocation.properties
    shown = {name: getattr(properties, of) for name, of in _SHOWN.items()}
    return AllocationRow(
        name="/".join(key),
        key=key,
        start_ms=allocation.start_ms,
        end_ms=allocation.end_ms,
        time=dict(allocation.time),
        cost_micros={name: nearest(cost) for name, cost in allocation.cost.items()},
        idle_cost_micros={name: nearest(cost) for name, cost in allocation.idle_cost.items()},
        shared_cost_micros=nearest(allocation.shared_cost),
        total_cost_micros=total_micros,
        properties={name: value for name, value in shown.items() if value},
        labels=properties.labels,
        annotations=properties.annotations,
        observed=dict(allocation.observed),
        busy=dict(allocation.busy),
    )


def _unpriced(spans: Iterable[CapacitySpan], prices: PriceBook, window: Window) -> tuple[str, ...]:
    pairs = {
        (span.flavor, span.resource)
        for span in spans
        if window.overlap_ms(span.start_ms, span.end_ms) and component_of(span.resource)
        for rated in rated_windows(prices, (span.flavor, span.resource), [span], window)
        if rated.by_node.get(span.node, rated.price) is None
    }
    return tuple(f"{flavor}/{resource}" for flavor, resource in sorted(pairs))


def assets(
    question: AssetsQuestion,
    spans: Sequence[CapacitySpan],
    prices: PriceBook,
    through_ms: int,
    now_ms: int,
) -> bytes:
    """All nodes and what they cost, encoded. Raises `InvalidValue`."""
    asked = window_of(question, now_ms)
    window = _until(asked, through_ms)
    keep = read_filter(question.filter, ASSET_FIELDS)
    nodes: dict[str, Allocation] = {}
    for span in spans:
        part = window.clip(span.start_ms, span.end_ms)
        properties = Properties(node=span.node, labels=span.labels)
        if not part.length_ms or not component_of(span.resource) or not keep(properties):
            continue
        entry = Allocation(properties=properties, start_ms=part.start_ms, end_ms=part.end_ms)
        _rate(entry, span, part, prices)
        if span.node in nodes:
            nodes[span.node].add(entry)
        else:
            nodes[span.node] = entry
    names = sorted(nodes)
    totals, _ = round_rows([nodes[name].total_cost for name in names])
    rows = [_asset(name, nodes[name], total) for name, total in zip(names, totals, strict=True)]
    answer = Assets(
        currency=prices.currency, start_ms=asked.start_ms, end_ms=asked.end_ms, rows=tuple(rows)
    )
    return codec.encode(answer)


def _rate(entry: Allocation, span: CapacitySpan, part: Window, prices: PriceBook) -> None:
    component = component_of(span.resource)
    entry.time[component] = span.quantity_milli * part.length_ms
    entry.cost[component] = sum(
        (
            price.micros_per_unit * span.quantity_milli * rated.window.length_ms
            for rated in rated_windows(prices, (span.flavor, span.resource), [span], part)
            if (price := rated.by_node.get(span.node, rated.price)) is not None
        ),
        Fraction(0),
    )


def _asset(name: str, entry: Allocation, total_micros: int) -> AssetRow:
    return AssetRow(
        node=name,
        start_ms=entry.start_ms,
        end_ms=entry.end_ms,
        time=dict(entry.time),
        cost_micros={component: nearest(cost) for component, cost in entry.cost.items()},
        total_cost_micros=total_micros,
        labels=entry.properties.labels,
    )


def node_prices(spans: Sequence[CapacitySpan], prices: PriceBook, now_ms: int) -> NodePrices:
    """The price that every resource of every node has now."""
    rows: list[NodePrice] = []
    for span in sorted(spans, key=lambda span: (span.node, span.resource)):
        if not Window(now_ms, now_ms + 1).overlap_ms(span.start_ms, span.end_ms):
            continue
        price = price_on_node(prices, span, now_ms)
        always = price is None or price.effective_from_ms == ALWAYS_MS
        rows.append(
            NodePrice(
                node=span.node,
                flavor=span.flavor,
                resource=span.resource,
                quantity_milli=span.quantity_milli,
                hourly=None if price is None else exact(price.hourly),
                per="" if price is None else price.per,
                written="" if price is None else price.written,
                pool="" if price is None else price.pool,
                effective_from_ms=None if always or price is None else price.effective_from_ms,
            )
        )
    return NodePrices(currency=prices.currency, rows=tuple(rows))
