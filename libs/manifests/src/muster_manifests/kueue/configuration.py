"""Kueue's component configuration (R-120), read as an object like the others."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster_domain.policy import (
    AdmissionFairSharing,
    FairSharing,
    FairStrategy,
    Improvements,
    Lifecycle,
    Policy,
    RequeueTimestamp,
    StrictScope,
    Transformation,
    TransformationStrategy,
)
from muster_domain.queues import UndeclaredResources
from muster_manifests.durations import duration_ms
from muster_manifests.kueue.gates import CLAIMS, read_gates
from muster_manifests.manifest import Manifest
from muster_manifests.reader import ObjectReader

_HEADS_MAX = 1000

_OF_KUBERNETES = (
    "namespace", "clientConnection", "controller", "internalCertManagement", "leaderElection",
    "health", "webhook", "visibilityServer", "tls", "multiKueue", "queueVisibility",
    "integrations", "metrics", "manageJobsWithoutQueueName", "managedJobsNamespaceSelector",
)  # fmt: skip
"""Keys about Kueue's life inside Kubernetes; here every job comes with its queue."""

_ACROSS_FLAVORS = "placementAcrossFlavors"

MUSTER_IMPROVEMENTS = Improvements(
    preemptor_claims=True,
    seats_across_flavors=True,
    heads_per_cycle=8,
    strict_scope=StrictScope.RESOURCE_GROUP,
    own_victims_while_borrowing=True,
)
"""What `kueueCompat: false` begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueConfiguration:
    """Kueue's `Configuration`: how workloads are decided on, and how long they may take."""

    name: str
    policy: Policy = Policy()
    lifecycle: Lifecycle = Lifecycle()


def read_configuration(manifest: Manifest) -> KueueConfiguration:
    """Read a Configuration; what only Kueue inside Kubernetes needs is named in one warning."""
    reader = manifest.body
    reader.accept(*_OF_KUBERNETES)
    unused = [key for key in _OF_KUBERNETES if key in reader]
    if unused:
        reader.warn("", f"of no effect outside Kubernetes: {', '.join(unused)}")
    gates = read_gates(reader.object("featureGates"), _ACROSS_FLAVORS)
    return KueueConfiguration(
        name=manifest.metadata.name,
        policy=_policy(reader, gates),
        lifecycle=_lifecycle(reader, gates),
    )


def _policy(reader: ObjectReader, gates: Mapping[str, bool]) -> Policy:
    default = Policy()
    resources = reader.object("resources")
    resources.not_acted_on("deviceClassMappings", why=CLAIMS)
    undeclared = resources.choice(
        "quotaCheckStrategy", UndeclaredResources, UndeclaredResources.BLOCK
    )
    requeuing = reader.object("waitForPodsReady").object("requeuingStrategy")
    return Policy(
        fair_sharing=_fair_sharing(reader, gates),
        admission_fair_sharing=_admission_fair_sharing(reader.object("admissionFairSharing"))
        if gates.get("AdmissionFairSharing", True)
        else None,
        requeue_timestamp=_timestamp(requeuing),
        priority_sorting_within_cohort=gates.get("PrioritySortingWithinCohort", True),
        prioritize_preemptors=gates.get("PrioritizePreemptorWorkloads", False),
        partial_admission=gates.get("PartialAdmission", True),
        equivalence_classes=gates.get("SchedulingEquivalenceHashing", True),
        recompute_on_overlap=gates.get("RecomputeAssignmentUponPreemptionTargetsOverlap", True),
        scan_progress=gates.get("FlavorFungibilityPreserveScanProgress", True),
        reseat_within_cycle=gates.get("TASRecomputeAssignmentWithinSchedulingCycle", True),
        evict_when_unseated=gates.get("TASFailedNodeReplacementFailFast", True),
        balanced_topology=gates.get("TASBalancedPlacement", False),
        least_free_topology=gates.get("TASProfileMixed", True),
        priority_boost=gates.get("PriorityBoost", default.priority_boost),
        preemption_gates=gates.get("MultiKueueOrchestratedPreemption", default.preemption_gates),
        exclude_prefixes=resources.texts("excludeResourcePrefixes"),
        transformations=tuple(map(_transformation, resources.objects("transformations"))),
        ignore_undeclared=undeclared is UndeclaredResources.IGNORE
        and gates.get("QuotaCheckStrategy", True),
        improvements=_improvements(reader.object("muster")),
    )


def _improvements(reader: ObjectReader) -> Improvements:
    compatible = reader.flag("kueueCompat", default=True)
    default = Improvements() if compatible else MUSTER_IMPROVEMENTS
    return Improvements(
        preemptor_claims=reader.flag("preemptorClaims", default=default.preemptor_claims),
        seats_across_flavors=reader.flag(_ACROSS_FLAVORS, default=default.seats_across_flavors),
        heads_per_cycle=reader.integer(
            "workloadsPerQueueAndCycle", default.heads_per_cycle, low=1, high=_HEADS_MAX
        ),
        strict_scope=reader.choice("strictFIFOScope", StrictScope, default.strict_scope),
        reserve_head=reader.flag("reserveHead", default=default.reserve_head),
        own_victims_while_borrowing=reader.flag(
            "ownQueuePreemptionWhileBorrowing", default=default.own_victims_while_borrowing
        ),
        least_lost_work_first=reader.flag(
            "leastLostWorkFirst", default=default.least_lost_work_first
        ),
        victims_by_domain=reader.flag("victimsByDomain", default=default.victims_by_domain),
    )


def _lifecycle(reader: ObjectReader, gates: Mapping[str, bool]) -> Lifecycle:
    waiting = reader.object("waitForPodsReady")
    retention = reader.object("objectRetentionPolicies").object("workloads")
    requeuing = waiting.object("requeuingStrategy")
    default = Lifecycle()
    ready_ms = duration_ms(waiting, "timeout") or default.ready_ms
    recovery_ms = duration_ms(waiting, "recoveryTimeout")
    waits = waiting.flag("enable", default=True) and not gates.get("DisableWaitForPodsReady")
    return Lifecycle(
        ready_ms=ready_ms if waits else None,
        recovery_ms=(ready_ms if recovery_ms is None else recovery_ms or None) if waits else None,
        block_admission=waiting.flag("blockAdmission") and waits,
        requeue_timestamp=_timestamp(requeuing),
        requeue_limit=requeuing.optional_integer("backoffLimitCount", low=0),
        requeue_base_ms=requeuing.integer("backoffBaseSeconds", 60, low=0) * 1000,
        requeue_max_ms=requeuing.integer("backoffMaxSeconds", 3600, low=0) * 1000,
        keep_finished_ms=duration_ms(retention, "afterFinished"),
        keep_deactivated_ms=duration_ms(retention, "afterDeactivatedByKueue"),
    )


def _timestamp(requeuing: ObjectReader) -> RequeueTimestamp:
    return requeuing.choice("timestamp", RequeueTimestamp, RequeueTimestamp.EVICTION)


def _fair_sharing(reader: ObjectReader, gates: Mapping[str, bool]) -> FairSharing | None:
    """Read the strategies; Kueue allows each alone, or both with the final share first."""
    sharing = reader.object("fairSharing")
    if "fairSharing" not in reader or not sharing.flag("enable", default=True):
        return None
    words = sharing.texts("preemptionStrategies")
    both = FairSharing().strategies
    chosen = both
    if words not in (tuple(s.value for s in allowed) for allowed in ((), both, both[:1], both[1:])):
        sharing.problem(
            "preemptionStrategies",
            f"{', '.join(words)} is not allowed",
            f"write [{both[0]}, {both[1]}] or one of them",
        )
    elif words:
        chosen = tuple(map(FairStrategy, words))
    return FairSharing(
        strategies=chosen,
        preempt_within_nominal=gates.get("FairSharingPreemptWithinNominal", True),
        prioritize_non_borrowing=gates.get("FairSharingPrioritizeNonBorrowing", True),
    )


def _admission_fair_sharing(sharing: ObjectReader) -> AdmissionFairSharing | None:
    if not sharing.present:
        return None
    half_life_ms = duration_ms(sharing, "usageHalfLifeTime")
    if half_life_ms is None:
        sharing.problem("usageHalfLifeTime", "missing", "write usageHalfLifeTime: 168h")
    sampling_ms = duration_ms(sharing, "usageSamplingInterval")
    if sampling_ms == 0:
        sharing.problem("usageSamplingInterval", "no time", "write usageSamplingInterval: 5m")
    return AdmissionFairSharing(
        half_life_ms=half_life_ms or 0,
        sampling_ms=300_000 if sampling_ms is None else sampling_ms,
        weights_milli=sharing.quantities("resourceWeights"),
    )


def _transformation(item: ObjectReader) -> Transformation:
    outputs = item.object("outputs")
    return Transformation(
        source=item.required_text("input"),
        strategy=item.choice("strategy", TransformationStrategy, TransformationStrategy.RETAIN),
        outputs_milli={name: outputs.quantity(name) or 0 for name in outputs.keys},
        multiply_by=item.text("multiplyBy"),
    )
