"""Paths about money that is set aside and money that is owed: budgets and statements."""

import asyncio
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response

from muster_contracts import codec
from muster_contracts.budgets import BudgetPage
from muster_contracts.commitments import CommitmentPage
from muster_contracts.statements import CloseQuestion, StatementPage
from muster_domain.errors import Forbidden, InvalidValue, NotFound
from muster_gateway import statement_files
from muster_gateway.access import Caller, Right
from muster_gateway.commitments import commitment_page, period_asked
from muster_gateway.http.dependencies import Gate, Who
from muster_gateway.http.parameters import TEXT_MAX
from muster_gateway.statement_files import Form
from muster_rating.periods import month_of
from muster_rating.statements import Statement
from muster_runtime.clock import now_ms

PROVIDER = "Muster"

router = APIRouter(tags=["money"])


@router.get("/v1/cost/budgets")
async def budgets(
    gateway: Gate, caller: Who, name: Annotated[str, Query(max_length=TEXT_MAX)] = ""
) -> BudgetPage:
    """Budgets with what is spent and held of them in their present periods.

    Who is held to namespaces sees the budgets of those.
    """
    caller.need(Right.READ)
    page = await gateway.owners.budgets()
    rows = tuple(
        row for row in page.rows if name in ("", row.budget) and _may_see(caller, row.scope)
    )
    if name and not rows and not page.silent:
        raise NotFound(f"there is no Budget {name!r}")
    return replace(page, rows=rows)


@router.get("/v1/cost/commitments")
async def commitments(
    gateway: Gate,
    caller: Who,
    month: Annotated[str, Query(max_length=7)] = "",
    tz: Annotated[str, Query(max_length=64)] = "UTC",
) -> CommitmentPage:
    """What quota comes to in a month: nominal, ceiling, and what is borrowed now if it stays so.

    Without `month` it is the next one.
    """
    caller.need(Right.READ)
    _sees_all(caller)
    if month:
        _check_month(month, tz)
    period = period_asked(month, tz, now_ms())
    quota = await gateway.owners.quota("")
    listed = await gateway.owners.prices()
    return commitment_page(quota.value, quota.silent, listed, period)


@router.get("/v1/cost/statements/{month}", response_class=Response)
async def statement(
    month: str,
    gateway: Gate,
    caller: Who,
    tz: Annotated[str, Query(max_length=64)] = "UTC",
    by: Annotated[str, Query(max_length=TEXT_MAX)] = "team",
    form: Annotated[Form, Query(alias="format")] = Form.JSON,
) -> Response:
    """What a month came to, in the days of a zone: issued, or as it would be issued now."""
    caller.need(Right.READ)
    _sees_all(caller)
    _check_month(month, tz)
    found, state = await gateway.owners.statement(month, tz)
    body = await asyncio.to_thread(_render, found, state, by, tz, form)
    return Response(body, media_type=form.media_type)


@router.post("/v1/cost/periods/{month}/close")
async def close(
    month: str, gateway: Gate, caller: Who, tz: Annotated[str, Query(max_length=64)] = "UTC"
) -> StatementPage:
    """Close a month: its statement is issued, once, and never changes. The first lines of it."""
    caller.need(Right.CONFIGURE)
    _sees_all(caller)
    _check_month(month, tz)
    return await gateway.owners.close(CloseQuestion(month=month, zone=tz))


def _check_month(month: str, tz: str) -> None:
    """Raises `InvalidValue` that names the parameter."""
    try:
        month_of(month, tz)
    except InvalidValue as error:
        field = "tz" if error.field == "timeZone" else "month"
        raise InvalidValue(error.problem, field=field, fix=error.fix) from error


def _render(found: Statement, state: str, by: str, zone: str, form: Form) -> bytes:
    match form:
        case Form.JSON:
            return codec.encode(statement_files.view_of(found, state, by))
        case Form.HTML:
            return statement_files.page_of(statement_files.view_of(found, state, by), zone)
        case Form.CSV:
            return statement_files.lines_csv(found)
        case Form.PARQUET:
            return statement_files.lines_parquet(found)
        case Form.FOCUS:
            return statement_files.focus_csv(found, PROVIDER)
        case Form.FOCUS_PARQUET:
            return statement_files.focus_parquet(found, PROVIDER)


def _may_see(caller: Caller, scope: str) -> bool:
    if caller.namespaces is None:
        return True
    return any(scope == f"namespace {name}" for name in caller.namespaces)


def _sees_all(caller: Caller) -> None:
    if caller.namespaces is not None:
        raise Forbidden(f"{caller.name} is held to namespaces and may not see all that is charged")
