"""The pages. A route reads, draws and renders; it decides nothing and changes nothing."""

import time
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from muster.errors import Refused, Unreachable
from muster.rendering.explain import SEEKING, explain
from muster.rendering.fit import fit_map, largest_lines, left_out
from muster.rendering.floor import largest_gangs
from muster.rendering.head import head
from muster_console import drawing, money
from muster_console.floor import NODES_DRAWN, View, floor, wanted
from muster_console.reading import given
from muster_console.rendering import render
from muster_console.session import Reads, Token
from muster_contracts.api import Refusal
from muster_contracts.queries import Phase

PAGE_ROWS = 100
PLACES_DRAWN = 120
_STATIC = {"style.css": "text/css", "refresh.js": "text/javascript"}
_UNAUTHENTICATED, _NOT_FOUND, _UNREADABLE = 401, 404, 422

router = APIRouter()
Text = Annotated[str, Query(max_length=253)]


@router.get("/")
def queues(
    request: Request,
    reading: Reads,
    token: Token,
    *,
    name: Text = "",
    offset: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """Who has which quota, who borrows, how many wait."""
    found = reading.quota(token)
    everything = drawing.cohorts(found.page)
    values = {
        "cohorts": drawing.part_of(everything, name, offset),
        "silent": found.silent,
        "queues": found.page.queues,
        "total": sum(name in queue.name for queue in found.page.queues),
        "name": name,
        "offset": offset,
        "rows_max": drawing.QUEUES_DRAWN,
    }
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
    found = reading.workloads(token, given(asked))
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
    fit = None if over else reading.fit(token, detail.row.id)
    values = {
        "detail": detail,
        "row": detail.row,
        "seeking": detail.row.phase in SEEKING,
        "largest": () if fit is None else largest_lines(fit),
        "places": None if fit is None else fit_map(fit, PLACES_DRAWN),
        "left_out": left_out,
        "lines": explain(detail, now_ms, reading.seated(token, detail), fit),
        "stages": drawing.stages(detail.timeline, now_ms, over=over),
        "verdicts": drawing.verdicts(detail.explanation.flavors),
        "now_ms": now_ms,
    }
    return render(request, "workload.html", values)


@router.get("/nodes")
def nodes(  # noqa: PLR0913 - one parameter for each choice
    request: Request,
    reading: Reads,
    token: Token,
    *,
    topology: Text = "",
    inside: Annotated[str, Query(alias="in", max_length=2000)] = "",
    name: Text = "",
    offset: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """Who sits where, what is free, and the largest gang that fits."""
    view = View(
        topology=topology,
        path=tuple(part for part in inside.split("/") if part),
        name=name,
        offset=offset,
    )
    domains = reading.domains(token)
    page = reading.nodes(token, given(wanted(domains, view)))
    values = {
        "floor": floor(page, domains, view),
        "view": view,
        "head": head(page, domains),
        "gangs": largest_gangs(domains),
        "rows_max": NODES_DRAWN,
    }
    return render(request, "nodes.html", values)


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
    app.include_router(money.router)

    @app.exception_handler(Refused)
    def refused(request: Request, error: Refused) -> Response:
        if error.status == _UNAUTHENTICATED:
            return RedirectResponse("/login", status_code=303)
        title = "Not found" if error.status == _NOT_FOUND else "Refused"
        values = {"title": title, "refusal": error.refusal, "back": _above(request.url.path)}
        return render(request, "problem.html", values, status=error.status)

    @app.exception_handler(HTTPException)
    def nowhere(request: Request, error: HTTPException) -> Response:
        refusal = Refusal(kind="not_found", problem=f"There is no page {request.url.path}.")
        values = {"title": "Not found", "refusal": refusal, "back": "/"}
        return render(request, "problem.html", values, status=error.status_code)

    @app.exception_handler(RequestValidationError)
    def unreadable(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field, problem = str(first["loc"][-1]), str(first["msg"])
        refusal = Refusal(kind="invalid", problem=f"{field}: {problem}")
        values = {"title": "Refused", "refusal": refusal, "back": request.url.path}
        return render(request, "problem.html", values, status=_UNREADABLE)

    @app.exception_handler(Unreachable)
    def unreachable(request: Request, error: Unreachable) -> Response:
        values = {"title": "Muster does not answer", "refusal": None, "problem": str(error)}
        return render(request, "problem.html", values, status=503)


def _above(path: str) -> str:
    """The page that leads to those of a path, or the page itself without what was asked of it."""
    return "/workloads" if path.startswith("/workloads/") else path


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
