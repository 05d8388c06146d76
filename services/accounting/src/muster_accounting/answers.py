"""What accounting answers: cost reports and the price list."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from muster_contracts.queries import (
    CostLine,
    CostLineKind,
    CostQuestion,
    CostReport,
    PriceList,
    PriceRow,
)
from muster_domain.money import format_decimal
from muster_rating.attempts import Owner
from muster_rating.charging import Rules
from muster_rating.dimensions import QUEUE
from muster_rating.policies import PolicyVersion, for_all, policy_windows, versions_in
from muster_rating.prices import ALWAYS_MS, PriceBook
from muster_rating.report import Books, Row, RowKind, Table, cost_table
from muster_rating.windows import Window, asked_window

TOTAL = "__total__"
IDLE = "__idle__"
HOURLY_PLACES = 12


def rules_of(question: CostQuestion, policy: Sequence[PolicyVersion]) -> Rules:
    """How a question is to be charged, `policy` being what is declared."""
    if question.by_policy:
        return Rules(idle=question.idle, policy=tuple(policy))
    terms = for_all(question.basis, question.lender_credit_percent, policy)
    return Rules(idle=question.idle, policy=terms)


def cost_report(
    question: CostQuestion, rules: Rules, books: Books, prices: PriceBook, through_ms: int
) -> CostReport:
    """The report that was asked for, counted up to `through_ms`. Raises `InvalidValue`."""
    asked = asked_window(question.start_ms, question.end_ms)
    window = Window(asked.start_ms, max(asked.start_ms, min(asked.end_ms, through_ms)))
    table = cost_table(books, prices, window, question.by, _only(question.namespaces), rules)
    rows = [row for row in table.rows if row.kind is not RowKind.IDLE]
    in_force = versions_in(rules.policy, window)

    def basis_of(row: Row) -> str:
        if not question.by_policy or question.by != QUEUE or row.kind is not RowKind.USAGE:
            return ""
        versions = [version for _, version in policy_windows(rules.policy, window)]
        return ", ".join(dict.fromkeys(v.terms_of(row.key).basis for v in versions))

    idle = table.of_kind(RowKind.IDLE) or Row(key=IDLE, kind=RowKind.IDLE, cost_micros=0)
    return CostReport(
        by=question.by,
        start_ms=asked.start_ms,
        end_ms=asked.end_ms,
        currency=table.currency,
        lines=tuple(replace(_line(row), basis=basis_of(row)) for row in rows),
        idle=_line(idle),
        total=_total(table),
        complete_through_ms=window.end_ms,
        provisional=table.has_open or window.end_ms < asked.end_ms,
        unpriced=tuple(f"{flavor}/{resource}" for flavor, resource in table.unpriced),
        idle_policy=question.idle,
        basis=question.basis,
        by_policy=question.by_policy,
        policy=tuple(version.id for version in in_force) if question.by_policy else (),
    )


def _only(namespaces: tuple[str, ...]) -> Callable[[Owner], bool] | None:
    if not namespaces:
        return None
    wanted = frozenset(namespaces)
    return lambda owner: owner.namespace in wanted


def _line(row: Row) -> CostLine:
    return CostLine(
        key=row.key,
        kind=CostLineKind(row.kind),
        resource_time=_sorted(row.held),
        cost_micros=row.cost_micros,
        borrowed_time=_sorted(row.borrowed),
        lost_time=_sorted(row.lost),
        waiting_time=_sorted(row.waiting),
        lent_time=_sorted(row.lent),
        unpriced_time=_sorted(row.unpriced),
        lost_cost_micros=row.lost_cost_micros,
        charged_time=_sorted(row.charged),
        idle_time=_sorted(row.idle),
        idle_cost_micros=row.idle_cost_micros,
        nominal_time=_sorted(row.nominal),
        observed_time=_sorted(row.observed),
        busy_time=_sorted(row.busy),
    )


_TIMES = (
    *("held", "charged", "idle", "borrowed", "lost", "waiting", "lent", "nominal", "unpriced"),
    *("observed", "busy"),
)


def _total(table: Table) -> CostLine:
    summed = Row(key=TOTAL, kind=RowKind.USAGE)
    for row in table.rows:
        for name in _TIMES:
            into: dict[str, int] = getattr(summed, name)
            part: dict[str, int] = getattr(row, name)
            for resource, quantity in part.items():
                into[resource] = into.get(resource, 0) + quantity
    nothing_priced = bool(table.rows) and all(row.cost_micros is None for row in table.rows)
    return replace(
        _line(summed),
        kind=CostLineKind.TOTAL,
        cost_micros=None if nothing_priced else table.total_micros,
        lost_cost_micros=sum(row.lost_cost_micros for row in table.rows),
        idle_cost_micros=sum(row.idle_cost_micros for row in table.rows),
    )


def _sorted(quantities: Mapping[str, int]) -> dict[str, int]:
    return {resource: quantities[resource] for resource in sorted(quantities)}


def price_list(prices: PriceBook) -> PriceList:
    """Every price as it is applied and as it was written."""
    rows = sorted(
        prices.prices,
        key=lambda price: (price.flavor, price.pool, price.resource, price.effective_from_ms),
    )
    return PriceList(
        currency=prices.currency,
        rows=tuple(
            PriceRow(
                flavor=price.flavor,
                resource=price.resource,
                hourly=exact(price.hourly),
                per=price.per,
                currency=prices.currency,
                written=price.written,
                pool=price.pool,
                effective_from_ms=None
                if price.effective_from_ms == ALWAYS_MS
                else price.effective_from_ms,
            )
            for price in rows
        ),
    )


def exact(amount: Fraction) -> str:
    """An amount as text, exact or cut at 12 places."""
    text = format_decimal(amount, HOURLY_PLACES)
    return text.rstrip("0").rstrip(".") if "." in text else text
