"""Why things are as they are: one list of reasons, in Kueue's own words.

Every refusal carries one of these and the numbers behind it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster_domain.budgets import BudgetVerdict


class PendingReason(StrEnum):
    """Why a workload has no quota yet (KEP-10852), in order of precedence."""

    DEACTIVATED = "Deactivated"
    ON_HOLD = "OnHold"
    MISCONFIGURED = "Misconfigured"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    SUSPENDED = "Suspended"
    ADMISSION_GATED = "AdmissionGated"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    BUDGET_EXCEEDED = "BudgetExceeded"
    WAITING_FOR_BUDGET = "WaitingForBudget"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    WAITING_FOR_PREEMPTED_WORKLOADS = "WaitingForPreemptedWorkloads"
    PENDING_EVALUATION = "PendingEvaluation"


class UnadmittedReason(StrEnum):
    """Why a workload that holds quota is not admitted yet."""

    UNSATISFIED_ADMISSION_CHECKS = "UnsatisfiedAdmissionChecks"
    PENDING_DELAYED_TOPOLOGY_REQUESTS = "PendingDelayedTopologyRequests"


class EvictionReason(StrEnum):
    """Why a workload lost what it held."""

    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    ADMISSION_CHECK = "AdmissionCheck"
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    NODE_FAILURES = "NodeFailures"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    DEACTIVATED = "Deactivated"


class UnderlyingCause(StrEnum):
    """What stands behind a deactivation, or behind pods that were not ready in time."""

    NONE = ""
    WAIT_FOR_START = "WaitForStart"
    WAIT_FOR_RECOVERY = "WaitForRecovery"
    ADMISSION_CHECK = "AdmissionCheck"
    REQUEUING_LIMIT_EXCEEDED = "RequeuingLimitExceeded"
    MAXIMUM_EXECUTION_TIME_EXCEEDED = "MaximumExecutionTimeExceeded"


class RequeuedReason(StrEnum):
    """Why an evicted workload may be looked at again."""

    PREEMPTED = "Preempted"
    NODE_FAILURES = "NodeFailures"
    BACKOFF_FINISHED = "BackoffFinished"
    REACTIVATED = "Reactivated"
    CLUSTER_QUEUE_RESTARTED = "ClusterQueueRestarted"
    LOCAL_QUEUE_RESTARTED = "LocalQueueRestarted"


class PreemptionReason(StrEnum):
    """By what right a workload was preempted."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"


class UnplaceableReason(StrEnum):
    """Why no seats were found for a gang, or why they were lost."""

    NO_NODES = "NoNodes"
    NODE_SELECTOR_MISMATCH = "NodeSelectorMismatch"
    UNTOLERATED_TAINT = "UntoleratedTaint"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    GANG_INCOMPLETE = "GangIncomplete"
    TOPOLOGY = "TopologyPlacementFailed"
    QUEUE_CAPABILITY = "ExceedsQueueCapability"
    FRACTIONAL_DEVICE = "FractionalDeviceRequest"
    UNSUPPORTED_TOPOLOGY = "UnsupportedTopologyRequest"


class RefusalReason(StrEnum):
    """Why a job was not taken at the door, before anybody looked for quota."""

    INVALID_MANIFEST = "InvalidManifest"
    NO_QUEUE = "NoQueue"
    WRONG_NAMESPACE = "WrongNamespace"
    NAME_IN_USE = "NameInUse"


class Outcome(StrEnum):
    """How a workload ended. Exactly one, for ever."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    REFUSED = "Refused"
    DEACTIVATED = "Deactivated"
    LEASE_EXPIRED = "LeaseExpired"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorVerdict:
    """What one flavor said about one resource of a workload, in milli-units.

    `short_by_milli` is what is missing after borrowing; `available_milli` includes what could be
    borrowed now; `max_milli` is what the tree could ever give.
    """

    pod_set: str
    resource: str
    flavor: str
    reason: str
    requested_milli: int
    nominal_milli: int = 0
    used_milli: int = 0
    available_milli: int = 0
    max_milli: int = 0
    borrowing: bool = False

    @property
    def short_by_milli(self) -> int:
        """Missing milli-units, never below zero."""
        return max(0, self.requested_milli - self.available_milli)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One verdict and the numbers behind it, as of one evaluation.

    `reason` is a value of one of the enums above. `blocked_by` names workloads that stand in front
    (a StrictFIFO head, the claim of a preemptor). `budgets` are those that have no room for it.
    """

    reason: str
    message: str
    flavors: tuple[FlavorVerdict, ...] = ()
    preemption: str = ""
    remedy: str = ""
    blocked_by: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    budgets: tuple[BudgetVerdict, ...] = ()
