"""Questions about cost in OpenCost's words, and accounting's answers; the gateway gives the shape.

Time is milli-unit-milliseconds by component (cpu, gpu, ram in bytes), money is micro-units. A
question's texts are as the caller wrote them; accounting refuses what it does not understand, the
problem's field being the parameter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationQuestion:
    """What `/allocation` was asked. Empty `namespaces` sees all, others only theirs."""

    window: str
    tz: str = "UTC"
    aggregate: str = ""
    step: str = ""
    filter: str = ""
    accumulate: bool = False
    include_idle: bool = False
    share_idle: bool = False
    idle_by_node: bool = False
    share_namespaces: str = ""
    share_labels: str = ""
    share_cost: str = "0"
    share_split: str = "weighted"
    resolution: str = ""
    namespaces: tuple[str, ...] = ()
    accumulate_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRow:
    """One allocation. `key` are the parts of `name`; `properties` has those that all share.

    Of `time`, `observed` was looked at by an agent, and devices worked in `busy` of that.
    `cost_micros` includes `idle_cost_micros`, the share of idle. The totals of a set sum to the
    exact sum, rounded once.
    """

    name: str
    key: tuple[str, ...]
    start_ms: int
    end_ms: int
    time: Mapping[str, int]
    cost_micros: Mapping[str, int]
    total_cost_micros: int
    idle_cost_micros: Mapping[str, int] = field(default_factory=dict[str, int])
    shared_cost_micros: int = 0
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    observed: Mapping[str, int] = field(default_factory=dict[str, int])
    busy: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationSet:
    """The allocations of one window, sorted by key."""

    start_ms: int
    end_ms: int
    rows: tuple[AllocationRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationSets:
    """One set for each step. `unpriced` names `flavor/resource` pairs that cost nothing here."""

    currency: str
    sets: tuple[AllocationSet, ...]
    provisional: bool = False
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetsQuestion:
    """What `/assets` was asked."""

    window: str
    tz: str = "UTC"
    filter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetRow:
    """One node: all that it had in the window, what that cost, and the labels that stayed."""

    node: str
    start_ms: int
    end_ms: int
    time: Mapping[str, int]
    cost_micros: Mapping[str, int]
    total_cost_micros: int
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Assets:
    """All nodes of a window, sorted by name."""

    currency: str
    start_ms: int
    end_ms: int
    rows: tuple[AssetRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrice:
    """The price that is applied to a resource of a node now; `hourly` None where there is none.

    It is that of the `pool`, or without one that of the flavor.

    `hourly` is a decimal text in the currency, per `per` of the resource and hour.
    """

    node: str
    flavor: str
    resource: str
    quantity_milli: int
    hourly: str | None
    per: str
    written: str
    effective_from_ms: int | None = None
    pool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrices:
    """The prices of all nodes, sorted by node and resource."""

    currency: str
    rows: tuple[NodePrice, ...]
