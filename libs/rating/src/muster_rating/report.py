"""Cost tables: who used what, what it cost, and what nobody used.

Everything is exact until the table is complete; then its money is rounded once, so that the rows
sum to the total to the last micro-unit. In time and in money the rows sum to capacity x price x
time, whatever the dimension.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from muster_domain.money import nearest, round_rows, split
from muster_rating.attempts import Attempt, Owner, Pair, settled
from muster_rating.borrowing import loans
from muster_rating.capacity import CapacitySpan
from muster_rating.catalogs import Catalog, QueueQuota, quota_windows
from muster_rating.dimensions import QUEUE, KeyOf, key_of
from muster_rating.holdings import Holding, holdings_by_pair
from muster_rating.metering import Balance, balance
from muster_rating.prices import Price, PriceBook
from muster_rating.windows import Window


class RowKind(StrEnum):
    """Whose time a row is; all but USAGE belong to nobody. Only OVERALLOCATED is negative."""

    USAGE = "usage"
    IDLE = "idle"
    RESERVED = "reserved"
    UNAVAILABLE = "unavailable"
    OVERALLOCATED = "overallocated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Everything that was metered: attempts, capacity and what was declared, in order of time."""

    attempts: tuple[Attempt, ...]
    capacity: tuple[CapacitySpan, ...]
    catalogs: tuple[Catalog, ...] = ()


@dataclass(slots=True, kw_only=True)
class Row:
    """Milli-unit-milliseconds by resource, and the exact cost in micro-units of the currency.

    `held` is what is charged; `borrowed` and `lost` are parts of it, `waiting` and `lent` are not.
    `unpriced` is the part of `held` that has no price; `cost` is that of the rest.
    """

    key: str
    kind: RowKind
    held: dict[str, int] = field(default_factory=dict[str, int])
    borrowed: dict[str, int] = field(default_factory=dict[str, int])
    lost: dict[str, int] = field(default_factory=dict[str, int])
    waiting: dict[str, int] = field(default_factory=dict[str, int])
    lent: dict[str, int] = field(default_factory=dict[str, int])
    unpriced: dict[str, int] = field(default_factory=dict[str, int])
    cost: Fraction = Fraction(0)
    lost_cost: Fraction = Fraction(0)
    priced: bool = False
    cost_micros: int | None = None

    @property
    def lost_cost_micros(self) -> int:
        """The part of the cost that went into preempted attempts, never above it."""
        return min(nearest(self.lost_cost), self.cost_micros or 0) if self.lost else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A finished table. `rows` are sorted: usage by key, then what belongs to nobody.

    `total_micros` is the sum of the rows. `capacity_cost` is capacity x price x time, computed
    apart; it equals the exact sum of the rows unless the table was filtered.
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
) -> Table:
    """Cost by one dimension over a window. Raises `InvalidValue` for an unknown dimension.

    With `keep`, only those owners' rows are shown and the idle row is the part that their share of
    the usage would carry; other rows that are nobody's are left out.
    """
    attempts = tuple(settled(books.attempts))
    builder = _Builder(prices=prices, by=by, key=key_of(by), keep=keep)
    holdings = holdings_by_pair(attempts)
    spans = _spans_by_pair(books.capacity)
    for pair in sorted({*holdings, *spans}):
        of_pair = [h for h in holdings.get(pair, ()) if window.overlap_ms(h.reserved_ms, h.end_ms)]
        capacity = [s for s in spans.get(pair, ()) if window.overlap_ms(s.start_ms, s.end_ms)]
        for rated in prices.windows(*pair, window):
            found = _Slice(balance=balance(pair, of_pair, capacity, rated.window))
            for part, quotas in quota_windows(books.catalogs, pair, rated.window):
                builder.measure(found, pair, of_pair, part, quotas)
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
    lent: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(slots=True, kw_only=True)
class _Builder:
    prices: PriceBook
    by: str
    key: KeyOf
    keep: Callable[[Owner], bool] | None
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
            cell = into.cells.setdefault(self.key(attempt, holding.owner, pair[0]), _Cell())
            cell.held += held
            cell.waiting += waiting
            cell.lost += held if attempt.was_preempted else 0
            cell.borrowed += found.borrowed.get(attempt.key, 0)
        if self.by == QUEUE and self.keep is None:
            for queue, quantity in found.lent.items():
                _add(into.lent, queue, quantity)

    def add(self, found: _Slice, pair: Pair, price: Price | None) -> None:
        """Price a slice and add it to the rows."""
        resource = pair[1]
        if price is not None:
            self.capacity_cost += price.micros_per_unit * found.balance.capacity
        elif found.balance.capacity or found.balance.held:
            self.unpriced.add(pair)
        for key, cell in found.cells.items():
            row = self._row(RowKind.USAGE, key)
            self._charge(row, resource, cell.held, price)
            _add(row.borrowed, resource, cell.borrowed)
            _add(row.lost, resource, cell.lost)
            _add(row.waiting, resource, cell.waiting)
            if price is not None:
                row.lost_cost += price.micros_per_unit * cell.lost
        for queue, quantity in found.lent.items():
            _add(self._row(RowKind.USAGE, queue).lent, resource, quantity)
        for kind, quantity in self._nobodys(found).items():
            if quantity:
                self._charge(self._row(kind, f"__{kind}__"), resource, quantity, price)

    def _nobodys(self, found: _Slice) -> dict[RowKind, int]:
        nobodys = found.balance
        if self.keep is None:
            return {
                RowKind.IDLE: nobodys.idle,
                RowKind.RESERVED: nobodys.reserved,
                RowKind.UNAVAILABLE: nobodys.unavailable,
                RowKind.OVERALLOCATED: -nobodys.overallocated,
            }
        kept = sum(cell.held for cell in found.cells.values())
        return {RowKind.IDLE: split(nobodys.idle, [kept, nobodys.held - kept])[0]}

    def _row(self, kind: RowKind, key: str) -> Row:
        return self.rows.setdefault((kind, key), Row(key=key, kind=kind))

    def _charge(self, row: Row, resource: str, quantity: int, price: Price | None) -> None:
        if not quantity:
            return
        _add(row.held, resource, quantity)
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
