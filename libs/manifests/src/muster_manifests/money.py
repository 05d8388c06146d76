"""Muster's own objects about money: Budget, PriceList and ChargingPolicy."""

import re

from muster_domain.budgets import (
    Budget,
    BudgetScope,
    BudgetSubject,
    BudgetWindow,
    Exhaustion,
    Unanswered,
)
from muster_domain.errors import InvalidValue
from muster_domain.money import MICROS, ChargingBasis, parse_amount, parse_currency
from muster_manifests.manifest import Manifest
from muster_manifests.plain import Plain
from muster_manifests.reader import ObjectReader
from muster_rating.periods import check_period
from muster_rating.policies import (
    BORROW_PERCENT_MAX,
    PERCENT,
    Attribution,
    ChargingPolicy,
    PolicyVersion,
    QueueTerms,
)
from muster_rating.price_lists import read_price_list
from muster_rating.prices import ALWAYS_MS, PriceBook, PriceList

_ALERTS_MAX = 100
_PERCENT_MAX = 1000
_QUANTUM = re.compile(r"([1-9]\d{0,3})([mh])")
_UNITS_MS = {"m": 60_000, "h": 3_600_000}
_DEFAULT_QUANTUM = "1h"
_WHOLE_MICROS_FIX = "write at most six digits after the point"


def read_budget(manifest: Manifest) -> Budget:
    """Read a Budget."""
    spec = manifest.body.object("spec")
    zone = spec.text("timeZone", "UTC")
    return Budget(
        name=manifest.metadata.name,
        scope=_scope(spec),
        currency=_currency(spec),
        windows=_windows(spec, zone),
        zone=zone,
        unanswered=spec.choice("whenUnanswered", Unanswered, Unanswered.BLOCK),
        exhaustion=spec.choice("whenExhausted", Exhaustion, Exhaustion.CONTINUE),
        quantum_ms=_quantum_ms(spec),
    )


def read_prices(manifest: Manifest) -> PriceList:
    """Read a PriceList, whose `spec` is what a price list is as a file."""
    spec = manifest.body.object("spec")
    spec.accept_all()
    try:
        book = read_price_list(dict(spec.values), default_currency="")
    except InvalidValue as error:
        path = _path_in(dict(spec.values), error.field or "currency")
        spec.report.problem((*spec.path, *path), error.problem, error.fix)
        book = PriceBook("")
    return PriceList(name=manifest.metadata.name, book=book)


def _path_in(values: Plain, field: str) -> list[str | int]:
    """The keys of a field written with dots, some of which are in the keys themselves."""
    rest = field.removeprefix(".")
    if isinstance(values, list) and rest.startswith("["):
        number, _, rest = rest[1:].partition("]")
        return [int(number), *_path_in(values[int(number)], rest)]
    if isinstance(values, dict):
        found = [key for key in values if f"{rest}.".startswith((f"{key}.", f"{key}["))]
        key = max(found, key=len, default="")
        if key:
            return [key, *_path_in(values[key], rest[len(key) :])]
    return [rest] if rest else []


def read_charging_policy(manifest: Manifest) -> ChargingPolicy:
    """Read a ChargingPolicy: its versions, each with the terms of all queues."""
    name = manifest.metadata.name
    spec = manifest.body.object("spec")
    found: dict[int, PolicyVersion] = {}
    for item in spec.objects("versions"):
        from_ms = item.time_ms("effectiveFrom")
        version = PolicyVersion(
            policy=name,
            effective_from_ms=ALWAYS_MS if from_ms is None else from_ms,
            others=_queue_terms(item),
            queues=_terms_by_queue(item.object("queues")),
        )
        if version.effective_from_ms in found:
            item.problem(
                "effectiveFrom",
                "two versions begin at the same time",
                "write effectiveFrom: 2026-07-01T00:00:00Z, another one in each",
            )
        found[version.effective_from_ms] = version
    if not found:
        spec.problem("versions", "a policy without a version", "write - {basis: usage}")
    return ChargingPolicy(name=name, versions=tuple(found[at] for at in sorted(found)))


def _terms_by_queue(queues: ObjectReader) -> dict[str, QueueTerms]:
    return {queue: _queue_terms(queues.object(queue)) for queue in queues.keys}


def _queue_terms(reader: ObjectReader) -> QueueTerms:
    if "basis" not in reader:
        reader.problem("basis", "missing", f"write basis: {' or '.join(ChargingBasis)}")
    basis = reader.choice("basis", ChargingBasis, ChargingBasis.USAGE)
    credit = reader.optional_integer("lenderCreditPercent", low=0, high=PERCENT)
    if credit is not None and basis is not ChargingBasis.BOTH:
        reader.problem(
            "lenderCreditPercent",
            f"on the basis {basis} nobody gets a credit",
            "write basis: both, or leave it out",
        )
    borrow = reader.optional_integer("borrowPercent", low=0, high=BORROW_PERCENT_MAX)
    if borrow is not None and basis is ChargingBasis.COMMITMENT:
        reader.problem(
            "borrowPercent",
            f"on the basis {basis} nobody pays for what is borrowed",
            "write basis: both or usage, or leave it out",
        )
    return QueueTerms(
        basis=basis,
        lender_credit_percent=PERCENT if credit is None else credit,
        borrow_percent=PERCENT if borrow is None else borrow,
        attribution=reader.choice("loanAttribution", Attribution, Attribution.LIFO),
    )


def _scope(spec: ObjectReader) -> BudgetScope:
    written = [subject for subject in BudgetSubject if subject in spec]
    if len(written) != 1:
        spec.problem(
            "",
            "a budget is for one thing",
            f"write one of {', '.join(BudgetSubject)}",
        )
        return BudgetScope(subject=BudgetSubject.TEAM, value="")
    subject = written[0]
    if subject is not BudgetSubject.LABEL:
        return BudgetScope(subject=subject, value=spec.required_text(subject))
    label = spec.object(subject)
    return BudgetScope(
        subject=subject, key=label.required_text("key"), value=label.required_text("value")
    )


def _currency(spec: ObjectReader) -> str:
    try:
        return parse_currency(spec.required_text("currency"), field="currency")
    except InvalidValue as error:
        spec.problem("currency", error.problem, error.fix)
        return ""


def _windows(spec: ObjectReader, zone: str) -> tuple[BudgetWindow, ...]:
    windows: list[BudgetWindow] = []
    for item in spec.objects("windows"):
        period = item.required_text("period")
        try:
            check_period(period, zone)
        except InvalidValue as error:
            where = spec if error.field == "timeZone" else item
            where.problem(error.field, error.problem, error.fix)
            continue
        if any(window.period == period for window in windows):
            item.problem("period", f"there is another window of {period}", "keep one")
        windows.append(
            BudgetWindow(
                period=period, limit_micros=_limit_micros(item), alert_percents=_alerts(item)
            )
        )
    if not windows:
        spec.problem("windows", "a budget without a window", "write - {period: month, limit: ...}")
    return tuple(windows)


def _limit_micros(item: ObjectReader) -> int | None:
    if "limit" not in item:
        item.accept("limit")
        return None
    try:
        micros = parse_amount(item.text("limit"), field="limit") * MICROS
    except InvalidValue as error:
        item.problem("limit", error.problem, error.fix)
        return None
    if micros.denominator != 1:
        item.problem("limit", "finer than a millionth", _WHOLE_MICROS_FIX)
    return micros.numerator


def _alerts(item: ObjectReader) -> tuple[int, ...]:
    percents = item.integers("alertPercents", low=1)
    if len(percents) > _ALERTS_MAX or any(percent > _PERCENT_MAX for percent in percents):
        item.problem("alertPercents", "too many or too large", "write [50, 80, 100]")
    return tuple(sorted(set(percents)))


def _quantum_ms(spec: ObjectReader) -> int:
    written = spec.text("quantum", _DEFAULT_QUANTUM)
    found = _QUANTUM.fullmatch(written)
    if found is None:
        spec.problem("quantum", f"{written!r} is no time", "write 30m or 1h")
        return _UNITS_MS["h"]
    return int(found[1]) * _UNITS_MS[found[2]]
