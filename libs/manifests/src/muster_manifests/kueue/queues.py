"""ClusterQueue, Cohort and LocalQueue."""

from muster_domain.queues import (
    AdmissionCheckRule,
    BorrowWithinCohort,
    BorrowWithinCohortPolicy,
    ClusterQueue,
    Cohort,
    ConcurrentAdmission,
    FlavorFungibility,
    FungibilityPreference,
    LocalQueue,
    MigrationMode,
    PreemptionPolicy,
    QueueingStrategy,
    ReclaimWithinCohort,
    ResourceGroup,
    StopPolicy,
    WhenCan,
    WithinClusterQueue,
)
from muster_domain.selectors import Selector
from muster_manifests.kueue.quotas import check_lending_limits, read_resource_groups
from muster_manifests.manifest import Manifest
from muster_manifests.reader import ObjectReader
from muster_manifests.terms import read_label_selector

_WEIGHT_ONE_MILLI = 1000
_OLD_WHEN_CAN = {"Borrow": WhenCan.MAY_STOP_SEARCH, "Preempt": WhenCan.MAY_STOP_SEARCH}
_USAGE_BASED = ("UsageBasedAdmissionFairSharing", "UsageBased")
_NOT_USAGE_BASED = "NoAdmissionFairSharing"


def read_cluster_queue(manifest: Manifest) -> ClusterQueue:
    """Read a ClusterQueue."""
    spec = manifest.body.object("spec")
    cohort = either_spelling(spec, "cohortName", "cohort")
    groups = read_resource_groups(spec, parent=cohort, parent_key="cohortName")
    check_lending_limits(spec)
    return ClusterQueue(
        name=manifest.metadata.name,
        resource_groups=groups,
        cohort=cohort,
        queueing_strategy=spec.choice(
            "queueingStrategy", QueueingStrategy, QueueingStrategy.BEST_EFFORT_FIFO
        ),
        namespace_selector=_namespace_selector(spec),
        flavor_fungibility=_flavor_fungibility(spec.object("flavorFungibility")),
        preemption=_preemption(spec.object("preemption")),
        admission_checks=_admission_checks(spec),
        stop_policy=spec.choice("stopPolicy", StopPolicy, StopPolicy.NONE),
        fair_weight_milli=_fair_weight_milli(spec),
        admission_fair_sharing=_admission_fair_sharing(spec.object("admissionScope")),
        concurrent_admission=_concurrent_admission(spec, groups),
    )


def read_cohort(manifest: Manifest) -> Cohort:
    """Read a Cohort: a node of the quota tree whose own quota adds to that of its members."""
    spec = manifest.body.object("spec")
    parent = either_spelling(spec, "parentName", "parent")
    if parent and parent == manifest.metadata.name:
        spec.rule("parentName", "a cohort above itself", "name another cohort")
    return Cohort(
        name=manifest.metadata.name,
        parent=parent,
        resource_groups=read_resource_groups(spec, parent=parent, parent_key="parentName"),
        fair_weight_milli=_fair_weight_milli(spec),
    )


def read_local_queue(manifest: Manifest) -> LocalQueue:
    """Read a LocalQueue."""
    spec = manifest.body.object("spec")
    return LocalQueue(
        namespace=manifest.metadata.namespace,
        name=manifest.metadata.name,
        cluster_queue=spec.required_text("clusterQueue"),
        stop_policy=spec.choice("stopPolicy", StopPolicy, StopPolicy.NONE),
        fair_weight_milli=_fair_weight_milli(spec),
    )


def either_spelling(owner: ObjectReader, today: str, older: str) -> str:
    """Read a text under today's key or its older one; both are fine when they agree."""
    new, old = owner.text(today), owner.text(older)
    if new and old and new != old:
        owner.problem(older, f"says {old!r} where {today} says {new!r}", f"keep {today}")
    return new or old


def _namespace_selector(spec: ObjectReader) -> Selector | None:
    if "namespaceSelector" not in spec:
        spec.accept("namespaceSelector")
        spec.warn(
            "namespaceSelector",
            "without a namespaceSelector no namespace may use this queue; it only lends",
            "write namespaceSelector: {} to admit every namespace",
        )
        return None
    return read_label_selector(spec.object("namespaceSelector"))


def _concurrent_admission(
    spec: ObjectReader, groups: tuple[ResourceGroup, ...]
) -> ConcurrentAdmission:
    """Read how variants migrate; without the gate ConcurrentAdmission there are none."""
    policy = spec.object("concurrentAdmissionPolicy")
    migration = policy.object("migration")
    constraints = migration.object("constraints")
    last = constraints.text("lastAcceptableFlavorName")
    offered = [quotas.flavor for quotas in groups[0].flavors] if groups else []
    if last and last not in offered:
        constraints.rule(
            "lastAcceptableFlavorName",
            f"{last!r} is no flavor of the first resource group",
            f"write one of {', '.join(offered)}",
        )
    if policy.present:
        policy.warn("", "of no effect: a workload has no variants here")
    mode = migration.choice("mode", MigrationMode, MigrationMode.TRY_PREFERRED_FLAVORS)
    return ConcurrentAdmission(mode=mode, last_acceptable_flavor=last)


def _flavor_fungibility(reader: ObjectReader) -> FlavorFungibility:
    fungibility = FlavorFungibility(
        when_can_borrow=reader.choice(
            "whenCanBorrow", WhenCan, WhenCan.MAY_STOP_SEARCH, _OLD_WHEN_CAN
        ),
        when_can_preempt=reader.choice(
            "whenCanPreempt", WhenCan, WhenCan.TRY_NEXT_FLAVOR, _OLD_WHEN_CAN
        ),
        preference=reader.choice(
            "preference", FungibilityPreference, FungibilityPreference.BORROWING_OVER_PREEMPTION
        ),
    )
    both_go_on = (
        fungibility.when_can_borrow is WhenCan.TRY_NEXT_FLAVOR
        and fungibility.when_can_preempt is WhenCan.TRY_NEXT_FLAVOR
    )
    if "preference" in reader and not both_go_on:
        reader.rule(
            "preference",
            "chooses among flavors only when the search goes on",
            "write whenCanBorrow and whenCanPreempt: TryNextFlavor, or remove preference",
        )
    return fungibility


def _preemption(reader: ObjectReader) -> PreemptionPolicy:
    borrow = reader.object("borrowWithinCohort")
    policy = PreemptionPolicy(
        within_cluster_queue=reader.choice(
            "withinClusterQueue", WithinClusterQueue, WithinClusterQueue.NEVER
        ),
        reclaim_within_cohort=reader.choice(
            "reclaimWithinCohort",
            ReclaimWithinCohort,
            ReclaimWithinCohort.UNSET
            if reader.present and not reader.options.admission_rules
            else ReclaimWithinCohort.NEVER,
        ),
        borrow_within_cohort=BorrowWithinCohort(
            policy=borrow.choice(
                "policy", BorrowWithinCohortPolicy, BorrowWithinCohortPolicy.NEVER
            ),
            max_priority_threshold=borrow.optional_integer("maxPriorityThreshold"),
        ),
    )
    if (
        policy.reclaim_within_cohort is ReclaimWithinCohort.NEVER
        and policy.borrow_within_cohort.policy is not BorrowWithinCohortPolicy.NEVER
    ):
        borrow.rule(
            "policy",
            "a queue that never reclaims cannot preempt while it borrows",
            "write reclaimWithinCohort: LowerPriority, or policy: Never",
        )
    return policy


def _admission_checks(spec: ObjectReader) -> tuple[AdmissionCheckRule, ...]:
    plain = spec.texts("admissionChecks")
    strategy = spec.object("admissionChecksStrategy")
    rules = tuple(
        AdmissionCheckRule(name=item.required_text("name"), on_flavors=item.texts("onFlavors"))
        for item in strategy.objects("admissionChecks")
    )
    if plain and rules:
        spec.problem(
            "admissionChecks",
            "excludes admissionChecksStrategy",
            "keep admissionChecksStrategy",
        )
    return rules or tuple(AdmissionCheckRule(name=name) for name in plain)


def _fair_weight_milli(spec: ObjectReader) -> int:
    reader = spec.object("fairSharing")
    weight = reader.quantity("weight")
    if weight is not None and weight < 0:
        reader.problem("weight", "below zero", 'write weight: "1"')
    return _WEIGHT_ONE_MILLI if weight is None else weight


def _admission_fair_sharing(scope: ObjectReader) -> bool:
    mode = scope.text("admissionMode")
    if mode and mode not in (*_USAGE_BASED, _NOT_USAGE_BASED):
        scope.problem(
            "admissionMode",
            f"{mode!r} is none of its values",
            f"write {_USAGE_BASED[0]} or {_NOT_USAGE_BASED}",
        )
    return mode in _USAGE_BASED
