"""Charges: every hour of capacity of a period on exactly one line, with its price and its owner.

What an attempt held is split into what was inside its queue's own quota and what was borrowed, and
wherever the price changes. A queue that pays by quota has lines for what it left unused and for
what it lent; what it does not pay for of that which it borrowed has none. What nobody held, or
where queues pay by quota what nobody pays for, has lines of its own, so the lines of a period sum
to capacity x price x time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from muster_domain.money import ChargingBasis, round_rows
from muster_domain.selectors import Labels
from muster_rating.attempts import Pair, settled
from muster_rating.borrowing import loans
from muster_rating.capacity import CapacitySpan
from muster_rating.catalogs import quota_windows
from muster_rating.charging import LENT, UNUSED, Quotas, charged
from muster_rating.holdings import Holding, holdings_by_pair
from muster_rating.metering import Balance, balance
from muster_rating.policies import PolicyVersion, policy_windows
from muster_rating.prices import ALWAYS_MS, PriceBook, RatedWindow
from muster_rating.report import Books, RowKind
from muster_rating.slices import add_all
from muster_rating.windows import Window

NOMINAL, BORROWED = "nominal", "borrowed"

ChargeKey = tuple[str, str, int, str, str, str, int]
"""(kind, workload id or queue, attempt, class, flavor, resource, start of the price)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One line. `quantity` is milli-units times milliseconds; `hourly` is the price for `per`.

    `klass` tells usage inside the queue's quota from what was borrowed, from quota that the queue
    pays for and left unused, and from what it gets back for having lent. It was held at times
    within `[start_ms, end_ms)`. Lines of what nobody held have no owner.
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
    def of_quota(self) -> bool:
        """Whether it is the queue's, and no workload's."""
        return self.klass in (UNUSED, LENT)

    @property
    def key(self) -> ChargeKey:
        """What is charged: two charges of one key are one charge that changed."""
        return (
            str(self.kind),
            f"ClusterQueue/{self.cluster_queue}" if self.of_quota else self.workload_id,
            self.attempt,
            self.klass,
            self.flavor,
            self.resource,
            self.price_from_ms,
        )


def charges(
    books: Books, prices: PriceBook, window: Window, policy: Sequence[PolicyVersion] = ()
) -> tuple[Charge, ...]:
    """All charges of a window, by key; their micros sum to the exact total, rounded once."""
    attempts = tuple(settled(books.attempts))
    holdings = holdings_by_pair(attempts)
    spans: dict[Pair, list[CapacitySpan]] = {}
    for span in books.capacity:
        spans.setdefault((span.flavor, span.resource), []).append(span)
    drafts: dict[ChargeKey, Charge] = {}
    costs: dict[ChargeKey, Fraction] = {}
    for pair in sorted({*holdings, *spans}):
        held = [h for h in holdings.get(pair, ()) if window.overlap_ms(h.reserved_ms, h.end_ms)]
        for rated in prices.windows(*pair, window):
            rate = rated.price.micros_per_unit if rated.price is not None else Fraction(0)
            for part, version in policy_windows(policy, rated.window):
                stretch = RatedWindow(part, rated.price)
                for charge in _of_pair(books, pair, held, spans.get(pair, ()), stretch, version):
                    key = charge.key
                    drafts[key] = _joined(drafts[key], charge) if key in drafts else charge
                    costs[key] = costs.get(key, Fraction(0)) + rate * charge.quantity
    order = sorted(drafts)
    micros, _ = round_rows([costs[key] for key in order])
    return tuple(
        replace(drafts[key], micros=amount) for key, amount in zip(order, micros, strict=True)
    )


def _joined(before: Charge, after: Charge) -> Charge:
    """One line of two stretches with one price, on either side of a change of the policy."""
    return replace(before, quantity=before.quantity + after.quantity, end_ms=after.end_ms)


def _of_pair(
    books: Books,
    pair: Pair,
    held: Sequence[Holding],
    spans: Sequence[CapacitySpan],
    rated: RatedWindow,
    version: PolicyVersion,
) -> Iterator[Charge]:
    window = rated.window
    borrowed: dict[tuple[str, int], int] = {}
    quotas = Quotas()
    for part, of_part in quota_windows(books.catalogs, pair, window):
        found = loans(held, of_part, part)
        add_all(borrowed, found.borrowed)
        add_all(quotas.lent, found.lent)
        add_all(quotas.unused, found.unused)
    lines: list[Charge] = []
    for holding in held:
        quantity = holding.held(window)
        above = min(quantity, borrowed.get(holding.attempt.key, 0))
        parts = {NOMINAL: quantity - above}
        if version.terms_of(holding.owner.cluster_queue).basis is not ChargingBasis.COMMITMENT:
            parts[BORROWED] = above
        lines += [_of_holding(holding, pair, klass, n, rated) for klass, n in parts.items() if n]
    lines += _of_quota(pair, quotas, rated, version)
    yield from lines
    total = balance(pair, held, spans, window)
    rest = total.capacity - sum(line.quantity for line in lines)
    for kind, quantity in _nobodys(total, rest, version).items():
        if quantity:
            yield _charge(kind, pair, quantity, rated, window)


def _of_quota(
    pair: Pair, quotas: Quotas, rated: RatedWindow, version: PolicyVersion
) -> Iterator[Charge]:
    for queue, parts in charged({}, quotas, version).items():
        for klass in (UNUSED, LENT):
            quantity = parts.get(klass, 0)
            if quantity:
                line = _charge(RowKind.USAGE, pair, quantity, rated, rated.window)
                yield replace(line, klass=klass, cluster_queue=queue)


def _nobodys(total: Balance, rest: int, version: PolicyVersion) -> dict[RowKind, int]:
    if version.by_quota:
        return {RowKind.UNCOMMITTED: rest}
    return {
        RowKind.IDLE: total.idle,
        RowKind.RESERVED: total.reserved,
        RowKind.UNAVAILABLE: total.unavailable,
        RowKind.OVERALLOCATED: -total.overallocated,
    }


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
