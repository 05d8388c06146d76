"""`python -m muster_accounting.export FILE --from --to`: the books line by line, for analysis.

Writes Parquet or CSV, by the name of the file: one row for each attempt, (flavor, resource), price
and day of UTC. Only reads the store, a day at a time, so that months fit into memory. Quantities
and unit-milliseconds are exact decimals; money is rounded at the twelfth place.
"""

import argparse
import asyncio
import csv
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from muster_accounting.answers import exact
from muster_accounting.declarations import Declarations
from muster_accounting.settings import AccountingSettings, load_prices
from muster_accounting.store import UsageStore
from muster_accounting.view import View
from muster_contracts.envelope import rfc3339
from muster_domain.errors import InvalidValue, MusterError
from muster_domain.money import MICROS, format_decimal
from muster_rating.capacity import with_node_flavors
from muster_rating.dates import read_instant_ms
from muster_rating.intervals import Interval, intervals
from muster_rating.prices import PriceBook
from muster_rating.windows import Window, asked_window
from muster_runtime.clock import now_ms

DAY_MS = 24 * 3_600_000
MILLI = 1000
MONEY_PLACES = 12
Value = str | int | bool | Decimal | None
_arrow: Any = pa
_files: Any = pq
_TEXT = _arrow.string()
_TIME = _arrow.timestamp("ms", tz="UTC")


def _cost(found: Interval) -> Decimal | None:
    cost = found.cost_micros
    return None if cost is None else Decimal(format_decimal(cost / MICROS, MONEY_PLACES))


COLUMNS: Mapping[str, tuple[Any, Callable[[Interval], Value]]] = {
    "workload_id": (_TEXT, lambda it: it.attempt.workload_id),
    "attempt": (_arrow.int64(), lambda it: it.attempt.number),
    "namespace": (_TEXT, lambda it: it.owner.namespace),
    "workload": (_TEXT, lambda it: it.owner.workload),
    "team": (_TEXT, lambda it: it.owner.team),
    "user": (_TEXT, lambda it: it.owner.user),
    "cluster_queue": (_TEXT, lambda it: it.owner.cluster_queue),
    "local_queue": (_TEXT, lambda it: it.owner.local_queue),
    "flavor": (_TEXT, lambda it: it.flavor),
    "resource": (_TEXT, lambda it: it.resource),
    "kind": (_TEXT, lambda it: str(it.kind)),
    "quantity": (_arrow.decimal128(38, 3), lambda it: Decimal(it.quantity_milli) / MILLI),
    "start": (_TIME, lambda it: it.window.start_ms),
    "end": (_TIME, lambda it: it.window.end_ms),
    "is_open": (_arrow.bool_(), lambda it: it.is_open),
    "unit_ms": (_arrow.decimal128(38, 3), lambda it: Decimal(it.unit_time) / MILLI),
    "hourly_price": (_TEXT, lambda it: None if it.price is None else exact(it.price.hourly)),
    "price_per": (_TEXT, lambda it: None if it.price is None else it.price.per),
    "cost": (_arrow.decimal128(38, MONEY_PLACES), _cost),
    "eviction": (_TEXT, lambda it: it.attempt.eviction and it.attempt.eviction.reason),
    "outcome": (_TEXT, lambda it: it.attempt.closing and it.attempt.closing.outcome),
}
"""Type and value of every column; the currency comes last."""


class ParquetSink:
    """One row group for every call."""

    def __init__(self, path: Path, currency: str) -> None:
        self._currency = currency
        fields = [(name, kind) for name, (kind, _) in COLUMNS.items()]
        self._schema = _arrow.schema([*fields, ("currency", _TEXT)])
        self._writer = _files.ParquetWriter(path, self._schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, found: list[Interval]) -> None:
        """Add rows."""
        arrays = [
            _arrow.array([value(it) for it in found], kind) for kind, value in COLUMNS.values()
        ]
        arrays.append(_arrow.array([self._currency] * len(found), _TEXT))
        self._writer.write_table(_arrow.Table.from_arrays(arrays, schema=self._schema))


class CsvSink:
    """Times are RFC 3339 in UTC; what is not known is empty."""

    def __init__(self, path: Path, currency: str) -> None:
        self._currency = currency
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow([*COLUMNS, "currency"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, found: list[Interval]) -> None:
        """Add rows."""
        for it in found:
            values = (_text(kind, value(it)) for kind, value in COLUMNS.values())
            self._writer.writerow([*values, self._currency])


_SINKS: Mapping[str, type[ParquetSink | CsvSink]] = {".parquet": ParquetSink, ".csv": CsvSink}


async def export(store: UsageStore, own_prices: PriceBook, window: Window, path: Path) -> int:
    """Write the intervals of a window; returns how many. Raises `InvalidValue`, `Transient`."""
    kind = _SINKS.get(path.suffix)
    if kind is None:
        raise InvalidValue(
            f"{path.name} is no form that is written", fix="name it .parquet or .csv"
        )
    rows = 0
    with kind(path, own_prices.currency) as sink:
        async for found in _by_day(store, own_prices, window):
            await asyncio.to_thread(sink.write, found)
            rows += len(found)
    return rows


async def _by_day(
    store: UsageStore, own_prices: PriceBook, window: Window
) -> AsyncIterator[list[Interval]]:
    priced = [(price.flavor, price.resource) for price in own_prices.prices]
    declarations = Declarations(await store.objects_at_birth(), priced)
    declarations.add(await store.object_versions())
    prices = declarations.prices(own_prices)
    spans = View(declarations, (), await store.node_facts()).spans
    for day in _days(window):
        seated = with_node_flavors(await store.attempts_in(day), spans)
        if found := await asyncio.to_thread(list, intervals(seated, prices, day, spans)):
            yield found


def _days(window: Window) -> Iterable[Window]:
    at_ms = window.start_ms
    while at_ms < window.end_ms:
        until_ms = min(window.end_ms, (at_ms // DAY_MS + 1) * DAY_MS)
        yield Window(at_ms, until_ms)
        at_ms = until_ms


def _text(kind: object, value: Value) -> str:
    if isinstance(value, int) and kind == _TIME:
        return rfc3339(value)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else format(value, "f") if isinstance(value, Decimal) else str(value)


async def _run(window: Window, path: Path) -> str:
    settings = AccountingSettings()
    store = UsageStore(settings.accounting_url)
    try:
        await store.prepare()
        counted = Window(window.start_ms, min(window.end_ms, now_ms()))
        rows = await export(store, load_prices(settings), counted, path)
    finally:
        await store.close()
    return f"{rows} rows in {path}\n"


def main() -> None:
    """Export a window of the books that the settings name."""
    parser = argparse.ArgumentParser(prog="python -m muster_accounting.export")
    parser.add_argument("file", type=Path, help="where to; .parquet or .csv")
    parser.add_argument("--from", dest="start", required=True, help="RFC 3339, UTC without a zone")
    parser.add_argument("--to", dest="end", required=True, help="up to, not including")
    given = parser.parse_args()
    try:
        start_ms = read_instant_ms(given.start, "--from", utc=True)
        window = asked_window(start_ms, read_instant_ms(given.end, "--to", utc=True))
        sys.stdout.write(asyncio.run(_run(window, given.file)))
    except MusterError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
