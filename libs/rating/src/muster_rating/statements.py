"""Statements: what a month came to, issued once and never changed.

A closed month keeps its statement for ever. What becomes known of it later is put right in the next
statement that is issued: a line that takes back what was charged, and a line with what it should
have been. Every statement carries the digest of the one before it, so none can be changed, left out
or slipped in unseen.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from fractions import Fraction

from muster_domain.money import round_rows
from muster_rating.charges import BORROWED, Charge, ChargeKey
from muster_rating.periods import Period
from muster_rating.policies import PERCENT, Attribution, PolicyVersion, QueueTerms
from muster_rating.report import RowKind

MICROS_PER_CENT = 10_000


class PeriodState(StrEnum):
    """OPEN until its end has passed, PROVISIONAL until it is closed, then CLOSED."""

    OPEN = "open"
    PROVISIONAL = "provisional"
    CLOSED = "closed"


def state_of(period: Period, now_ms: int, *, closed: bool) -> PeriodState:
    """The state of a period at a moment."""
    if closed:
        return PeriodState.CLOSED
    return PeriodState.OPEN if now_ms < period.end_ms else PeriodState.PROVISIONAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One charge in a statement; `corrects` names the earlier month that it puts right."""

    charge: Charge
    corrects: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What is charged for one period, with what is put right of earlier ones.

    `number` counts statements from 1, `previous` is the digest of the one before. `policy` are the
    versions by which its own period is charged, now and whenever it is reckoned again.
    """

    period: Period
    number: int
    currency: str
    issued_at_ms: int
    lines: tuple[Line, ...]
    previous: str = ""
    policy: tuple[PolicyVersion, ...] = ()

    @property
    def total_micros(self) -> int:
        """The sum of its lines."""
        return sum(line.charge.micros for line in self.lines)

    @property
    def digest(self) -> str:
        """SHA-256 over everything in it, the digest of the one before included."""
        policy = {"policy": [_stated(version) for version in self.policy]} if self.policy else {}
        body = {
            **policy,
            "period": self.period.id,
            "number": self.number,
            "currency": self.currency,
            "issued_at_ms": self.issued_at_ms,
            "previous": self.previous,
            "lines": [
                [line.corrects, *line.charge.key, line.charge.quantity, line.charge.micros]
                for line in self.lines
            ],
        }
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


_ADDED_TERMS = {"borrow_percent": PERCENT, "attribution": Attribution.LIFO}
"""Terms that policies of earlier statements did not have, and what held then: digests stay."""


def _stated(version: PolicyVersion) -> dict[str, object]:
    def told(terms: QueueTerms) -> dict[str, object]:
        return {
            name: value
            for name, value in asdict(terms).items()
            if name not in _ADDED_TERMS or value != _ADDED_TERMS[name]
        }

    return {
        "policy": version.policy,
        "effective_from_ms": version.effective_from_ms,
        "others": told(version.others),
        "queues": {queue: told(terms) for queue, terms in version.queues.items()},
    }


def issue(  # noqa: PLR0913 - what a statement is made of
    period: Period,
    currency: str,
    now_ms: int,
    found: Iterable[Charge],
    corrections: Iterable[Line],
    before: Statement | None,
    *,
    policy: tuple[PolicyVersion, ...] = (),
) -> Statement:
    """The next statement after `before`."""
    return Statement(
        period=period,
        number=1 if before is None else before.number + 1,
        currency=currency,
        issued_at_ms=now_ms,
        lines=(*(Line(charge=charge) for charge in found), *corrections),
        previous="" if before is None else before.digest,
        policy=policy,
    )


def booked(statements: Iterable[Statement], period_id: str) -> dict[ChargeKey, Charge]:
    """What all statements together charge for one period, by what is charged."""
    total: dict[ChargeKey, Charge] = {}
    for statement in statements:
        for line in statement.lines:
            if period_id not in (line.corrects, "" if line.corrects else statement.period.id):
                continue
            before = total.get(line.charge.key)
            total[line.charge.key] = line.charge if before is None else _sum(before, line.charge)
    return {key: charge for key, charge in total.items() if charge.quantity or charge.micros}


def corrections(
    period_id: str, was: Mapping[ChargeKey, Charge], found: Iterable[Charge]
) -> tuple[Line, ...]:
    """What puts a closed period right: for all that changed, minus what was and plus what is.

    A difference in rounding alone is none: what is charged did not change.
    """
    now = {charge.key: charge for charge in found}
    lines: list[Line] = []
    for key in sorted({*was, *now}):
        before, after = was.get(key), now.get(key)
        if before is not None and after is not None and _same(before, after):
            continue
        if before is not None:
            back = replace(
                before,
                quantity=-before.quantity,
                micros=-before.micros,
                observed=-before.observed,
                busy=-before.busy,
            )
            lines.append(Line(charge=back, corrects=period_id))
        if after is not None:
            lines.append(Line(charge=after, corrects=period_id))
    return tuple(lines)


def broken_link(statements: Sequence[Statement]) -> int | None:
    """The number of the first statement that does not follow from the one before it."""
    previous = ""
    for place, statement in enumerate(statements, start=1):
        if statement.number != place or statement.previous != previous:
            return statement.number
        previous = statement.digest
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRow:
    """One row of a statement's table; milli-unit-milliseconds of all GPUs, and cents."""

    key: str
    gpu_time: int = 0
    borrowed_time: int = 0
    observed_time: int = 0
    busy_time: int = 0
    cents: int = 0
    correction_cents: int = 0


def statement_rows(
    statement: Statement, by: Callable[[Charge], str], is_gpu: Callable[[str], bool]
) -> tuple[StatementRow, ...]:
    """The statement by key; cents are by largest remainder, so that they sum to the total's."""
    exact: dict[str, Fraction] = {}
    corrected: dict[str, Fraction] = {}
    rows: dict[str, StatementRow] = {}
    for line in statement.lines:
        charge = line.charge
        key = by(charge) if charge.kind is RowKind.USAGE else f"__{charge.kind}__"
        into = corrected if line.corrects else exact
        into[key] = into.get(key, Fraction(0)) + Fraction(charge.micros, MICROS_PER_CENT)
        row = rows.get(key, StatementRow(key=key))
        rows[key] = _with_times(row, charge) if is_gpu(charge.resource) else row
    keys = sorted(rows, key=lambda key: (key.startswith("__"), key))
    of_period = [exact.get(key, Fraction(0)) for key in keys]
    of_others = [corrected.get(key, Fraction(0)) for key in keys]
    cents, _ = round_rows([*of_period, *of_others])
    return tuple(
        replace(
            rows[key],
            cents=cents[place] + cents[len(keys) + place],
            correction_cents=cents[len(keys) + place],
        )
        for place, key in enumerate(keys)
    )


def _with_times(row: StatementRow, charge: Charge) -> StatementRow:
    borrowed = charge.quantity if charge.klass == BORROWED else 0
    return replace(
        row,
        gpu_time=row.gpu_time + charge.quantity,
        borrowed_time=row.borrowed_time + borrowed,
        observed_time=row.observed_time + charge.observed,
        busy_time=row.busy_time + charge.busy,
    )


def _sum(left: Charge, right: Charge) -> Charge:
    newest = right if right.quantity >= 0 else left
    return replace(
        newest,
        quantity=left.quantity + right.quantity,
        micros=left.micros + right.micros,
        observed=left.observed + right.observed,
        busy=left.busy + right.busy,
    )


def _same(before: Charge, after: Charge) -> bool:
    return (before.quantity, before.hourly, before.per_milli) == (
        after.quantity,
        after.hourly,
        after.per_milli,
    )
