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

_WORTH, _WHOLE = 0, 1


@dataclass(slots=True)
class Loss:
    """By node: how much less its room is worth, `LIMIT` where the pod does not fit.

    `whole` has a bit for each large kind that the node no longer has a seat for.
    """

    worth: Vector
    whole: Vector


@dataclass(slots=True)
class _Known:
    loss: Loss
    seen: int


class Losses:
    """Losses at given prices, kept in step with what is free."""

    def __init__(self, columns: Columns, prices: PackingPrices) -> None:
        self._columns = columns
        self._prices = prices
        self._version = columns.version
        self._room = KindRoom(columns, [price.kind for price in prices])
        per_seat = np.array([price.per_seat for price in prices], np.int64)
        kept = np.array([price.kept for price in prices], np.int64)
        self._looked_at = np.flatnonzero((per_seat > 0) | (kept > 0))
        self._per_seat = per_seat[self._looked_at]
        self._large = np.flatnonzero(kept[self._looked_at])
        self._bits = np.left_shift(1, np.arange(len(self._large), dtype=np.int64))
        self._kept = kept[self._looked_at][self._large]
        parts = np.array([price.part for price in prices], np.int64)
        demand = [price.kind.demand_milli(columns.card_memory) for price in prices]
        self._future = (
            Future(self._room, parts, np.array(demand, np.int64)) if parts.any() else None
        )
        self._values_known: dict[bytes, tuple[int, int]] = {}
        self._free = self._room.free_on(np.arange(len(columns)))
        self._values = self._values_of(self._free)
        self._whole_seats = self._count(self._values)
        self._seen = columns.position
        self._known: dict[PodKind, _Known] = {}

    def holds_for(self, columns: Columns, prices: PackingPrices) -> bool:
        """Whether it was made for these vectors, as they are labelled now, and these prices."""
        same = self._columns is columns and self._prices is prices
        return same and self._version == columns.version and columns.knows(self._seen)

    def of(self, kind: PodKind) -> Loss:
        """The loss of one pod of a kind on every node."""
        self._follow()
        known = self._known.get(kind)
        if known is None or not self._columns.knows(known.seen):
            if len(self._known) >= _KINDS_MAX:
                del self._known[next(iter(self._known))]
            known = _Known(self._loss_on(np.arange(len(self._columns)), kind), self._seen)
            self._known[kind] = known
        elif known.seen < self._seen:
            rows = self._columns.changed_since(known.seen)
            changed = self._loss_on(rows, kind)
            known.loss.worth[rows], known.loss.whole[rows] = changed.worth, changed.whole
            known.seen = self._seen
        return known.loss

    def ranked(self, kind: PodKind) -> Vector:
        """Rows by whether a seat that is kept is lost, then in order of loss, then as binpack."""
        loss = self.of(kind)
        short = int(self._bits[self._whole_seats <= self._kept].sum())
        order = np.lexsort((self._columns.packing, loss.worth, (loss.whole & short) != 0))
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
        loss[positions] = -self._values_of(after)[:, _WORTH]
        return loss

    def _follow(self) -> None:
        if self._seen < self._columns.position:
            rows = self._columns.changed_since(self._seen)
            free = self._room.free_on(rows)
            values = self._values_of(free)
            self._whole_seats += self._count(values) - self._count(self._values[rows])
            self._free.put(free)
            self._values[rows] = values
            self._seen = self._columns.position

    def _count(self, values: Matrix) -> Vector:
        """How many of the rows have a seat for each large kind."""
        return ((values[:, _WHOLE, None] & self._bits) != 0).sum(axis=0)

    def _loss_on(self, rows: Vector, kind: PodKind) -> Loss:
        asked = self._room.quantities_of(kind)
        free, before = self._free.at(rows), self._values[rows]
        fits: Mask = np.all(free.quantities >= asked, axis=1)
        picked, taken = self._candidates(kind, fits, free.left)
        after = free.at(picked)
        after.quantities -= asked
        after.left -= taken * self._milli(kind)
        after.left.sort(axis=1)
        values = self._values_of(after)
        worth = before[picked, _WORTH] - values[:, _WORTH]
        loss = Loss(np.full(len(rows), LIMIT, np.int64), np.zeros(len(rows), np.int64))
        np.minimum.at(loss.worth, picked, worth)
        best = np.flatnonzero(worth == loss.worth[picked])
        loss.whole[picked[best]] = before[picked[best], _WHOLE] & ~values[best, _WHOLE]
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

    def _values_of(self, free: FreeOn) -> Matrix:
        """What the room is worth, and a bit for each large kind with a seat.

        Equal rows are looked at once.
        """
        first, same = free.distinct()
        free = free.at(first)
        keys = [state.tobytes() for state in free.state]
        unknown = np.flatnonzero([key not in self._values_known for key in keys])
        if len(self._values_known) + len(unknown) > _STATES_MAX:
            self._values_known.clear()
            unknown = np.arange(len(keys))
        if len(unknown):
            found = self._look_at(free.at(unknown))
            self._values_known.update(zip((keys[i] for i in unknown), found, strict=True))
        values = [self._values_known[key] for key in keys]
        return np.array(values, np.int64).reshape(len(keys), 2)[same]

    def _look_at(self, free: FreeOn) -> list[tuple[int, int]]:
        seats = self._room.seats_on(free, self._looked_at)
        worth = seats @ self._per_seat
        if self._future is not None:
            worth += _FILLED_WORTH * self._future.filled_on(free)
        whole = (seats[:, self._large] > 0) @ self._bits
        return list(zip(worth.tolist(), whole.tolist(), strict=True))

    def _milli(self, kind: PodKind) -> int:
        return kind.share.milli_of(self._columns.card_memory) if kind.share is not None else WHOLE
