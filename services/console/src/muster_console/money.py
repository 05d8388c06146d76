"""Pages and files about money: what a window cost, on which terms, and what a month is charged."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from muster.rendering.cost import cost_csv
from muster_console import drawing
from muster_console.reading import given
from muster_console.rendering import SECURITY, render
from muster_console.session import Reads, Token
from muster_contracts.queries import CostReport
from muster_domain.money import IdlePolicy

DIMENSIONS = (
    "namespace", "team", "user", "cluster_queue", "local_queue", "flavor", "priority_class",
)  # fmt: skip
"""What is offered; `label:<key>` is taken too."""
STATEMENT_BY = ("team", "queue", "namespace", "user", "flavor")
IDLE_WORDS: Mapping[IdlePolicy, str] = {
    IdlePolicy.ROW: "a row of its own",
    IdlePolicy.PROPORTIONAL: "shared by what was held",
    IdlePolicy.NODE: "shared node by node",
    IdlePolicy.OWNER: "paid by who had it reserved",
    IdlePolicy.NONE: "left out",
}


class Basis(StrEnum):
    """What queues pay for; POLICY is what the ChargingPolicy of the time says of each."""

    POLICY = "policy"
    USAGE = "usage"
    COMMITMENT = "commitment"
    BOTH = "both"


BASIS_WORDS: Mapping[Basis, str] = {
    Basis.POLICY: "as the ChargingPolicy says",
    Basis.USAGE: "what was used",
    Basis.COMMITMENT: "nominal quota",
    Basis.BOTH: "nominal quota and loans",
}


class StatementForm(StrEnum):
    """A statement as a page to print, or as a file."""

    HTML = "html"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    FOCUS = "focus"

    @property
    def file_type(self) -> str:
        """What it is called on the web."""
        match self:
            case StatementForm.HTML:
                return "text/html; charset=utf-8"
            case StatementForm.CSV | StatementForm.FOCUS:
                return "text/csv; charset=utf-8"
            case StatementForm.JSON:
                return "application/json"
            case StatementForm.PARQUET:
                return "application/vnd.apache.parquet"

    @property
    def ending(self) -> str:
        """How the name of its file ends."""
        return "focus.csv" if self is StatementForm.FOCUS else self.value


router = APIRouter()
By = Annotated[str, Query(max_length=253)]
Start = Annotated[str, Query(alias="from", max_length=40)]
End = Annotated[str, Query(alias="to", max_length=40)]
Basis_ = Annotated[Basis | None, Query()]
Credit = Annotated[int, Query(ge=0, le=100)]


@router.get("/cost")
def cost(  # noqa: PLR0913 - one parameter for each choice
    request: Request,
    reading: Reads,
    token: Token,
    *,
    by: By = "namespace",
    start: Start = "",
    end: End = "",
    idle: IdlePolicy = IdlePolicy.ROW,
    basis: Basis_ = None,
    lender_credit: Credit = 100,
) -> Response:
    """What everybody used, borrowed, lost and owes, on the terms that are chosen."""
    chosen = _chosen(by, start, end, idle, basis, lender_credit)
    report = reading.cost(token, given(chosen))
    values = {
        "report": report,
        "bars": drawing.cost_bars(report),
        "chosen": chosen,
        "basis": _basis_of(report),
        "dimensions": DIMENSIONS,
        "idle_words": IDLE_WORDS,
        "basis_words": BASIS_WORDS,
        "windows": _windows(datetime.now(UTC)),
        "last_month": _month_before(datetime.now(UTC)).strftime("%Y-%m"),
        "statement_by": STATEMENT_BY,
        "forms": tuple(StatementForm),
    }
    return render(request, "cost.html", values)


@router.get("/cost.csv")
def cost_file(  # noqa: PLR0913 - one parameter for each choice
    reading: Reads,
    token: Token,
    *,
    by: By = "namespace",
    start: Start = "",
    end: End = "",
    idle: IdlePolicy = IdlePolicy.ROW,
    basis: Basis_ = None,
    lender_credit: Credit = 100,
) -> Response:
    """The same as a table for a spreadsheet."""
    chosen = _chosen(by, start, end, idle, basis, lender_credit)
    text = cost_csv(reading.cost(token, given(chosen)))
    return _file(text.encode(), "text/csv; charset=utf-8", "muster-cost.csv")


@router.get("/statement")
def statement(
    reading: Reads,
    token: Token,
    *,
    month: Annotated[str, Query(max_length=7)],
    tz: Annotated[str, Query(max_length=64)] = "UTC",
    by: By = "team",
    form: Annotated[StatementForm, Query(alias="format")] = StatementForm.HTML,
) -> Response:
    """What a month came to: a page that prints, or a file."""
    asked = {"tz": tz, "by": by, "format": form.value}
    body = reading.statement(token, month, given(asked))
    if form is StatementForm.HTML:
        return Response(body, media_type=form.file_type, headers=SECURITY)
    return _file(body, form.file_type, f"muster-statement.{form.ending}")


def _chosen(
    by: str, start: str, end: str, idle: IdlePolicy, basis: Basis | None, lender_credit: int
) -> dict[str, str]:
    return {
        "by": by,
        "from": start,
        "to": end,
        "idle": idle.value,
        "basis": basis.value if basis is not None else "",
        "lender_credit": str(lender_credit),
    }


def _basis_of(report: CostReport) -> Basis:
    return Basis.POLICY if report.by_policy else Basis(report.basis.value)


def _windows(now: datetime) -> tuple[tuple[str, str, str], ...]:
    """Usual windows: their names, first day, and the day after the last."""
    first = now.replace(day=1)
    before = _month_before(now)
    return (
        ("this month", "", ""),
        ("last month", f"{before:%Y-%m-01}", f"{first:%Y-%m-01}"),
        ("last 7 days", f"{now - timedelta(days=7):%Y-%m-%d}", ""),
        ("last 30 days", f"{now - timedelta(days=30):%Y-%m-%d}", ""),
    )


def _month_before(now: datetime) -> datetime:
    return now.replace(day=1) - timedelta(days=1)


def _file(body: bytes, file_type: str, name: str) -> Response:
    headers = {**SECURITY, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(body, media_type=file_type, headers=headers)
