"""A case's objects as domain values, loaded through the public manifest loader."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from muster_domain.checks import any_failed
from muster_domain.conditions import EvictionReason, PreemptionReason
from muster_domain.pod_defaults import LimitRange
from muster_domain.quantity import parse_quantity_milli
from muster_domain.queues import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    Namespace,
    ResourceFlavor,
    Topology,
)
from muster_domain.workload import LocalQueueRef, Workload
from muster_manifests import (
    ConditionStatus,
    LoadOptions,
    ManifestError,
    SubmissionContext,
    WorkloadRecord,
    load_object,
    make_admission,
    make_workload,
)
from muster_scheduling import (
    AdmissionFairSharing,
    AdmissionView,
    AdmittedWorkload,
    Configuration,
    FairSharing,
    FairStrategy,
    PendingWorkload,
    Policy,
    RequeueTimestamp,
    Transformation,
    TransformationStrategy,
    hold,
    prepare,
    queue_timestamp_ms,
)
from muster_scheduling.fairness.history import FINE, LocalQueueHistory

OPTIONS = LoadOptions(default_namespace="", admission_rules=False)
PLACE = {
    ClusterQueue: "cluster_queues",
    Cohort: "cohorts",
    LocalQueue: "local_queues",
    Namespace: "namespaces",
    ResourceFlavor: "flavors",
    Topology: "topologies",
    AdmissionCheck: "admission_checks",
}


@dataclass
class World:
    """Everything of a case, by name."""

    cluster_queues: dict[str, ClusterQueue] = field(default_factory=dict)
    cohorts: dict[str, Cohort] = field(default_factory=dict)
    local_queues: dict[str, LocalQueue] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    flavors: dict[str, ResourceFlavor] = field(default_factory=dict)
    topologies: dict[str, Topology] = field(default_factory=dict)
    admission_checks: dict[str, AdmissionCheck] = field(default_factory=dict)
    inactive_checks: frozenset[str] = frozenset()
    records: list[WorkloadRecord] = field(default_factory=list)
    policy: Policy = Policy()

    def configuration(self) -> Configuration:
        """What the core is configured with."""
        return Configuration(
            cluster_queues=self.cluster_queues,
            cohorts=self.cohorts,
            local_queues=self.local_queues,
            namespaces=self.namespaces,
            flavors=self.flavors,
            topologies=self.topologies,
            admission_checks=self.admission_checks or None,
            inactive_checks=self.inactive_checks,
            policy=self.policy,
        )


def load_world(case: Mapping[str, Any]) -> World:
    """Load a case's objects; kinds that Muster does not read play no part."""
    world = World(policy=policy_of(case))
    options = replace(OPTIONS, limit_ranges=_limit_ranges(case))
    for manifest in case["objects"]:
        content = load_object(manifest, source="case", options=options).content
        if isinstance(content, WorkloadRecord):
            world.records.append(content)
        elif type(content) in PLACE:
            name = content.key if isinstance(content, LocalQueue) else content.name
            getattr(world, PLACE[type(content)])[name] = content
    return world


def _limit_ranges(case: Mapping[str, Any]) -> tuple[LimitRange, ...]:
    written = [manifest for manifest in case["objects"] if manifest["kind"] == "LimitRange"]
    loaded = [load_object(manifest, source="case", options=OPTIONS) for manifest in written]
    return tuple(found.content for found in loaded if isinstance(found.content, LimitRange))


def load_record(manifest: Mapping[str, Any]) -> WorkloadRecord:
    """Load one Workload; unit cases leave its name out."""
    named = {**manifest, "metadata": {"name": "wl", **manifest.get("metadata", {})}}
    if not named.get("spec", {}).get("podSets"):
        named["spec"] = {**named.get("spec", {}), "podSets": [{"name": "main"}]}
    content = load_object(named, source="case", options=OPTIONS).content
    if not isinstance(content, WorkloadRecord):
        raise ManifestError(())
    return content


def load_queue(manifest: Mapping[str, Any]) -> ClusterQueue:
    """Load one ClusterQueue."""
    content = load_object(manifest, source="case", options=OPTIONS).content
    if not isinstance(content, ClusterQueue):
        raise ManifestError(())
    return content


def milliseconds(text: str | None) -> int:
    """A case's clock."""
    return int(datetime.fromisoformat(text).timestamp() * 1000) if text else 0


def policy_of(case: Mapping[str, Any]) -> Policy:
    """The policy that a case's configuration and feature gates describe."""
    config = case.get("config", {})
    gates = {**case.get("features", {}), **case.get("features_nondefault", {})}
    fair = None
    if config.get("enableFairSharing"):
        names = config.get("preemptionStrategies")
        strategies = {"strategies": tuple(FairStrategy(n) for n in names)} if names else {}
        fair = FairSharing(
            **strategies,
            preempt_within_nominal=gates.get("FairSharingPreemptWithinNominal", True),
            prioritize_non_borrowing=gates.get("FairSharingPrioritizeNonBorrowing", True),
        )
    return Policy(
        fair_sharing=fair,
        admission_fair_sharing=_turns(config.get("admissionFairSharing")),
        priority_sorting_within_cohort=gates.get("PrioritySortingWithinCohort", True),
        prioritize_preemptors=gates.get("PrioritizePreemptorWorkloads", False),
        requeue_timestamp=RequeueTimestamp(config.get("podsReadyRequeuingTimestamp") or "Eviction"),
        partial_admission=gates.get("PartialAdmission", True),
        equivalence_classes=gates.get("SchedulingEquivalenceHashing", True),
        reseat_within_cycle=gates.get("TASRecomputeAssignmentWithinSchedulingCycle", True),
        evict_when_unseated=gates.get("TASFailedNodeReplacementFailFast", True),
        transformations=tuple(
            Transformation(
                source=row["input"],
                outputs_milli={n: parse_quantity_milli(q) for n, q in row["outputs"].items()},
                strategy=TransformationStrategy(row.get("strategy") or "Retain"),
                multiply_by=row.get("multiplyBy") or "",
            )
            for row in config.get("resourceTransformations") or []
        ),
        recompute_on_overlap=gates.get("RecomputeAssignmentUponPreemptionTargetsOverlap", True),
        scan_progress=gates.get("FlavorFungibilityPreserveScanProgress", True),
        priority_boost=gates.get("PriorityBoost", False),
        concurrent_admission=gates.get("ConcurrentAdmission", False),
        preemption_gates=gates.get("MultiKueueOrchestratedPreemption", False),
    )


def _turns(written: Mapping[str, Any] | None) -> AdmissionFairSharing | None:
    if not isinstance(written, Mapping):
        return None
    return AdmissionFairSharing(
        half_life_ms=_duration_ms(written["usageHalfLifeTime"]),
        sampling_ms=_duration_ms(written["usageSamplingInterval"]),
        weights_milli={
            name: int(weight * 1000) for name, weight in written.get("resourceWeights", {}).items()
        },
    )


def _duration_ms(written: str) -> int:
    return int(float(written.removesuffix("s")) * 1000)


def workload_of(record: WorkloadRecord, place: int = 0) -> Workload:
    """The domain workload; its id is the uid, then its place in the case: cases repeat uids."""
    submission, status = record.submission, record.status
    return make_workload(
        submission,
        SubmissionContext(
            id=f"{status.uid} {place:05d}",
            created_at_ms=status.created_at_ms or 0,
            default_queue=LocalQueueRef(name=""),
        ),
    )


def queued_at_ms(record: WorkloadRecord, policy: Policy) -> int:
    """What orders a workload, from its conditions."""
    status = record.status
    evicted = status.condition("Evicted") if status.holds("Evicted") else None
    preempted = status.condition("Preempted") if status.holds("Preempted") else None
    reasons = {reason.value: reason for reason in EvictionReason}
    rights = {right.value: right for right in PreemptionReason}
    transition = evicted or preempted
    return queue_timestamp_ms(
        status.created_at_ms or 0,
        reasons.get(evicted.reason) if evicted else None,
        (transition.last_transition_ms or 0) if transition else 0,
        rights.get(preempted.reason) if preempted else None,
        policy,
    )


def pending_of(record: WorkloadRecord, policy: Policy, place: int = 0) -> PendingWorkload:
    """A workload that waits."""
    status = record.status
    workload = prepare(
        workload_of(record, place),
        policy,
        queued_at_ms=queued_at_ms(record, policy),
        reclaimable=status.reclaimable_pods,
        parent=record.parent,
    )
    if status.requeue_state is not None:
        workload.requeue_at_ms = status.requeue_state.requeue_at_ms
    workload.gated = policy.preemption_gates and bool(status.preemption_gates)
    requeued = status.condition("Requeued")
    workload.held_back = requeued is not None and requeued.status is ConditionStatus.FALSE
    workload.failed_checks = any_failed(check.state for check in status.admission_checks)
    workload.inadmissible = record.submission.misconfigured
    return workload


def holder_of(
    record: WorkloadRecord, policy: Policy, now_ms: int, place: int = 0
) -> AdmittedWorkload:
    """A workload that holds quota."""
    status = record.status
    reserved = status.condition("QuotaReserved")
    admission = make_admission(status.admission, record.submission.pod_sets)
    return hold(
        workload_of(record, place),
        admission,
        policy,
        reserved_at_ms=(reserved.last_transition_ms or 0) if reserved else now_ms,
        queued_at_ms=queued_at_ms(record, policy),
        evicting=status.holds("Evicted"),
        admitted=status.holds("Admitted"),
        reclaimable=status.reclaimable_pods,
        parent=record.parent,
    )


def topology_on(case: Mapping[str, Any]) -> bool:
    """Whether a case places by topology at all."""
    return bool({**case.get("features_nondefault", {})}.get("TopologyAwareScheduling", True))


def is_holder(record: WorkloadRecord) -> bool:
    """Whether its usage counts."""
    status = record.status
    return status.admission is not None and not status.holds("Finished")


def make_view(case: Mapping[str, Any], world: World) -> AdmissionView:
    """The core's state with everybody in it who holds quota or waits."""
    policy = world.policy
    now_ms = milliseconds(case["config"].get("clock"))
    view = AdmissionView(world.configuration())
    for name, used in (case.get("incoming") or {}).get("initialLocalQueueUsage", {}).items():
        consumed = {r: parse_quantity_milli(q) * FINE for r, q in used.items()}
        key = name if "/" in name else f"default/{name}"
        view.histories[key] = LocalQueueHistory(updated_ms=now_ms, consumed=consumed)
    for place, record in enumerate(world.records):
        status = record.status
        if is_holder(record):
            view.charge(holder_of(record, policy, now_ms, place))
        elif status.active and not status.holds("Finished"):
            view.add_pending(pending_of(record, policy, place), now_ms)
    return view


def vector(rows: list[dict[str, Any]] | None) -> dict[tuple[str, str], int]:
    """Amounts of a case in milli-units; cases count cpu in thousandths, the rest in units."""
    return {
        (row["flavor"], row["resource"]): row["value"] * (1 if row["resource"] == "cpu" else 1000)
        for row in rows or []
    }


def rows(amounts: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """Milli-units as a case's amounts."""
    return [
        {"flavor": flavor, "resource": resource, "value": case_amount(resource, amount)}
        for (flavor, resource), amount in sorted(amounts.items())
    ]


def case_amount(resource: str, amount: int) -> int | str:
    """One amount as a case writes it."""
    if amount >= (2**63 - 1) * 1000:
        return "unlimited"
    return amount if resource == "cpu" else amount // 1000
