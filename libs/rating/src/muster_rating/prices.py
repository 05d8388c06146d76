"""What a resource of a flavor costs, by time, and what it costs on some nodes.

A price is an exact fraction of a currency for a quantity and an hour. It holds from its effective
time until the next one; a price given by the month states how many hours it takes a month to have.

A pool is one node, or the nodes that carry some labels. Its prices hold there in place of the
flavor's; of several pools that of the node itself comes first, then that with the most labels.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from muster_domain.errors import InvalidValue
from muster_domain.money import MICROS
from muster_domain.selectors import Labels
from muster_rating.windows import Window

HOUR_MS = 3_600_000
ALWAYS_MS = -(2**62)
"""The effective time of a price that holds from the beginning."""
EVERY_FLAVOR = "*"
"""Stands for the flavors that have no price of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes that have prices of their own: the one of this name, or those with all these labels.

    With a `flavor`, only of what counts for it.
    """

    name: str
    flavor: str = ""
    node: str = ""
    node_labels: Labels = field(default_factory=dict[str, str])

    def selects(self, flavor: str, node: str, labels: Labels) -> bool:
        """Whether what a node has of a flavor is in it."""
        if self.flavor not in ("", flavor):
            return False
        if self.node:
            return self.node == node
        return all(labels.get(name) == value for name, value in self.node_labels.items())

    @property
    def wideness(self) -> tuple[bool, int, str]:
        """Sorts the most specific pool first."""
        return (not self.node, -len(self.node_labels), self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """`hourly` in units of the currency, for `per_milli` milli-units of the resource and an hour.

    `per` and `written` are how people gave them. The price of a `pool` has no flavor.
    """

    flavor: str
    resource: str
    hourly: Fraction
    per_milli: int = 1000
    per: str = "1"
    written: str = ""
    effective_from_ms: int = ALWAYS_MS
    pool: str = ""

    @property
    def micros_per_unit(self) -> Fraction:
        """Micro-units of the currency for one milli-unit and one millisecond."""
        return self.hourly * MICROS / (self.per_milli * HOUR_MS)


@dataclass(frozen=True, slots=True)
class RatedWindow:
    """A window in which one price holds, None where there is none, but for some nodes others."""

    window: Window
    price: Price | None
    by_node: Mapping[str, Price] = field(default_factory=dict[str, Price])

    def price_on(self, node: str) -> Price | None:
        """The price on a node."""
        return self.by_node.get(node, self.price)

    @property
    def all_prices(self) -> list[Price | None]:
        """The flavor's price, then each that some node has in its place."""
        others = {(price.pool, price.effective_from_ms): price for price in self.by_node.values()}
        return [self.price, *(others[key] for key in sorted(others))]


@dataclass(frozen=True)
class PriceBook:
    """All prices in one currency. Raises `InvalidValue` where two begin at the same time."""

    currency: str
    prices: tuple[Price, ...] = field(default=())
    pools: tuple[Pool, ...] = field(default=())

    def __post_init__(self) -> None:
        for of_pair in self._by_pair.values():
            starts = [price.effective_from_ms for price in of_pair]
            if len(set(starts)) < len(starts):
                first = of_pair[0]
                scope = first.pool or first.flavor
                place = "pools" if first.pool else "flavors"
                raise InvalidValue(
                    f"two prices of {first.resource} in {scope} begin at the same time",
                    field=f"{place}.{scope}.{first.resource}",
                    fix="give each its own effective_from",
                )

    def windows(self, flavor: str, resource: str, window: Window) -> tuple[RatedWindow, ...]:
        """The window cut where the price changes, without gaps, in order.

        A resource that the flavor's prices do not name is included in them and costs nothing. A
        flavor without prices has those of `EVERY_FLAVOR`.
        """
        priced = flavor if flavor in self._flavors else EVERY_FLAVOR
        prices = self._by_pair.get(("", priced, resource))
        if prices is None:
            included = Price(
                flavor=flavor, resource=resource, hourly=Fraction(0), written="included"
            )
            return (RatedWindow(window, included if priced in self._flavors else None),)
        starts = [price.effective_from_ms for price in prices]
        rated: list[RatedWindow] = []
        at_ms = window.start_ms
        while at_ms < window.end_ms:
            index = bisect_right(starts, at_ms)
            until_ms = min(window.end_ms, starts[index] if index < len(starts) else window.end_ms)
            price = prices[index - 1] if index else None
            rated.append(RatedWindow(Window(at_ms, until_ms), price))
            at_ms = until_ms
        return tuple(rated)

    def at(self, flavor: str, resource: str, at_ms: int) -> Price | None:
        """The price that holds at a moment."""
        return self.windows(flavor, resource, Window(at_ms, at_ms + 1))[0].price

    def pools_of(self, flavor: str, node: str, labels: Labels) -> tuple[str, ...]:
        """The pools that what a node has of a flavor is in, the most specific one first."""
        return tuple(pool.name for pool in self._ordered if pool.selects(flavor, node, labels))

    def of_pools(self, pools: Iterable[str], resource: str, at_ms: int) -> Price | None:
        """The price that holds at a moment in the first of some pools that has one."""
        for pool in pools:
            held = [p for p in self.pool_prices(pool, resource) if p.effective_from_ms <= at_ms]
            if held:
                return held[-1]
        return None

    def pool_prices(self, pool: str, resource: str) -> tuple[Price, ...]:
        """The prices of a resource in a pool, in order of time."""
        return self._by_pair.get((pool, "", resource), ())

    def dearest_pool(self, flavor: str, resource: str, window: Window) -> Price | None:
        """The highest price that some node of a flavor may have at some time of a window."""
        found = [
            price
            for pool in self.pools
            if pool.flavor in ("", flavor)
            for price in self.pool_prices(pool.name, resource)
            if price.effective_from_ms < window.end_ms
        ]
        return max(found, key=lambda price: price.micros_per_unit, default=None)

    def changes(self, window: Window) -> tuple[int, ...]:
        """The moments inside the window at which some price begins, in order, each once."""
        starts = {price.effective_from_ms for price in self.prices}
        return tuple(sorted(at for at in starts if window.start_ms < at < window.end_ms))

    @cached_property
    def _by_pair(self) -> dict[tuple[str, str, str], tuple[Price, ...]]:
        return {
            pair: tuple(sorted(prices, key=lambda price: price.effective_from_ms))
            for pair, prices in _grouped(self.prices).items()
        }

    @cached_property
    def _flavors(self) -> frozenset[str]:
        return frozenset(price.flavor for price in self.prices if not price.pool)

    @cached_property
    def _ordered(self) -> tuple[Pool, ...]:
        return tuple(sorted(self.pools, key=lambda pool: pool.wideness))


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """A declared price list, by its name."""

    name: str
    book: PriceBook


def price_books(lists: Iterable[PriceList]) -> dict[str, PriceBook]:
    """All price lists together, by currency. Raises what `PriceBook` raises.

    Where two lists price the same from the same time on, the one whose name is later counts; where
    both have a pool of one name, all of the pool that the later one has.
    """
    prices: dict[str, dict[tuple[str, str, str, int], Price]] = {}
    pools: dict[str, dict[str, Pool]] = {}
    for declared in sorted(lists, key=lambda declared: declared.name):
        of_currency = prices.setdefault(declared.book.currency, {})
        replaced = {pool.name for pool in declared.book.pools}
        for key in [key for key in of_currency if key[0] in replaced]:
            del of_currency[key]
        for price in declared.book.prices:
            key = (price.pool, price.flavor, price.resource, price.effective_from_ms)
            of_currency[key] = price
        pools.setdefault(declared.book.currency, {}).update(
            (pool.name, pool) for pool in declared.book.pools
        )
    return {
        currency: PriceBook(
            currency, tuple(prices[currency].values()), tuple(pools[currency].values())
        )
        for currency in sorted(prices)
    }


def _grouped(prices: Iterable[Price]) -> dict[tuple[str, str, str], list[Price]]:
    groups: dict[tuple[str, str, str], list[Price]] = {}
    for price in sorted(prices, key=lambda price: (price.pool, price.flavor, price.resource)):
        groups.setdefault((price.pool, price.flavor, price.resource), []).append(price)
    return groups
