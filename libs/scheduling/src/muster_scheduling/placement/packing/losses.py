"""What a pod costs on each node: how much the room that it leaves is worth less than before."""

from dataclasses import dataclass

import numpy as np

from muster_scheduling.placement.columns import LIMIT, Columns, Mask, Vector
from muster_scheduling.placement.packing.mix import PodKind
from muster_scheduling.placement.packing.prices import PackingPrices
from muster_scheduling.placement.packing.room import FreeOn, KindRoom, Matrix
from muster_scheduling.placement.shares import WHOLE

_KINDS_MAX = 256


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
        self._per_milli = np.array([price.per_milli for price in prices], np.int64)
        self._per_seat = np.array([price.per_seat for price in prices], np.int64)
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
        free = self._free.at(np.full(len(positions), row, np.int64))
        loss = np.full(len(left), LIMIT, np.int64)
        loss[positions] = -self._worth_of(self._less_share(free, kind, left[positions][:, None]))
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
        fits: Mask = np.all(self._free.quantities[rows] >= asked, axis=1)
        loss = np.full(len(rows), LIMIT, np.int64)
        if kind.share is None:
            fits &= self._free.pieces[rows, -1] >= kind.cards
            picked = np.flatnonzero(fits)
            after = self._less_whole(self._free.at(rows[picked]), kind)
        else:
            left = self._columns.cards.at(rows).left_milli
            picked, cards = self._candidates(kind, np.where(fits[:, None], left, 0))
            after = self._less_share(
                self._free.at(rows[picked]), kind, left[picked[:, None], cards]
            )
        if len(picked):
            np.minimum.at(loss, picked, self._worth[rows[picked]] - self._worth_of(after))
        return loss

    def _candidates(self, kind: PodKind, left: Matrix) -> tuple[Vector, Matrix]:
        """Rows and the cards to try there: each different one, or those with least left."""
        fits = left >= max(1, self._milli(kind))
        several = kind.share.cards if kind.share is not None else 1
        if several > 1:
            order = np.argsort(np.where(fits, left, LIMIT), axis=1, kind="stable")[:, :several]
            picked = np.flatnonzero(fits.sum(axis=1) >= several)
            return picked, order[picked]
        for earlier in range(left.shape[1]):
            fits[:, earlier + 1 :] &= left[:, earlier + 1 :] != left[:, earlier, None]
        picked, cards = np.nonzero(fits)
        return picked, cards[:, None]

    def _worth_of(self, free: FreeOn) -> Vector:
        """What the room is worth; equal rows are looked at once."""
        first, same = free.distinct()
        free = free.at(first)
        seats = self._room.seats_on(free)
        usable = np.where(seats > 0, self._room.usable_on(free), 0)
        return (seats @ self._per_seat + usable @ self._per_milli)[same]

    def _less_whole(self, free: FreeOn, kind: PodKind) -> FreeOn:
        free.quantities -= self._room.quantities_of(kind)
        free.pieces -= kind.cards * (WHOLE // self._room.sizes)
        free.usable -= kind.cards * WHOLE
        return free

    def _less_share(self, free: FreeOn, kind: PodKind, left: Matrix) -> FreeOn:
        free.quantities -= self._room.quantities_of(kind)
        less = left - self._milli(kind)
        sizes = self._room.sizes
        free.pieces += (less[:, :, None] // sizes - left[:, :, None] // sizes).sum(axis=1)
        usable = self._room.usable_parts
        free.usable += (usable(less) - usable(left)).sum(axis=1)
        return free

    def _milli(self, kind: PodKind) -> int:
        return kind.share.milli_of(self._columns.card_memory) if kind.share is not None else 0
