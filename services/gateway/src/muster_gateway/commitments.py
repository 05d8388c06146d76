"""Quota, as admission knows it, at the prices that accounting charges."""

from muster_contracts.commitments import CommitmentPage, CommitmentRow
from muster_contracts.queries import PriceList, QuotaPage
from muster_domain.money import parse_amount
from muster_domain.quantity import parse_quantity_milli
from muster_rating.commitments import Quota, commitments
from muster_rating.periods import MONTH, Period, month_of, period_at
from muster_rating.prices import ALWAYS_MS, Price, PriceBook


def period_asked(month: str, zone: str, now_ms: int) -> Period:
    """A month by its name, or the one after this. Raises `InvalidValue`."""
    if month:
        return month_of(month, zone)
    return period_at(MONTH, zone, period_at(MONTH, zone, now_ms).end_ms)


def commitment_page(
    quota: QuotaPage, silent: tuple[str, ...], listed: PriceList, period: Period
) -> CommitmentPage:
    """What every quota comes to in a period; it is of flavors, so no price of a pool counts."""
    cohorts = {row.cluster_queue: row.cohort for row in quota.rows}
    quotas = [
        Quota(
            cluster_queue=row.cluster_queue,
            flavor=row.flavor,
            resource=row.resource,
            nominal_milli=row.nominal_milli,
            ceiling_milli=row.max_milli,
            borrowed_milli=row.borrowed_milli,
        )
        for row in quota.rows
    ]
    found = commitments(quotas, _price_book(listed), period.window)
    rows = tuple(
        CommitmentRow(
            cluster_queue=one.quota.cluster_queue,
            cohort=cohorts[one.quota.cluster_queue],
            flavor=one.quota.flavor,
            resource=one.quota.resource,
            nominal_milli=one.quota.nominal_milli,
            ceiling_milli=one.quota.ceiling_milli,
            borrowed_milli=one.quota.borrowed_milli,
            committed_micros=one.committed_micros,
            ceiling_micros=one.ceiling_micros,
            loan_micros=one.loan_micros,
        )
        for one in found
    )
    without = {(row.flavor, row.resource) for row in rows if row.committed_micros is None}
    return CommitmentPage(
        period=period.id,
        starts_at_ms=period.start_ms,
        ends_at_ms=period.end_ms,
        currency=listed.currency,
        rows=rows,
        committed_micros=sum(row.committed_micros or 0 for row in rows),
        loan_micros=sum(row.loan_micros or 0 for row in rows),
        unpriced=tuple(f"{flavor}/{resource}" for flavor, resource in sorted(without)),
        silent=silent,
    )


def _price_book(listed: PriceList) -> PriceBook:
    return PriceBook(
        listed.currency,
        tuple(
            Price(
                flavor=row.flavor,
                resource=row.resource,
                hourly=parse_amount(row.hourly),
                per_milli=parse_quantity_milli(row.per),
                per=row.per,
                effective_from_ms=ALWAYS_MS
                if row.effective_from_ms is None
                else row.effective_from_ms,
            )
            for row in listed.rows
            if not row.pool
        ),
    )
