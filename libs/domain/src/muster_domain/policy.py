"""How an installation decides, and how long it waits for what: its configuration as values.

The defaults are Kueue's (`kueueCompat: true`).
"""

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


class StrictScope(StrEnum):
    """Whom the blocked head of a StrictFIFO queue holds up."""

    QUEUE = "Queue"
    RESOURCE_GROUP = "ResourceGroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvements:
    """Where Muster can decide otherwise than Kueue does; the defaults decide as Kueue.

    `preemptor_claims`: what victims give back stays the preemptor's until it starts.
    `seats_across_flavors`: a gang without seats in one flavor tries the next that has quota.
    `heads_per_cycle`: so many workloads of a ClusterQueue are looked at in one cycle, until one of
    them gets nothing.
    `strict_scope`: whether a blocked StrictFIFO head holds up its queue, or only those who could
    use a flavor that it could use.
    `reserve_head`: a head without victims keeps quota from its cohort for the cycle.
    `own_victims_while_borrowing`: victims in the own queue count also where the request borrows.
    `least_lost_work_first`: of victims of one priority the one with the least work since it last
    said that its work is saved goes first, before the one that was admitted last.
    `victims_by_domain`: where the victims that quota would take leave no seats, those are looked
    for who sit where there would be, whatever of the request they hold.
    """

    preemptor_claims: bool = False
    seats_across_flavors: bool = False
    heads_per_cycle: int = 1
    strict_scope: StrictScope = StrictScope.QUEUE
    reserve_head: bool = True
    own_victims_while_borrowing: bool = False
    least_lost_work_first: bool = False
    victims_by_domain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything about a decision that is configuration of the installation.

    `reseat_within_cycle` looks for other seats when earlier entries of a cycle took them;
    `evict_when_unseated` gives up at once when a lost node cannot be replaced;
    `balanced_topology` spreads a preferred topology evenly, `least_free_topology` fills the fullest
    domains first where none is asked for;
    `scan_progress` keeps a flavor scan's position over changes of quota for one cycle;
    `ignore_undeclared` lets a request pass for a resource of which a queue has no quota.
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
    balanced_topology: bool = False
    least_free_topology: bool = True
    priority_boost: bool = False
    exclude_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    concurrent_admission: bool = False
    preemption_gates: bool = False
    ignore_undeclared: bool = False
    improvements: Improvements = Improvements()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """How long a workload may take for what, as `waitForPodsReady` and the retention say it.

    `ready_ms` and `recovery_ms` of `None` wait for ever, `requeue_limit` of `None` is endless,
    `keep_finished_ms` of `None` keeps what has ended for as long as the service is told to, and
    `keep_deactivated_ms` of `None` what a rule has deactivated for as long as the others.
    """

    ready_ms: int | None = 1_800_000
    recovery_ms: int | None = 1_800_000
    block_admission: bool = False
    requeue_timestamp: RequeueTimestamp = RequeueTimestamp.EVICTION
    requeue_limit: int | None = None
    requeue_base_ms: int = 60_000
    requeue_max_ms: int = 3_600_000
    keep_finished_ms: int | None = None
    keep_deactivated_ms: int | None = None
