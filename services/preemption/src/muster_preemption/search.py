"""Answering admission's requests."""

from muster_contracts import events
from muster_contracts.queries import Seats, SeatsQuestion
from muster_preemption.projection import Projection
from muster_scheduling.admission.eligibility import flavors_of
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


def question(projection: Projection, proposed: events.VictimsProposed) -> SeatsQuestion | None:
    """What to ask of placement before anybody goes; None where no topology seats the preemptor."""
    view = projection.view
    preemptor = view.pending(proposed.workload_id)
    flavors = (view.catalog.flavors.get(name) for name in flavors_of(proposed.admission))
    if preemptor is None or not any(flavor and flavor.topology_name for flavor in flavors):
        return None
    return SeatsQuestion(
        workload=projection.workload(proposed.workload_id),
        admission=proposed.admission,
        without=tuple(victim.workload_id for victim in proposed.victims),
    )


def unless_unseated(proposed: events.VictimsProposed, seats: Seats) -> events.PreemptionFact:
    """The proposal, or that nobody has to go because there would be no seats all the same."""
    if seats.explanation is None:
        return proposed
    return events.VictimsNotFound(
        workload_id=proposed.workload_id,
        version=proposed.version,
        message=f"with all victims gone: {seats.explanation.message}",
        explanation=seats.explanation,
    )
