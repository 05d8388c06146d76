"""Checking a proposal of victims against the state of the moment, before it is committed."""

from dataclasses import dataclass
from enum import StrEnum

from muster_scheduling.admission.decision import EffectGroup, EvictWorkload
from muster_scheduling.preemption.context import (
    Search,
    reclaim_allows,
    within_queue_allows,
)
from muster_scheduling.preemption.message import preemption_message
from muster_scheduling.preemption.proposal import Proposal
from muster_scheduling.preemption.victims import Wanted
from muster_scheduling.snapshot.remembered import Victim
from muster_scheduling.snapshot.view import AdmissionView, Snapshot
from muster_scheduling.snapshot.workloads import PendingWorkload


class RefusalReason(StrEnum):
    """Why a proposal cannot be committed; each says what to look at again."""

    PREEMPTOR_NOT_PENDING = "PreemptorNotPending"
    NO_VICTIMS = "NoVictims"
    NO_LONGER_NEEDED = "NoLongerNeeded"
    VICTIM_CHANGED = "VictimChanged"
    VICTIM_PROTECTED = "VictimProtected"
    NOT_ENOUGH = "NotEnough"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The proposal is out of date. `workload_id` is the victim that it fails on, if one."""

    reason: RefusalReason
    workload_id: str = ""


def apply_proposal(snapshot: Snapshot, proposal: Proposal) -> EffectGroup | Refusal:
    """The evictions to commit, or why the proposal does not hold any more.

    Checks that the preemptor still waits and does not fit anyway, that every victim still holds
    the same reservation and may be taken by the policies, and that together they are enough beside
    what others have claimed. A victim that is going already yields no second eviction.
    """
    view = snapshot.view
    queue = view.queue_of.get(proposal.preemptor_id)
    preemptor = view.pending(proposal.preemptor_id)
    if preemptor is None or not queue or queue != proposal.wanted.cluster_queue:
        return Refusal(reason=RefusalReason.PREEMPTOR_NOT_PENDING)
    victims = _resolve(view, proposal)
    if isinstance(victims, Refusal):
        return victims
    mark = view.journal.checkpoint()
    try:
        return _check(snapshot, preemptor, proposal.wanted, victims)
    finally:
        view.journal.rollback(mark)


def _resolve(view: AdmissionView, proposal: Proposal) -> list[Victim] | Refusal:
    victims: list[Victim] = []
    for proposed in proposal.victims:
        holder = view.holders.get(proposed.workload_id)
        if holder is None or holder.attempt != proposed.attempt:
            return Refusal(reason=RefusalReason.VICTIM_CHANGED, workload_id=proposed.workload_id)
        victims.append(Victim(holder, proposed.reason))
    return victims or Refusal(reason=RefusalReason.NO_VICTIMS)


def _check(
    snapshot: Snapshot, preemptor: PendingWorkload, wanted: Wanted, victims: list[Victim]
) -> EffectGroup | Refusal:
    view = snapshot.view
    entry = view.catalog.queues[wanted.cluster_queue]
    search = Search(view, snapshot.now_ms, preemptor, entry, wanted.need, wanted.usage)
    view.charge_claims(entry.root, except_for=preemptor.id)
    if search.fits(borrowing=True):
        return Refusal(reason=RefusalReason.NO_LONGER_NEEDED)
    for victim in victims:
        if not _may_take(search, victim):
            return Refusal(reason=RefusalReason.VICTIM_PROTECTED, workload_id=victim.id)
        search.remove(victim.workload)
    if not search.fits(borrowing=True):
        return Refusal(reason=RefusalReason.NOT_ENOUGH)
    return EffectGroup(
        workload_id=preemptor.id,
        effects=tuple(
            EvictWorkload(
                workload_id=victim.id,
                attempt=victim.workload.attempt,
                reason=victim.reason,
                preemptor_id=preemptor.id,
                message=preemption_message(preemptor, entry, victim),
            )
            for victim in victims
            if not view.is_evicting(victim.id)
        ),
        wanted=wanted,
    )


def _may_take(search: Search, victim: Victim) -> bool:
    """Whether the policies let the victim be taken, those before it being gone."""
    policy = search.entry.queue.preemption
    holder = victim.workload
    if search.view.is_evicting(holder.id):
        return True
    if search.need.isdisjoint(holder.usage):
        return False
    if holder.cluster_queue == search.entry.name:
        return within_queue_allows(policy.within_cluster_queue, search.preemptor, holder)
    node = search.tree.queues.get(holder.cluster_queue)
    return (
        node is not None
        and node.root is search.node.root
        and not node.within_nominal(search.need)
        and reclaim_allows(policy.reclaim_within_cohort, search.preemptor, holder)
    )
