"""Questions that owners answer about what they own, and the shapes of the answers.

A question is a JSON object on `subjects.query(owner, name, shard)`; lists are paged by `limit` and
`offset` and say their whole size.

`registry.QUESTIONS` says who answers which, and on which shard. `allocations` has the questions
about cost in OpenCost's words, `floor` and `fit` those about the nodes as a whole.

`workload` and `asked` raise `NotFound` where the partition has none of that id, `output` where the
node has none of that pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from muster_contracts.jobs import Seat
from muster_contracts.turns import TurnRow
from muster_domain.checks import CheckStatus
from muster_domain.conditions import Explanation, Outcome
from muster_domain.money import ChargingBasis, IdlePolicy
from muster_domain.nodes import NodeCondition, TopologyAssignment
from muster_domain.states import Admission, EvictionCount
from muster_domain.workload import Workload

PAGE_MAX = 1000
NODES_PAGE_MAX = 200
NAMED_NODES_MAX = 64
"""Nodes that one question over HTTP names."""


class Query(StrEnum):
    """The names of the questions."""

    WORKLOADS = "workloads"
    WORKLOAD = "workload"
    ASKED = "asked"
    QUOTA = "quota"
    PLAN = "plan"
    VERIFY = "verify"
    BUDGETS = "budgets"
    STATEMENT = "statement"
    CLOSE = "close"
    NODES = "nodes"
    DOMAINS = "domains"
    SEATS = "seats"
    FIT = "fit"
    COST = "cost"
    PRICES = "prices"
    ALLOCATION = "allocation"
    ASSETS = "assets"
    NODE_PRICES = "node_prices"
    TOKENS = "tokens"
    OUTPUT = "output"


class Phase(StrEnum):
    """A workload's state in one word, as lists show it."""

    PENDING = "Pending"
    RESERVED = "QuotaReserved"
    ADMITTED = "Admitted"
    RUNNING = "Running"
    EVICTING = "Evicting"
    FINISHED = "Finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadsQuestion:
    """Which workloads; an empty filter takes all. Answered in `row_order`, at most `PAGE_MAX`.

    `namespaces` and `phases` take any of theirs. `id_prefix` is the beginning of an id.
    """

    namespaces: tuple[str, ...] = ()
    name: str = ""
    queue: str = ""
    cluster_queue: str = ""
    user: str = ""
    phases: tuple[Phase, ...] = ()
    id_prefix: str = ""
    limit: int = PAGE_MAX
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadQuestion:
    """Which workload."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaQuestion:
    """Which ClusterQueue; empty takes all of the partition."""

    cluster_queue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """What would happen to this workload if it were submitted now."""

    workload: Workload
    cluster_queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatsQuestion:
    """Whether a workload that was granted this quota would find seats now.

    `without` are ids of workloads that count as gone.
    """

    workload: Workload
    admission: Admission
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesQuestion:
    """Which part of the list of nodes, sorted by name; `names` takes only these, none takes all.

    `contains` takes those with it in their names, `topology` those in the domain with this `path`,
    `outside` those that are in no topology.
    """

    limit: int = NODES_PAGE_MAX
    offset: int = 0
    names: tuple[str, ...] = ()
    contains: str = ""
    topology: str = ""
    path: tuple[str, ...] = ()
    outside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CostQuestion:
    """Cost by one dimension over a window `[start_ms, end_ms)`; empty `namespaces` takes all.

    `by` is team, namespace, user, cluster_queue, local_queue, flavor, workload, priority_class or
    `label:<key>`. With `namespaces` the idle row is the part that their share would pay.
    `lender_credit_percent` is what lenders get back on the basis `both`. Idle by owner, and every
    basis but usage, are kept by cluster_queue and for all namespaces. With `by_policy` each queue
    is charged by the ChargingPolicy of the time, and the basis and the credit say nothing.
    """

    by: str
    start_ms: int
    end_ms: int
    namespaces: tuple[str, ...] = ()
    idle: IdlePolicy = IdlePolicy.ROW
    basis: ChargingBasis = ChargingBasis.USAGE
    lender_credit_percent: int = 100
    by_policy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputQuestion:
    """Which last `lines` of what a pod's container wrote; its node bounds the number."""

    pod_uid: str
    container: int = 0
    stream: Literal["stdout", "stderr"] = "stdout"
    lines: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputText:
    """What was written, as far as it is text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRow:
    """One line of a queue. Positions are 0-based and only set while pending.

    `starts_by_ms` is when enough of what runs in the ClusterQueue must have ended, by its own time
    limits, for this one and all ahead of it; None where that is not known. Others may still go
    first, and it may well start earlier. `pods` are those it is to have, `pods_now` those that it
    has while these are not as many.
    """

    id: str
    namespace: str
    name: str
    kind: str
    queue: str
    cluster_queue: str
    phase: Phase
    reason: str
    message: str
    priority: int
    requests_milli: Mapping[str, int]
    pods: int
    created_at_ms: int
    attempt: int
    user: str = ""
    partition: str = ""
    position_in_cluster_queue: int | None = None
    position_in_local_queue: int | None = None
    admitted_at_ms: int | None = None
    finished_at_ms: int | None = None
    outcome: Outcome | None = None
    nodes: tuple[str, ...] = ()
    starts_by_ms: int | None = None
    pods_now: int | None = None


_PHASE_RANK = {
    phase: rank
    for rank, phase in enumerate(
        (
            Phase.RUNNING,
            Phase.ADMITTED,
            Phase.RESERVED,
            Phase.EVICTING,
            Phase.PENDING,
            Phase.FINISHED,
        )
    )
}


def row_order(row: WorkloadRow) -> tuple[int, str, int, int, str]:
    """How lists are sorted: who runs, then who waits by queue and position, then who ended."""
    position = row.position_in_cluster_queue
    return (
        _PHASE_RANK[row.phase],
        row.cluster_queue,
        position if position is not None else PAGE_MAX**2,
        row.created_at_ms,
        row.id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPage:
    """Part of a list; `total` is the size of the whole."""

    rows: tuple[WorkloadRow, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A workload that goes first, or that would have to give way.

    Of one that runs, `lost_work_ms` is how long it has worked since it last said that its work is
    saved, or since it was admitted; `never_checkpoints` when it said that it cannot save it.
    """

    id: str
    namespace: str
    name: str
    user: str
    priority: int
    requests_milli: Mapping[str, int]
    lost_work_ms: int | None = None
    never_checkpoints: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """Nodes that a gang would sit on now, sorted, or why there are no seats for all of it.

    With `victims` it would sit on the nodes once these have given way; of an elastic gang only the
    pods that it can do without are asked to.
    """

    nodes: tuple[str, ...] = ()
    explanation: Explanation | None = None
    victims: tuple[Ahead, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEstimate:
    """How long until admission, as a range, and how many past admissions say so."""

    low_ms: int
    high_ms: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One of Kueue's conditions, with its reason; `status` is True or False."""

    type: str
    status: str
    reason: str
    message: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadDetail:
    """Everything that `muster explain` shows. `ahead` is cut at 20 of `ahead_total`.

    `requeue_count` and `requeue_at_ms` are the back-off, `evictions` counts what ended attempts,
    `admission` and `checks` are those of the present attempt, `reclaimable` its pods that are done,
    `checkpointed_at_ms` when it last said that its work is saved; `never_checkpoints` when it said
    that it cannot save it. `lost_work_ms` is what the eviction under way has cost it.
    """

    row: WorkloadRow
    explanation: Explanation
    ahead: tuple[Ahead, ...] = ()
    ahead_total: int = 0
    pods_by_set: Mapping[str, int] = field(default_factory=dict[str, int])
    flavors: Mapping[str, str] = field(default_factory=dict[str, str])
    seats: tuple[Seat, ...] = ()
    topology: Mapping[str, TopologyAssignment] = field(
        default_factory=dict[str, TopologyAssignment]
    )
    estimate: WaitEstimate | None = None
    timeline: tuple[tuple[str, int], ...] = ()
    turns: tuple[TurnRow, ...] = ()
    conditions: tuple[Condition, ...] = ()
    active: bool = True
    requeue_count: int = 0
    requeue_at_ms: int | None = None
    past_execution_ms: int = 0
    evictions: tuple[EvictionCount, ...] = ()
    admission: Admission | None = None
    checks: tuple[CheckStatus, ...] = ()
    reclaimable: Mapping[str, int] = field(default_factory=dict[str, int])
    checkpointed_at_ms: int | None = None
    never_checkpoints: bool = False
    lost_work_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """One (ClusterQueue, flavor, resource), in milli-units.

    used = charged now (reserved and admitted); borrowed = what of it is above nominal; lent = what
    of its nominal others use; max = what the tree could ever give it. `None` limits are no limits.
    """

    cluster_queue: str
    cohort: str
    flavor: str
    resource: str
    nominal_milli: int
    used_milli: int
    reserved_milli: int
    borrowed_milli: int
    lent_milli: int
    available_milli: int
    max_milli: int
    borrowing_limit_milli: int | None = None
    lending_limit_milli: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One ClusterQueue. The counts equal the lengths of the lists, always.

    `reason` names all that keeps it from admitting, `message` says it as Kueue's condition does,
    and why each of its inactive checks is inactive.
    """

    name: str
    cohort: str
    strategy: str
    active: bool
    reason: str
    pending: int
    inadmissible: int
    reserving: int
    admitted: int
    local_queues: tuple[str, ...]
    message: str = ""
    turns: tuple[TurnRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaPage:
    """Queues and their quota, sorted by name."""

    queues: tuple[QueueRow, ...]
    rows: tuple[QuotaRow, ...]


class PlanVerdict(StrEnum):
    """What would happen if the job were submitted now."""

    ADMIT = "would be admitted now"
    PREEMPT = "would start after preemption"
    WAIT = "would wait"
    NEVER = "never fits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer of `muster plan`; nothing was changed.

    `admission` is the quota that it would get, `nodes` where it would sit, after `victims` if any.
    """

    verdict: PlanVerdict
    explanation: Explanation
    flavors: Mapping[str, str] = field(default_factory=dict[str, str])
    ahead_total: int = 0
    victims: tuple[Ahead, ...] = ()
    admission: Admission | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CardShare:
    """So many thousandths of a shared card, at most all of it, and the workload that has them."""

    holder: str
    milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRow:
    """One MIG instance of a card: `slices` of it from `start` on, and who has it, if anybody."""

    profile: str
    start: int
    slices: int
    holder: str = ""
    health: str = "healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """One accelerator and who has it; `holder` is `namespace/name` of a workload or empty.

    A shared card has `shares`, and `left_milli` of it are free; its `holder` is the first of them.
    So has a card that is divided into MIG instances as pods need it, in parts of its `slices`;
    `instances` are those that pods hold, and idle ones that exist.
    """

    index: int
    resource: str
    model: str
    health: str
    holder: str = ""
    shares: tuple[CardShare, ...] = ()
    left_milli: int = 0
    slices: int = 0
    instances: tuple[InstanceRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node, in milli-units. `domains` has its narrowest domain in each topology, as a path."""

    name: str
    condition: NodeCondition
    allocatable_milli: Mapping[str, int]
    free_milli: Mapping[str, int]
    labels: Mapping[str, str]
    devices: tuple[DeviceRow, ...]
    workloads: tuple[str, ...]
    last_heartbeat_ms: int
    simulated: bool = False
    agent_endpoint: str = ""
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePage:
    """Nodes, sorted by name, and the largest gang of one-GPU pods that would fit now.

    `total` counts all nodes that were asked for; 0 where the page holds them all.
    """

    nodes: tuple[NodeRow, ...]
    largest_gang_of_one_gpu: int
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerReport:
    """A proof that the books agree: per partition, what differs (empty when nothing does)."""

    partition: str
    version: int
    holds: int
    workloads: int
    discrepancies: tuple[str, ...]


class CostLineKind(StrEnum):
    """Whose time a line of a cost report is. All but `USAGE` belong to nobody.

    RESERVED is capacity kept for gangs that hold quota and have no seats yet, UNAVAILABLE is free
    capacity of nodes that take no pods. OVERALLOCATED is what was held beyond the capacity that was
    reported; it is negative, so that the lines still sum to the capacity. UNCOMMITTED is capacity
    that no queue pays for, where any pays by quota; negative where quota exceeds the capacity.
    """

    USAGE = "usage"
    IDLE = "idle"
    RESERVED = "reserved"
    UNAVAILABLE = "unavailable"
    OVERALLOCATED = "overallocated"
    UNCOMMITTED = "uncommitted"
    TOTAL = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One row of a cost report. Quantities are milli-unit-milliseconds, money is micro-units.

    `cost_micros` is None where the flavor has no price; where only some of the row has none, that
    part is in `unpriced_time`. Of `resource_time`, `borrowed_time` was above the queue's nominal
    quota and `lost_time` (worth `lost_cost_micros`) went into attempts that were preempted;
    `observed_time` was looked at by an agent, and devices worked in `busy_time` of that.
    `waiting_time` is quota held before there were seats; it is not part of `resource_time` and
    costs nothing. `lent_time` is nominal quota that others used and `nominal_time` all of it, by
    queue only. The cost is that of `charged_time`: `resource_time` and `idle_time`, the share of
    what nobody held (worth `idle_cost_micros`), or what the queue's quota comes to. `basis` is that
    of a queue where the report is by policy; two of them where the policy changed.
    """

    key: str
    resource_time: Mapping[str, int]
    cost_micros: int | None
    borrowed_time: Mapping[str, int] = field(default_factory=dict[str, int])
    lost_time: Mapping[str, int] = field(default_factory=dict[str, int])
    kind: CostLineKind = CostLineKind.USAGE
    waiting_time: Mapping[str, int] = field(default_factory=dict[str, int])
    lent_time: Mapping[str, int] = field(default_factory=dict[str, int])
    unpriced_time: Mapping[str, int] = field(default_factory=dict[str, int])
    lost_cost_micros: int = 0
    charged_time: Mapping[str, int] = field(default_factory=dict[str, int])
    idle_time: Mapping[str, int] = field(default_factory=dict[str, int])
    idle_cost_micros: int = 0
    nominal_time: Mapping[str, int] = field(default_factory=dict[str, int])
    observed_time: Mapping[str, int] = field(default_factory=dict[str, int])
    busy_time: Mapping[str, int] = field(default_factory=dict[str, int])
    basis: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Cost by one dimension over a window.

    `lines` and `idle` sum to `total` exactly, in time and in money; where nothing is filtered or
    left out `total` is capacity x price x time. The window is counted up to `complete_through_ms`;
    `provisional` when that is before its end or when something in it is still open. `unpriced`
    names `flavor/resource` pairs whose time has no price. `by_policy` is as it was asked, and
    `policy` names the versions that held in the window.
    """

    by: str
    start_ms: int
    end_ms: int
    currency: str
    lines: tuple[CostLine, ...]
    idle: CostLine
    total: CostLine
    complete_through_ms: int = 0
    provisional: bool = False
    unpriced: tuple[str, ...] = ()
    idle_policy: IdlePolicy = IdlePolicy.ROW
    basis: ChargingBasis = ChargingBasis.USAGE
    by_policy: bool = False
    policy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """The price of one resource in one flavor, from `effective_from_ms` until the next one.

    That of a `pool`, the nodes of one name or with some labels, has no flavor and counts there.

    `hourly` is the price that is applied, a decimal text in `currency` per `per` and hour, exact or
    cut at 12 places; `written` is the price as it was given.
    """

    flavor: str
    resource: str
    hourly: str
    per: str
    currency: str
    written: str
    effective_from_ms: int | None = None
    pool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """All prices, sorted by flavor, pool, resource and time."""

    currency: str
    rows: tuple[PriceRow, ...]
