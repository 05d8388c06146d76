"""Allocation sets: idle shared, what is shared shared, filtered, aggregated, accumulated.

In OpenCost's order: each step's window is counted, shared and aggregated by itself, and only then
are steps accumulated; so what a tenant pays of idle depends on the step, not on the filter.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from muster_domain.errors import InvalidValue
from muster_domain.money import MICROS
from muster_rating.opencost.allocations import (
    COMPONENTS,
    IDLE,
    UNALLOCATED,
    Allocation,
    HeldAndThere,
    Properties,
    field_of,
    labels_of,
    raw_allocations,
)
from muster_rating.opencost.filters import ALIASES, Keep, alias_of, value_of
from muster_rating.prices import HOUR_MS, PriceBook
from muster_rating.report import Books
from muster_rating.windows import Window

HOURS_PER_MONTH = 730
"""OpenCost's month, by which it takes `shareCost` apart."""


class Split(StrEnum):
    """How shared cost is handed out."""

    WEIGHTED = "weighted"
    EVEN = "even"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How sets are made. `share` matches what all others pay for, `share_cost` is per month."""

    key: Callable[[Properties], tuple[str, ...]]
    keep: Keep
    include_idle: bool = False
    share_idle: bool = False
    idle_by_node: bool = False
    share: Keep | None = None
    share_cost: Fraction = Fraction(0)
    share_split: Split = Split.WEIGHTED


Key = tuple[str, ...]
Sets = dict[Key, Allocation]

_NAMES = {
    name.lower(): name
    for name in (
        "cluster", "node", "namespace", "controllerKind", "pod", "team", "user", "queue",
        "clusterQueue", "localQueue", "workload", "priorityClass",
    )
}  # fmt: skip
_KINDS = ("deployment", "daemonset", "statefulset", "job")
_EMPTY_STAYS = ("cluster", "node", "namespace", "pod")
_WHOLE = ("cluster", "node", "namespace", "pod")


def read_aggregate(text: str) -> Callable[[Properties], Key]:
    """How to key an allocation by OpenCost's `aggregate`. Raises `InvalidValue`."""
    if not text:
        return lambda found: (*(field_of(found, name) for name in _WHOLE), "")
    if text == "all":
        return lambda _found: ("all",)
    parts = [_part(name.strip()) for name in text.split(",")]
    return lambda found: tuple(part(found) for part in parts)


def _part(name: str) -> Callable[[Properties], str]:
    kind, colon, key = name.partition(":")
    lowered = name.lower()
    if colon and key and kind.lower() in ("label", "annotation"):
        return _labelled(kind.lower(), key)
    if lowered in _NAMES:
        empty = "" if lowered in _EMPTY_STAYS else UNALLOCATED
        return lambda found: field_of(found, lowered) or empty
    if lowered == "controller":
        return lambda found: (
            f"{found.controller_kind}:{found.controller}" if found.controller else UNALLOCATED
        )
    if lowered in _KINDS:
        return lambda found: (
            (found.controller if found.controller_kind == lowered else "") or UNALLOCATED
        )
    if lowered in ALIASES:
        return lambda found: alias_of(found, lowered) or UNALLOCATED
    known = [*_NAMES.values(), "controller", *_KINDS, *ALIASES]
    raise InvalidValue(
        f"costs cannot be aggregated by {name!r}",
        field="aggregate",
        fix=f"use {', '.join(known)}, label:<key> or annotation:<key>",
    )


def _labelled(kind: str, key: str) -> Callable[[Properties], str]:
    return lambda found: value_of(labels_of(found, kind), key) or UNALLOCATED


def read_share(namespaces: str, labels: str) -> Keep | None:
    """What `shareNamespaces` and `shareLabels` match; None for nothing. Raises `InvalidValue`."""
    names = frozenset(name.strip() for name in namespaces.split(",") if name.strip())
    pairs: list[tuple[Callable[[Properties], str], str]] = []
    for text in filter(None, map(str.strip, labels.split(","))):
        key, colon, value = text.partition(":")
        if not (key and colon and value):
            raise InvalidValue(
                f"{text!r} is no label with a value", field="shareLabels", fix="write app:proxy"
            )
        pairs.append((_labelled("label", key), value))
    if not names and not pairs:
        return None
    return lambda found: found.namespace in names or any(of(found) == value for of, value in pairs)


def allocation_sets(
    books: Books, prices: PriceBook, windows: Sequence[Window], terms: Terms
) -> list[Sets]:
    """One set for each window."""
    held = HeldAndThere(books)
    return [allocation_set(raw_allocations(held, prices, w), w, terms) for w in windows]


def accumulated(sets: Sequence[Sets]) -> Sets:
    """All sets as one."""
    found: Sets = {}
    for one in sets:
        for key, allocation in one.items():
            _merge(found, key, allocation)
    return found


@dataclass(frozen=True, slots=True)
class _Group:
    """Allocations that are treated alike in every step; sharing is in proportion, so one will do.

    `kept` passes the filter, `shared` is what all others pay for.
    """

    key: Key
    kept: bool
    shared: bool
    allocation: Allocation


def _grouped(raw: Sequence[Allocation], terms: Terms) -> list[_Group]:
    groups: dict[tuple[Key, str, bool, bool], _Group] = {}
    for allocation in raw:
        if allocation.special:
            continue
        properties = allocation.properties
        kept = terms.keep(properties)
        shared = terms.share is not None and terms.share(properties)
        key = terms.key(properties)
        identity = (key, _pool(allocation, terms), kept, shared)
        there = groups.get(identity)
        if there is None:
            groups[identity] = _Group(key, kept, shared, allocation.copy())
        else:
            there.allocation.add(allocation)
    return list(groups.values())


def allocation_set(raw: Sequence[Allocation], window: Window, terms: Terms) -> Sets:
    """One window's set by key; rows of nobody's come under their own names."""
    held = _grouped(raw, terms)
    weights = _weights(held, terms)
    idle = [a for a in raw if a.special == IDLE]
    if terms.share_idle:
        idle = _share_idle(idle, held, terms)
    elif not all(group.kept for group in held):
        idle = _idle_of_kept(idle, held, weights, terms)
    unallocated = _share_costs(held, weights, window, terms)
    found: Sets = {}
    for group in held:
        if group.kept and not group.shared:
            _merge(found, group.key, group.allocation)
    if unallocated and all(group.kept for group in held):
        _merge(found, (UNALLOCATED,), _of_nobody(unallocated, window))
    if terms.include_idle or terms.share_idle:
        _add_nobodys(found, idle, terms)
        if all(group.kept for group in held):
            _add_nobodys(found, [a for a in raw if a.special not in ("", IDLE)], terms)
    return found


def _add_nobodys(into: Sets, allocations: Sequence[Allocation], terms: Terms) -> None:
    for allocation in allocations:
        properties = allocation.properties
        if terms.idle_by_node and not terms.share_idle and properties.node:
            _merge(into, (properties.cluster, properties.node, allocation.special), allocation)
        else:
            _merge(into, (allocation.special,), allocation)


def _merge(into: Sets, key: Key, allocation: Allocation) -> None:
    there = into.get(key)
    if there is None:
        into[key] = allocation.copy()
    else:
        there.add(allocation)


def _pool(allocation: Allocation, terms: Terms) -> str:
    return allocation.properties.node if terms.idle_by_node else ""


def _pool_costs(held: Iterable[Allocation], terms: Terms) -> Mapping[tuple[str, str], Fraction]:
    total: dict[tuple[str, str], Fraction] = {}
    for allocation in held:
        for component, amount in allocation.cost.items():
            pool = (_pool(allocation, terms), component)
            total[pool] = total.get(pool, Fraction(0)) + amount
    return total


def _share_idle(
    idle: Sequence[Allocation], held: Sequence[_Group], terms: Terms
) -> list[Allocation]:
    """Hand idle cost out by component; returns what nobody in its pool can pay."""
    total = _pool_costs((group.allocation for group in held), terms)
    pot: dict[tuple[str, str], Fraction] = {}
    left: list[Allocation] = []
    for allocation in idle:
        alone = allocation.copy()
        for component in COMPONENTS:
            pool = (_pool(allocation, terms), component)
            if total.get(pool):
                pot[pool] = pot.get(pool, Fraction(0)) + alone.cost.pop(component, Fraction(0))
                alone.time.pop(component, None)
        if alone.time:
            left.append(alone)
    for group in held:
        allocation = group.allocation
        for component, amount in list(allocation.cost.items()):
            pool = (_pool(allocation, terms), component)
            if amount and pool in pot:
                part = pot[pool] * amount / total[pool]
                allocation.cost[component] = amount + part
                allocation.idle_cost[component] = part
    return left


def _idle_of_kept(
    idle: Sequence[Allocation],
    held: Sequence[_Group],
    weights: Sequence[Fraction],
    terms: Terms,
) -> list[Allocation]:
    """Of each pool's idle the part that would have gone to what the filter lets through.

    What all others pay for has idle of its own, which they pay in the same proportion.
    """
    total = _pool_costs((group.allocation for group in held), terms)
    mine = _pool_costs((g.allocation for g in held if g.kept and not g.shared), terms)
    of_all = _pool_costs((group.allocation for group in held if group.shared), terms)
    paid = sum(
        (weight for group, weight in zip(held, weights, strict=True) if group.kept), Fraction(0)
    )
    found: list[Allocation] = []
    for allocation in idle:
        part = allocation.copy()
        for component in list(part.cost):
            pool = (_pool(allocation, terms), component)
            carried = mine.get(pool, Fraction(0)) + of_all.get(pool, Fraction(0)) * paid
            share = carried / total[pool] if total.get(pool) else Fraction(0)
            part.cost[component] *= share
            part.time[component] = int(part.time[component] * share)
        found.append(part)
    return found


def _of_nobody(shared_cost: Fraction, window: Window) -> Allocation:
    return Allocation(
        properties=Properties(cluster=""),
        start_ms=window.start_ms,
        end_ms=window.end_ms,
        shared_cost=shared_cost,
        special=UNALLOCATED,
    )


def _share_costs(
    held: Sequence[_Group], weights: Sequence[Fraction], window: Window, terms: Terms
) -> Fraction:
    """Hand the cost of what all pay for to the rest; returns what nobody is left to pay."""
    pot = sum((group.allocation.total_cost for group in held if group.shared), Fraction(0))
    hours = Fraction(window.length_ms, HOUR_MS)
    pot += terms.share_cost * MICROS * hours / HOURS_PER_MONTH
    if not any(weights):
        return pot
    if pot:
        for group, weight in zip(held, weights, strict=True):
            group.allocation.shared_cost = pot * weight
    return Fraction(0)


def _weights(held: Sequence[_Group], terms: Terms) -> list[Fraction]:
    """What part of what is shared each group pays, by what it cost before idle was shared."""
    paying = [group for group in held if not group.shared]
    paid = iter(_parts(paying, terms))
    return [Fraction(0) if group.shared else next(paid) for group in held]


def _parts(paying: Sequence[_Group], terms: Terms) -> list[Fraction]:
    costs = [group.allocation.total_cost for group in paying]
    total = sum(costs, Fraction(0))
    if terms.share_split is Split.WEIGHTED or not total:
        return [cost / total if total else Fraction(1, len(paying)) for cost in costs]
    of_key: dict[Key, Fraction] = {}
    for group, cost in zip(paying, costs, strict=True):
        of_key[group.key] = of_key.get(group.key, Fraction(0)) + cost
    count = Counter(group.key for group in paying)
    found: list[Fraction] = []
    for group, cost in zip(paying, costs, strict=True):
        whole = of_key[group.key]
        inside = cost / whole if whole else Fraction(1, count[group.key])
        found.append(inside / len(of_key))
    return found
