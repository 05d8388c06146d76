"""Guests of a house that grow and shrink while they run, as admission and placement have it."""

from dataclasses import replace

from muster_domain.states import Admission
from muster_domain.workload import Workload
from muster_scheduling.placement.outcome import Gang, Placed
from muster_scheduling.placement.resize import grown, lacking, surplus, without
from muster_scheduling.snapshot.workloads import prepare_slice
from muster_simulation.premises import Guest, Premises

RETRY_MS = 1_000


def scale(house: Premises, guest: Guest, asked: Workload) -> None:
    """A live elastic job is applied with other numbers of pods."""
    counts = {pod_set.name: pod_set.count for pod_set in asked.pod_sets}
    guest.workload = guest.workload.scaled(counts)
    pods = pods_of(house, guest)
    fewer = {name: min(count, pods.get(name, 0)) for name, count in counts.items()}
    if fewer == pods:
        ask(house, guest, None)
        return
    house.view.remove_pending(guest.workload.id)
    attempt = guest.attempt
    house.at(house.now_ms + guest.stop_ms, lambda: _gone(house, guest, attempt, fewer, ()))


def give_back(house: Premises, guest: Guest, ranks: tuple[int, ...]) -> None:
    """A Volcano gang lets go of pods that it is worth running without."""
    gang = house.table.gang(guest.workload.id)
    if gang is None:
        return
    counts = without(house.table, gang, frozenset(ranks)).placement.counts
    attempt = guest.attempt
    house.at(house.now_ms + guest.stop_ms, lambda: _gone(house, guest, attempt, counts, ranks))


def ask(house: Premises, guest: Guest, at_ms: int | None) -> None:
    """Let a guest stand in line for the pods that it lacks, held back until then."""
    workload = guest.workload
    house.view.remove_pending(workload.id)
    pods = pods_of(house, guest)
    lacks = any(pods.get(p.name, 0) < p.count for p in workload.pod_sets)
    if not lacks or not (workload.is_scalable or workload.grows_by_itself):
        return
    asked = prepare_slice(
        workload,
        pods,
        house.view.policy,
        queued_at_ms=house.now_ms,
        attempt=guest.attempt,
        reclaimable={},
    )
    asked.requeue_at_ms = at_ms
    house.view.add_pending(asked, house.now_ms)


def settle(house: Premises, guest: Guest) -> None:
    """A gang that has just been seated holds quota for its seats alone, and wants the rest."""
    gang = house.table.gang(guest.workload.id)
    if gang is None or guest.admission is None:
        return
    left = guest.admission.without({}, gang.placement.counts)
    if left != guest.admission:
        _hold(house, guest, left)
        ask(house, guest, house.now_ms + RETRY_MS)


def grow(house: Premises, guest: Guest, admission: Admission) -> None:
    """There is quota for more pods: seat them, or give it back and wait."""
    identity, table = guest.workload.id, house.table
    guest.admission = admission
    gang = table.gang(identity)
    if gang is None:
        return
    whole = house.request(guest, admission)
    counts = {pod_set.name: pod_set.count for pod_set in admission.pod_sets}
    some = guest.workload.grows_by_itself
    more = lacking(table, whole, gang, counts, some=some)
    outcome = house.seating.look(guest.workload, more, house.standing(), house.now_ms).outcome
    if isinstance(outcome, Placed) and outcome.placement.pods:
        number = gang.placement.resizes + 1
        _seat(house, guest, grown(table, whole, gang, outcome.gang, number), number)
    settle(house, guest)


def pods_of(house: Premises, guest: Guest) -> dict[str, int]:
    """How many pods of each set run."""
    gang = house.table.gang(guest.workload.id)
    if gang is not None:
        return gang.placement.counts
    return {p.name: p.count for p in guest.admission.pod_sets} if guest.admission else {}


def _gone(
    house: Premises, guest: Guest, attempt: int, counts: dict[str, int], ranks: tuple[int, ...]
) -> None:
    if guest.attempt != attempt or not guest.runs or guest.admission is None:
        return
    gang = house.table.gang(guest.workload.id)
    if gang is not None:
        leaving = surplus(gang.placement, counts, ranks)
        number = gang.placement.resizes + 1
        _seat(house, guest, without(house.table, gang, leaving), number)
        house.capacity_grew()
    _hold(house, guest, guest.admission.without({}, counts))
    ask(house, guest, house.now_ms + RETRY_MS if ranks else None)


def _seat(house: Premises, guest: Guest, gang: Gang, number: int) -> None:
    house.table.release(gang.workload)
    house.table.restore(replace(gang, placement=replace(gang.placement, resizes=number)))
    guest.nodes = gang.placement.nodes


def _hold(house: Premises, guest: Guest, admission: Admission) -> None:
    guest.admission = admission
    house.view.resize(guest.workload.id, admission)
