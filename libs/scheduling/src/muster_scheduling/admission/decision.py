"""A decision as data: effects in all-or-nothing groups, and a reason for everybody looked at."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from muster_domain.conditions import Explanation, PreemptionReason
from muster_domain.nodes import TopologyAssignment
from muster_domain.states import Admission
from muster_scheduling.preemption.victims import Wanted
from muster_scheduling.quota import FlavorResource, Vector
from muster_scheduling.snapshot.board import Seats
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.workloads import AdmittedWorkload, PendingWorkload, ScanBookmark


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveQuota:
    """The workload gets quota. `borrowing` is the height of the subtree it borrows from.

    Of one that grows, `admission` is all that it then has and `usage` what is more in it.
    """

    workload_id: str
    admission: Admission
    usage: Vector
    attempt: int
    borrowing: int = 0
    seats: tuple[Seats, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatWorkload:
    """A holder of quota gets seats, or others for those of a lost node.

    `placed` is where all its pods sit now, by pod set.
    """

    workload_id: str
    admission: Admission
    placed: Mapping[str, TopologyAssignment]
    seats: tuple[Seats, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictUnseated:
    """A workload lost a node and there are no other seats: it must go (R-88)."""

    workload_id: str
    lost_node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictWorkload:
    """A workload must give way to `preemptor_id`; `attempt` names the reservation that is meant."""

    workload_id: str
    attempt: int
    reason: PreemptionReason
    preemptor_id: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictVariant:
    """A variant must give way to `migrant_id`, of the same parent in a better flavor (R-111).

    `attempt` names the reservation that is meant. Kueue's reason for it is `FlavorMigration`.
    """

    workload_id: str
    attempt: int
    migrant_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPreemption:
    """The workload could start if somebody gave way: ask the preemption service for victims.

    `admission` holds the flavors that were chosen, `need` the pairs that lack room. Of one that
    grows it is only what it does not hold yet.
    """

    workload_id: str
    admission: Admission
    need: tuple[FlavorResource, ...]

    @property
    def wanted(self) -> Wanted:
        """The question for `find_victims`."""
        return Wanted(
            cluster_queue=self.admission.cluster_queue,
            usage=self.admission.usage,
            need=frozenset(self.need),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishReplaced:
    """A slice that the newly reserved workload takes over; it ends when that one is admitted.

    Until then the new one is charged only what it asks beyond the old one.
    """

    workload_id: str
    replaced_by: str


Effect = ReserveQuota | EvictWorkload | RequestPreemption | FinishReplaced

Seating = SeatWorkload | EvictUnseated
"""What becomes of a holder that came back for seats, where admission seats workloads itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectGroup:
    """Effects that are committed together or not at all.

    `wanted` is what a preemptor's victims give way for. `by_quota_alone` unless seats counted as
    well, or the victims were chosen again after others had claimed usage in the same cycle.
    """

    workload_id: str
    effects: tuple[Effect, ...]
    wanted: Wanted | None = None
    by_quota_alone: bool = True


class Place(StrEnum):
    """Where a workload that got nothing waits from now on."""

    IN_LINE = "in_line"
    PARKED = "parked"
    PARKED_WITH_SHAPE = "parked_with_shape"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued:
    """What became of a workload that was looked at and got nothing."""

    workload_id: str
    cluster_queue: str
    place: Place
    sticky: bool = False
    bookmark: ScanBookmark | None = None


class StopReason(StrEnum):
    """Why deciding stopped."""

    COMPLETED = "completed"
    BUDGET_EXHAUSTED = "budget_exhausted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bounds in counts, so that the same input always gives the same decision.

    `cycles` bounds the rounds per cohort tree, `workloads` the nominations of the whole decision,
    `reservations` how many of them get quota; `None` is no bound.
    """

    cycles: int = 1_000
    workloads: int = 10_000
    reservations: int | None = None


Step = EffectGroup | Requeued | Seating | EvictVariant


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one call of `decide` found.

    `steps` repeats groups, requeues and seatings in the order in which they happened, for `replay`.
    `migrations` are variants that go for a better one; where the gate ConcurrentAdmission is off,
    as in every service, there are none. `seen_again` are holders that came back for seats.
    `settled` names the cohort trees in which nothing more can happen until something changes.
    """

    groups: tuple[EffectGroup, ...]
    explanations: Mapping[str, Explanation]
    requeues: tuple[Requeued, ...]
    seatings: tuple[Seating, ...]
    steps: tuple[Step, ...]
    settled: tuple[str, ...]
    cycles: Mapping[str, int]
    looked_at: int
    stopped: StopReason
    now_ms: int
    migrations: tuple[EvictVariant, ...] = ()
    seen_again: tuple[str, ...] = ()

    def replay(self, view: AdmissionView) -> None:
        """Do to the view what the decision did to its own copy."""
        for step in self.steps:
            match step:
                case EffectGroup():
                    for effect in step.effects:
                        perform(view, effect, self.now_ms)
                case Requeued():
                    requeue(view, step)
                case SeatWorkload() | EvictUnseated():
                    reseat(view, step)
                case EvictVariant():
                    view.evict(step.workload_id)
                case _:
                    assert_never(step)
        for workload_id in self.seen_again:
            view.second_pass.pop(workload_id, None)
        for root, cycle in self.cycles.items():
            view.cycles[root] = cycle
        for root in self.settled:
            view.dirty.pop(root, None)


def perform(view: AdmissionView, effect: Effect, now_ms: int) -> None:
    """Do one effect to a view, journalled."""
    match effect:
        case ReserveQuota():
            pending = view.pending(effect.workload_id)
            if pending is not None:
                if view.shares_turns(view.catalog.queues[effect.admission.cluster_queue]):
                    view.penalise(pending, now_ms)
                view.take(pending)
                if pending.grows:
                    view.grow(pending.id, effect.admission, effect.usage)
                else:
                    view.hold(holder(pending, effect, now_ms))
                if view.purse is not None:
                    view.purse.take(view.journal, effect.workload_id, effect.usage)
        case EvictWorkload():
            view.evict(effect.workload_id)
        case RequestPreemption() | FinishReplaced():
            pass
        case _:
            assert_never(effect)


def reseat(view: AdmissionView, seating: Seating) -> None:
    """Do to a holder what its second look came to, journalled."""
    match seating:
        case SeatWorkload():
            view.reseat(seating.workload_id, seating.seats)
        case EvictUnseated():
            view.evict(seating.workload_id)
        case _:
            assert_never(seating)


def requeue(view: AdmissionView, step: Requeued) -> None:
    """Put a workload that got nothing where it waits, journalled."""
    queue = view.queues[step.cluster_queue]
    workload = queue.workloads.get(step.workload_id)
    if workload is None:
        return
    queue.bookmark(step.workload_id, step.bookmark)
    if step.sticky:
        queue.stick(step.workload_id)
    match step.place:
        case Place.IN_LINE:
            pass
        case Place.PARKED:
            queue.park(step.workload_id)
        case Place.PARKED_WITH_SHAPE:
            queue.park_class(workload.shape)
        case _:
            assert_never(step.place)


def holder(pending: PendingWorkload, effect: ReserveQuota, now_ms: int) -> AdmittedWorkload:
    """The workload as a holder of quota."""
    return AdmittedWorkload(
        id=pending.id,
        key=pending.key,
        cluster_queue=effect.admission.cluster_queue,
        local_queue=pending.local_queue,
        priority=pending.priority,
        queued_at_ms=pending.queued_at_ms,
        reserved_at_ms=now_ms,
        attempt=effect.attempt,
        usage=effect.usage,
        admission=effect.admission,
        seats=effect.seats,
        variant=pending.variant,
    )
