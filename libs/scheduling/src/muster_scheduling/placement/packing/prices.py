"""What room for each kind of pods is worth, from the mix so far and what is free now.

Two things are worth something. The room that pods like those that came would still fill, tried one
after another as they might come (`future`): it is what Weng et al. call not fragmented ("Beware of
Fragmentation", ATC 2023), looked at to the end of the node and not for one pod. And seats for kinds
that are easily shut out, since they need more than half of a card or may use fewer nodes than
others: each is worth the kind's demand times how scarce such seats are, that is all cards over
those that the seats for the kind cover. The largest nodes count as kinds that came once, so that
they stay whole, where others do as well, before anybody asked for one.
"""

from dataclasses import dataclass

import numpy as np

from muster_scheduling.placement.columns import Columns
from muster_scheduling.placement.packing.mix import PodKind, PodMix
from muster_scheduling.placement.packing.room import KindRoom
from muster_scheduling.placement.record import PODS
from muster_scheduling.placement.shares import GPU, WHOLE

PARTS = 2**20
"""All pods of the mix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPrice:
    """How much of the mix a kind makes up, in `PARTS`, and what one seat for it is worth."""

    kind: PodKind
    part: int
    per_seat: int


PackingPrices = tuple[KindPrice, ...]
"""By kind. Placement stores them with the seats, so that decisions follow from what is stored."""


def prices(columns: Columns, mix: PodMix) -> PackingPrices:
    """Look at prices: the mix as it is, against what is free on ready nodes."""
    memory = columns.card_memory
    counts = {kind: pods for kind, pods in mix.counts.items() if kind.demand_milli(memory)}
    largest = columns.remembered(_largest_nodes, lambda: _largest_nodes(columns))
    kinds = tuple(dict.fromkeys((*counts, *largest)))
    room = KindRoom(columns, kinds)
    open_to = room.eligible.sum(axis=0)
    alone = (room.cards > 1) | ((room.cards > 0) & (room.milli > WHOLE // 2))
    shut_out = np.flatnonzero(alone | (open_to < open_to.max(initial=0)))
    free = room.free_on(np.arange(len(columns)))
    seats = dict(zip(shut_out.tolist(), room.seats_on(free, shut_out).sum(axis=0), strict=True))
    total = max(1, sum(mix.counts.values()))
    found: list[KindPrice] = []
    for number, kind in enumerate(kinds):
        per_seat = 0
        if number in seats:
            came = counts.get(kind, 0) + (kind in largest)
            covered = max(1, int(seats[number])) * max(1, kind.cards)
            worth = came * PARTS // total * kind.demand_milli(memory)
            per_seat = worth * max(1, columns.cards_total) // covered
        part = counts.get(kind, 0) * PARTS // total
        found.append(KindPrice(kind=kind, part=part, per_seat=per_seat))
    return tuple(found)


def _largest_nodes(columns: Columns) -> list[PodKind]:
    """Pods that fill the shapes of nodes that no other shape exceeds in everything."""
    shapes: dict[PodKind, dict[str, int]] = {}
    for record in columns.records:
        cards = len(record.card_indices)
        if cards and record.node is not None:
            offered = {r: n for r, n in record.node.allocatable.items() if n and r != PODS}
            rest = {resource: n for resource, n in offered.items() if resource != GPU}
            kind = PodKind(shape=tuple(sorted(rest.items())), cards=cards)
            shapes[kind] = {**rest, GPU: cards}
    return [
        kind
        for kind, offered in shapes.items()
        if not any(_exceeds(other, offered) for other in shapes.values())
    ]


def _exceeds(larger: dict[str, int], smaller: dict[str, int]) -> bool:
    return larger != smaller and all(larger.get(r, 0) >= n for r, n in smaller.items())
