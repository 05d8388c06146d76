"""OpenCost's paths for what is not hardware: token spend as custom costs, inference by model.

A custom cost is one that may be added to that of the hardware, so the money of models that run on
metered hardware is not in `cost`; `list_cost` has all of it.
"""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from muster_contracts.tokens import ModelDrift, TokenLine, TokenReport, TokenSet, TokensQuestion
from muster_domain.errors import InvalidValue
from muster_gateway.access import Caller, Right
from muster_gateway.http.dependencies import Gate, Who
from muster_gateway.http.opencost import REFUSALS, OpenCostRoute, Parameters, documented, success
from muster_gateway.http.opencost_shape import shown_micros, shown_time
from muster_rating.opencost.windows import read_window
from muster_runtime.clock import now_ms

router = APIRouter(tags=["opencost"], route_class=OpenCostRoute, responses=REFUSALS)

DOMAIN = "tokens"
SOURCE = "litellm"
USAGE_UNIT = "tokens"
DAY_MS = 86_400_000
_STEPS = {"hour": DAY_MS // 24, "day": DAY_MS, "week": 7 * DAY_MS, "all": 0}
_KEPT = {"zone": "namespace", "accountName": "team", "resourceName": "model"}
TOTAL = ("window", "tz", "aggregate")
TIMESERIES = (*TOTAL, "accumulate")
INFERENCE = ("window", "tz", "aggregate", "costBasis")


@router.get("/customCost/total", openapi_extra=documented(TOTAL))
async def custom_total(request: Request, gateway: Gate, caller: Who) -> JSONResponse:
    """What tokens came to over a window. `window` is required."""
    parameters = Parameters(request, TOTAL)
    names = _aggregate(parameters)
    report = await gateway.owners.tokens(_question(parameters, caller, names, 0))
    return success(_costs(report.sets[0], names))


@router.get("/customCost/timeseries", openapi_extra=documented(TIMESERIES))
async def custom_timeseries(request: Request, gateway: Gate, caller: Who) -> JSONResponse:
    """The same by hour, day (the default) or week."""
    parameters = Parameters(request, TIMESERIES)
    names = _aggregate(parameters)
    step = parameters.text("accumulate", "day")
    if step not in _STEPS:
        raise InvalidValue(
            f"{step!r} is no step", field="accumulate", fix=f"use {', '.join(_STEPS)}"
        )
    report = await gateway.owners.tokens(_question(parameters, caller, names, _STEPS[step]))
    first, last = report.sets[0], report.sets[-1]
    return success(
        {
            "window": {"start": shown_time(first.start_ms), "end": shown_time(last.end_ms)},
            "timeseries": [_costs(one, names) for one in report.sets],
        }
    )


@router.get("/customCost/status")
async def custom_status(request: Request, gateway: Gate, caller: Who) -> JSONResponse:
    """Where custom costs come from, and whether all of this month's have a price."""
    Parameters(request, ())
    caller.need(Right.READ)
    window = read_window("month", now_ms())
    report = await gateway.owners.tokens(
        TokensQuestion(
            by="model", start_ms=window.start_ms, end_ms=window.end_ms, namespaces=caller.visible()
        )
    )
    return success([_status(report)])


@router.get("/inferenceCost/total", openapi_extra=documented(INFERENCE))
async def inference_total(request: Request, gateway: Gate, caller: Who) -> JSONResponse:
    """What a million tokens of each model really cost, by the hardware that serves it."""
    parameters = Parameters(request, INFERENCE)
    if parameters.text("costBasis", "allocation") != "allocation":
        raise InvalidValue(
            "the cost of what hardware was busy with is not known by model",
            field="costBasis",
            fix="write costBasis=allocation",
        )
    if parameters.text("aggregate", "model_name,namespace") != "model_name,namespace":
        raise InvalidValue(
            "inference is kept by model and namespace",
            field="aggregate",
            fix="write aggregate=model_name,namespace",
        )
    report = await gateway.owners.tokens(_question(parameters, caller, ("model",), 0))
    return success([_inference(model, report) for model in report.models])


def _question(
    parameters: Parameters, caller: Caller, names: tuple[str, ...], step_ms: int
) -> TokensQuestion:
    caller.need(Right.READ)
    window = read_window(parameters.required("window"), now_ms(), parameters.text("tz", "UTC"))
    return TokensQuestion(
        by=",".join(_KEPT.get(name, name) for name in names),
        start_ms=window.start_ms,
        end_ms=window.end_ms,
        namespaces=caller.visible(),
        step_ms=step_ms,
    )


def _aggregate(parameters: Parameters) -> tuple[str, ...]:
    names = tuple(parameters.text("aggregate", "accountName,resourceName,zone").split(","))
    for name in names:
        if name not in _KEPT:
            raise InvalidValue(
                f"token spend is not kept by {name!r}",
                field="aggregate",
                fix=f"use {', '.join(_KEPT)}, or several with commas",
            )
    return names


def _costs(one: TokenSet, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "window": {"start": shown_time(one.start_ms), "end": shown_time(one.end_ms)},
        "totalCost": shown_micros(one.total.additive_micros),
        "totalListCost": shown_micros(one.total.cost_micros or 0),
        "totalCostType": "blended",
        "customCosts": [_cost(line, names) for line in one.lines],
    }


def _cost(line: TokenLine, names: tuple[str, ...]) -> dict[str, Any]:
    kept = dict(zip(names, line.key, strict=True))
    name = "/".join(line.key)
    return {
        "id": name,
        "zone": kept.get("zone", ""),
        "account_name": kept.get("accountName", ""),
        "charge_category": "Usage",
        "description": "",
        "resource_name": kept.get("resourceName", ""),
        "resource_type": "model",
        "provider_id": kept.get("resourceName", ""),
        "cost": shown_micros(line.additive_micros),
        "list_cost": None if line.cost_micros is None else shown_micros(line.cost_micros),
        "usage_quantity": line.prompt_tokens + line.completion_tokens,
        "usage_unit": USAGE_UNIT,
        "domain": DOMAIN,
        "cost_source": SOURCE,
        "aggregate": name,
        "cost_type": "blended",
    }


def _status(report: TokenReport) -> dict[str, Any]:
    total = report.sets[0].total
    return {
        "domain": DOMAIN,
        "costSource": SOURCE,
        "requests": total.requests,
        "currency": report.currency,
        "unpriced": list(report.unpriced),
        "provisional": report.provisional,
    }


def _inference(found: ModelDrift, report: TokenReport) -> dict[str, Any]:
    permille = found.drift_permille
    return {
        "modelName": found.model,
        "namespace": found.namespace,
        "currency": report.currency,
        "promptTokens": found.prompt_tokens,
        "completionTokens": found.completion_tokens,
        "totalTokens": found.prompt_tokens + found.completion_tokens,
        "totalCost": shown_micros(found.iron_micros),
        "tokenCost": shown_micros(found.token_micros),
        "tokenCostPolicy": str(found.policy),
        "costPerMillionTokens": None
        if found.per_million_micros is None
        else shown_micros(found.per_million_micros),
        "driftPercent": None if permille is None else permille / 10,
        "status": str(found.status),
        "suggestedInputPricePerMillion": found.suggested_input or None,
        "suggestedOutputPricePerMillion": found.suggested_output or None,
    }
