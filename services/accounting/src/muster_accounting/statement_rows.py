"""Statements as rows of the store."""

from typing import Any

from muster_contracts import codec
from muster_contracts.statement_lines import line_of, policy_of, read_line, read_policy
from muster_contracts.statements import StoredLines
from muster_rating.periods import month_of
from muster_rating.statements import Statement

LINES_BYTES_MAX = 1 << 30

Row = Any


def statement_row(zone: str, statement: Statement) -> dict[str, object]:
    """All columns of a statement."""
    lines = StoredLines(
        lines=tuple(line_of(line) for line in statement.lines),
        policy=tuple(policy_of(version) for version in statement.policy),
    )
    return {
        "zone": zone,
        "number": statement.number,
        "month": statement.period.id.partition("@")[0],
        "currency": statement.currency,
        "issued_at_ms": statement.issued_at_ms,
        "previous": statement.previous,
        "digest": statement.digest,
        "lines": codec.encode(lines),
    }


def statement_of(row: Row) -> Statement:
    """The statement of a row."""
    stored = codec.decode(StoredLines, row["lines"], bytes_max=LINES_BYTES_MAX)
    return Statement(
        period=month_of(row["month"], row["zone"]),
        number=row["number"],
        currency=row["currency"],
        issued_at_ms=row["issued_at_ms"],
        lines=tuple(read_line(line) for line in stored.lines),
        previous=row["previous"],
        policy=tuple(read_policy(version) for version in stored.policy),
    )
