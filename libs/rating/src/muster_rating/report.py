"""Cost tables: who used what, what it cost, and what nobody used.

Everything is exact until the table is complete; then its money is rounded once, so that the rows
sum to the total to the last micro-unit. In time and in money what rows are charged for sums to
capacity x price x time, whatever the dimension, the idle policy and the charging basis.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from muster_domain.money import ChargingBasis, IdlePolicy, nearest, round_rows, split
from muster_rating.attempts import Attempt, Owner, Pair, settled
from muster_rating.borrowing import loans
from muster_rating.capacity import CapacitySpan
from muster_rating.catalogs import Catalog, QueueQuota, quota_windows
from muster_rating.charging import (
    Quotas,
    Rules,
    checked,
    committed,
    share,
    share_by_node,
    share_by_owner,
)
from muster_rating.dimensions import QUEUE, KeyOf, key_of
from muster_rating.holdings import Holding, holdings_by_pair
from muster_rating.metering import Balance, balance, idle_by_node, seats_of
from muster_rating.prices import Price, PriceBook
from muster_rating.windows import Window

BY_USAGE = Rules()


class RowKind(StrEnum):
    """Whose time a row is; all but USAGE belong to nobody.

    UNCOMMITTED is capacity that no quota pays for, on the basis of quota only. It is negative where
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
    """Everything that was metered: attempts, capacity and what was declared, in order of time."""

    attempts: tuple[Attempt, ...]
    capacity: tuple[CapacitySpan, ...]
    catalogs: tuple[Catalog, ...] = ()


@dataclass(slots=True, kw_only=True)
class Row:
    """Milli-unit-milliseconds by resource, and the exact cost in micro-units of the currency.

    `charged` is what is paid for: `held` and `idle`, the shared part of what nobody held, on the
    basis of usage. `borrowed` and `lost` are parts of `held`; `waiting`, `lent` and `nominal` are
    not. `unpriced` is the part of `charged` that has no price; `cost` is that of the rest.
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
    rules: Rules = BY_USAGE,
) -> Table:
    """Cost by one dimension over a window. Raises `InvalidValue` for what cannot be asked.

    With `keep`, only those owners' rows are shown and idle is the part that their share of the
    usage would carry; other rows that are nobody's are left out.
    """
    checked(rules, by, filtered=keep is not None)
    attempts = tuple(settled(books.attempts))
    builder = _Builder(prices=prices, by=by, key=key_of(by), keep=keep, rules=rules)
    holdings = holdings_by_pair(attempts)
    spans = _spans_by_pair(books.capacity)
    for pair in sorted({*holdings, *spans}):
        of_pair = [h for h in holdings.get(pair, ()) if window.overlap_ms(h.reserved_ms, h.end_ms)]
        capacity = [s for s in spans.get(pair, ()) if window.overlap_ms(s.start_ms, s.end_ms)]
        for rated in prices.windows(*pair, window):
            found = _Slice(balance=balance(pair, of_pair, capacity, rated.window))
            for part, quotas in quota_windows(books.catalogs, pair, rated.window):
                builder.measure(found, pair, of_pair, part, quotas)
            if rules.idle is IdlePolicy.NODE:
                found.idle_on = idle_by_node(pair, of_pair, capacity, rated.window)
                builder.measure_nodes(found, pair, of_pair, rated.window)
            builder.add(found, pair, rated.price)
    return builder.finish(window, has_open=any(attempt.is_open for attempt in attempts))


def _spans_by_pair(spans: Iterable[CapacitySpan]) -> dict[Pair, list[CapacitySpan]]:
    found: dict[Pair, list[CapacitySpan]] = {}
    for span in spans:
        found.setdefault((span.flavor, span.resource), []).append(span)
    return found


@dataclass(slots=True)
class _Cell:
    held: int = 0
    borrowed: int = 0
    lost: int = 0
    waiting: int = 0


@dataclass(slots=True, kw_only=True)
class _Slice:
    """One pair while one price held: where the capacity went, and who had the held part."""

    balance: Balance
    cells: dict[str, _Cell] = field(default_factory=dict[str, _Cell])
    quotas: Quotas = field(default_factory=Quotas)
    idle_on: dict[str, int] = field(default_factory=dict[str, int])
    held_on: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    others_on: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def held(self) -> dict[str, int]:
        """What each key held."""
        return {key: cell.held for key, cell in self.cells.items()}

    @property
    def others(self) -> int:
        """What was held by those that the table does not show."""
        return self.balance.held - sum(cell.held for cell in self.cells.values())


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
        self,
        into: _Slice,
        pair: Pair,
        holdings: list[Holding],
        window: Window,
        quotas: Mapping[str, QueueQuota],
    ) -> None:
        """Add what owners had in a part of the slice in which quotas stay the same."""
        found = loans(holdings, quotas, window)
        for holding in holdings:
            if self.keep is not None and not self.keep(holding.owner):
                continue
            held, waiting = holding.held(window), holding.waiting(window)
            if not held and not waiting:
                continue
            attempt = holding.attempt
            borrowed = found.borrowed.get(attempt.key, 0)
            cell = into.cells.setdefault(self.key(attempt, holding.owner, pair[0]), _Cell())
            cell.held += held
            cell.waiting += waiting
            cell.lost += held if attempt.was_preempted else 0
            cell.borrowed += borrowed
            _add(into.quotas.borrowed, holding.owner.cluster_queue, borrowed)
        for told, added in (
            (into.quotas.lent, found.lent),
            (into.quotas.nominal, found.nominal),
            (into.quotas.unused, found.unused),
        ):
            for queue, quantity in added.items():
                _add(told, queue, quantity)

    def measure_nodes(
        self, into: _Slice, pair: Pair, holdings: list[Holding], window: Window
    ) -> None:
        """Add what was held on each node, by key."""
        for holding in holdings:
            shown = self.keep is None or self.keep(holding.owner)
            key = self.key(holding.attempt, holding.owner, pair[0])
            held_ms = window.overlap_ms(holding.seated_ms or 0, holding.end_ms)
            for node, quantity in seats_of(holding, pair):
                if shown:
                    _add(into.held_on.setdefault(node, {}), key, quantity * held_ms)
                else:
                    _add(into.others_on, node, quantity * held_ms)

    def add(self, found: _Slice, pair: Pair, price: Price | None) -> None:
        """Price a slice and add it to the rows."""
        resource = pair[1]
        if price is not None:
            self.capacity_cost += price.micros_per_unit * found.balance.capacity
        elif found.balance.capacity or found.balance.held:
            self.unpriced.add(pair)
        for key, cell in found.cells.items():
            row = self._row(RowKind.USAGE, key)
            _add(row.held, resource, cell.held)
            _add(row.borrowed, resource, cell.borrowed)
            _add(row.lost, resource, cell.lost)
            _add(row.waiting, resource, cell.waiting)
            if price is not None:
                row.lost_cost += price.micros_per_unit * cell.lost
        if self.by == QUEUE and self.keep is None:
            for queue, quantity in found.quotas.lent.items():
                _add(self._row(RowKind.USAGE, queue).lent, resource, quantity)
            for queue, quantity in found.quotas.nominal.items():
                if quantity:
                    _add(self._row(RowKind.USAGE, queue).nominal, resource, quantity)
        if self.rules.basis is ChargingBasis.USAGE:
            self._charge_usage(found, resource, price)
        else:
            self._charge_quota(found, resource, price)

    def _charge_usage(self, found: _Slice, resource: str, price: Price | None) -> None:
        for key, cell in found.cells.items():
            self._charge(self._row(RowKind.USAGE, key), resource, cell.held, price)
        shared, idle = self._share(found)
        for key, quantity in shared.items():
            if quantity:
                row = self._row(RowKind.USAGE, key)
                _add(row.idle, resource, quantity)
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

    def _share(self, found: _Slice) -> tuple[dict[str, int], int]:
        idle = found.balance.idle
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
                shared, left = share_by_node(idle, found.idle_on, found.held_on, found.others_on)
            case IdlePolicy.OWNER:
                shared, left = share_by_owner(idle, found.quotas)
        return shared, left if self.keep is None else 0

    def _charge_quota(self, found: _Slice, resource: str, price: Price | None) -> None:
        charged = committed(found.quotas, self.rules)
        for queue, quantity in charged.items():
            self._charge(self._row(RowKind.USAGE, queue), resource, quantity, price)
        rest = found.balance.capacity - sum(charged.values())
        self._charge_nobody(RowKind.UNCOMMITTED, resource, rest, price)

    def _charge_nobody(
        self, kind: RowKind, resource: str, quantity: int, price: Price | None
    ) -> None:
        if quantity:
            row = self._row(kind, f"__{kind}__")
            if kind is not RowKind.UNCOMMITTED:
                _add(row.held, resource, quantity)
            self._charge(row, resource, quantity, price)

    def _row(self, kind: RowKind, key: str) -> Row:
        return self.rows.setdefault((kind, key), Row(key=key, kind=kind))

    def _charge(self, row: Row, resource: str, quantity: int, price: Price | None) -> None:
        if not quantity:
            return
        _add(row.charged, resource, quantity)
        if price is None:
            _add(row.unpriced, resource, quantity)
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


def _add(quantities: dict[str, int], resource: str, quantity: int) -> None:
    if quantity:
        quantities[resource] = quantities.get(resource, 0) + quantity
