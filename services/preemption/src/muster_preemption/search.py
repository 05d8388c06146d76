"""Answering admission's requests."""

from muster_contracts import events
from muster_preemption.projection import Projection
from muster_scheduling.fairness import LocalQueueHistory
from muster_scheduling.preemption import Wanted, find_victims

NOBODY = "nobody who may be preempted would make enough room"


def answer(
    projection: Projection, request: events.PreemptionRequested, now_ms: int
) -> events.PreemptionFact | None:
    """The victims, or that there are none; None when the workload does not wait any more."""
    view = projection.view
    preemptor = view.pending(request.workload_id)
    if preemptor is None or request.admission.cluster_queue not in view.catalog.queues:
        return None
    wanted = Wanted(
        cluster_queue=request.admission.cluster_queue,
        usage=request.admission.usage,
        need=frozenset(request.need),
    )
    view.histories = {
        key: LocalQueueHistory(consumed={name: int(text) for name, text in amounts.items()})
        for key, amounts in request.used_lately.items()
    }
    victims = find_victims(view.snapshot(now_ms), preemptor, wanted)
    if not victims:
        return events.VictimsNotFound(
            workload_id=request.workload_id, version=request.version, message=NOBODY
        )
    return events.VictimsProposed(
        workload_id=request.workload_id,
        version=request.version,
        admission=request.admission,
        need=request.need,
        victims=tuple(
            events.Victim(
                workload_id=victim.id, attempt=victim.workload.attempt, reason=victim.reason
            )
            for victim in victims
        ),
    )
