"""Cost tables: who used what, what it cost, and what nobody used.

Everything is exact until the table is complete; then its money is rounded once, so that the rows
sum to the total to the last micro-unit. In time and in money what rows are charged for sums to
capacity x price x time, whatever the dimension, the idle policy and the charging basis.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction

from muster_domain.money import IdlePolicy, nearest, round_rows, split
from muster_rating.attempts import Attempt, Owner, Pair, settled
from muster_rating.capacity import CapacitySpan
from muster_rating.catalogs import Catalog
from muster_rating.charging import (
    HELD,
    Rules,
    charged,
    checked,
    share,
    share_by_node,
    share_by_owner,
)
from muster_rating.dimensions import QUEUE, KeyOf, key_of
from muster_rating.holdings import Holding, holdings_by_pair
from muster_rating.observations import AttemptKey, Observation, Observations
from muster_rating.policies import PolicyVersion, policy_windows
from muster_rating.prices import Price, PriceBook, RatedWindow
from muster_rating.rollups import NOBODY, Holder, Roll, absorb, between
from muster_rating.scopes import rated_windows
from muster_rating.slices import Metered, Slice, add, measure, spans_by_pair
from muster_rating.windows import Window

PLAIN = Rules()


class RowKind(StrEnum):
    """Whose time a row is; all but USAGE belong to nobody.

    UNCOMMITTED is capacity that no queue pays for, where any pays by quota. It is negative where
    quota exceeds the capacity; OVERALLOCATED always is.
    """

    USAGE = "usage"
    IDLE = "idle"
    RESERVED = "reserved"
    UNAVAILABLE = "unavailable"
    OVERALLOCATED = "overallocated"
    UNCOMMITTED = "uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Everything that was metered: attempts, capacity and what was declared, in order of time.

    `rolls` are in order, too, and neither prices nor policies change inside one; they know loans
    by LIFO alone. Of the attempts only those are needed that held something between them.
    """

    attempts: tuple[Attempt, ...]
    capacity: tuple[CapacitySpan, ...]
    catalogs: tuple[Catalog, ...] = ()
    rolls: tuple[Roll, ...] = ()
    observations: Observations = field(default_factory=dict[AttemptKey, tuple[Observation, ...]])


@dataclass(slots=True, kw_only=True)
class Row:
    """Milli-unit-milliseconds by resource, and the exact cost in micro-units of the currency.

    `charged` is what is paid for: `held` and `idle`, the shared part of what nobody held, on the
    basis of usage. `borrowed`, `lost` and `observed`, of which devices were `busy`, are parts of
    `held`; `waiting`, `lent` and `nominal` are not. `unpriced` is the part of `charged` that has no
    price; `cost` is that of the rest.
    """

    key: str
    kind: RowKind
    held: dict[str, int] = field(default_factory=dict[str, int])
    charged: dict[str, int] = field(default_factory=dict[str, int])
    idle: dict[str, int] = field(default_factory=dict[str, int])
    borrowed: dict[str, int] = field(default_factory=dict[str, int])
    lost: dict[str, int] = field(default_factory=dict[str, int])
    waiting: dict[str, int] = field(default_factory=dict[str, int])
    lent: dict[str, int] = field(default_factory=dict[str, int])
    nominal: dict[str, int] = field(default_factory=dict[str, int])
    observed: dict[str, int] = field(default_factory=dict[str, int])
    busy: dict[str, int] = field(default_factory=dict[str, int])
    unpriced: dict[str, int] = field(default_factory=dict[str, int])
    cost: Fraction = Fraction(0)
    idle_cost: Fraction = Fraction(0)
    lost_cost: Fraction = Fraction(0)
    priced: bool = False
    cost_micros: int | None = None

    @property
    def lost_cost_micros(self) -> int:
        """The part of the cost that went into preempted attempts, never above it."""
        return min(nearest(self.lost_cost), self.cost_micros or 0) if self.lost else 0

    @property
    def idle_cost_micros(self) -> int:
        """The part of the cost that is a share of what nobody held, never above it."""
        return min(nearest(self.idle_cost), self.cost_micros or 0) if self.idle else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A finished table. `rows` are sorted: usage by key, then what belongs to nobody.

    `total_micros` is the sum of the rows. `capacity_cost` is capacity x price x time, computed
    apart; it equals the exact sum of the rows unless the table was filtered or leaves idle out.
    """

    by: str
    window: Window
    currency: str
    rows: tuple[Row, ...]
    total_micros: int
    capacity_cost: Fraction
    unpriced: tuple[Pair, ...]
    has_open: bool

    def of_kind(self, kind: RowKind) -> Row | None:
        """The row that is nobody's, or None where there is nothing of it."""
        return next((row for row in self.rows if row.kind is kind), None)


def cost_table(
    books: Books,
    prices: PriceBook,
    window: Window,
    by: str,
    keep: Callable[[Owner], bool] | None = None,
    rules: Rules = PLAIN,
) -> Table:
    """Cost by one dimension over a window. Raises `InvalidValue` for what cannot be asked.

    With `keep`, only those owners' rows are shown and idle is the part that their share of the
    usage would carry; other rows that are nobody's are left out.
    """
    checked(rules, by, window, filtered=keep is not None)
    attempts = tuple(settled(books.attempts))
    builder = _Builder(prices=prices, by=by, key=key_of(by), keep=keep, rules=rules)
    holdings = holdings_by_pair(attempts)
    spans = spans_by_pair(books.capacity)
    held = {pair for part in books.rolls for pair, of in part.slices.items() if of.cells}
    for pair in sorted({*holdings, *spans, *held}):
        metered = Metered(
            pair=pair,
            holdings=[
                h for h in holdings.get(pair, ()) if window.overlap_ms(h.reserved_ms, h.end_ms)
            ],
            capacity=[s for s in spans.get(pair, ()) if window.overlap_ms(s.start_ms, s.end_ms)],
            catalogs=books.catalogs,
            observations=books.observations,
        )
        found = [
            (
                builder.measure(metered, books.rolls, replace(rated, window=part), version),
                rated,
                version,
            )
            for rated in rated_windows(prices, pair, spans.get(pair, ()), window)
            for part, version in policy_windows(rules.policy, rated.window)
        ]
        if pair in spans or any(whole.cells for whole, _, _ in found):
            for whole, rated, version in found:
                builder.add(whole, _by_price(whole, rated), pair, version)
    return builder.finish(window, has_open=any(attempt.is_open for attempt in attempts))


_Parts = list[tuple[Price | None, Slice[str]]]
_Shared = tuple[dict[str, int], int]
"""What each key pays for of some idle time, and what is left."""


def _by_price(whole: Slice[str], rated: RatedWindow) -> _Parts:
    """A slice by the price of its nodes, the flavor's own first.

    What is kept for gangs is kept on no node, so each price has its part of it.
    """
    if not rated.by_node:
        return [(rated.price, whole)]
    nodes = sorted(whole.nodes)
    found: _Parts = [
        (price, whole.on([node for node in nodes if rated.price_on(node) is price]))
        for price in rated.all_prices
    ]
    reserved = split(whole.balance.reserved, [part.balance.idle for _, part in found])
    for (_, part), kept in zip(found, reserved, strict=True):
        part.balance = replace(part.balance, idle=part.balance.idle - kept, reserved=kept)
    return found


@dataclass(slots=True, kw_only=True)
class _Builder:
    prices: PriceBook
    by: str
    key: KeyOf
    keep: Callable[[Owner], bool] | None
    rules: Rules
    rows: dict[tuple[RowKind, str], Row] = field(default_factory=dict[tuple[RowKind, str], Row])
    unpriced: set[Pair] = field(default_factory=set[Pair])
    capacity_cost: Fraction = Fraction(0)

    def measure(
        self, metered: Metered, rolls: Sequence[Roll], rated: RatedWindow, version: PolicyVersion
    ) -> Slice[str]:
        """A pair while one price and one policy held, from rolls as far as there are any."""
        found: Slice[str] = Slice()
        flavor, window = metered.pair[0], rated.window
        inside = [
            part
            for part in rolls
            if window.start_ms <= part.window.start_ms and part.window.end_ms <= window.end_ms
        ]
        nodes = self.rules.idle is IdlePolicy.NODE or bool(rated.by_node)
        for part in between([part.window for part in inside], window):
            measure(
                found,
                metered,
                part,
                lambda holding: self._key_of(holding, flavor),
                nodes=nodes,
                version=version,
            )
        for part in inside:
            rolled = part.slices.get(metered.pair)
            if rolled is not None:
                absorb(found, rolled, lambda holder: self._key_of_holder(holder, flavor))
        return found

    def _key_of(self, holding: Holding, flavor: str) -> str | None:
        if self.keep is not None and not self.keep(holding.owner):
            return None
        return self.key(holding.attempt, holding.owner, flavor)

    def _key_of_holder(self, holder: Holder, flavor: str) -> str | None:
        owner = holder.owner
        if self.keep is not None and not self.keep(owner):
            return None
        return self.key(NOBODY, owner, flavor)

    def add(self, found: Slice[str], parts: _Parts, pair: Pair, version: PolicyVersion) -> None:
        """Price a slice by its parts and add it to the rows."""
        resource = pair[1]
        for price, part in parts:
            if price is not None:
                self.capacity_cost += price.micros_per_unit * part.balance.capacity
                for key, cell in part.cells.items():
                    lost_cost = price.micros_per_unit * cell.lost
                    self._row(RowKind.USAGE, key).lost_cost += lost_cost
            elif part.balance.capacity or part.balance.held:
                self.unpriced.add(pair)
        self._show_time(found, resource)
        if version.by_quota:
            self._charge_quota(found, parts, resource, version)
            return
        idles = [part.balance.idle for _, part in parts]
        owners = share_by_owner(idles, found.quotas)
        for (price, part), owned in zip(parts, owners, strict=True):
            self._charge_usage(part, resource, price, self._share(part, found, owned))

    def _show_time(self, found: Slice[str], resource: str) -> None:
        for key, cell in found.cells.items():
            row = self._row(RowKind.USAGE, key)
            add(row.held, resource, cell.held)
            add(row.borrowed, resource, cell.borrowed)
            add(row.lost, resource, cell.lost)
            add(row.waiting, resource, cell.waiting)
            add(row.observed, resource, cell.observed)
            add(row.busy, resource, cell.busy)
        if self.by == QUEUE and self.keep is None:
            for queue, quantity in found.quotas.lent.items():
                add(self._row(RowKind.USAGE, queue).lent, resource, quantity)
            for queue, quantity in found.quotas.nominal.items():
                if quantity:
                    add(self._row(RowKind.USAGE, queue).nominal, resource, quantity)

    def _charge_usage(
        self, found: Slice[str], resource: str, price: Price | None, of_idle: _Shared
    ) -> None:
        for key, cell in found.cells.items():
            self._charge(self._row(RowKind.USAGE, key), resource, cell.held, price)
        shared, idle = of_idle
        for key, quantity in shared.items():
            if quantity:
                row = self._row(RowKind.USAGE, key)
                add(row.idle, resource, quantity)
                self._charge(row, resource, quantity, price)
                if price is not None:
                    row.idle_cost += price.micros_per_unit * quantity
        nobodys = {RowKind.IDLE: idle}
        if self.keep is None:
            nobodys |= {
                RowKind.RESERVED: found.balance.reserved,
                RowKind.UNAVAILABLE: found.balance.unavailable,
                RowKind.OVERALLOCATED: -found.balance.overallocated,
            }
        for kind, quantity in nobodys.items():
            self._charge_nobody(kind, resource, quantity, price)

    def _share(self, part: Slice[str], found: Slice[str], owned: _Shared) -> _Shared:
        """Who pays for the idle time of a part, in proportion to all that was found."""
        idle = part.balance.idle
        match self.rules.idle:
            case IdlePolicy.NONE:
                return {}, 0
            case IdlePolicy.ROW if self.keep is None:
                return {}, idle
            case IdlePolicy.ROW:
                return {}, split(idle, [sum(found.held.values()), found.others])[0]
            case IdlePolicy.PROPORTIONAL:
                shared, left = share(idle, found.held, found.others)
            case IdlePolicy.NODE:
                idle_on = {node: of_node.idle for node, of_node in part.balance_on.items()}
                shared, left = share_by_node(idle, idle_on, part.held_on, part.others_on)
            case IdlePolicy.OWNER:
                shared, left = owned
        return shared, left if self.keep is None else 0

    def _charge_quota(
        self, found: Slice[str], parts: _Parts, resource: str, version: PolicyVersion
    ) -> None:
        """Quota is of a flavor and paid at its price; usage is on nodes and paid at theirs."""
        rest = [part.balance.capacity for _, part in parts]
        for queue, paid in charged(found.held, found.quotas, version).items():
            row = self._row(RowKind.USAGE, queue)
            usage = not version.terms_of(queue).by_quota
            of_flavor = sum(paid.values()) - (paid[HELD] if usage else 0)
            for place, (price, part) in enumerate(parts):
                on_nodes = part.held.get(queue, 0) if usage else 0
                quantity = on_nodes + (0 if place else of_flavor)
                self._charge(row, resource, quantity, price)
                rest[place] -= quantity
        for (price, _), quantity in zip(parts, rest, strict=True):
            self._charge_nobody(RowKind.UNCOMMITTED, resource, quantity, price)

    def _charge_nobody(
        self, kind: RowKind, resource: str, quantity: int, price: Price | None
    ) -> None:
        if quantity:
            row = self._row(kind, f"__{kind}__")
            if kind is not RowKind.UNCOMMITTED:
                add(row.held, resource, quantity)
            self._charge(row, resource, quantity, price)

    def _row(self, kind: RowKind, key: str) -> Row:
        return self.rows.setdefault((kind, key), Row(key=key, kind=kind))

    def _charge(self, row: Row, resource: str, quantity: int, price: Price | None) -> None:
        if not quantity:
            return
        add(row.charged, resource, quantity)
        if price is None:
            add(row.unpriced, resource, quantity)
        else:
            row.priced = True
            if price.hourly:
                row.cost += price.micros_per_unit * quantity

    def finish(self, window: Window, *, has_open: bool) -> Table:
        """Round once and sort."""
        order = list(RowKind)
        rows = sorted(self.rows.values(), key=lambda row: (order.index(row.kind), row.key))
        micros, total = round_rows([row.cost for row in rows])
        for row, amount in zip(rows, micros, strict=True):
            row.cost_micros = amount if row.priced or not row.unpriced else None
        return Table(
            by=self.by,
            window=window,
            currency=self.prices.currency,
            rows=tuple(rows),
            total_micros=total,
            capacity_cost=self.capacity_cost,
            unpriced=tuple(sorted(self.unpriced)),
            has_open=has_open,
        )
