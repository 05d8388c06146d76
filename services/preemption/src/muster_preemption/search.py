"""Answering admission's requests."""

from collections.abc import Generator, Iterable
from dataclasses import replace

from muster_contracts import events
from muster_contracts.queries import Seats, SeatsQuestion
from muster_preemption.projection import Projection
from muster_scheduling.admission.eligibility import flavors_of
from muster_scheduling.fairness import LocalQueueHistory
from muster_scheduling.preemption import Victim, Wanted, find_victims, may_leave

NOBODY = "nobody who may be preempted would make enough room"

RETURNED_MAX = 64
"""Of so many victims it is asked, one by one, whether there would be seats without them too."""

Asking = Generator[SeatsQuestion, Seats | None, events.PreemptionFact | None]
"""Questions to placement, answered with `None` where it says nothing, and what comes of them."""


def search(projection: Projection, request: events.PreemptionRequested, now_ms: int) -> Asking:
    """Whom to take, once placement has said that there would be seats.

    Nobody goes for a gang that a topology would not seat; when placement does not say, quota
    decides alone.
    """
    found = answer(projection, request, now_ms)
    asked = question(projection, found) if isinstance(found, events.VictimsProposed) else None
    if not isinstance(found, events.VictimsProposed) or asked is None:
        return found
    seats = yield asked
    if seats is None or seats.explanation is None:
        return found
    if projection.view.policy.improvements.victims_by_domain:
        others = yield from _by_domain(projection, found, now_ms)
        if others is not None:
            return others
    return events.VictimsNotFound(
        workload_id=found.workload_id,
        version=found.version,
        message=f"with all victims gone: {seats.explanation.message}",
        explanation=seats.explanation,
    )


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
    proposed = events.VictimsProposed(
        workload_id=request.workload_id,
        version=request.version,
        admission=request.admission,
        need=request.need,
        victims=(),
    )
    return _proposed(proposed, wanted, victims)


def _proposed(
    proposed: events.VictimsProposed, wanted: Wanted, victims: Iterable[Victim]
) -> events.VictimsProposed:
    return replace(
        proposed,
        need=tuple(sorted(wanted.need)),
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
    gone = tuple(victim.workload_id for victim in proposed.victims)
    return _without(projection, proposed, gone)


def _without(
    projection: Projection, proposed: events.VictimsProposed, gone: Iterable[str]
) -> SeatsQuestion:
    return SeatsQuestion(
        workload=projection.workload(proposed.workload_id),
        admission=proposed.admission,
        without=tuple(gone),
    )


def _by_domain(projection: Projection, proposed: events.VictimsProposed, now_ms: int) -> Asking:
    """Victims who sit where the gang would, were everybody gone who may go; None without any.

    Whoever holds anything of the request may go, not only what quota lacks: a pod that takes the
    last place of a node blocks it all the same.
    """
    view = projection.view
    preemptor = view.pending(proposed.workload_id)
    if preemptor is None:
        return None
    usage = proposed.admission.usage
    wanted = Wanted(
        cluster_queue=proposed.admission.cluster_queue, usage=usage, need=frozenset(usage)
    )
    everybody = [w.id for w in may_leave(view.snapshot(now_ms), preemptor, wanted)]
    seats = yield _without(projection, proposed, everybody)
    if seats is None or seats.explanation is not None:
        return None
    there = set(seats.nodes)
    leaving = [name for name in everybody if not there.isdisjoint(projection.nodes(name))]
    for name in leaving[::-1][:RETURNED_MAX]:
        fewer = [other for other in leaving if other != name]
        seats = yield _without(projection, proposed, fewer)
        if seats is not None and seats.explanation is None:
            leaving = fewer
    must = frozenset(leaving)
    victims = find_victims(view.snapshot(now_ms), preemptor, wanted, must=must)
    return _proposed(proposed, wanted, victims) if victims else None
