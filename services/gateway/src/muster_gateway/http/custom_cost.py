"""OpenCost's paths for what is not hardware: token spend as custom costs, inference by model.

A custom cost is one that may be added to that of the hardware, so the money of models that run on
metered hardware is not in `cost`, unless it is asked for with `costType=list`; `list_cost` has all
of it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from muster_contracts.tokens import ModelDrift, TokenLine, TokenReport, TokenSet, TokensQuestion
from muster_domain.errors import InvalidValue
from muster_gateway.access import Caller, Right
from muster_gateway.http.dependencies import Gate, Who
from muster_gateway.http.opencost import REFUSALS, OpenCostRoute, Parameters, documented, success
from muster_gateway.http.opencost_shape import shown_micros, shown_time
from muster_rating.opencost.filters import Fields, read_filter
from muster_rating.opencost.windows import read_window
from muster_runtime.clock import now_ms

router = APIRouter(tags=["opencost"], route_class=OpenCostRoute, responses=REFUSALS)

DOMAIN = "tokens"
SOURCE = "litellm"
USAGE_UNIT = "tokens"
DAY_MS = 86_400_000
_STEPS = {"hour": DAY_MS // 24, "day": DAY_MS, "week": 7 * DAY_MS, "all": 0}
_BY = "namespace,team,model"
TOTAL = ("window", "tz", "aggregate", "filter", "costType", "sortBy", "sortDirection")
TIMESERIES = (*TOTAL, "accumulate")
INFERENCE = ("window", "tz", "aggregate", "costBasis")


@router.get("/customCost/total", openapi_extra=documented(TOTAL))
async def custom_total(request: Request, gateway: Gate, caller: Who) -> JSONResponse:
    """What tokens came to over a window. `window` is required."""
    parameters = Parameters(request, TOTAL)
    view = _view(parameters)
    report = await gateway.owners.tokens(_question(parameters, caller, _BY, 0))
    return success(view.costs(report.sets[0]))


@router.get("/customCost/timeseries", openapi_extra=documented(TIMESERIES))
async def custom_timeseries(request: Request, gateway: Gate, caller: Who) -> JSONResponse:
    """The same by hour, day (the default) or week."""
    parameters = Parameters(request, TIMESERIES)
    view = _view(parameters)
    step = parameters.text("accumulate", "day")
    if step not in _STEPS:
        raise InvalidValue(
            f"{step!r} is no step", field="accumulate", fix=f"use {', '.join(_STEPS)}"
        )
    report = await gateway.owners.tokens(_question(parameters, caller, _BY, _STEPS[step]))
    first, last = report.sets[0], report.sets[-1]
    return success(
        {
            "window": {"start": shown_time(first.start_ms), "end": shown_time(last.end_ms)},
            "timeseries": [view.costs(one) for one in report.sets],
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
    report = await gateway.owners.tokens(_question(parameters, caller, "model", 0))
    return success([_inference(model, report) for model in report.models])


def _question(parameters: Parameters, caller: Caller, by: str, step_ms: int) -> TokensQuestion:
    caller.need(Right.READ)
    window = read_window(parameters.required("window"), now_ms(), parameters.text("tz", "UTC"))
    return TokensQuestion(
        by=by,
        start_ms=window.start_ms,
        end_ms=window.end_ms,
        namespaces=caller.visible(),
        step_ms=step_ms,
    )


@dataclass(slots=True, kw_only=True)
class _Cost:
    """Custom costs that are shown as one. `listed` is None where none of it has a price."""

    texts: dict[str, str]
    additive: int = 0
    listed: int | None = None
    tokens: int = 0

    def add(self, line: TokenLine) -> None:
        """Add a line; of what the two do not share nothing is told."""
        for name, of in _TEXTS.items():
            if self.texts[name] != of(line):
                self.texts[name] = ""
        self.additive += line.additive_micros
        self.tokens += line.prompt_tokens + line.completion_tokens
        if line.cost_micros is not None:
            self.listed = (self.listed or 0) + line.cost_micros


_TEXTS: Mapping[str, Callable[[TokenLine], str]] = {
    "zone": lambda line: line.key[0],
    "accountName": lambda line: line.key[1],
    "resourceName": lambda line: line.key[2],
    "providerId": lambda line: line.key[2],
    "chargeCategory": lambda _line: "Usage",
    "description": lambda _line: "",
    "resourceType": lambda _line: "model",
    "usageUnit": lambda _line: USAGE_UNIT,
    "domain": lambda _line: DOMAIN,
    "costSource": lambda _line: SOURCE,
}
"""What OpenCost keeps custom costs by, of one line by namespace, team and model."""
_FIELDS: Fields[TokenLine] = Fields(texts=_TEXTS)
_COST_TYPES = ("blended", "billed", "list")
_SORTS = ("cost", "aggregate", "costType")
_DIRECTIONS = ("desc", "asc")


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """How custom costs are asked for."""

    names: tuple[str, ...]
    keep: Callable[[TokenLine], bool]
    cost_type: str
    sort: str
    descending: bool

    def costs(self, one: TokenSet) -> dict[str, Any]:
        """A set in OpenCost's shape."""
        found: dict[tuple[str, ...], _Cost] = {}
        for line in filter(self.keep, one.lines):
            key = tuple(_TEXTS[name](line) for name in self.names)
            texts = {name: of(line) for name, of in _TEXTS.items()}
            found.setdefault(key, _Cost(texts=texts)).add(line)
        rows = sorted(found.items(), key=lambda row: row[0])
        if self.sort == "cost":
            rows.sort(key=lambda row: self._micros(row[1]), reverse=self.descending)
        elif self.sort == "aggregate" and self.descending:
            rows.reverse()
        return {
            "window": {"start": shown_time(one.start_ms), "end": shown_time(one.end_ms)},
            "totalCost": _summed(self._micros(cost) for cost in found.values()),
            "totalListCost": _summed(cost.listed or 0 for cost in found.values()),
            "totalCostType": self.cost_type,
            "customCosts": [self._cost("/".join(key), cost) for key, cost in rows],
        }

    def _micros(self, cost: _Cost) -> int:
        return (cost.listed or 0) if self.cost_type == "list" else cost.additive

    def _cost(self, name: str, cost: _Cost) -> dict[str, Any]:
        texts = cost.texts
        return {
            "id": name,
            "zone": texts["zone"],
            "account_name": texts["accountName"],
            "charge_category": texts["chargeCategory"],
            "description": texts["description"],
            "resource_name": texts["resourceName"],
            "resource_type": texts["resourceType"],
            "provider_id": texts["providerId"],
            "cost": shown_micros(self._micros(cost)),
            "list_cost": None if cost.listed is None else shown_micros(cost.listed),
            "list_unit_price": None,
            "usage_quantity": cost.tokens,
            "usage_unit": texts["usageUnit"],
            "domain": texts["domain"],
            "cost_source": texts["costSource"],
            "aggregate": name,
            "cost_type": self.cost_type,
        }


def _summed(micros: Iterable[int]) -> float:
    return shown_micros(sum(micros))


def _view(parameters: Parameters) -> _View:
    known = {name.lower(): name for name in _TEXTS}
    names = parameters.text("aggregate", "accountName,resourceName,zone").split(",")
    for name in names:
        if name.strip().lower() not in known:
            raise InvalidValue(
                f"custom costs are not kept by {name!r}",
                field="aggregate",
                fix=f"use {', '.join(_TEXTS)}, or several with commas",
            )
    return _View(
        names=tuple(known[name.strip().lower()] for name in names),
        keep=read_filter(parameters.text("filter"), _FIELDS),
        cost_type=_choice(parameters, "costType", _COST_TYPES),
        sort=_choice(parameters, "sortBy", _SORTS),
        descending=_choice(parameters, "sortDirection", _DIRECTIONS) == "desc",
    )


def _choice(parameters: Parameters, name: str, choices: tuple[str, ...]) -> str:
    text = parameters.text(name, choices[0])
    if text not in choices:
        raise InvalidValue(f"{name} is {text!r}", field=name, fix=f"use {', '.join(choices)}")
    return text


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
