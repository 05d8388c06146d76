"""Charges: every hour of capacity of a period on exactly one line, with its price and its owner.

What an attempt held is split into what was inside its queue's own quota and what was borrowed, and
wherever the price changes. What nobody held has lines of its own, so the lines of a period sum to
capacity x price x time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from muster_domain.money import round_rows
from muster_domain.selectors import Labels
from muster_rating.attempts import Pair, settled
from muster_rating.borrowing import loans
from muster_rating.capacity import CapacitySpan
from muster_rating.catalogs import quota_windows
from muster_rating.holdings import Holding, holdings_by_pair
from muster_rating.metering import balance
from muster_rating.prices import ALWAYS_MS, PriceBook, RatedWindow
from muster_rating.report import Books, RowKind
from muster_rating.windows import Window

NOMINAL, BORROWED = "nominal", "borrowed"

ChargeKey = tuple[str, str, int, str, str, str, int]
"""(kind, workload id, attempt, class, flavor, resource, start of the price)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One line. `quantity` is milli-units times milliseconds; `hourly` is the price for `per`.

    `klass` tells usage inside the queue's quota from what was borrowed. It was held at times within
    `[start_ms, end_ms)`. Lines of what nobody held have no owner.
    """

    kind: RowKind
    flavor: str
    resource: str
    quantity: int
    start_ms: int
    end_ms: int
    hourly: Fraction | None
    per_milli: int
    per: str
    price_from_ms: int
    micros: int
    workload_id: str = ""
    attempt: int = 0
    klass: str = ""
    namespace: str = ""
    workload: str = ""
    cluster_queue: str = ""
    team: str = ""
    user: str = ""
    labels: Labels = field(default_factory=dict[str, str])

    @property
    def key(self) -> ChargeKey:
        """What is charged: two charges of one key are one charge that changed."""
        return (
            str(self.kind),
            self.workload_id,
            self.attempt,
            self.klass,
            self.flavor,
            self.resource,
            self.price_from_ms,
        )


def charges(books: Books, prices: PriceBook, window: Window) -> tuple[Charge, ...]:
    """All charges of a window, by key; their micros sum to the exact total, rounded once."""
    attempts = tuple(settled(books.attempts))
    holdings = holdings_by_pair(attempts)
    spans: dict[Pair, list[CapacitySpan]] = {}
    for span in books.capacity:
        spans.setdefault((span.flavor, span.resource), []).append(span)
    drafts: list[Charge] = []
    costs: list[Fraction] = []
    for pair in sorted({*holdings, *spans}):
        held = [h for h in holdings.get(pair, ()) if window.overlap_ms(h.reserved_ms, h.end_ms)]
        for rated in prices.windows(*pair, window):
            for charge in _of_pair(books, pair, held, spans.get(pair, ()), rated):
                drafts.append(charge)
                rate = rated.price.micros_per_unit if rated.price is not None else Fraction(0)
                costs.append(rate * charge.quantity)
    order = sorted(range(len(drafts)), key=lambda place: drafts[place].key)
    micros, _ = round_rows([costs[place] for place in order])
    return tuple(
        replace(drafts[place], micros=amount) for place, amount in zip(order, micros, strict=True)
    )


def _of_pair(
    books: Books,
    pair: Pair,
    held: Sequence[Holding],
    spans: Sequence[CapacitySpan],
    rated: RatedWindow,
) -> Iterator[Charge]:
    window = rated.window
    borrowed: dict[tuple[str, int], int] = {}
    for part, quotas in quota_windows(books.catalogs, pair, window):
        for key, quantity in loans(held, quotas, part).borrowed.items():
            borrowed[key] = borrowed.get(key, 0) + quantity
    for holding in held:
        quantity = holding.held(window)
        above = min(quantity, borrowed.get(holding.attempt.key, 0))
        for klass, part in ((NOMINAL, quantity - above), (BORROWED, above)):
            if part:
                yield _of_holding(holding, pair, klass, part, rated)
    found = balance(pair, held, spans, window)
    for kind, quantity in (
        (RowKind.IDLE, found.idle),
        (RowKind.RESERVED, found.reserved),
        (RowKind.UNAVAILABLE, found.unavailable),
        (RowKind.OVERALLOCATED, -found.overallocated),
    ):
        if quantity:
            yield _charge(kind, pair, quantity, rated, window)


def _of_holding(
    holding: Holding, pair: Pair, klass: str, quantity: int, rated: RatedWindow
) -> Charge:
    part = rated.window.clip(holding.seated_ms or 0, holding.end_ms)
    owner = holding.owner
    return replace(
        _charge(RowKind.USAGE, pair, quantity, rated, part),
        workload_id=holding.attempt.workload_id,
        attempt=holding.attempt.number,
        klass=klass,
        namespace=owner.namespace,
        workload=owner.workload,
        cluster_queue=owner.cluster_queue,
        team=owner.team,
        user=owner.user,
        labels=dict(owner.labels),
    )


def _charge(kind: RowKind, pair: Pair, quantity: int, rated: RatedWindow, part: Window) -> Charge:
    price = rated.price
    return Charge(
        kind=kind,
        flavor=pair[0],
        resource=pair[1],
        quantity=quantity,
        start_ms=part.start_ms,
        end_ms=part.end_ms,
        hourly=None if price is None else price.hourly,
        per_milli=1000 if price is None else price.per_milli,
        per="1" if price is None else price.per,
        price_from_ms=ALWAYS_MS if price is None else price.effective_from_ms,
        micros=0,
    )
