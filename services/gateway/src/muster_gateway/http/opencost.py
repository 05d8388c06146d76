"""OpenCost's paths: the same parameters and shapes, over Muster's books.

Every answer is an envelope whose `code` is the HTTP status. A parameter that is not known, or whose
value is not understood, is an error that names it.
"""

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.responses import Response

from muster_contracts.allocations import AllocationQuestion, AllocationSets, AssetsQuestion
from muster_domain.errors import Forbidden, InvalidValue, MusterError
from muster_gateway.access import Caller, Right
from muster_gateway.http.dependencies import Gate, Who
from muster_gateway.http.opencost_shape import (
    allocation_map,
    asset,
    pricing_map,
    summary_range,
)
from muster_gateway.http.problems import headers_of, status_of

TEXT_MAX = 4000
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))
_SHARED = (
    "window", "tz", "aggregate", "step", "accumulate", "accumulateBy", "filter", "resolution",
)  # fmt: skip
_SHARING = ("shareIdle", "shareNamespaces", "shareLabels", "shareCost", "shareSplit")
ALLOCATION = (*_SHARED, "includeIdle", "idleByNode", *_SHARING)
ASSETS = ("window", "tz", "filter")


class OpenCostRoute(APIRoute):
    """Answers errors as OpenCost's clients expect them."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """As FastAPI has it."""
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except MusterError as error:
                return _refusal(error)

        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRefusal:
    """An error as OpenCost's clients expect it; `param` names the parameter that is wrong."""

    code: int
    status: Literal["error"] = "error"
    message: str
    param: str | None = None


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": CostRefusal} for status in (400, 401, 403, 404, 409, 503)
}
router = APIRouter(tags=["opencost"], route_class=OpenCostRoute, responses=REFUSALS)


def documented(names: Collection[str]) -> dict[str, Any]:
    """The parameters in the words of OpenAPI; they are read by `Parameters`."""
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": name == "window",
                "schema": {"type": "string"},
            }
            for name in names
        ]
    }


@router.get("/allocation", openapi_extra=documented(ALLOCATION))
@router.get("/allocation/compute", openapi_extra=documented(ALLOCATION))
async def allocation(request: Request, gateway: Gate, caller: Who) -> JSONResponse:
    """Allocations by step and key. `window` is required."""
    parameters = Parameters(request, ALLOCATION)
    found = await gateway.owners.allocation(_question(parameters, caller))
    return success([allocation_map(one) for one in found.sets], found)


@router.get("/allocation/summary", openapi_extra=documented(ALLOCATION))
async def allocation_summary(request: Request, gateway: Gate, caller: Who) -> JSONResponse:
    """The same in short."""
    parameters = Parameters(request, ALLOCATION)
    found = await gateway.owners.allocation(_question(parameters, caller))
    return success(summary_range(found), found)


@router.get("/assets", openapi_extra=documented(ASSETS))
async def assets(request: Request, gateway: Gate, caller: Who) -> JSONResponse:
    """Nodes and what they cost. `window` is required."""
    _sees_all(caller)
    parameters = Parameters(request, ASSETS)
    question = AssetsQuestion(
        window=parameters.required("window"),
        tz=parameters.text("tz", "UTC"),
        filter=parameters.text("filter"),
    )
    found = await gateway.owners.assets(question)
    return success({row.node: asset(row, found) for row in found.rows})


@router.get("/allNodePricing")
async def all_node_pricing(request: Request, gateway: Gate, caller: Who) -> JSONResponse:
    """The price that is applied to each resource of each node, and how it was written."""
    _sees_all(caller)
    Parameters(request, ())
    return success(pricing_map(await gateway.owners.node_prices()))


class Parameters:
    """The query of a request, of known names only. Raises `InvalidValue`."""

    def __init__(self, request: Request, known: Collection[str]) -> None:
        self._values: dict[str, str] = {}
        for name, value in request.query_params.multi_items():
            if name not in known:
                raise InvalidValue(
                    f"there is no parameter {name!r}",
                    field=name,
                    fix=f"use {', '.join(known)}" if known else "leave it out",
                )
            if name in self._values:
                raise InvalidValue(f"{name} is given twice", field=name)
            if len(value) > TEXT_MAX:
                raise InvalidValue(f"{name} is longer than {TEXT_MAX}", field=name)
            self._values[name] = value

    def text(self, name: str, default: str = "") -> str:
        """A value as it was written."""
        return self._values.get(name, default)

    def required(self, name: str) -> str:
        """A value that must be there. Raises `InvalidValue`."""
        if not self.text(name):
            raise InvalidValue(f"there is no {name}", field=name, fix=f"write {name}=7d")
        return self.text(name)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A truth value as Go reads them. Raises `InvalidValue`."""
        text = self._values.get(name)
        if text is None:
            return default
        if text not in _TRUE | _FALSE:
            raise InvalidValue(
                f"{name} is {text!r}", field=name, fix=f"write {name}=true or {name}=false"
            )
        return text in _TRUE


def _question(parameters: Parameters, caller: Caller) -> AllocationQuestion:
    caller.need(Right.READ)
    weighted = parameters.text("shareIdle") == "weighted"
    shares = weighted or parameters.flag("shareIdle")
    if shares and not parameters.flag("includeIdle", default=True):
        raise InvalidValue(
            "idle is shared and not included",
            field="shareIdle",
            fix="leave includeIdle out, or set shareIdle=false",
        )
    return AllocationQuestion(
        window=parameters.required("window"),
        tz=parameters.text("tz", "UTC"),
        aggregate=parameters.text("aggregate"),
        step=parameters.text("step"),
        filter=parameters.text("filter"),
        accumulate=parameters.flag("accumulate"),
        accumulate_by=parameters.text("accumulateBy"),
        include_idle=parameters.flag("includeIdle"),
        share_idle=shares,
        idle_by_node=parameters.flag("idleByNode"),
        share_namespaces=parameters.text("shareNamespaces"),
        share_labels=parameters.text("shareLabels"),
        share_cost=parameters.text("shareCost", "0"),
        share_split=parameters.text("shareSplit", "weighted"),
        resolution=parameters.text("resolution"),
        namespaces=caller.visible(),
    )


def _sees_all(caller: Caller) -> None:
    caller.need(Right.READ)
    if caller.namespaces is not None:
        raise Forbidden(f"{caller.name} is held to namespaces and may not see whole nodes")


def success(data: object, found: AllocationSets | None = None) -> JSONResponse:
    """An answer in OpenCost's envelope."""
    body: dict[str, object] = {"code": 200, "status": "success", "data": data}
    if found is not None and found.provisional:
        body["provisional"] = True
    if found is not None and found.unpriced:
        body["warning"] = f"no price, so no cost: {', '.join(found.unpriced)}"
    return JSONResponse(body)


def _refusal(error: MusterError) -> Response:
    status, _ = status_of(error)
    param = None
    if isinstance(error, InvalidValue):
        status, param = 400, error.field
    refusal = CostRefusal(code=status, message=str(error), param=param)
    return JSONResponse(
        {name: value for name, value in asdict(refusal).items() if value is not None},
        status_code=status,
        headers=headers_of(error),
    )
