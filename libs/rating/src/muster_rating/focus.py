"""A statement as FOCUS 1.2 rows, one for each line.

Every line is a charge by usage: what was held, and what nobody held, at the price of its time. Of a
queue that pays by quota, quota is a capacity reservation whose unused part is a line, and what it
gets back for having lent is a credit; neither was consumed, nor was what a loan costs above its
time. A line that puts an earlier month right
is a correction and keeps that month's charge period. Costs
have six digits after the point and quantities twelve; the cost is never derived from the printed
quantity.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from muster_domain.money import MICROS, format_decimal
from muster_rating.charges import BORROWED, Charge
from muster_rating.charging import LENT, SURCHARGE, UNUSED
from muster_rating.periods import utc_text
from muster_rating.prices import ALWAYS_MS, HOUR_MS
from muster_rating.report import RowKind
from muster_rating.statements import Line, Statement

COLUMNS = (
    "AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName",
    "BillingAccountType", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
    "CapacityReservationId", "CapacityReservationStatus", "ChargeCategory", "ChargeClass",
    "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
    "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName",
    "CommitmentDiscountQuantity", "CommitmentDiscountStatus", "CommitmentDiscountType",
    "CommitmentDiscountUnit", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost",
    "ListUnitPrice", "PricingCategory", "PricingCurrency", "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice", "PricingQuantity",
    "PricingUnit", "ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId",
    "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory",
    "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName",
    "SubAccountType", "Tags", "x_Attempt", "x_ChargeClass", "x_ChargingPolicy", "x_Namespace",
    "x_Team", "x_User",
)  # fmt: skip
"""FOCUS's columns in order of their names, then Muster's own."""

_QUANTITY_PLACES = 12
_MONEY_PLACES = 6
_PRICE_PLACES = 12
_IN_GIB = ("memory", "ephemeral-storage")
_GIB_MILLI = 1000 * 2**30
_ONE_MILLI = 1000
_SECOND_MS = 1000


def focus_rows(statement: Statement, provider: str) -> Iterator[Mapping[str, str | None]]:
    """The rows of a statement, in its order; None is null."""
    for line in statement.lines:
        yield _row(statement, line, provider)


def unit_of(resource: str) -> str:
    """The unit in which hours of a resource are counted."""
    if resource in _IN_GIB:
        return "GiB-Hours"
    return "vCPU-Hours" if resource == "cpu" else "GPU-Hours"


def total_micros(rows: Iterable[Mapping[str, str | None]]) -> int:
    """The billed cost of rows."""
    billed = sum((Fraction(row["BilledCost"] or "0") for row in rows), Fraction(0)) * MICROS
    return billed.numerator // billed.denominator


def _row(statement: Statement, line: Line, provider: str) -> Mapping[str, str | None]:
    charge = line.charge
    period = statement.period
    money = format_decimal(Fraction(charge.micros, MICROS), _MONEY_PLACES)
    unit_milli = _GIB_MILLI if charge.resource in _IN_GIB else _ONE_MILLI
    quantity = format_decimal(Fraction(charge.quantity, HOUR_MS * unit_milli), _QUANTITY_PLACES)
    price = (
        None
        if charge.hourly is None
        else format_decimal(charge.hourly * Fraction(unit_milli, charge.per_milli), _PRICE_PLACES)
    )
    policy = " ".join(version.id for version in statement.policy)
    consumed = charge.klass not in (UNUSED, LENT, SURCHARGE)
    return {
        **dict.fromkeys(COLUMNS),
        "BilledCost": money,
        "BillingAccountId": provider,
        "BillingAccountName": provider,
        "BillingAccountType": "ClusterPool",
        "BillingCurrency": statement.currency,
        "BillingPeriodEnd": utc_text(period.end_ms),
        "BillingPeriodStart": utc_text(period.start_ms),
        "CapacityReservationId": _reservation(charge),
        "CapacityReservationStatus": "Unused" if charge.klass == UNUSED else None,
        "ChargeCategory": "Credit" if charge.klass == LENT else "Usage",
        "ChargeClass": "Correction" if line.corrects else None,
        "ChargeDescription": _description(charge),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": utc_text(max(charge.end_ms, charge.start_ms + _SECOND_MS)),
        "ChargePeriodStart": utc_text(charge.start_ms),
        "ConsumedQuantity": quantity if consumed else None,
        "ConsumedUnit": unit_of(charge.resource) if consumed else None,
        "ContractedCost": money,
        "ContractedUnitPrice": price,
        "EffectiveCost": money,
        "InvoiceId": f"{period.id}#{statement.number}" if statement.number else None,
        "InvoiceIssuerName": provider,
        "ListCost": money,
        "ListUnitPrice": price,
        "PricingCategory": "Dynamic" if charge.klass == SURCHARGE else "Standard",
        "PricingCurrency": statement.currency,
        "PricingCurrencyContractedUnitPrice": price,
        "PricingCurrencyEffectiveCost": money,
        "PricingCurrencyListUnitPrice": price,
        "PricingQuantity": quantity,
        "PricingUnit": unit_of(charge.resource),
        "ProviderName": provider,
        "PublisherName": provider,
        "ResourceId": charge.workload_id or f"{_capacity(charge)}/{charge.resource}",
        "ResourceName": charge.workload or _capacity(charge).replace("/", " "),
        "ResourceType": "Workload" if charge.workload_id else "Capacity",
        "ServiceCategory": "AI and Machine Learning",
        "ServiceName": "Muster",
        "ServiceSubcategory": "Machine Learning",
        "SkuId": f"{charge.flavor}/{charge.resource}",
        "SkuMeter": unit_of(charge.resource),
        "SkuPriceDetails": json.dumps({"InstanceSeries": charge.flavor}),
        "SkuPriceId": _price_id(charge),
        "SubAccountId": charge.cluster_queue or None,
        "SubAccountName": charge.cluster_queue or None,
        "SubAccountType": "ClusterQueue" if charge.cluster_queue else None,
        "Tags": json.dumps(dict(sorted(charge.labels.items()))),
        "x_Attempt": str(charge.attempt) if charge.attempt else None,
        "x_ChargeClass": charge.klass or str(charge.kind),
        "x_ChargingPolicy": policy or None,
        "x_Namespace": charge.namespace or None,
        "x_Team": charge.team or None,
        "x_User": charge.user or None,
    }


def _reservation(charge: Charge) -> str | None:
    if charge.klass != UNUSED:
        return None
    return f"clusterqueue/{charge.cluster_queue}/{charge.flavor}/{charge.resource}"


def _capacity(charge: Charge) -> str:
    whose = f"{charge.klass}/{charge.cluster_queue}" if charge.of_quota else str(charge.kind)
    return f"{whose}/{charge.flavor}"


def _price_id(charge: Charge) -> str:
    since = "" if charge.price_from_ms == ALWAYS_MS else f"@{utc_text(charge.price_from_ms)}"
    pool = f"@{charge.pool}" if charge.pool else ""
    return f"{charge.flavor}{pool}/{charge.resource}{since}"


def _description(charge: Charge) -> str:
    what = f"{charge.resource} in {charge.flavor}"
    if charge.kind is not RowKind.USAGE:
        return f"{charge.kind}: {what}"
    if charge.of_quota:
        return f"{charge.klass} quota of {charge.cluster_queue}: {what}"
    loan = {BORROWED: ", borrowed", SURCHARGE: ", surcharge on what is borrowed"}
    return f"{what}, {charge.namespace}/{charge.workload}{loan.get(charge.klass, '')}"
