"""Reading a price list as people write it.

    currency: EUR
    flavors:
      h100:
        nvidia.com/gpu: {hourly: "1.40"}
        memory: {hourly: "0.003", per: 1Gi}
      a100:
        nvidia.com/gpu:
          - {monthly: "730.00", hours_per_month: 730}
          - {hourly: "1.10", effective_from: 2026-07-01T00:00:00Z}
      b200:
        nvidia.com/gpu:
          node: {capex: "140000", years: "4", availability: "0.90", power_kw: "2.8", pue: "1.4",
                 energy_per_kwh: "0.12", operations_hourly: "0.70", devices: "4"}
    pools:
      rack-a:
        node_labels: {topology.kubernetes.io/rack: a}
        resources:
          nvidia.com/gpu: {hourly: "1.20"}
      n17:
        node: n17
        resources:
          nvidia.com/gpu: {hourly: "0.90"}
    opencost: {unit: hourly, CPU: "0.025", RAM: "0.003", GPU: "1.40"}

A pool is one node, or all nodes with some labels, with `flavor` only of what counts for that; its
prices count there instead of the flavor's,
and those of the node before those of more labels before those of fewer. Two pools that could both
be the closest for a node are refused.

`opencost` takes the values of OpenCost's custom pricing as they are, for every flavor that has no
price of its own. OpenCost reads the same keys by the hour from one place and by the month of 730
hours from another, so `unit` says which is meant. A price always says its unit.

Every scalar is taken as text, so an amount is exactly what was written; an amount that has become a
binary fraction on the way is refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import cast

from muster_domain.errors import InvalidValue
from muster_domain.money import parse_amount, parse_currency
from muster_domain.quantity import parse_quantity_milli
from muster_rating.dates import read_instant_ms
from muster_rating.node_price import read_node_cost
from muster_rating.prices import ALWAYS_MS, EVERY_FLAVOR, Pool, Price, PriceBook

_BYTES = ("memory", "ephemeral-storage")
_FIELDS = {"hourly", "monthly", "node", "hours_per_month", "per", "effective_from"}
_OPENCOST = {"CPU": ("cpu", "1"), "RAM": ("memory", "1Gi"), "GPU": ("nvidia.com/gpu", "1")}
_OPENCOST_IGNORED = {
    "provider", "description", "spotCPU", "spotRAM", "spotGPU", "storage", "zoneNetworkEgress",
    "regionNetworkEgress", "internetNetworkEgress", "gpuLabel", "gpuLabelValue", "discount",
}  # fmt: skip
_OPENCOST_HOURS = "730"


def read_price_list(document: object, *, default_currency: str) -> PriceBook:
    """A price book from plain data (mappings, lists, text, integers).

    Raises `InvalidValue` naming the field.
    """
    top = _mapping(document, "prices")
    _known(top, {"currency", "flavors", "pools", "opencost"}, "")
    currency = parse_currency(_text(top.get("currency", default_currency), "currency"))
    flavors = _mapping(top.get("flavors", {}), "flavors")
    prices: list[Price] = []
    for flavor, of_flavor in flavors.items():
        for resource, written in _mapping(of_flavor, f"flavors.{flavor}").items():
            prices += _read_resource(flavor, resource, written, f"flavors.{flavor}")
    pools: list[Pool] = []
    for name, written in _mapping(top.get("pools", {}), "pools").items():
        pool, of_pool = _read_pool(name, _mapping(written, f"pools.{name}"))
        _check_apart(pool, of_pool, pools, prices)
        pools.append(pool)
        prices += of_pool
    if "opencost" in top:
        prices += _read_opencost(_mapping(top["opencost"], "opencost"))
    return PriceBook(currency, tuple(prices), tuple(pools))


def _read_pool(name: str, written: Mapping[str, object]) -> tuple[Pool, list[Price]]:
    place = f"pools.{name}"
    _known(written, {"flavor", "node", "node_labels", "resources"}, f"{place}.")
    labels = {
        label: _text(value, f"{place}.node_labels.{label}")
        for label, value in _mapping(written.get("node_labels", {}), f"{place}.node_labels").items()
    }
    node = _text(written.get("node", ""), f"{place}.node")
    if bool(node) == bool(labels):
        raise InvalidValue(
            "a pool is either one node or the nodes with some labels",
            field=place,
            fix="write node: n17, or node_labels: {rack: a}",
        )
    resources = _mapping(written.get("resources", {}), f"{place}.resources")
    found = [
        replace(price, pool=name, flavor="")
        for resource, entry in resources.items()
        for price in _read_resource(name, resource, entry, f"{place}.resources")
    ]
    if not found:
        raise InvalidValue(
            "a pool without a price",
            field=f"{place}.resources",
            fix='write nvidia.com/gpu: {hourly: "1.40"}',
        )
    flavor = _text(written.get("flavor", ""), f"{place}.flavor")
    return Pool(name=name, flavor=flavor, node=node, node_labels=labels), found


def _check_apart(
    pool: Pool, of_pool: Iterable[Price], others: Iterable[Pool], prices: Iterable[Price]
) -> None:
    """Raises `InvalidValue` for a pool that is as close to some node as another is."""
    resources = {price.resource for price in of_pool}
    for other in others:
        both = sorted(resources & {price.resource for price in prices if price.pool == other.name})
        if both and _may_tie(pool, other):
            what = pool.node or f"by {len(pool.node_labels)} labels each"
            raise InvalidValue(
                f"{pool.name} and {other.name} may select the same node {what}, "
                f"and both have a price of {', '.join(both)}",
                field=f"pools.{pool.name}",
                fix="give one of them another label, or a pool of both labels to the nodes in both",
            )


def _read_opencost(written: Mapping[str, object]) -> Iterator[Price]:
    _known(written, {"unit", *_OPENCOST, *_OPENCOST_IGNORED}, "opencost.")
    unit = written.get("unit")
    if unit not in ("hourly", "monthly"):
        raise InvalidValue(
            "custom pricing does not say its unit",
            field="opencost.unit",
            fix="write unit: hourly, as in default.json, or unit: monthly, as in pricing-configs",
        )
    month = {"hours_per_month": _OPENCOST_HOURS} if unit == "monthly" else {}
    for key, (resource, per) in _OPENCOST.items():
        if key in written:
            entry = {str(unit): written[key], "per": per, **month}
            yield _read_price(EVERY_FLAVOR, resource, entry, f"opencost.{key}")


def _may_tie(pool: Pool, other: Pool) -> bool:
    """Whether some node could be in both, which are as close to it as each other."""
    mine, theirs = pool.node_labels, other.node_labels
    return (
        pool.wideness[:2] == other.wideness[:2]
        and pool.node == other.node
        and ("" in (pool.flavor, other.flavor) or pool.flavor == other.flavor)
        and all(mine[label] == theirs[label] for label in mine.keys() & theirs.keys())
    )


def _read_resource(flavor: str, resource: str, written: object, scope: str) -> Iterator[Price]:
    place = f"{scope}.{resource}"
    if isinstance(written, Sequence) and not isinstance(written, str):
        for number, entry in enumerate(cast("Sequence[object]", written)):
            yield _read_price(flavor, resource, entry, f"{place}[{number}]")
    else:
        yield _read_price(flavor, resource, written, place)


def _read_price(flavor: str, resource: str, written: object, place: str) -> Price:
    fields = _mapping(written, place)
    _known(fields, _FIELDS, f"{place}.")
    hourly, text = _hourly(fields, place)
    if resource in _BYTES and "per" not in fields:
        raise InvalidValue(
            f"the price of {resource} does not say for how much",
            field=f"{place}.per",
            fix="write per: 1Gi",
        )
    per = _text(fields.get("per", "1"), f"{place}.per")
    per_milli = parse_quantity_milli(per)
    if per_milli <= 0:
        raise InvalidValue(f"{per!r} is no amount to have a price", field=f"{place}.per")
    return Price(
        flavor=flavor,
        resource=resource,
        hourly=hourly,
        per_milli=per_milli,
        per=per,
        written=text,
        effective_from_ms=_effective(fields.get("effective_from"), f"{place}.effective_from"),
    )


def _hourly(fields: Mapping[str, object], place: str) -> tuple[Fraction, str]:
    if sum(name in fields for name in ("hourly", "monthly", "node")) != 1:
        raise InvalidValue(
            "a price is either hourly, monthly or that of a node",
            field=place,
            fix='write hourly: "1.40"',
        )
    if "node" in fields:
        inputs = _mapping(fields["node"], f"{place}.node")
        texts = {name: _text(value, f"{place}.node.{name}") for name, value in inputs.items()}
        node = read_node_cost(texts, f"{place}.node")
        return node.hourly_of_device, str(node)
    if "hourly" in fields:
        text = _text(fields["hourly"], f"{place}.hourly")
        return parse_amount(text, field=f"{place}.hourly"), f"{text} per hour"
    if "hours_per_month" not in fields:
        raise InvalidValue(
            "a monthly price does not say how long its month is",
            field=f"{place}.hours_per_month",
            fix="write hours_per_month: 730",
        )
    text = _text(fields["monthly"], f"{place}.monthly")
    hours = _text(fields["hours_per_month"], f"{place}.hours_per_month")
    if not hours.isdecimal() or int(hours) == 0:
        raise InvalidValue(f"{hours!r} is no number of hours", field=f"{place}.hours_per_month")
    amount = parse_amount(text, field=f"{place}.monthly")
    return amount / int(hours), f"{text} per month of {hours} hours"


def _effective(value: object, place: str) -> int:
    if value is None:
        return ALWAYS_MS
    return read_instant_ms(_text(value, place), place)


def _mapping(value: object, place: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidValue(f"{value!r} is not a mapping", field=place)
    return {str(name): entry for name, entry in cast("Mapping[object, object]", value).items()}


def _text(value: object, place: str) -> str:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    raise InvalidValue(f"{value!r} is not text", field=place, fix="put it in quotes")


def _known(fields: Mapping[str, object], known: set[str], place: str) -> None:
    for name in fields:
        if name not in known:
            raise InvalidValue(
                f"there is no field {name!r}",
                field=f"{place}{name}",
                fix=f"use {', '.join(sorted(known))}",
            )
