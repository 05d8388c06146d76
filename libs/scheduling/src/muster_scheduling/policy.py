"""The switches of the decision core. The defaults are Kueue's (`kueueCompat: true`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
class AdmissionFairSharing:
    """LocalQueues of one ClusterQueue take turns by what they used lately (R-70).

    Resources weigh 1 unless `weights_milli` says otherwise, in natural units: a byte weighs as much
    as a core.
    """

    half_life_ms: int
    sampling_ms: int = 300_000
    weights_milli: Mapping[str, int] = field(default_factory=dict[str, int])

    def weight_milli(self, resource: str) -> int:
        """How much a resource counts, in thousandths."""
        return self.weights_milli.get(resource, 1000)


class TransformationStrategy(StrEnum):
    """Whether a resource that others are made of stays."""

    RETAIN = "Retain"
    REPLACE = "Replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """Resources made of another one: `outputs_milli` thousandths of each for one of `source`.

    `multiply_by` names a resource of the same pod whose quantity multiplies the source.
    """

    source: str
    outputs_milli: Mapping[str, int]
    strategy: TransformationStrategy = TransformationStrategy.RETAIN
    multiply_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything about a decision that is configuration of the installation.

    `reseat_within_cycle` looks for other seats when earlier entries of a cycle took them;
    `evict_when_unseated` gives up at once when a lost node cannot be replaced;
    `scan_progress` keeps a flavor scan's position over changes of quota for one cycle.
    `prioritize_preemptors`, `priority_boost` and `concurrent_admission` are off in Kueue.
    """

    fair_sharing: FairSharing | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    priority_sorting_within_cohort: bool = True
    prioritize_preemptors: bool = False
    requeue_timestamp: RequeueTimestamp = RequeueTimestamp.EVICTION
    partial_admission: bool = True
    equivalence_classes: bool = True
    recompute_on_overlap: bool = True
    scan_progress: bool = True
    reseat_within_cycle: bool = True
    evict_when_unseated: bool = True
    priority_boost: bool = False
    exclude_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    concurrent_admission: bool = False
    preemption_gates: bool = False
