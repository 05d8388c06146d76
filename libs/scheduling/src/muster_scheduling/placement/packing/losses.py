"""What a pod costs on each node: how much the room that it leaves is worth less than before."""

from dataclasses import dataclass

import numpy as np

from muster_scheduling.placement.columns import LIMIT, Columns, Mask, Vector
from muster_scheduling.placement.packing.future import RUNS, Future
from muster_scheduling.placement.packing.mix import PodKind
from muster_scheduling.placement.packing.prices import PARTS, PackingPrices
from muster_scheduling.placement.packing.room import FreeOn, KindRoom, Matrix
from muster_scheduling.placement.shares import WHOLE

_KINDS_MAX = 256
_STATES_MAX = 2**16

_FILLED_WORTH = 3 * PARTS // RUNS
"""Three times as much as a thousandth of a seat for a kind easily shut out."""


@dataclass(slots=True)
class _Known:
    loss: Vector
    seen: int


class Losses:
    """Losses at given prices, kept in step with what is free."""

    def __init__(self, columns: Columns, prices: PackingPrices) -> None:
        self._columns = columns
        self._prices = prices
        self._version = columns.version
        self._room = KindRoom(columns, [price.kind for price in prices])
        per_seat = np.array([price.per_seat for price in prices], np.int64)
        self._scarce = np.flatnonzero(per_seat)
        self._per_seat = per_seat[self._scarce]
        parts = np.array([price.part for price in prices], np.int64)
        demand = [price.kind.demand_milli(columns.card_memory) for price in prices]
        self._future = (
            Future(self._room, parts, np.array(demand, np.int64)) if parts.any() else None
        )
        self._worth_known: dict[bytes, int] = {}
        self._free = self._room.free_on(np.arange(len(columns)))
        self._worth = self._worth_of(self._free)
        self._seen = columns.position
        self._known: dict[PodKind, _Known] = {}

    def holds_for(self, columns: Columns, prices: PackingPrices) -> bool:
        """Whether it was made for these vectors, as they are labelled now, and these prices."""
        same = self._columns is columns and self._prices is prices
        return same and self._version == columns.version and columns.knows(self._seen)

    def of(self, kind: PodKind) -> Vector:
        """The loss of one pod of a kind on every node; `LIMIT` where it does not fit."""
        self._follow()
        known = self._known.get(kind)
        if known is None or not self._columns.knows(known.seen):
            if len(self._known) >= _KINDS_MAX:
                del self._known[next(iter(self._known))]
            known = _Known(self._loss_on(np.arange(len(self._columns)), kind), self._seen)
            self._known[kind] = known
        elif known.seen < self._seen:
            rows = self._columns.changed_since(known.seen)
            known.loss[rows] = self._loss_on(rows, kind)
            known.seen = self._seen
        return known.loss

    def ranked(self, kind: PodKind) -> Vector:
        """Rows in order of loss, equal ones as they are packed: the fullest first."""
        order = np.lexsort((self._columns.packing, self.of(kind)))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank

    def of_cards(self, kind: PodKind, row: int, left: Vector) -> Vector:
        """The loss of a share on each card of one node; `left` as its cards are, in thousandths."""
        self._follow()
        positions = np.flatnonzero(left >= self._milli(kind))
        after = self._free.at(np.full(len(positions), row, np.int64))
        after.quantities -= self._room.quantities_of(kind)
        first = after.left.shape[1] - len(left)
        after.left[:, :first], after.left[:, first:] = 0, left
        after.left[np.arange(len(positions)), first + positions] -= self._milli(kind)
        after.left.sort(axis=1)
        loss = np.full(len(left), LIMIT, np.int64)
        loss[positions] = -self._worth_of(after)
        return loss

    def _follow(self) -> None:
        if self._seen < self._columns.position:
            rows = self._columns.changed_since(self._seen)
            free = self._room.free_on(rows)
            self._free.put(free)
            self._worth[rows] = self._worth_of(free)
            self._seen = self._columns.position

    def _loss_on(self, rows: Vector, kind: PodKind) -> Vector:
        asked = self._room.quantities_of(kind)
        free = self._free.at(rows)
        fits: Mask = np.all(free.quantities >= asked, axis=1)
        loss = np.full(len(rows), LIMIT, np.int64)
        picked, taken = self._candidates(kind, fits, free.left)
        after = free.at(picked)
        after.quantities -= asked
        after.left -= taken * self._milli(kind)
        after.left.sort(axis=1)
        np.minimum.at(loss, picked, self._worth[rows[picked]] - self._worth_of(after))
        return loss

    def _candidates(self, kind: PodKind, fits: Mask, left: Matrix) -> tuple[Vector, Mask]:
        """Rows, and the cards to take there: for one card each different one is a candidate."""
        able = (left >= max(1, self._milli(kind))) & fits[:, None]
        cards = kind.share.cards if kind.share is not None else kind.cards
        positions: Vector = np.arange(left.shape[1], dtype=np.int64)
        if kind.share is not None and cards == 1:
            able[:, 1:] &= left[:, 1:] != left[:, :-1]
            picked, position = np.nonzero(able)
            return picked, positions == position[:, None]
        picked = np.flatnonzero(fits & (able.sum(axis=1) >= cards))
        first = left.shape[1] - able[picked].sum(axis=1)[:, None]
        return picked, (positions >= first) & (positions < first + cards)

    def _worth_of(self, free: FreeOn) -> Vector:
        """What the room is worth; equal rows are looked at once."""
        first, same = free.distinct()
        free = free.at(first)
        keys = [state.tobytes() for state in free.state]
        unknown = np.flatnonzero([key not in self._worth_known for key in keys])
        if len(self._worth_known) + len(unknown) > _STATES_MAX:
            self._worth_known.clear()
            unknown = np.arange(len(keys))
        if len(unknown):
            found = self._look_at(free.at(unknown)).tolist()
            self._worth_known.update(zip((keys[i] for i in unknown), found, strict=True))
        return np.array([self._worth_known[key] for key in keys], np.int64)[same]

    def _look_at(self, free: FreeOn) -> Vector:
        worth = self._room.seats_on(free, self._scarce) @ self._per_seat
        if self._future is not None:
            worth += _FILLED_WORTH * self._future.filled_on(free)
        return worth

    def _milli(self, kind: PodKind) -> int:
        return kind.share.milli_of(self._columns.card_memory) if kind.share is not None else WHOLE
