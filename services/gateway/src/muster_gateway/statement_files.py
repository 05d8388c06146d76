"""A statement in the forms that people hand on: a table, files, and a page to print."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from fractions import Fraction
from html import escape

from muster_contracts.statement_lines import line_of, policy_of, policy_text
from muster_contracts.statements import StatementRow, StatementView
from muster_domain.errors import InvalidValue
from muster_domain.money import round_rows
from muster_gateway.parquet import ColumnType, parquet
from muster_rating.charges import Charge
from muster_rating.focus import COLUMNS, focus_rows
from muster_rating.periods import day_text
from muster_rating.statements import Statement, statement_rows

UNALLOCATED = "__unallocated__"
_LABEL = "label:"
_BY: Mapping[str, Callable[[Charge], str]] = {
    "team": lambda charge: charge.team,
    "queue": lambda charge: charge.cluster_queue,
    "namespace": lambda charge: charge.namespace,
    "user": lambda charge: charge.user,
    "workload": lambda charge: f"{charge.namespace}/{charge.workload}".strip("/"),
    "flavor": lambda charge: charge.flavor,
}
_HOUR = 3_600_000 * 1000
_MONEY = (
    "BilledCost",
    "ContractedCost",
    "EffectiveCost",
    "ListCost",
    "PricingCurrencyEffectiveCost",
)
_NUMBERS = (
    "ConsumedQuantity", "ContractedUnitPrice", "ListUnitPrice", "PricingQuantity",
    "PricingCurrencyContractedUnitPrice", "PricingCurrencyListUnitPrice",
    "CommitmentDiscountQuantity",
)  # fmt: skip
_TIMES = ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")
_FOCUS_TYPES = {
    **dict.fromkeys(_MONEY, ColumnType.MONEY),
    **dict.fromkeys(_NUMBERS, ColumnType.QUANTITY),
    **dict.fromkeys(_TIMES, ColumnType.TIME),
    "x_Attempt": ColumnType.INTEGER,
}
_LINE_COLUMNS = (
    "corrects", "kind", "charge_class", "team", "user", "namespace", "workload", "workload_id",
    "attempt", "cluster_queue", "flavor", "pool", "resource", "quantity", "start_ms", "end_ms",
    "hourly", "per", "micros", "observed", "busy",
)  # fmt: skip
_LINE_NUMBERS = ("attempt", "quantity", "start_ms", "end_ms", "micros", "observed", "busy")
_LINE_TYPES: Mapping[str, ColumnType] = dict.fromkeys(_LINE_NUMBERS, ColumnType.INTEGER)


class Form(StrEnum):
    """What a statement is asked for as."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    HTML = "html"
    FOCUS = "focus"
    FOCUS_PARQUET = "focus-parquet"

    @property
    def media_type(self) -> str:
        """What it is called on the web."""
        match self:
            case Form.JSON:
                return "application/json"
            case Form.CSV | Form.FOCUS:
                return "text/csv; charset=utf-8"
            case Form.HTML:
                return "text/html; charset=utf-8"
            case Form.PARQUET | Form.FOCUS_PARQUET:
                return "application/vnd.apache.parquet"


def key_of(by: str) -> Callable[[Charge], str]:
    """How to group charges. Raises `InvalidValue`."""
    if by.startswith(_LABEL) and len(by) > len(_LABEL):
        name = by.removeprefix(_LABEL)
        return lambda charge: charge.labels.get(name, "") or UNALLOCATED
    found = _BY.get(by)
    if found is None:
        fix = f"use {', '.join(sorted(_BY))} or label:<key>"
        raise InvalidValue(f"statements are not kept by {by!r}", field="by", fix=fix)
    return lambda charge: found(charge) or UNALLOCATED


def view_of(statement: Statement, state: str, by: str) -> StatementView:
    """The statement as a table. Raises `InvalidValue`."""
    rows = statement_rows(statement, key_of(by), _is_gpu)
    is_closed = state == "closed"
    return StatementView(
        by=by,
        period=statement.period.id,
        starts_at_ms=statement.period.start_ms,
        ends_at_ms=statement.period.end_ms,
        state=state,
        currency=statement.currency,
        rows=tuple(StatementRow(**asdict(row)) for row in rows),
        total_cents=sum(row.cents for row in rows),
        total_micros=statement.total_micros,
        number=statement.number if is_closed else 0,
        issued_at_ms=statement.issued_at_ms if is_closed else 0,
        digest=statement.digest if is_closed else "",
        previous=statement.previous if is_closed else "",
        unpriced=_unpriced(statement),
        policy=tuple(policy_of(version) for version in statement.policy),
    )


def focus_csv(statement: Statement, provider: str) -> bytes:
    """The statement in FOCUS 1.2; what is null is empty."""
    return _csv(COLUMNS, focus_rows(statement, provider)).encode()


def focus_parquet(statement: Statement, provider: str) -> bytes:
    """The same with types: money, quantities and times."""
    return parquet(COLUMNS, focus_rows(statement, provider), _FOCUS_TYPES)


def lines_csv(statement: Statement) -> bytes:
    """Every line, quantities in milli-units times milliseconds and money in micros."""
    return _csv(_LINE_COLUMNS, _lines(statement)).encode()


def lines_parquet(statement: Statement) -> bytes:
    """The same with types."""
    return parquet(_LINE_COLUMNS, _lines(statement), _LINE_TYPES)


def _lines(statement: Statement) -> Iterable[Mapping[str, str | None]]:
    for line in statement.lines:
        told = asdict(line_of(line))
        yield {name: str(told[name]) for name in _LINE_COLUMNS}


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, str | None]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if row[name] is None else row[name] for name in columns])
    return text.getvalue()


def page_of(view: StatementView, zone: str) -> bytes:
    """A page that prints on one or more sheets: the total, and a table with a bar for each row."""
    largest = max((abs(row.cents) for row in view.rows), default=0) or 1
    hours, borrowed = (_hundredths(of) for of in _times(view.rows))
    rows = "".join(
        f"<tr><th>{escape(row.key)}</th><td class=bar>{_bar(row, largest)}</td>"
        f"{_numbers(row, gpu, loan)}</tr>"
        for row, gpu, loan in zip(view.rows, hours, borrowed, strict=True)
    )
    total = _numbers(_total_of(view), sum(hours), sum(borrowed))
    first, last = day_text(view.starts_at_ms, zone), day_text(view.ends_at_ms - 1, zone)
    issued = (
        f"No. {view.number}, issued {day_text(view.issued_at_ms, zone)}, "
        f"digest <code>{view.digest}</code>"
        if view.number
        else f"Not issued: the period is {escape(view.state)}."
    )
    title = f"Statement {escape(view.period.partition('@')[0])}"
    notes = [policy_text(policy) for policy in view.policy]
    notes += [_NOTES[row.key] for row in view.rows if row.key in _NOTES]
    if any(row.observed_time for row in view.rows):
        notes.append(_OF_EFFICIENCY)
    if view.unpriced:
        notes.insert(0, f"No price, not charged: {', '.join(view.unpriced)}")
    currency = escape(view.currency)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style><h1>{title}</h1><p>{first} to {last}, {escape(zone)}. {issued}"
        f"</p><p class=total>{_decimal(view.total_cents)} {currency}</p>"
        f"<table><thead><tr><th>{escape(view.by)}</th><th class=bar></th><th>GPU-hours</th>"
        f"<th>of these borrowed</th><th>efficiency</th><th>this month, {currency}</th>"
        f"<th>corrections, {currency}</th><th>total, {currency}</th></tr></thead>"
        f"<tbody>{rows}</tbody><tfoot><tr><th>total</th><td></td>{total}</tr></tfoot></table>"
        f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul></html>"
    ).encode()


def _bar(row: StatementRow, largest: int) -> str:
    shade = "credit" if row.cents < 0 else "nobodys" if row.key in _NOTES else "used"
    return (
        f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect '
        f'class="{shade}" width="{abs(row.cents) * 100 // largest}" height="10"/></svg>'
    )


def _numbers(row: StatementRow, gpu_hundredths: int, borrowed_hundredths: int) -> str:
    cells = (
        _decimal(gpu_hundredths),
        _decimal(borrowed_hundredths),
        _efficiency(row),
        _decimal(row.cents - row.correction_cents),
        _decimal(row.correction_cents),
        _decimal(row.cents),
    )
    return "".join(f"<td>{cell}</td>" for cell in cells)


def _efficiency(row: StatementRow) -> str:
    """Empty for what nobody held, unknown where nobody looked."""
    if row.key in _NOTES and row.key != UNALLOCATED:
        return ""
    if row.observed_time <= 0:
        return "unknown"
    return f"{(row.busy_time * 200 + row.observed_time) // (row.observed_time * 2)} %"


def _times(rows: Sequence[StatementRow]) -> tuple[list[int], list[int]]:
    return [row.gpu_time for row in rows], [row.borrowed_time for row in rows]


def _hundredths(milli_ms: Iterable[int]) -> tuple[int, ...]:
    """Hours with two digits, which sum to the sum's."""
    hundredths, _ = round_rows([Fraction(time * 100, _HOUR) for time in milli_ms])
    return hundredths


def _total_of(view: StatementView) -> StatementRow:
    return StatementRow(
        key="total",
        gpu_time=sum(row.gpu_time for row in view.rows),
        borrowed_time=sum(row.borrowed_time for row in view.rows),
        observed_time=sum(row.observed_time for row in view.rows),
        busy_time=sum(row.busy_time for row in view.rows),
        cents=view.total_cents,
        correction_cents=sum(row.correction_cents for row in view.rows),
    )


_NOTES = {
    "__idle__": "__idle__: capacity that nobody held while its node took pods",
    "__reserved__": "__reserved__: capacity kept for gangs that held quota and had no seats yet",
    "__unavailable__": "__unavailable__: free capacity of nodes that took no pods",
    "__overallocated__": "__overallocated__: held beyond the capacity that nodes reported",
    "__uncommitted__": "__uncommitted__: capacity that no queue pays for; negative where queues "
    "pay for more than there is",
    UNALLOCATED: "__unallocated__: what has no such value, as quota that a queue left unused",
}
"""What rows of nobody's are, for those who read a page alone."""
_OF_EFFICIENCY = (
    "efficiency: the part of the time in which GPUs worked, of the time in which agents looked at "
    "them; what is owed does not depend on it"
)

_STYLE = (
    "body{font:14px/1.4 system-ui,sans-serif;margin:2em auto;max-width:60em;color:#222}"
    "table{border-collapse:collapse;width:100%}th,td{padding:.25em .6em;text-align:right}"
    "th:first-child{text-align:left;overflow-wrap:anywhere}tbody th{font-weight:normal}"
    "td.bar{width:30%}svg{display:block;width:100%;height:.9em}"
    "rect.used{fill:#2a6f97}rect.nobodys{fill:#adb5bd}rect.credit{fill:#b5651d}"
    "thead th,tfoot *{border-top:1px solid #222}code{overflow-wrap:anywhere}"
    ".total{font-size:2em;margin:.2em 0}ul{color:#555;padding-left:1.2em}"
    "tr,li{break-inside:avoid}thead{display:table-header-group}"
    "@media print{body{margin:0;max-width:none;font-size:10pt}@page{size:A4;margin:18mm}}"
)


def _unpriced(statement: Statement) -> tuple[str, ...]:
    charges = (line.charge for line in statement.lines)
    pairs = {(charge.flavor, charge.resource) for charge in charges if charge.hourly is None}
    return tuple(f"{flavor}/{resource}" for flavor, resource in sorted(pairs))


def _is_gpu(resource: str) -> bool:
    return resource.rpartition("/")[2].startswith(("gpu", "mig-"))


def _decimal(hundredths: int) -> str:
    whole, part = divmod(abs(hundredths), 100)
    return f"{'-' if hundredths < 0 else ''}{whole:,}.{part:02d}"
