"""OpenCost's response shapes, field for field, from accounting's exact rows.

Numbers are rounded to five places for display. What no probe measured is null and never a guess:
usage and efficiency are those of the hours that agents looked at (`gpuObservedHours`). What Muster
does not charge (network, volumes, load balancers) is zero.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from muster_contracts.allocations import (
    AllocationRow,
    AllocationSet,
    AllocationSets,
    AssetRow,
    Assets,
    NodePrice,
    NodePrices,
)

PLACES = 5
_MICROS = 1_000_000
_MILLI_MS_PER_HOUR = 3_600_000 * 1000
_MS_PER_MINUTE = 60_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FREE = (
    "networkTransferBytes", "networkReceiveBytes", "networkCost", "networkCrossZoneCost",
    "networkCrossRegionCost", "networkInternetCost", "networkCostAdjustment", "loadBalancerCost",
    "loadBalancerCostAdjustment", "pvBytes", "pvByteHours", "pvCost", "pvCostAdjustment",
)  # fmt: skip

Json = dict[str, Any]


def allocation_map(one: AllocationSet) -> Json:
    """A set as OpenCost has it: name to allocation."""
    return {row.name: allocation(row, one) for row in one.rows}


def summary_range(found: AllocationSets) -> Json:
    """All sets in the short form; the step is in nanoseconds, as Go writes durations."""
    first, last = found.sets[0], found.sets[-1]
    return {
        "step": (first.end_ms - first.start_ms) * 1_000_000,
        "sets": [summary_map(one) for one in found.sets],
        "window": {"start": shown_time(first.start_ms), "end": shown_time(last.end_ms)},
    }


def summary_map(one: AllocationSet) -> Json:
    """A set in the short form."""
    return {"allocations": {row.name: summary(row) for row in one.rows}, "window": _window(one)}


def allocation(row: AllocationRow, one: AllocationSet) -> Json:
    """One allocation in full."""
    minutes = Fraction(row.end_ms - row.start_ms, _MS_PER_MINUTE)
    return {
        "name": row.name,
        "key": list(row.key),
        "properties": _properties(row),
        "window": _window(one),
        "start": shown_time(row.start_ms),
        "end": shown_time(row.end_ms),
        "minutes": _shown(minutes),
        **_component(row, minutes, "cpu", "cpuCores", "cpuCore", "cpu"),
        **_component(row, minutes, "gpu", "gpuCount", "gpu", "gpu"),
        "gpuObservedHours": _shown(_hours(row.observed, "gpu")),
        **dict.fromkeys(_FREE, 0),
        "pvs": None,
        **_component(row, minutes, "ram", "ramBytes", "ramByte", "ram"),
        "externalCost": 0,
        "sharedCost": shown_micros(row.shared_cost_micros),
        "totalCost": shown_micros(row.total_cost_micros),
        "totalEfficiency": _total_efficiency(row),
        "lbAllocations": None,
    }


def summary(row: AllocationRow) -> Json:
    """One allocation in short."""
    hours = Fraction(row.end_ms - row.start_ms, _MS_PER_MINUTE * 60)
    found: Json = {
        "name": row.name,
        "start": shown_time(row.start_ms),
        "end": shown_time(row.end_ms),
    }
    for component, average in (("cpu", "cpuCore"), ("gpu", "gpu"), ("ram", "ramByte")):
        requested = _hours(row.time, component) / hours if hours else Fraction(0)
        found |= {
            f"{average}RequestAverage": _shown(requested),
            f"{average}UsageAverage": _usage(row, component, requested),
            f"{component}Cost": shown_micros(row.cost_micros.get(component, 0)),
            f"{component}CostIdle": shown_micros(row.idle_cost_micros.get(component, 0)),
        }
    return found | {
        "networkCost": 0,
        "loadBalancerCost": 0,
        "pvCost": 0,
        "sharedCost": shown_micros(row.shared_cost_micros),
        "externalCost": 0,
        "totalEfficiency": _total_efficiency(row),
        "totalCost": shown_micros(row.total_cost_micros),
    }


def asset(row: AssetRow, found: Assets) -> Json:
    """One node as an asset."""
    hours = Fraction(row.end_ms - row.start_ms, _MS_PER_MINUTE * 60)

    def average(component: str) -> float:
        return _shown(_hours(row.time, component) / hours if hours else Fraction(0))

    return {
        "type": "Node",
        "properties": {
            "category": "Compute",
            "provider": "muster",
            "service": "Muster",
            "cluster": "muster",
            "name": row.node,
            "providerID": row.node,
        },
        "labels": dict(row.labels),
        "window": {"start": shown_time(found.start_ms), "end": shown_time(found.end_ms)},
        "start": shown_time(row.start_ms),
        "end": shown_time(row.end_ms),
        "minutes": _shown(hours * 60),
        "nodeType": "",
        "cpuCores": average("cpu"),
        "ramBytes": average("ram"),
        "cpuCoreHours": _shown(_hours(row.time, "cpu")),
        "ramByteHours": _shown(_hours(row.time, "ram")),
        "GPUHours": _shown(_hours(row.time, "gpu")),
        "cpuBreakdown": None,
        "ramBreakdown": None,
        "preemptible": 0,
        "discount": 0,
        "cpuCost": shown_micros(row.cost_micros.get("cpu", 0)),
        "gpuCost": shown_micros(row.cost_micros.get("gpu", 0)),
        "gpuCount": average("gpu"),
        "ramCost": shown_micros(row.cost_micros.get("ram", 0)),
        "adjustment": 0,
        "totalCost": shown_micros(row.total_cost_micros),
    }


def pricing_map(found: NodePrices) -> Json:
    """The price that is applied, by node and resource."""
    return {f"{row.node},{row.resource}": _pricing(row, found.currency) for row in found.rows}


def _pricing(row: NodePrice, currency: str) -> Json:
    started = row.effective_from_ms
    return {
        "node": row.node,
        "flavor": row.flavor,
        "resource": row.resource,
        "currency": currency,
        "unit": f"{currency} per {row.per} and hour" if row.hourly is not None else "",
        "price": row.hourly,
        "source": row.written,
        "pool": row.pool or None,
        "effectiveFrom": None if started is None else shown_time(started),
    }


def _component(
    row: AllocationRow, minutes: Fraction, component: str, amount: str, average: str, money: str
) -> Json:
    hours = _hours(row.time, component)
    held = hours * 60 / minutes if minutes else Fraction(0)
    return {
        amount: _shown(held),
        f"{average}RequestAverage": _shown(held),
        f"{average}UsageAverage": _usage(row, component, held),
        f"{average}Hours": _shown(hours),
        f"{money}Cost": shown_micros(row.cost_micros.get(component, 0)),
        f"{money}CostAdjustment": 0,
        f"{money}CostIdle": shown_micros(row.idle_cost_micros.get(component, 0)),
        f"{money}Efficiency": _known(_efficiency(row, component)),
    }


def _efficiency(row: AllocationRow, component: str) -> Fraction | None:
    observed = row.observed.get(component, 0)
    return Fraction(row.busy.get(component, 0), observed) if observed else None


def _usage(row: AllocationRow, component: str, held: Fraction) -> float | None:
    """What was used on average, as far as it was observed."""
    efficiency = _efficiency(row, component)
    return None if efficiency is None else _shown(held * efficiency)


def _total_efficiency(row: AllocationRow) -> float | None:
    """By cost, as OpenCost weighs it; null where a component that costs was not observed."""
    costs = {component: cost for component, cost in row.cost_micros.items() if cost > 0}
    known = {component: _efficiency(row, component) for component in costs}
    weighed = [cost * share for c, cost in costs.items() if (share := known[c]) is not None]
    if not costs or len(weighed) < len(costs):
        return None
    return _shown(Fraction(sum(weighed), sum(costs.values())))


def _known(value: Fraction | None) -> float | None:
    return None if value is None else _shown(value)


def _properties(row: AllocationRow) -> Json:
    found: Json = dict(row.properties)
    if row.labels:
        found["labels"] = dict(row.labels)
    if row.annotations:
        found["annotations"] = dict(row.annotations)
    return found


def _window(one: AllocationSet) -> Json:
    return {"start": shown_time(one.start_ms), "end": shown_time(one.end_ms)}


def _hours(time: Mapping[str, int], component: str) -> Fraction:
    return Fraction(time.get(component, 0), _MILLI_MS_PER_HOUR)


def shown_micros(micros: int) -> float:
    """Money as a number, rounded for display."""
    return _shown(Fraction(micros, _MICROS))


def _shown(value: Fraction) -> float:
    rounded = round(value, PLACES)
    return int(rounded) if rounded.denominator == 1 else float(rounded)


def shown_time(at_ms: int) -> str:
    """A time in RFC 3339, UTC."""
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    timespec = "milliseconds" if at_ms % 1000 else "seconds"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")
