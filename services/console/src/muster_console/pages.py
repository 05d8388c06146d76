"""The pages. A route reads, draws and renders; it decides nothing and changes nothing."""

import time
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from muster.errors import Refused, Unreachable
from muster.rendering.explain import explain
from muster.rendering.floor import conditions, largest_gangs, short_level
from muster_console import drawing
from muster_console.reading import Parameters
from muster_console.rendering import render
from muster_console.session import Reads, Token
from muster_contracts.queries import Phase
from muster_domain.money import ChargingBasis, IdlePolicy

PAGE_ROWS = 100
DIMENSIONS = (
    "namespace",
    "team",
    "user",
    "cluster_queue",
    "local_queue",
    "flavor",
    "priority_class",
)
_STATIC = {"style.css": "text/css", "refresh.js": "text/javascript"}
_UNAUTHENTICATED = 401

router = APIRouter()
Text = Annotated[str, Query(max_length=253)]


@router.get("/")
def queues(request: Request, reading: Reads, token: Token) -> Response:
    """Who has which quota, who borrows, how many wait."""
    found = reading.quota(token)
    values = {"cohorts": drawing.cohorts(found.page), "silent": found.silent}
    return render(request, "queues.html", values)


@router.get("/workloads")
def workloads(  # noqa: PLR0913 - one parameter for each filter
    request: Request,
    reading: Reads,
    token: Token,
    *,
    phase: Text = "",
    namespace: Text = "",
    queue: Text = "",
    cluster_queue: Text = "",
    name: Text = "",
    offset: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """Who runs, who waits and why, who has ended."""
    filters = {
        "phase": phase,
        "namespace": namespace,
        "queue": queue,
        "cluster_queue": cluster_queue,
        "name": name,
    }
    asked = {**filters, "limit": str(PAGE_ROWS), "offset": str(offset)}
    found = reading.workloads(token, _sorted(asked))
    values = {
        "page": found.page,
        "silent": found.silent,
        "phases": tuple(Phase),
        "filters": filters,
        "offset": offset,
        "rows_max": PAGE_ROWS,
        "now_ms": _now_ms(),
    }
    return render(request, "workloads.html", values)


@router.get("/workloads/{reference}")
def workload(request: Request, reading: Reads, token: Token, reference: str) -> Response:
    """Why a workload waits, what it would take, and what happened to it so far."""
    detail = reading.workload(token, reference)
    now_ms = _now_ms()
    over = detail.row.phase is Phase.FINISHED
    values = {
        "detail": detail,
        "row": detail.row,
        "lines": explain(detail, now_ms),
        "stages": drawing.stages(detail.timeline, now_ms, over=over),
        "verdicts": drawing.verdicts(detail.explanation.flavors),
        "now_ms": now_ms,
    }
    return render(request, "workload.html", values)


@router.get("/nodes")
def nodes(request: Request, reading: Reads, token: Token) -> Response:
    """Who sits where, what is free, and the largest gang that fits."""
    page, domains = reading.nodes(token), reading.domains(token)
    values = {
        "floor": drawing.floor(page, domains),
        "page": page,
        "conditions": conditions(page.nodes),
        "gangs": largest_gangs(domains),
        "short_level": short_level,
    }
    return render(request, "nodes.html", values)


@router.get("/cost")
def cost(  # noqa: PLR0913 - one parameter for each choice
    request: Request,
    reading: Reads,
    token: Token,
    *,
    by: Text = "namespace",
    start: Annotated[str, Query(alias="from", max_length=40)] = "",
    end: Annotated[str, Query(alias="to", max_length=40)] = "",
    idle: IdlePolicy = IdlePolicy.ROW,
    basis: ChargingBasis = ChargingBasis.USAGE,
) -> Response:
    """What every team used, borrowed, lost and owes."""
    chosen = {"by": by, "from": start, "to": end, "idle": str(idle), "basis": str(basis)}
    report = reading.cost(token, _sorted(chosen))
    values = {
        "report": report,
        "bars": drawing.cost_bars(report),
        "chosen": chosen,
        "dimensions": DIMENSIONS,
        "idle_policies": tuple(IdlePolicy),
        "bases": tuple(ChargingBasis),
    }
    return render(request, "cost.html", values)


@router.get("/static/{name}")
def static(name: str) -> Response:
    """The style and the script of the pages."""
    if name not in _STATIC:
        return PlainTextResponse("there is no such file\n", status_code=404)
    text = files("muster_console").joinpath("static", name).read_text("utf-8")
    headers = {"Cache-Control": "max-age=3600", "X-Content-Type-Options": "nosniff"}
    return Response(text, media_type=_STATIC[name], headers=headers)


@router.get("/healthz")
@router.get("/readyz")
def ready() -> PlainTextResponse:
    """Say that pages are served; what is behind them says so itself, on every page."""
    return PlainTextResponse("ready\n")


def install(app: FastAPI) -> None:
    """Add the pages, and the page for every way in which reading can fail."""
    app.include_router(router)

    @app.exception_handler(Refused)
    def refused(request: Request, error: Refused) -> Response:
        if error.status == _UNAUTHENTICATED:
            return RedirectResponse("/login", status_code=303)
        values = {"title": "Refused", "refusal": error.refusal}
        return render(request, "problem.html", values, status=error.status)

    @app.exception_handler(Unreachable)
    def unreachable(request: Request, error: Unreachable) -> Response:
        values = {"title": "Muster does not answer", "refusal": None, "problem": str(error)}
        return render(request, "problem.html", values, status=503)


def _sorted(parameters: dict[str, str]) -> Parameters:
    return tuple(sorted((name, value) for name, value in parameters.items() if value))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
