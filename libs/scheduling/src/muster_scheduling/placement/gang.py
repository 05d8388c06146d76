"""Seats for all members of a gang, or for none and the reason why."""

from dataclasses import replace

from muster_domain.queues import PlacementPolicy
from muster_scheduling.placement.explain import unplaceable, unsupported
from muster_scheduling.placement.outcome import Placed, PlacementOutcome
from muster_scheduling.placement.packing.mix import kind_of
from muster_scheduling.placement.plan import plan
from muster_scheduling.placement.ranks import seat_members
from muster_scheduling.placement.request import GangRequest
from muster_scheduling.placement.search import seat_gang
from muster_scheduling.placement.table import NodeTable


def place(table: NodeTable, request: GangRequest) -> PlacementOutcome:
    """Find seats for a gang on the nodes as they are; binds nothing.

    All pods of all sets, or with elastic sets at least `min_count` of each and more as far as they
    fit. The answer depends on the table's nodes, seats and prices and on the request, on nothing
    else. A
    gang of one pod set is refused only when it does not fit; see `seat_gang` for several sets.
    """
    columns = table.columns
    refused = unsupported(columns, request)
    if refused is not None:
        return refused
    plans = [plan(columns, pod_set, request.excluded) for pod_set in request.pod_sets]
    if request.policy is PlacementPolicy.FRAGMENTATION:
        plans = [replace(p, loss=table.losses.ranked(kind_of(p.pod_set))) for p in plans]
    seating = seat_gang(columns, request, plans)
    asked = sum(pod_set.count for pod_set in request.pod_sets)
    if not seating.complete or (asked and not seating.members):
        return unplaceable(columns, request, plans, seating)
    return Placed(gang=seat_members(table, request, plans, seating))
