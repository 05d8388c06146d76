"""What room for each kind of pods is worth, from the mix so far and what is free now.

Three things count. The room that pods like those that came would still fill, tried one after
another as they might come (`future`): it is what Weng et al. call not fragmented ("Beware of
Fragmentation", ATC 2023), looked at to the end of the node and not for one pod. Seats for kinds
that are easily shut out, since they need more than half of a card or may use fewer nodes than
others: each is worth the kind's demand times how scarce such seats are, that is all cards over
those that the seats for the kind cover. And whole nodes: of seats for large kinds, of which no
node takes two, so many are kept as may be asked for until all that is free is taken.
"""

from collections import Counter
from dataclasses import dataclass
from math import isqrt

import numpy as np

from muster_scheduling.placement.columns import Columns, Vector
from muster_scheduling.placement.packing.mix import PodKind, PodMix
from muster_scheduling.placement.packing.room import FreeOn, KindRoom
from muster_scheduling.placement.record import PODS
from muster_scheduling.placement.shares import GPU, WHOLE

PARTS = 2**20
"""All pods of the mix."""

LARGE_MAX = 62
"""Large kinds whose seats are kept: those that came most, as many as bits of a mask."""

_DEVIATIONS = 2
_SHAPES_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPrice:
    """How much of the mix a kind makes up, in `PARTS`, and what one seat for it is worth.

    `kept` is for large kinds: while no more seats than that are left for it, pods go elsewhere
    where they can.
    """

    kind: PodKind
    part: int
    per_seat: int
    kept: int = 0


PackingPrices = tuple[KindPrice, ...]
"""By kind. Placement stores them with the seats, so that decisions follow from what is stored."""


def prices(columns: Columns, mix: PodMix) -> PackingPrices:
    """Look at prices: the mix as it is, against what is free on ready nodes."""
    whole = columns.remembered(_whole_nodes, lambda: _whole_nodes(columns))
    kinds = tuple(dict.fromkeys((*mix.counts, *whole)))
    came = np.array([mix.counts.get(kind, 0) for kind in kinds], np.int64)
    demand = np.array([kind.demand_milli(columns.card_memory) for kind in kinds], np.int64)
    room = KindRoom(columns, kinds)
    free = room.free_on(np.arange(len(columns)))
    parts = came * PARTS // max(1, int(came.sum()))
    worth = _worth_of_seats(columns, room, free, parts * demand)
    kept = _kept(room, free, came, demand)
    return tuple(
        KindPrice(kind=kind, part=part, per_seat=per_seat, kept=keep)
        for kind, part, per_seat, keep in zip(
            kinds, parts.tolist(), worth.tolist(), kept.tolist(), strict=True
        )
    )


def _worth_of_seats(columns: Columns, room: KindRoom, free: FreeOn, demand: Vector) -> Vector:
    """The demand of each kind easily shut out by how much of all cards its seats cover."""
    worth = np.zeros(len(demand), np.int64)
    open_to = room.eligible.sum(axis=0)
    alone = (room.cards > 1) | ((room.cards > 0) & (room.milli > WHOLE // 2))
    shut_out = np.flatnonzero((alone | (open_to < open_to.max(initial=0))) & (demand > 0))
    seats = room.seats_on(free, shut_out).sum(axis=0)
    covered = np.maximum(1, seats) * np.maximum(1, room.cards[shut_out])
    worth[shut_out] = demand[shut_out] * max(1, columns.cards_total) // covered
    return worth


def _kept(room: KindRoom, free: FreeOn, came: Vector, demand: Vector) -> Vector:
    """How many seats to keep for each large kind.

    So many pods as what is free holds of the mean pod are still to come. A kind that came `n` times
    among all is taken to be due `n + 1` times among as many (the rule of succession), with all that
    need as much and more; a node is kept for what may come beyond that by chance, two deviations.
    A pod that takes all of a node is a kind too, so nodes stay whole before anybody asked for one.
    """
    kept = np.zeros(len(came), np.int64)
    large = np.flatnonzero((2 * room.cards > room.cards_most) & (room.milli == WHOLE))
    large = large[np.argsort(-came[large], kind="stable")[:LARGE_MAX]]
    pods, of_cards = max(1, int(came.sum())), np.where(room.cards > 0, came * demand, 0)
    unused = int(np.maximum(free.left, 0)[room.eligible.any(axis=1)].sum())
    to_come = unused * pods // max(1, int(of_cards.sum()))
    for kind in large.tolist():
        due = 1 + int(came[large[room.need_no_less(large, kind)]].sum())
        chance = isqrt(_DEVIATIONS**2 * due * to_come * (pods + to_come))
        kept[kind] = (due * to_come + chance) // pods
    return kept


def _whole_nodes(columns: Columns) -> list[PodKind]:
    """Pods that take all of a node, for the commonest shapes among nodes with the most cards."""
    most = max((len(record.card_indices) for record in columns.records), default=0)
    shapes: Counter[PodKind] = Counter()
    for record in columns.records:
        if most and len(record.card_indices) == most and record.node is not None:
            offered = record.node.allocatable.items()
            rest = sorted((r, n) for r, n in offered if n and r not in {PODS, GPU})
            shapes[PodKind(shape=tuple(rest), cards=most)] += 1
    return [kind for kind, _ in shapes.most_common(_SHAPES_MAX)]
