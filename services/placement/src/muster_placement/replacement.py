"""A lost node of a gang that a topology seated: its pods start elsewhere, the others run on (R-88).

One node is replaced, at the moment it is fenced and not before: until then its pods may still run.
The whole gang has to go where

- `replace_node` refuses;
- what replaced an earlier lost node has not started yet;
- its pods are not Muster's (external), are not confirmed, or have ended in part;
- it is on its way to another number of pods.
"""

from dataclasses import replace

from muster_contracts.events import GangPlaced
from muster_domain.nodes import PodAssignment
from muster_placement.floor import Floor
from muster_placement.pods import run, settle, tell_to_stop
from muster_placement.record import GangPhase, SeatedGang, uid_of
from muster_scheduling.jobs.life import PodPhase
from muster_scheduling.placement.outcome import Placed
from muster_scheduling.placement.replacement import replace_node
from muster_scheduling.placement.request import GangRequest


def replace_lost(
    floor: Floor, seated: SeatedGang, node: str, request: GangRequest, now_ms: int
) -> bool:
    """Start the pods of a fenced node elsewhere; False where the gang has to go whole."""
    lost = [seat for seat in seated.gang.placement.pods if seat.node == node]
    if not _may_be_replaced(seated, lost):
        return False
    outcome = replace_node(floor.table, request, seated.gang, node)
    if not isinstance(outcome, Placed):
        return False
    for seat in lost:
        tell_to_stop(floor, seated, seat, now_ms)
    _reseat(floor, seated, lost, outcome, now_ms)
    return True


def _may_be_replaced(seated: SeatedGang, lost: list[PodAssignment]) -> bool:
    if seated.phase is not GangPhase.RUNNING or seated.lost or not seated.pods:
        return False
    if seated.leaving or seated.counts:
        return False
    seats = seated.gang.placement.pods
    phases = {seat.rank: seated.pods[uid_of(seated, seat)] for seat in seats}
    starting = any(seat.replacement and phases[seat.rank] is PodPhase.ASSIGNED for seat in seats)
    return not starting and not any(phases[seat.rank].over for seat in lost)


def _reseat(
    floor: Floor, seated: SeatedGang, lost: list[PodAssignment], placed: Placed, now_ms: int
) -> None:
    gang = placed.gang
    new = [seat for seat in gang.placement.pods if seat.replacement == gang.placement.replacements]
    gone = {uid_of(seated, seat) for seat in lost}
    pods = {uid: phase for uid, phase in seated.pods.items() if uid not in gone}
    pods |= {uid_of(seated, seat): PodPhase.ASSIGNED for seat in new}
    after = replace(seated, gang=gang, pods=pods)
    floor.reseat(after)
    nodes = ", ".join(sorted({seat.node for seat in new}))
    fact = GangPlaced(
        workload_id=seated.workload.id,
        attempt=seated.attempt,
        placement=gang.placement,
        message=f"{lost[0].node} was silent and is fenced; its pods start on {nodes}",
    )
    floor.announcer.gang(
        seated.workload, seated.partition, fact, now_ms, traceparent=seated.traceparent
    )
    run(floor, after, new, now_ms)
    settle(floor, after, now_ms)
