"""Charges: every hour of capacity of a period on exactly one line, with its price and its owner.

What an attempt held is split into what was inside its queue's own quota and what was borrowed, and
wherever the price changes. A queue that pays by quota has lines for what it left unused and for
what it lent; what it does not pay for of that which it borrowed has none. A loan that costs more or
less than its time has a surcharge on a line of its own. What nobody held, or where queues pay by
quota what nobody pays for, has lines of its own, so the lines of a period sum to capacity x price x
time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from muster_domain.money import ChargingBasis, round_rows, split
from muster_domain.selectors import Labels
from muster_rating.attempts import Pair, settled
from muster_rating.borrowing import loans
from muster_rating.capacity import CapacitySpan
from muster_rating.catalogs import quota_windows
from muster_rating.charging import LENT, SURCHARGE, UNUSED, Quotas, charged
from muster_rating.holdings import Holding, holdings_by_pair
from muster_rating.metering import EMPTY, Balance, balance, balances_by_node
from muster_rating.observations import Observations, observed_of
from muster_rating.policies import PolicyVersion, policy_windows
from muster_rating.prices import ALWAYS_MS, Price, PriceBook, RatedWindow
from muster_rating.report import Books, RowKind
from muster_rating.scopes import PricedPart, by_price, rated_windows
from muster_rating.slices import add, add_all
from muster_rating.windows import Window

NOMINAL, BORROWED = "nominal", "borrowed"

ChargeKey = tuple[str, str, int, str, str, str, int]
"""(kind, workload id or queue, attempt, class, flavor, resource, start of the price)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One line. `quantity` is milli-units times milliseconds; `hourly` is the price for `per`.

    `klass` tells usage inside the queue's quota from what was borrowed, from quota that the queue
    pays for and left unused, from what it gets back for having lent, and from what a loan costs
    above its time. It was held at times within `[start_ms, end_ms)`. Lines of what nobody held have
    no owner. `pool` is whose price it is, if not the flavor's. Of what was held, `observed` was
    looked at, and devices worked in `busy` of that; neither is owed, nor part of what a line is.
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
    pool: str = ""
    observed: int = 0
    busy: int = 0

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
            f"{self.flavor}@{self.pool}" if self.pool else self.flavor,
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
        if not held and pair not in spans:
            continue  # quota of what was not there and nobody held is not paid for
        for rated in rated_windows(prices, pair, spans.get(pair, ()), window):
            for part, version in policy_windows(policy, rated.window):
                stretch = replace(rated, window=part)
                for charge in _of_pair(books, pair, held, spans.get(pair, ()), stretch, version):
                    key = charge.key
                    rate = Fraction(0) if charge.hourly is None else _rate(charge)
                    drafts[key] = _joined(drafts[key], charge) if key in drafts else charge
                    costs[key] = costs.get(key, Fraction(0)) + rate * charge.quantity
    order = sorted(drafts)
    micros, _ = round_rows([costs[key] for key in order])
    return tuple(
        replace(drafts[key], micros=amount) for key, amount in zip(order, micros, strict=True)
    )


def _joined(before: Charge, after: Charge) -> Charge:
    """One line of two stretches with one price, on either side of a change of the policy."""
    return replace(
        before,
        quantity=before.quantity + after.quantity,
        end_ms=after.end_ms,
        observed=before.observed + after.observed,
        busy=before.busy + after.busy,
    )


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
        found = loans(held, of_part, part, version)
        add_all(borrowed, found.borrowed)
        add_all(quotas.lent, found.lent)
        add_all(quotas.unused, found.unused)
    for holding in held:
        add(quotas.borrowed, holding.owner.cluster_queue, borrowed.get(holding.attempt.key, 0))
    parts = by_price(pair, held, spans, rated)
    lines = [
        line
        for holding in held
        for line in _watched(
            books.observations,
            holding,
            pair,
            window,
            list(_of_attempt(holding, pair, borrowed, _shares(holding, parts, rated, version))),
        )
    ]
    paid = charged({}, quotas, version)
    lines += _of_quota(pair, paid, rated)
    lines += _surcharges(pair, held, borrowed, paid, rated)
    yield from lines
    reserved = balance(pair, held, spans, window).reserved
    totals = _totals(pair, held, spans, rated, parts)
    kept = split(reserved, [total.idle + total.reserved for total in totals])
    for part, total, of_gangs in zip(parts, totals, kept, strict=True):
        pool = "" if part.price is None else part.price.pool
        rest = total.capacity - sum(line.quantity for line in lines if line.pool == pool)
        free = total.idle + total.reserved - of_gangs
        balanced = replace(total, idle=free, reserved=of_gangs)
        for kind, quantity in _nobodys(balanced, rest, version).items():
            if quantity:
                yield _charge(kind, pair, quantity, RatedWindow(window, part.price), window)


def _totals(
    pair: Pair,
    held: Sequence[Holding],
    spans: Sequence[CapacitySpan],
    rated: RatedWindow,
    parts: Sequence[PricedPart],
) -> list[Balance]:
    """Where the capacity at each price went; at several, of each node by itself."""
    if len(parts) == 1:
        return [balance(pair, held, spans, rated.window)]
    on_nodes = balances_by_node(pair, held, spans, rated.window)
    return [
        sum((of for node, of in on_nodes.items() if rated.price_on(node) is part.price), EMPTY)
        for part in parts
    ]


def _shares(
    holding: Holding, parts: Sequence[PricedPart], rated: RatedWindow, version: PolicyVersion
) -> list[tuple[RatedWindow, int, bool]]:
    """What was held at each price, and whether what was borrowed of it is charged.

    Quota is of a flavor and paid at its price; usage is on nodes and paid at theirs.
    """
    terms, window = version.terms_of(holding.owner.cluster_queue), rated.window
    pays_loan = terms.basis is not ChargingBasis.COMMITMENT
    if terms.by_quota or len(parts) == 1:
        return [(rated, holding.held(window), pays_loan)]
    return [
        (RatedWindow(window, part.price), mine.held(window), pays_loan)
        for part in parts
        for mine in part.holdings
        if mine.attempt.key == holding.attempt.key
    ]


def _of_attempt(
    holding: Holding,
    pair: Pair,
    borrowed: Mapping[tuple[str, int], int],
    shares: Sequence[tuple[RatedWindow, int, bool]],
) -> Iterator[Charge]:
    quantities = [quantity for _, quantity, _ in shares]
    above = min(sum(quantities), borrowed.get(holding.attempt.key, 0))
    for (rated, quantity, pays_loan), loan in zip(shares, split(above, quantities), strict=True):
        for klass, part in ((NOMINAL, quantity - loan), (BORROWED, loan if pays_loan else 0)):
            if part:
                yield _of_holding(holding, pair, klass, part, rated)


def _watched(
    observations: Observations, holding: Holding, pair: Pair, window: Window, lines: list[Charge]
) -> list[Charge]:
    """The lines of an attempt with their part of what was observed of it."""
    seen = list(observed_of(observations, holding, pair, window)) if observations else []
    if not seen:
        return lines
    weights = [line.quantity for line in lines]
    observed = split(sum(one.observed for one in seen), weights)
    busy = split(sum(one.busy for one in seen), weights)
    return [
        replace(line, observed=of, busy=worked)
        for line, of, worked in zip(lines, observed, busy, strict=True)
    ]


def _rate(charge: Charge) -> Fraction:
    price = Price(
        flavor="", resource="", hourly=charge.hourly or Fraction(0), per_milli=charge.per_milli
    )
    return price.micros_per_unit


def _of_quota(
    pair: Pair, paid: Mapping[str, Mapping[str, int]], rated: RatedWindow
) -> Iterator[Charge]:
    for queue, parts in paid.items():
        for klass in (UNUSED, LENT):
            quantity = parts.get(klass, 0)
            if quantity:
                line = _charge(RowKind.USAGE, pair, quantity, rated, rated.window)
                yield replace(line, klass=klass, cluster_queue=queue)


def _surcharges(
    pair: Pair,
    held: Sequence[Holding],
    borrowed: Mapping[tuple[str, int], int],
    paid: Mapping[str, Mapping[str, int]],
    rated: RatedWindow,
) -> Iterator[Charge]:
    """What a queue pays above the time of its loans, by who holds them."""
    for queue, parts in paid.items():
        total = parts.get(SURCHARGE, 0)
        debtors = [
            holding
            for holding in held
            if holding.owner.cluster_queue == queue and borrowed.get(holding.attempt.key)
        ]
        shares = split(abs(total), [borrowed[holding.attempt.key] for holding in debtors])
        for holding, share in zip(debtors, shares, strict=True):
            if share:
                quantity = share if total > 0 else -share
                yield _of_holding(holding, pair, SURCHARGE, quantity, rated)


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
        pool="" if price is None else price.pool,
    )
