"""Kueue's feature gates: which of them are switches here, and what is done about the others."""

from collections.abc import Mapping

from muster_manifests.reader import ObjectReader

SWITCHES = (
    "AdmissionFairSharing", "DisableWaitForPodsReady", "FairSharingPreemptWithinNominal",
    "FairSharingPrioritizeNonBorrowing", "FlavorFungibilityPreserveScanProgress",
    "MultiKueueOrchestratedPreemption", "PartialAdmission", "PrioritizePreemptorWorkloads",
    "PriorityBoost", "PrioritySortingWithinCohort", "QuotaCheckStrategy",
    "RecomputeAssignmentUponPreemptionTargetsOverlap", "SchedulingEquivalenceHashing",
    "TASBalancedPlacement", "TASFailedNodeReplacementFailFast", "TASProfileMixed",
    "TASRecomputeAssignmentWithinSchedulingCycle",
)  # fmt: skip
"""Gates that decide something here, as they do in Kueue."""

ALWAYS: Mapping[str, str] = {
    "AdmissionGatedBy": "a job that is gated waits until somebody resumes it",
    "ElasticJobsViaWorkloadSlices": "a job grows where it is annotated as elastic",
    "ElasticJobsViaWorkloadSlicesWithTAS": "new pods sit in the domain of those that run",
    "FinishOrphanedWorkloads": "an external job ends with its lease",
    "FlavorFungibility": "the ClusterQueue's flavorFungibility says when a search ends",
    "LocalQueueMetrics": "every LocalQueue has its series",
    "MetricsForCohorts": "every cohort has its series",
    "ReclaimablePods": "pods that are done give their quota back",
    "SparkApplicationIntegration": "SparkApplications are read like other jobs",
    "TASFailedNodeReplacement": "pods of one lost node move where a topology seated them",
    "TASHandleOverlappingFlavors": "a node counts once, whatever flavors it is in",
    "TASMultiLayerTopology": "slices have up to three layers",
    "TASReplaceNodeOnNodeTaints": "a node counts as lost once its agent has stopped its pods",
    "TASReplaceNodeOnPodTermination": "a node counts as lost once its agent has stopped its pods",
    "TASValidateWorkloadSliceSize": "a slice size that does not divide the pods is refused",
    "TopologyAwareScheduling": "a flavor with a topologyName is placed by it",
    "UnadmittedWorkloadsObservability": "whoever waits has Kueue's newer reasons",
    "VisibilityOnDemand": "positions are answered when they are asked for",
    "WorkloadPriorityClassDefaulting": "a WorkloadPriorityClass named default is everybody's",
    "WorkloadValidateResourcesAreNonNegative": "requests below zero are refused",
    "WorkloadValidationForPodSetMetadata": "labels that Kubernetes would not take are refused",
}
"""What is done whatever the gate says."""

NEVER: Mapping[str, str] = {
    "AllAlpha": "write each gate that is wanted by its name",
    "AllBeta": "write each gate that is wanted by its name",
    "CustomMetricLabels": "series have the labels that the documents name",
    "FailureRecoveryPolicy": "pods of a lost node end with its lease",
    "FastQuotaReleaseInPodIntegration": "quota comes back when the pods are gone",
    "MultiKueue": "there are no other clusters to send work to",
    "MultiKueueManagerQuotaAutomation": "there are no other clusters to send work to",
    "RejectUpdatesToCQWithInvalidOnFlavors": "a check on a flavor that is not there asks nobody",
    "SchedulerLibraryIntegration": "placement seats pods itself",
    "TASReplaceNodeDueToNotReadyOverFixedTime": "a node is lost when its lease is over",
    "TASRespectNodeAffinityPreferred": "preferred affinity plays no part where a topology seats",
    "UnadmittedWorkloadsExplicitStatus": "whoever waits has Kueue's newer reasons",
}
"""What is not done whatever the gate says, and what happens instead."""

CLAIMS = "devices are counted by resource name, and resourceClaims of pods are not charged"
"""What stands here for Kueue's charging of DRA claims."""

OF_KUBERNETES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "KueueDRAIntegration", "KueueDRAIntegrationConsumableCapacity",
            "KueueDRAIntegrationExtendedResource", "KueueDRAIntegrationPartitionableDevices",
            "KueueDRARejectWorkloadsWhenDRADisabled",
        ),
        CLAIMS,
    ),
    **dict.fromkeys(
        (
            "MultiKueueAdaptersForCustomJobs", "MultiKueueClusterProfile",
            "MultiKueueIncrementalDispatcherConfig", "MultiKueueKubeConfigPathValidation",
            "MultiKueueIncrementalDispatcherRespectConfigOrder", "MultiKueueRemoteSpecSync",
        ),
        "there are no other clusters to send work to",
    ),
    **dict.fromkeys(
        (
            "AssignQueueLabelsForPods", "CleanupProvisioningRequestsOnEviction",
            "DeferRayServiceFinalizationForRedisCleanup", "LWSImmutableGroupSize",
            "ManagedJobsNamespaceSelectorAlwaysRespected", "MetricForWorkloadCreationLatency",
            "PodIntegrationValidateGroupOwner", "RemoveFinalizersWithStrictPatch",
            "ShortWorkloadNames", "SkipAncestorCheckForDeletedWorkloads",
            "SkipReassignmentForPodOwnedWorkloads", "TASAssignmentsEncodingByHostnamePrefix",
            "TASCacheNodeMatchResults", "TASCacheTopologyTree", "TASCachingRemainingResources",
            "TLSOptions", "ValidateRayAndSparkJobUpdates", "VectorizedResourceRequests",
            "WorkloadIdentifierAnnotations", "WorkloadRequestUseMergePatch",
        ),
        "it is about objects, caches or controllers inside Kubernetes",
    ),
}  # fmt: skip
"""Gates about what is not there outside Kubernetes."""

_VARIANTS = "ConcurrentAdmission"


def read_gates(reader: ObjectReader, instead_of_variants: str) -> dict[str, bool]:
    """Switches by name. A warning says of each other gate what is done whatever it says.

    The one for variants of a workload is refused: nothing here makes them.
    """
    gates = {name: reader.flag(name) for name in reader.keys}
    if gates.pop(_VARIANTS, False):
        reader.problem(
            _VARIANTS,
            "not offered: nothing here makes a variant of a workload for each flavor, or keeps two "
            "of them from running at the same time",
            f"remove it; {instead_of_variants} under muster: tries the next flavor",
        )
    for name, on in gates.items():
        if name in OF_KUBERNETES:
            reader.warn(name, f"of no effect here: {OF_KUBERNETES[name]}")
        elif name in ALWAYS and not on:
            reader.warn(name, f"cannot be switched off: {ALWAYS[name]}")
        elif name in NEVER and on:
            reader.warn(name, f"cannot be switched on: {NEVER[name]}")
        elif name not in SWITCHES and name not in ALWAYS and name not in NEVER:
            reader.warn(name, "no gate that is known", f"known are {', '.join(SWITCHES)}")
    return {name: on for name, on in gates.items() if name in SWITCHES}
