"""A Workload's `status`: what Kueue granted, and what has happened since."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster_domain.checks import CheckState
from muster_manifests.reader import INT32_MAX, ObjectReader


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDomain:
    """`count` pods sit in the domain with these values, one for each level."""

    values: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyAssignment:
    """Where the pods of one pod set sit. `levels` are node labels."""

    levels: tuple[str, ...]
    domains: tuple[TopologyDomain, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetAssignment:
    """What one pod set was granted; `usage` is the milli-units of all its pods."""

    name: str
    count: int | None
    flavors: Mapping[str, str]
    usage: Mapping[str, int]
    topology: TopologyAssignment | None = None
    delayed_topology_request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionStatus:
    """The quota a workload holds."""

    cluster_queue: str
    pod_sets: tuple[PodSetAssignment, ...]


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One entry of `status.conditions`."""

    type: str
    status: ConditionStatus
    reason: str = ""
    message: str = ""
    last_transition_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStatus:
    """The state of one admission check."""

    name: str
    state: CheckState
    message: str = ""
    last_transition_ms: int | None = None
    requeue_after_ms: int | None = None
    retry_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueState:
    """How often a workload was requeued, and until when it is held back."""

    count: int = 0
    requeue_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionCount:
    """How often a workload was evicted for one reason."""

    reason: str
    underlying_cause: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadStatus:
    """A Workload's status, with the facts of its metadata and spec that belong to it.

    Times are milliseconds since 1970. `reclaimable_pods` counts finished pods by pod set.
    """

    uid: str = ""
    created_at_ms: int | None = None
    active: bool = True
    admission: AdmissionStatus | None = None
    conditions: tuple[Condition, ...] = ()
    requeue_state: RequeueState | None = None
    reclaimable_pods: Mapping[str, int] = field(default_factory=dict[str, int])
    admission_checks: tuple[CheckStatus, ...] = ()
    unhealthy_nodes: tuple[str, ...] = ()
    evictions: tuple[EvictionCount, ...] = ()
    past_execution_ms: int = 0
    preemption_gates: tuple[str, ...] = ()

    def condition(self, condition_type: str) -> Condition | None:
        """Return the condition of that type, if any."""
        for condition in self.conditions:
            if condition.type == condition_type:
                return condition
        return None

    def holds(self, condition_type: str) -> bool:
        """Tell whether the condition of that type is true."""
        condition = self.condition(condition_type)
        return condition is not None and condition.status is ConditionStatus.TRUE


def read_status(body: ObjectReader, *, uid: str, created_at_ms: int | None) -> WorkloadStatus:
    """Read `status` of a Workload and what of `spec` belongs to it."""
    spec, status = body.object("spec"), body.object("status")
    status.accept("resourceRequests", "nominatedClusterNames", "clusterName", "observedGeneration")
    stats = status.object("schedulingStats")
    past_s = status.integer("accumulatedPastExecutionTimeSeconds", low=0)
    # Kueue's v1beta1 misspells the field.
    past_s = past_s or status.integer("accumulatedPastExexcutionTimeSeconds", low=0)
    return WorkloadStatus(
        uid=uid,
        created_at_ms=created_at_ms,
        active=spec.flag("active", default=True),
        admission=_admission(status.object("admission")) if "admission" in status else None,
        conditions=tuple(_condition(item) for item in status.objects("conditions")),
        requeue_state=_requeue_state(status) if "requeueState" in status else None,
        reclaimable_pods={
            item.text("name", "main"): item.integer("count", low=0)
            for item in status.objects("reclaimablePods")
        },
        admission_checks=tuple(_check(item) for item in status.objects("admissionChecks")),
        unhealthy_nodes=tuple(
            item.required_text("name") for item in status.objects("unhealthyNodes")
        ),
        evictions=tuple(_eviction(item) for item in stats.objects("evictions")),
        past_execution_ms=past_s * 1000,
        preemption_gates=tuple(
            item.required_text("name") for item in spec.objects("preemptionGates")
        ),
    )


def _admission(reader: ObjectReader) -> AdmissionStatus:
    return AdmissionStatus(
        cluster_queue=reader.required_text("clusterQueue"),
        pod_sets=tuple(_assignment(item) for item in reader.objects("podSetAssignments")),
    )


def _assignment(item: ObjectReader) -> PodSetAssignment:
    return PodSetAssignment(
        name=item.text("name", "main"),
        count=item.optional_integer("count", low=0),
        flavors=item.text_map("flavors"),
        usage=item.quantities("resourceUsage"),
        topology=(
            _topology(item.object("topologyAssignment")) if "topologyAssignment" in item else None
        ),
        delayed_topology_request=item.text("delayedTopologyRequest"),
    )


def _topology(reader: ObjectReader) -> TopologyAssignment:
    levels = reader.texts("levels")
    domains = [
        TopologyDomain(values=item.texts("values"), count=item.integer("count", low=0))
        for item in reader.objects("domains")
    ]
    for item in reader.objects("slices"):
        domains.extend(_slice_domains(item, len(levels)))
    return TopologyAssignment(levels=levels, domains=tuple(domains))


def _slice_domains(item: ObjectReader, levels: int) -> list[TopologyDomain]:
    """Write out v1beta2's compact form: each level's values and the pods of each domain."""
    count = item.integer("domainCount", 1, low=1, high=100_000)
    columns = [_level_values(level, count) for level in item.objects("valuesPerLevel")]
    pods = _pod_counts(item.object("podCounts"), count)
    if len(columns) != levels or any(len(column) != count for column in (*columns, pods)):
        item.problem(
            "", "values, counts and domainCount do not agree", "write one of each a domain"
        )
        return []
    rows = zip(*columns, pods, strict=True)
    return [
        TopologyDomain(values=tuple(str(value) for value in row[:-1]), count=int(row[-1]))
        for row in rows
    ]


def _level_values(level: ObjectReader, count: int) -> list[str]:
    individual = level.object("individual")
    if not individual.present:
        return [level.text("universal")] * count
    prefix, suffix = individual.text("prefix"), individual.text("suffix")
    return [f"{prefix}{root}{suffix}" for root in individual.texts("roots")]


def _pod_counts(reader: ObjectReader, count: int) -> list[int]:
    if "individual" not in reader:
        return [reader.integer("universal", low=0)] * count
    return list(reader.integers("individual", low=0))


def _condition(item: ObjectReader) -> Condition:
    item.accept("observedGeneration")
    return Condition(
        type=item.required_text("type"),
        status=item.choice("status", ConditionStatus, ConditionStatus.UNKNOWN),
        reason=item.text("reason"),
        message=item.text("message"),
        last_transition_ms=item.time_ms("lastTransitionTime"),
    )


def _requeue_state(status: ObjectReader) -> RequeueState:
    reader = status.object("requeueState")
    return RequeueState(
        count=reader.integer("count", low=0), requeue_at_ms=reader.time_ms("requeueAt")
    )


def _check(item: ObjectReader) -> CheckStatus:
    item.not_acted_on("podSetUpdates")
    after_s = item.optional_integer("requeueAfterSeconds", low=0)
    return CheckStatus(
        name=item.required_text("name"),
        state=item.choice("state", CheckState, CheckState.PENDING),
        message=item.text("message"),
        last_transition_ms=item.time_ms("lastTransitionTime"),
        requeue_after_ms=None if after_s is None else after_s * 1000,
        retry_count=item.integer("retryCount", low=0),
    )


def _eviction(item: ObjectReader) -> EvictionCount:
    return EvictionCount(
        reason=item.text("reason"),
        underlying_cause=item.text("underlyingCause"),
        count=item.integer("count", low=0, high=INT32_MAX),
    )
