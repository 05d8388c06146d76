"""Paths about tokens: what a proxy reports, and what it comes to."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from muster_contracts.tokens import TokenReport, TokensQuestion, TokensTaken
from muster_domain.errors import InvalidValue
from muster_gateway.access import Right
from muster_gateway.http.dependencies import Called, Gate, Sent, Who
from muster_gateway.http.parameters import TEXT_MAX
from muster_gateway.http.reads import window_ms
from muster_gateway.token_rows import read_rows, reported
from muster_runtime.clock import now_ms

router = APIRouter(tags=["tokens"])


@router.post("/v1/usage/tokens", status_code=202)
async def report_tokens(
    call: Called,
    sent: Sent,
    namespace: Annotated[
        str, Query(max_length=TEXT_MAX, description="Where models are served, for rows that do not")
    ] = "",
) -> TokensTaken:
    """Take rows of a LiteLLM spend log: a JSON list, or a row on each line.

    All rows are taken or none. The same `request_id` again changes nothing.
    """
    uses = read_rows(sent, namespace=namespace)
    for served_in in sorted({use.namespace for use in uses}):
        call.caller.need(Right.SUBMIT, served_in)
    facts = reported(uses, by=call.caller.name, cause=call.cause)
    await call.gateway.bus.publish(facts)
    return TokensTaken(uses=len(uses), messages=len(facts))


@router.get("/v1/cost/tokens")
async def token_cost(  # noqa: PLR0913, PLR0917 - one parameter for each option
    gateway: Gate,
    caller: Who,
    by: Annotated[str, Query(max_length=TEXT_MAX)] = "team",
    start: Annotated[str, Query(alias="from", max_length=40)] = "",
    end: Annotated[str, Query(alias="to", max_length=40)] = "",
    start_date: Annotated[str, Query(max_length=10, description="The first day, UTC")] = "",
    end_date: Annotated[str, Query(max_length=10, description="The last day, included")] = "",
) -> TokenReport:
    """What models used, what it comes to, and whether their prices recover their hardware.

    The window is `from` and `to` as for `/v1/cost`, or whole days of which the last is included.
    """
    caller.need(Right.READ)
    if (start_date or end_date) and (start or end):
        raise InvalidValue("the window is given twice", field="start_date", fix="leave from out")
    if start_date or end_date:
        start = _day(start_date or end_date, "start_date").isoformat()
        last = _day(end_date, "end_date") if end_date else datetime.now(UTC).date()
        end = (last + timedelta(days=1)).isoformat()
    start_ms, end_ms = window_ms(start, end, now_ms())
    return await gateway.owners.tokens(
        TokensQuestion(by=by, start_ms=start_ms, end_ms=end_ms, namespaces=caller.visible())
    )


def _day(text: str, field: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InvalidValue(f"{text!r} is not a day", field=field, fix="write 2026-06-30") from error
