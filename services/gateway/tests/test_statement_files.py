"""A statement in every form that it is handed on in."""

import csv
import io
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow.parquet as pq
import pytest

from muster_domain.errors import InvalidValue
from muster_domain.money import MICROS, ChargingBasis
from muster_gateway.statement_files import (
    focus_csv,
    focus_parquet,
    lines_csv,
    lines_parquet,
    page_of,
    view_of,
)
from muster_rating.charges import Charge
from muster_rating.focus import COLUMNS
from muster_rating.periods import month_of
from muster_rating.policies import PolicyVersion, QueueTerms
from muster_rating.prices import ALWAYS_MS, HOUR_MS
from muster_rating.report import RowKind
from muster_rating.statements import Line, Statement, issue

JUNE = month_of("2026-06", "Europe/Madrid")
GPU = "nvidia.com/gpu"
_files: Any = pq


def charge(team: str, hours: int, *, klass: str = "nominal", micros: int | None = None) -> Charge:
    return Charge(
        kind=RowKind.USAGE if team else RowKind.IDLE,
        flavor="h100",
        resource=GPU,
        quantity=hours * HOUR_MS * 1000,
        start_ms=JUNE.start_ms,
        end_ms=JUNE.start_ms + hours * HOUR_MS,
        hourly=Fraction("1.40"),
        per_milli=1000,
        per="1",
        price_from_ms=ALWAYS_MS,
        micros=hours * 1_400_000 if micros is None else micros,
        workload_id=f"w-{team}" if team else "",
        attempt=1 if team else 0,
        klass=klass if team else "",
        namespace=team,
        workload="train, <all>" if team else "",
        cluster_queue=team,
        team=team,
        labels={"cost-centre": f"cc-{team}"} if team else {},
    )


@pytest.fixture
def statement() -> Statement:
    found = [charge("a", 20), charge("b", 10, klass="borrowed"), charge("", 42)]
    put_right = [Line(charge=charge("a", -5, klass="borrowed"), corrects="2026-05@Europe/Madrid")]
    return issue(JUNE, "EUR", JUNE.end_ms, found, put_right, None)


def rows_of(body: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(body.decode())))


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("team", ["a", "b", "__idle__"]),
        ("queue", ["a", "b", "__idle__"]),
        ("label:cost-centre", ["cc-a", "cc-b", "__idle__"]),
        ("label:colour", ["__unallocated__", "__idle__"]),
    ],
)
def test_a_table_sums_whatever_it_is_by(statement: Statement, by: str, keys: list[str]) -> None:
    view = view_of(statement, "closed", by)
    assert [row.key for row in view.rows] == sorted(keys, key=lambda key: (key[:2] == "__", key))
    assert sum(row.cents for row in view.rows) == view.total_cents == 9380
    assert (view.number, view.digest) == (1, statement.digest)


def test_a_dimension_that_does_not_exist_is_refused(statement: Statement) -> None:
    with pytest.raises(InvalidValue, match="not kept by 'colour'"):
        view_of(statement, "open", "colour")


def test_what_is_not_issued_has_no_number(statement: Statement) -> None:
    view = view_of(statement, "provisional", "team")
    assert (view.number, view.digest) == (0, "")


def test_files_hold_every_line_and_sum_to_the_statement(statement: Statement) -> None:
    rows = rows_of(lines_csv(statement))
    assert sum(int(row["micros"]) for row in rows) == statement.total_micros
    assert rows[0]["workload"] == "train, <all>"
    table = _files.read_table(io.BytesIO(lines_parquet(statement)))
    assert sum(table.column("micros").to_pylist()) == statement.total_micros


def test_focus_files_agree_and_sum_to_the_statement(statement: Statement) -> None:
    rows = rows_of(focus_csv(statement, "house"))
    assert tuple(rows[0]) == COLUMNS
    billed = [Fraction(row["BilledCost"]) for row in rows]
    assert sum(billed) * MICROS == statement.total_micros
    assert [row["ChargeClass"] for row in rows] == ["", "", "", "Correction"]
    table = _files.read_table(io.BytesIO(focus_parquet(statement, "house")))
    assert tuple(table.column_names) == COLUMNS
    assert [Fraction(cost) for cost in table.column("BilledCost").to_pylist()] == billed
    assert table.column("ChargeClass").to_pylist() == [None, None, None, "Correction"]
    starts = table.column("BillingPeriodStart").to_pylist()
    assert {start.isoformat() for start in starts} == {"2026-05-31T22:00:00+00:00"}


def test_the_page_shows_the_total_and_escapes_what_people_wrote(statement: Statement) -> None:
    text = page_of(view_of(statement, "closed", "workload"), "Europe/Madrid").decode()
    assert "93.80 EUR" in text
    assert "2026-06-01 to 2026-06-30, Europe/Madrid" in text
    assert "a/train, &lt;all&gt;" in text
    assert "<all>" not in text


def test_the_page_says_by_which_policy_it_is_charged_and_what_nobodys_rows_are(
    statement: Statement,
) -> None:
    terms = {"a": QueueTerms(basis=ChargingBasis.BOTH), "<b>": QueueTerms()}
    policy = (PolicyVersion(policy="finance", effective_from_ms=0, queues=terms),)
    view = view_of(replace(statement, policy=policy), "closed", "team")
    text = page_of(view, "UTC").decode()
    assert (
        "charged by finance from 1970-01-01T00:00:00Z: "
        "&lt;b&gt; by usage, a by both (lenders get 100 %), others by usage"
    ) in text
    assert "__idle__: capacity that nobody held" in text
    assert "charged by" not in page_of(view_of(statement, "closed", "team"), "UTC").decode()


def test_what_has_no_price_is_named_and_not_counted_as_free(statement: Statement) -> None:
    unpriced = replace(charge("c", 3, micros=0), flavor="<b200>", hourly=None)
    view = view_of(
        replace(statement, lines=(*statement.lines, Line(charge=unpriced))), "open", "team"
    )
    assert view_of(statement, "open", "team").unpriced == ()
    assert view.unpriced == (f"<b200>/{GPU}",)
    text = page_of(view, "UTC").decode()
    assert f"No price, not charged: &lt;b200&gt;/{GPU}" in text
    assert "No price" not in page_of(view_of(statement, "open", "team"), "UTC").decode()


def test_hours_and_amounts_of_the_page_add_up_to_its_last_line(statement: Statement) -> None:
    """Three rows of a third of an hour each."""
    thirds = [
        Line(charge=replace(charge(team, 1, micros=466_667), quantity=HOUR_MS * 1000 // 3))
        for team in "xyz"
    ]
    text = page_of(view_of(replace(statement, lines=tuple(thirds)), "closed", "team"), "UTC")
    cells = [re.findall(r"<td>([^<]*)</td>", row) for row in text.decode().split("<tr>")[2:]]
    assert [row[-6] for row in cells] == ["0.34", "0.33", "0.33", "1.00"]
    assert [row[-1] for row in cells] == ["0.47", "0.47", "0.46", "1.40"]


def test_the_page_says_how_busy_gpus_were_where_somebody_looked(statement: Statement) -> None:
    seen = replace(charge("a", 20), observed=10 * HOUR_MS * 1000, busy=4 * HOUR_MS * 1000)
    view = view_of(
        replace(statement, lines=(Line(charge=seen), *statement.lines[1:])), "open", "team"
    )
    text = page_of(view, "UTC").decode()
    assert "<td>40 %</td>" in text
    assert "<td>unknown</td>" in text
    assert "efficiency: the part of the time" in text
    assert "efficiency: the part" not in page_of(view_of(statement, "open", "team"), "UTC").decode()
    assert rows_of(lines_csv(replace(statement, lines=(Line(charge=seen),))))[0]["busy"] == str(
        4 * HOUR_MS * 1000
    )
