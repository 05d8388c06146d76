"""Rows of a proxy's spend log, from a body to facts on the log."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from muster_domain.errors import InvalidValue
from muster_domain.tokens import TokenUse
from muster_gateway import events
from muster_gateway.events import Cause
from muster_rating.spend_rows import read_spend_row
from muster_runtime.publisher import Outgoing

ROWS_MAX = 5_000
"""Rows in one body."""
USES_PER_FACT = 200


def read_rows(body: bytes, *, namespace: str = "") -> tuple[TokenUse, ...]:
    """Read a list of rows, an object with them in `rows`, or one row on each line, all JSON.

    Numbers are taken as they are written. Raises `InvalidValue` naming the row and the field; of a
    body with a row that cannot be read nothing is taken.
    """
    rows = _rows(body)
    if not rows:
        raise InvalidValue("there are no rows", field="rows")
    if len(rows) > ROWS_MAX:
        raise InvalidValue(f"{len(rows)} rows in one body", fix=f"send at most {ROWS_MAX}")
    return tuple(_use(row, number, namespace) for number, row in enumerate(rows))


def _use(row: object, number: int, namespace: str) -> TokenUse:
    place = f"rows[{number}]"
    if not isinstance(row, Mapping):
        raise InvalidValue("not an object", field=place)
    try:
        return read_spend_row(cast("Mapping[str, object]", row), namespace=namespace)
    except InvalidValue as error:
        raise InvalidValue(error.problem, field=f"{place}.{error.field}", fix=error.fix) from error


def _rows(body: bytes) -> list[object]:
    try:
        text = body.decode("utf-8-sig").strip()
        whole = _json(text)
    except (ValueError, RecursionError):
        return _lines(body)
    if isinstance(whole, Mapping):
        fields = cast("Mapping[str, object]", whole)
        inside = fields.get("rows", [fields])
        return cast("list[object]", inside) if isinstance(inside, list) else []
    return cast("list[object]", whole) if isinstance(whole, list) else []


def _lines(body: bytes) -> list[object]:
    lines = body.decode("utf-8", errors="replace").splitlines()
    return [_line(line, number) for number, line in enumerate(lines) if line.strip()]


def _line(line: str, number: int) -> object:
    try:
        return _json(line)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"not JSON: {error}", field=f"rows[{number}]") from error


def _json(text: str) -> object:
    return cast("object", json.loads(text, parse_float=str, parse_int=str))


def reported(uses: Iterable[TokenUse], *, by: str, cause: Cause) -> list[Outgoing]:
    """The facts, by namespace; the same rows in the same order are the same facts."""
    served: dict[str, list[TokenUse]] = {}
    for use in uses:
        served.setdefault(use.namespace, []).append(use)
    return [
        events.tokens_reported(part, by=by, namespace=namespace, cause=cause)
        for namespace in sorted(served)
        for part in _parts(served[namespace])
    ]


def _parts(uses: Sequence[TokenUse]) -> Iterator[tuple[TokenUse, ...]]:
    for start in range(0, len(uses), USES_PER_FACT):
        yield tuple(uses[start : start + USES_PER_FACT])
