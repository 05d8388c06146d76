"""Where prices of pools hold: a (flavor, resource) cut by time and by the price of its nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from muster_rating.attempts import Pair
from muster_rating.capacity import CapacitySpan
from muster_rating.holdings import Holding
from muster_rating.metering import seats_of
from muster_rating.prices import Price, PriceBook, RatedWindow
from muster_rating.slices import spans_by_pair
from muster_rating.windows import Window

_Turns = list[tuple[int, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class PricedPart:
    """What was held and what there was of a pair on nodes of one price."""

    price: Price | None
    holdings: Sequence[Holding]
    capacity: Sequence[CapacitySpan]


def rated_windows(
    prices: PriceBook, pair: Pair, spans: Sequence[CapacitySpan], window: Window
) -> tuple[RatedWindow, ...]:
    """The window cut where any price of the pair changes, or a node joins or leaves a pool."""
    rated = prices.windows(*pair, window)
    turns = _pool_turns(prices, pair[1], spans)
    if not turns:
        return rated
    pools = {pool for of_node in turns.values() for _, chain in of_node for pool in chain}
    cuts = {price.effective_from_ms for p in pools for price in prices.pool_prices(p, pair[1])}
    cuts |= {at_ms for of_node in turns.values() for at_ms, _ in of_node[1:]}
    return tuple(
        RatedWindow(part, of_flavor.price, _by_node(prices, pair[1], turns, part.start_ms))
        for of_flavor in rated
        for part in _cut(of_flavor.window, cuts)
    )


def pool_edges(prices: PriceBook, spans: Sequence[CapacitySpan], window: Window) -> tuple[int, ...]:
    """The moments inside a window at which a node joins or leaves a pool, in order, each once."""
    if not prices.pools:
        return ()
    found: set[int] = set()
    for (_, resource), of_pair in spans_by_pair(spans).items():
        for turns in _pool_turns(prices, resource, of_pair).values():
            found |= {at_ms for at_ms, _ in turns[1:]}
    return tuple(sorted(at for at in found if window.start_ms < at < window.end_ms))


def price_on_node(prices: PriceBook, span: CapacitySpan, at_ms: int) -> Price | None:
    """The price of a node's resource at a moment."""
    pools = prices.pools_of(span.flavor, span.node, span.labels)
    found = prices.of_pools(pools, span.resource, at_ms)
    return prices.at(span.flavor, span.resource, at_ms) if found is None else found


def by_price(
    pair: Pair, holdings: Sequence[Holding], spans: Sequence[CapacitySpan], rated: RatedWindow
) -> list[PricedPart]:
    """The pair by the price of its nodes, the flavor's own first.

    Where there are several, what an attempt held on the nodes of a price is a holding of its own,
    and quota without seats is in none.
    """
    if not rated.by_node:
        return [PricedPart(rated.price, holdings, spans)]
    return [
        PricedPart(
            price,
            _held_at(pair, holdings, rated, price),
            [span for span in spans if rated.price_on(span.node) is price],
        )
        for price in rated.all_prices
    ]


def _held_at(
    pair: Pair, holdings: Sequence[Holding], rated: RatedWindow, price: Price | None
) -> list[Holding]:
    found: list[Holding] = []
    for holding in holdings:
        held_milli = sum(
            quantity for node, quantity in seats_of(holding, pair) if rated.price_on(node) is price
        )
        if held_milli:
            found.append(replace(holding, held_milli=held_milli, waiting_milli=0))
    return found


def _pool_turns(
    prices: PriceBook, resource: str, spans: Sequence[CapacitySpan]
) -> dict[str, _Turns]:
    """By node that is in a pool with a price: from when on it is in which pools."""
    found: dict[str, _Turns] = {}
    if not any(prices.pool_prices(pool.name, resource) for pool in prices.pools):
        return found
    for span in sorted(spans, key=lambda span: (span.node, span.start_ms)):
        pools = prices.pools_of(span.flavor, span.node, span.labels)
        chain = tuple(pool for pool in pools if prices.pool_prices(pool, resource))
        turns = found.setdefault(span.node, [])
        if not turns or turns[-1][1] != chain:
            turns.append((span.start_ms, chain))
    return {node: turns for node, turns in found.items() if any(chain for _, chain in turns)}


def _by_node(
    prices: PriceBook, resource: str, turns: dict[str, _Turns], at_ms: int
) -> dict[str, Price]:
    found: dict[str, Price] = {}
    for node, of_node in turns.items():
        chain = next((c for from_ms, c in reversed(of_node) if from_ms <= at_ms), of_node[0][1])
        price = prices.of_pools(chain, resource, at_ms)
        if price is not None:
            found[node] = price
    return found


def _cut(window: Window, cuts: set[int]) -> list[Window]:
    inside = sorted(at_ms for at_ms in cuts if window.start_ms < at_ms < window.end_ms)
    return [Window(*edges) for edges in pairwise((window.start_ms, *inside, window.end_ms))]
