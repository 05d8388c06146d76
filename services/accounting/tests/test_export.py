"""The books as a file: what another program reads from it is what the report says."""

from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from muster_accounting.export import export
from muster_domain.errors import InvalidValue
from muster_rating.prices import HOUR_MS
from muster_rating.windows import Window

from .homes import Home
from .log import PRICES, clock, open_books, three_teams

TEAMS = """
    SELECT team, sum(unit_ms::DECIMAL(38,3)), sum(cost::DECIMAL(38,12)),
        min(epoch_ms("start")), max(epoch_ms("end")), bool_or(is_open), any_value(outcome)
    FROM books WHERE kind = 'held' GROUP BY team ORDER BY team
"""
MONTH = Window(clock(0), clock(720))


def read(path: Path) -> duckdb.DuckDBPyRelation:
    read = duckdb.read_csv if path.suffix == ".csv" else duckdb.read_parquet
    return read(str(path))


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
async def test_teams_cost_in_duckdb_what_the_report_says(
    home: Home, tmp_path: Path, suffix: str
) -> None:
    log, books = three_teams(), await open_books(home)
    path = tmp_path / f"books.{suffix}"
    try:
        await books.keeper.take_objects(log.objects)
        await books.take(log.messages)
        rows = await export(books.store, PRICES, MONTH, path)
        report = await books.report("team")
    finally:
        await books.close()

    table = read(path)
    found = table.query("books", TEAMS).fetchall()
    assert [(row[0], row[1], row[2]) for row in found] == [
        ("datos", 1080 * HOUR_MS, Decimal("1512.000000000000")),
        ("ia", 432 * HOUR_MS, Decimal("604.800000000000")),
        ("plataforma", 252 * HOUR_MS, Decimal("352.800000000000")),
    ]
    assert [int(row[2] * 1_000_000) for row in found] == [line.cost_micros for line in report.lines]
    assert [row[3:5] for row in found] == [
        (clock(start), clock(end)) for start, end in ((0, 540), (100, 532), (200, 452))
    ]
    assert [row[5] for row in found] == [False] * 3
    assert [row[6] for row in found] == ["Cancelled", "Succeeded", "Succeeded"]
    assert len(table) == rows


async def test_amounts_are_decimals_in_parquet(home: Home, tmp_path: Path) -> None:
    log, books = three_teams(), await open_books(home)
    path = tmp_path / "books.parquet"
    try:
        await books.keeper.take_objects(log.objects)
        await books.take(log.messages)
        await export(books.store, PRICES, Window(clock(0), clock(101)), path)
    finally:
        await books.close()

    table = read(path)
    columns = dict(zip(table.columns, map(str, table.types), strict=True))
    assert columns["cost"] == "DECIMAL(38,12)"
    assert columns["unit_ms"] == columns["quantity"] == "DECIMAL(38,3)"
    assert columns["start"] == "TIMESTAMP WITH TIME ZONE"


async def test_another_form_is_refused(home: Home, tmp_path: Path) -> None:
    books = await open_books(home)
    try:
        with pytest.raises(InvalidValue, match=r"books\.xls"):
            await export(books.store, PRICES, MONTH, tmp_path / "books.xls")
    finally:
        await books.close()
