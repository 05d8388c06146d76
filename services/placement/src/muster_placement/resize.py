"""Gangs that are to have other numbers of pods than they have, while they run.

Pods that are too many are told to stop, the highest indices first, and keep their seats until all
of them are gone. Seats for more are sought once a cycle until there are some, or it is said that
there are none. Admission tells by number what a gang is to come to; its last word counts, and each
is answered once: with the seats as they are then, or that there are none for more.
"""

from dataclasses import replace

from muster_contracts.events import GangUnplaceable, WorkloadResized
from muster_domain.checks import all_ready, updated
from muster_domain.conditions import Explanation
from muster_domain.nodes import PodAssignment
from muster_domain.states import Admitted, Resizing
from muster_placement.floor import Floor
from muster_placement.pods import answer, begin, give_back, settle, tell_to_stop
from muster_placement.record import GangPhase, SeatedGang, uid_of
from muster_scheduling.jobs.life import PodPhase
from muster_scheduling.placement.outcome import Gang
from muster_scheduling.placement.request import GangRequest
from muster_scheduling.placement.resize import grown, surplus


def workload_resized(floor: Floor, fact: WorkloadResized, now_ms: int) -> None:
    """Admission wants other numbers of pods. Idempotent by (workload id, attempt, resizes)."""
    state = fact.state
    seated = floor.gangs.get(fact.workload.id)
    if seated is None or not isinstance(state, Admitted) or seated.attempt != state.attempt:
        return
    if not isinstance(state.resize, Resizing) or state.resizes <= seated.resizes:
        return
    if not all_ready(state.resize.checks):
        return
    if seated.phase is not GangPhase.RUNNING or seated.lost:
        return
    step = state.resize
    leaving = surplus(seated.gang.placement, step.counts, (*seated.leaving, *step.leaving))
    going = [
        seat
        for seat in seated.gang.placement.pods
        if seat.rank in leaving and seat.rank not in seated.leaving
    ]
    after = replace(
        seated,
        workload=updated(fact.workload, state.asked_checks),
        admission=state.admission,
        resizes=state.resizes,
        counts=step.counts,
        leaving=tuple(sorted(leaving)),
        renewing=tuple(rank for rank in seated.renewing if rank not in leaving),
    )
    _send_away(floor, after, going, now_ms)


def grow(floor: Floor, seated: SeatedGang, request: GangRequest, more: Gang, now_ms: int) -> None:
    """There are seats for more pods: hold them, and let the pods start beside the others."""
    gang = grown(floor.table, request, seated.gang, more, seated.resizes)
    new = [seat for seat in gang.placement.pods if seat.resize == seated.resizes]
    after = answer(floor, replace(seated, gang=gang), now_ms)
    if after.workload.execution.kind != "external":
        begin(floor, after, new, now_ms)
        settle(floor, floor.gangs[after.workload.id], now_ms)


def stay(floor: Floor, seated: SeatedGang, why: Explanation, now_ms: int) -> None:
    """There are no seats for more pods: it runs on as it is."""
    floor.update(replace(seated, counts={}))
    fact = GangUnplaceable(
        workload_id=seated.workload.id,
        attempt=seated.attempt,
        explanation=why,
        resize=seated.resizes,
    )
    floor.announcer.gang(
        seated.workload, seated.partition, fact, now_ms, traceparent=seated.traceparent
    )


def _send_away(floor: Floor, seated: SeatedGang, going: list[PodAssignment], now_ms: int) -> None:
    uids = {uid_of(seated, seat) for seat in going}
    held = {uid for uid in uids if seated.pods.get(uid) is PodPhase.HELD}
    after = replace(seated, pods={**seated.pods, **dict.fromkeys(held, PodPhase.GONE)})
    floor.update(after)
    for seat in going:
        uid = uid_of(after, seat)
        if uid in after.pods and not after.pods[uid].over:
            tell_to_stop(floor, after, seat, now_ms)
    if after.leaving:
        after = give_back(floor, after, now_ms)
    elif not after.lacks:
        after = answer(floor, after, now_ms)
    settle(floor, after, now_ms)
