"""The switches of the decision core. The defaults are Kueue's (`kueueCompat: true`)."""

from dataclasses import dataclass
from enum import StrEnum


class FairStrategy(StrEnum):
    """When fair sharing lets a workload of another ClusterQueue be preempted (R-65)."""

    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"


class RequeueTimestamp(StrEnum):
    """Which time orders a workload that was evicted for not getting ready (R-41)."""

    EVICTION = "Eviction"
    CREATION = "Creation"


@dataclass(frozen=True, slots=True, kw_only=True)
class FairSharing:
    """Fair sharing between ClusterQueues is on, with these strategies in this order."""

    strategies: tuple[FairStrategy, ...] = (FairStrategy.FINAL_SHARE, FairStrategy.INITIAL_SHARE)
    preempt_within_nominal: bool = True
    prioritize_non_borrowing: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything about a decision that is configuration of the installation.

    `prioritize_preemptors`, `priority_boost` and `concurrent_admission` are off in Kueue;
    `scan_progress` keeps a flavor scan's position over changes of quota for one cycle.
    """

    fair_sharing: FairSharing | None = None
    priority_sorting_within_cohort: bool = True
    prioritize_preemptors: bool = False
    requeue_timestamp: RequeueTimestamp = RequeueTimestamp.EVICTION
    partial_admission: bool = True
    equivalence_classes: bool = True
    recompute_on_overlap: bool = True
    scan_progress: bool = True
    priority_boost: bool = False
    concurrent_admission: bool = False
    preemption_gates: bool = False
