"""The largest gangs that would find seats now, and what pods usually ask for.

Equal pods are easy: a gang of them fits if and only if what fits on the single nodes adds up to it
(see `search`). So what fits on each node answers for every domain at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from muster_domain.quantity import Resources
from muster_domain.queues import ResourceFlavor, Topology
from muster_scheduling.placement.columns import Columns, Vector
from muster_scheduling.placement.plan import Plan, plan
from muster_scheduling.placement.record import MILLI
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.search import seat_gang
from muster_scheduling.placement.seating import fits_at_most
from muster_scheduling.placement.shares import GPU

USUAL_CARDS = (1, 2, 4, 8)
_ROUND_MILLI = {"cpu": MILLI, "memory": MILLI * 2**30}
"""What comes with a card is told in whole processors and whole Gi."""
GANG_MAX = 2**40
"""Pods at which a count stops: without any request a pod fits any number of times."""
_SEARCHES_MAX = 16
"""Places that are searched for a gang of several pod sets, those with most room first."""


def fits_by_flavor(
    columns: Columns,
    pod: Resources,
    flavors: Iterable[ResourceFlavor],
    topologies: Mapping[str, Topology],
    excluded: frozenset[str] = frozenset(),
) -> tuple[Vector, ...]:
    """For each flavor, how many of these pods every node would seat now."""
    found: list[Vector] = []
    for flavor in flavors:
        topology = topologies.get(flavor.topology_name)
        asked = PodSetRequest(
            name=flavor.name,
            count=1,
            requests=pod,
            flavors=(flavor,),
            levels=topology.levels if topology is not None else (),
        )
        found.append(fits_at_most(plan(columns, asked, excluded).fits, GANG_MAX)[0])
    return tuple(found)


def largest_gang(fits: Sequence[Vector], rows: Vector) -> int:
    """The largest gang on some nodes; its pods are all of one flavor."""
    return max((min(GANG_MAX, int(each[rows].sum())) for each in fits), default=0)


def largest_in_one(
    columns: Columns, request: GangRequest, plans: Sequence[Plan], places: Sequence[Vector]
) -> tuple[int, int]:
    """The most members of a gang that find seats in one place, and the first such place.

    A place is rows of nodes, and within one any nodes will do; it is -1 where none seats anybody.
    One pod set gets the exact answer, several what the search finds in the places with most room.
    """
    anywhere = [
        replace(each, pod_set=replace(each.pod_set, min_count=None, topology=None, levels=()))
        for each in plans
    ]
    room = [
        sum(fits_at_most(each.fits[rows], each.pod_set.count)[1] for each in plans)
        for rows in places
    ]
    order = sorted(range(len(places)), key=lambda place: (-room[place], place))
    best, where = 0, -1
    for place in order[:_SEARCHES_MAX]:
        if room[place] <= best:
            break
        members = room[place]
        if len(plans) > 1:
            inside = np.zeros(len(columns), np.bool_)
            inside[places[place]] = True
            within = [replace(each, fits=np.where(inside, each.fits, 0)) for each in anywhere]
            members = seat_gang(columns, request, within).members
        if members > best:
            best, where = members, place
    return best, where


def usual_pods(columns: Columns) -> tuple[Resources, ...]:
    """Pods of 1, 2, 4 and 8 cards, as far as a node has as many.

    Each card comes with the cpu and memory that a card has on most nodes; the smaller of equals.
    """
    card = _card_resource(columns)
    if not card:
        return ()
    cards = columns.offered[card] // MILLI
    having = np.flatnonzero(cards)
    usual: dict[str, int] = {}
    for resource, unit in _ROUND_MILLI.items():
        if resource in columns.offered:
            shares = columns.offered[resource][having] // cards[having]
            values, nodes = np.unique(shares, return_counts=True)
            share = int(values[np.argmax(nodes)])
            usual[resource] = share // unit * unit or share
    most = int(cards.max())
    return tuple(
        {card: MILLI * count} | {name: count * share for name, share in usual.items()}
        for count in USUAL_CARDS
        if count <= most
    )


def _card_resource(columns: Columns) -> str:
    """The resource in which most people count cards; empty where no node has any."""
    offered = [
        resource
        for resource, column in columns.offered.items()
        if resource.endswith("/gpu") and (column >= MILLI).any()
    ]
    return min(offered, key=lambda resource: (resource != GPU, resource), default="")
