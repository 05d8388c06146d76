"""Seats on top of quota, where admission seats workloads itself (R-36, R-49, R-88, R-89)."""

from collections.abc import Mapping
from dataclasses import replace

from muster_domain.conditions import PendingReason
from muster_domain.nodes import DomainCount, TopologyAssignment
from muster_domain.queues import ClusterQueue
from muster_domain.states import Admission
from muster_scheduling.admission.assignment import Assignment, Choice, PodSetAssignment
from muster_scheduling.admission.modes import Mode
from muster_scheduling.placement.topology.find import Replacement, TopologyPodSet
from muster_scheduling.snapshot.activity import delays_topology
from muster_scheduling.snapshot.board import (
    FoundSeats,
    TopologyBoard,
    refusal,
    seats_of,
)
from muster_scheduling.snapshot.catalog import QueueEntry
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.workloads import PendingWorkload, PodSetRequest

WantedSeats = dict[str, list[TopologyPodSet]]


def seat(
    view: AdmissionView, workload: PendingWorkload, entry: QueueEntry, assignment: Assignment
) -> None:
    """Find seats for an assignment, or say that somebody must go, or that none can be (R-36)."""
    board = view.board
    if board is None or assignment.mode is Mode.NO_FIT:
        return
    wanted = wanted_seats(view, workload, entry, assignment)
    if not wanted:
        return
    assignment.wanted_seats = wanted
    if assignment.mode is Mode.FIT:
        found = board.find(wanted)
        failed = refusal(found)
        if failed is None:
            assignment.seats = seats_of(found, wanted)
            return
        _demote(assignment, failed[0], Mode.PREEMPT, failed[1].reason)
    failed = refusal(board.find(wanted, empty=True))
    if failed is not None:
        _demote(assignment, failed[0], Mode.NO_FIT, failed[1].reason)
        return
    for pod_sets in wanted.values():
        for one in pod_sets:
            _demote(assignment, one.name, Mode.PREEMPT, "")


def seat_preemptor(board: TopologyBoard, assignment: Assignment, *, empty: bool) -> None:
    """Seats that a preemptor will have; `empty` when nobody gives way, to hold them back."""
    found = board.find(assignment.wanted_seats, empty=empty)
    assignment.seats = seats_of(found, assignment.wanted_seats)


def second_pass(view: AdmissionView, workload: PendingWorkload, granted: Admission) -> Assignment:
    """Only the seats of a workload that holds quota already (R-49).

    They are new when none were given yet, else those of a lost node move (R-88).
    """
    assignment = Assignment(
        pod_sets=[
            PodSetAssignment(
                name=one.name,
                count=one.count,
                requests=dict(one.usage),
                choices={r: Choice(flavor, Mode.FIT, 0) for r, flavor in one.flavors.items()},
                attempts=[],
            )
            for one in granted.pod_sets
        ],
        mode=Mode.FIT,
    )
    entry = view.catalog.queues[granted.cluster_queue]
    wanted = wanted_seats(view, workload, entry, assignment, delayed=False)
    board = view.board
    if board is None or not wanted:
        return assignment
    existing = {seats.pod_set: seats.assignment for seats in workload.seats}
    replacement = None
    if not workload.lost_node:
        assignment.placed = dict(existing)
        wanted = _without(wanted, existing)
    if workload.lost_node:
        replacement = Replacement(
            hostname=workload.lost_node, existing=existing, owned_by_pod=workload.owned_by_pod
        )
    found = board.find(wanted, replacement=replacement)
    failed = refusal(found)
    if failed is not None:
        _demote(assignment, failed[0], Mode.NO_FIT, failed[1].reason)
        return assignment
    assignment.wanted_seats = wanted
    assignment.placed |= {
        name: found_seats
        for name, found_seats in found.items()
        if isinstance(found_seats, TopologyAssignment)
    }
    assignment.seats = seats_of(_added(found, existing), wanted)
    return assignment


def wanted_seats(
    view: AdmissionView,
    workload: PendingWorkload,
    entry: QueueEntry,
    assignment: Assignment,
    *,
    delayed: bool = True,
) -> WantedSeats:
    """Pod sets that need seats now, by flavor; with `delayed` not those that wait for checks."""
    wanted: WantedSeats = {}
    asked = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    for result in assignment.pod_sets:
        request = asked[result.name]
        if result.count == 0 or (request.topology is None and not entry.topology_only):
            continue
        flavor = _topology_flavor(view, result)
        if not flavor or (delayed and _waits_for_checks(view, entry.queue, flavor)):
            continue
        wanted.setdefault(flavor, []).append(_pod_set(request, result.count))
    return wanted


def _pod_set(request: PodSetRequest, count: int) -> TopologyPodSet:
    return TopologyPodSet(
        name=request.name,
        count=count,
        requests=request.raw,
        demand=request.demand,
        topology=request.topology,
    )


def _topology_flavor(view: AdmissionView, result: PodSetAssignment) -> str:
    for choice in result.choices.values():
        flavor = view.catalog.flavors.get(choice.flavor)
        if flavor is not None and flavor.topology_name:
            return choice.flavor
    return ""


def _waits_for_checks(view: AdmissionView, queue: ClusterQueue, flavor: str) -> bool:
    """Whether seats are found only once the checks have answered (R-89)."""
    checks = view.catalog.configuration.admission_checks or {}
    return delays_topology(queue, checks, flavor)


def _demote(assignment: Assignment, pod_set: str, mode: Mode, problem: str) -> None:
    for result in assignment.pod_sets:
        if result.name != pod_set:
            continue
        if mode is Mode.NO_FIT:
            result.reason = PendingReason.TOPOLOGY_PLACEMENT_FAILED
            assignment.reason = PendingReason.TOPOLOGY_PLACEMENT_FAILED
        else:
            result.choices = {
                resource: replace(choice, mode=mode) for resource, choice in result.choices.items()
            }
        result.problem = problem or result.problem
    assignment.mode = min(result.mode for result in assignment.pod_sets)


def _without(wanted: WantedSeats, seated: Mapping[str, TopologyAssignment]) -> WantedSeats:
    return {
        flavor: [one for one in pod_sets if one.name not in seated]
        for flavor, pod_sets in wanted.items()
    }


def _added(found: FoundSeats, existing: Mapping[str, TopologyAssignment]) -> FoundSeats:
    """Only the pods that sit somewhere they did not sit before."""
    return {
        name: _beyond(answer, existing[name])
        if isinstance(answer, TopologyAssignment) and name in existing
        else answer
        for name, answer in found.items()
    }


def _beyond(new: TopologyAssignment, old: TopologyAssignment) -> TopologyAssignment:
    before = {domain.values: domain.count for domain in old.domains}
    domains = (
        DomainCount(values=d.values, count=d.count - before.get(d.values, 0)) for d in new.domains
    )
    return TopologyAssignment(levels=new.levels, domains=tuple(d for d in domains if d.count > 0))
