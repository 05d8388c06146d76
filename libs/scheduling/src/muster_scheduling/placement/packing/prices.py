"""What room for each kind of pods is worth, from the mix so far and what is free now.

Two things are worth something. The free part of a card is, to every kind of which the node could
take one more pod and of which the card holds one, in proportion to the pods that came (what Weng et
al. call not fragmented, "Beware of Fragmentation", ATC 2023). And a seat is: each further pod of a
kind that the node could take is worth the kind's demand times how scarce such seats are, that is
all cards over those that the seats for the kind cover. The largest nodes count as kinds that came
once, so that they stay whole, where others do as well, before anybody asked for one.
"""

from dataclasses import dataclass

from muster_scheduling.placement.columns import Columns
from muster_scheduling.placement.packing.mix import PodKind, PodMix
from muster_scheduling.placement.packing.room import KindRoom
from muster_scheduling.placement.record import PODS
from muster_scheduling.placement.shares import GPU

_PARTS = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPrice:
    """What a free thousandth of a card is worth to a kind, and what one seat for it is worth."""

    kind: PodKind
    per_milli: int
    per_seat: int


PackingPrices = tuple[KindPrice, ...]
"""By kind. Placement stores them with the seats, so that decisions follow from what is stored."""


def prices(columns: Columns, mix: PodMix) -> PackingPrices:
    """Look at prices: the mix as it is, against what is free on ready nodes."""
    memory = columns.card_memory
    counts = {kind: pods for kind, pods in mix.counts.items() if kind.demand_milli(memory)}
    for kind in columns.remembered(_largest_nodes, lambda: _largest_nodes(columns)):
        counts[kind] = counts.get(kind, 0) + 1
    total = max(1, sum(mix.counts.values()))
    kinds = tuple(counts)
    room = KindRoom(columns, kinds)
    seats = room.seats().sum(axis=0).tolist()
    cards = max(1, columns.cards_total)
    found: list[KindPrice] = []
    for kind, free in zip(kinds, seats, strict=True):
        part = counts[kind] * _PARTS // total
        covered = max(1, free) * max(1, kind.cards)
        found.append(
            KindPrice(
                kind=kind,
                per_milli=part,
                per_seat=part * kind.demand_milli(memory) * cards // covered,
            )
        )
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
