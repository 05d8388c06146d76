"""Room for kinds of pods on nodes, as matrices: a row per node or candidate, a column per kind."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster_scheduling.placement.columns import LIMIT, Columns, Vector
from muster_scheduling.placement.eligibility import eligible_under
from muster_scheduling.placement.packing.mix import PodKind
from muster_scheduling.placement.record import PODS
from muster_scheduling.placement.shares import WHOLE

_FEW = 64
_FACTOR = np.int64(6364136223846793005)

Matrix = npt.NDArray[np.int64]


@dataclass(slots=True)
class FreeOn:
    """What is free on some rows: `quantities` by asked resource, and by size of a card's part.

    `pieces` is how many parts of each size the cards hold, `usable` the free thousandths on cards
    that hold at least one. Rows of one of the `groups` are open to the same kinds.
    """

    rows: Vector
    groups: Vector
    quantities: Matrix
    pieces: Matrix
    usable: Matrix

    def at(self, picked: Vector) -> "FreeOn":
        """A copy of some of the rows, or of one row several times."""
        return FreeOn(
            self.rows[picked],
            self.groups[picked],
            self.quantities[picked],
            self.pieces[picked],
            self.usable[picked],
        )

    def put(self, changed: "FreeOn") -> None:
        """Take over changed rows; these are all rows, in order."""
        self.quantities[changed.rows] = changed.quantities
        self.pieces[changed.rows] = changed.pieces
        self.usable[changed.rows] = changed.usable

    def distinct(self) -> tuple[Vector, Vector]:
        """The first of all equal rows, and for each row which of the first it equals."""
        alone = np.arange(len(self.rows))
        if len(alone) < _FEW:
            return alone, alone
        columns = (self.groups[:, None], self.quantities, self.pieces, self.usable)
        state = np.concatenate(columns, axis=1)
        factors = _FACTOR ** np.arange(1, state.shape[1] + 1, dtype=np.int64)
        _, first, same = np.unique(state @ factors, return_index=True, return_inverse=True)
        equal = bool((state == state[first[same]]).all())
        return (first, same) if equal else (alone, alone)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What kinds ask of one resource: `kinds` that do, and which of the different `amounts`."""

    kinds: Vector
    amounts: Vector
    amount_of: Vector


class KindRoom:
    """How many pods of each kind fit where, and how much of the cards they could use."""

    def __init__(self, columns: Columns, kinds: Sequence[PodKind]) -> None:
        self._columns = columns
        self.kinds = kinds
        self.resources = tuple(
            sorted({r for kind in kinds for r, _ in kind.shape if r in columns.free or r != PODS})
        )
        self._asked = [_asked_of(kinds, resource) for resource in self.resources]
        memory = columns.card_memory
        sizes = [kind.share.milli_of(memory) if kind.share else WHOLE for kind in kinds]
        self.sizes = np.array(sorted({*sizes, WHOLE} - {0}), np.int64)
        self._size_of = np.searchsorted(self.sizes, np.maximum(sizes, 1))
        each = [kind.share.cards if kind.share else kind.cards for kind in kinds]
        self._cards_each = np.array(each, np.int64)
        self._eligible = np.ones((len(columns), len(kinds)), np.bool_)
        for number, kind in enumerate(kinds):
            self._eligible[:, number] = eligible_under(columns, kind.rules).usable
        self._groups = np.unique(self._eligible, axis=0, return_inverse=True)[1].reshape(-1)

    def free_on(self, rows: Vector) -> FreeOn:
        """What is free on rows now."""
        columns, nothing = self._columns, np.zeros(len(rows), np.int64)
        free = [columns.free[r][rows] if r in columns.free else nothing for r in self.resources]
        left = columns.cards.at(rows).left_milli
        return FreeOn(
            rows=rows,
            groups=self._groups[rows],
            quantities=np.stack(free, axis=1) if free else np.zeros((len(rows), 0), np.int64),
            pieces=(left[:, :, None] // self.sizes).sum(axis=1),
            usable=self.usable_parts(left).sum(axis=1),
        )

    def quantities_of(self, kind: PodKind) -> Vector:
        """What one pod of a kind takes, as `FreeOn.quantities` has it."""
        asked = dict(kind.shape)
        return np.array([asked.get(resource, 0) for resource in self.resources], np.int64)

    def usable_parts(self, left: Matrix) -> Matrix:
        """What is left of cards where it holds a part of each size, else nothing."""
        parts = left[..., None]
        return np.where(parts >= self.sizes, parts, 0)

    def seats(self) -> Matrix:
        """How many pods of each kind fit on each node."""
        return self.seats_on(self.free_on(np.arange(len(self._columns))))

    def seats_on(self, free: FreeOn) -> Matrix:
        """How many pods of each kind fit on the given rows."""
        fits = np.full((len(free.rows), len(self.kinds)), LIMIT, np.int64)
        for number, asked in enumerate(self._asked):
            left = np.maximum(free.quantities[:, number, None], 0)
            quotient = left // asked.amounts
            fits[:, asked.kinds] = np.minimum(fits[:, asked.kinds], quotient[:, asked.amount_of])
        counted = np.flatnonzero(self._cards_each)
        pieces = free.pieces[:, self._size_of[counted]] // self._cards_each[counted]
        fits[:, counted] = np.minimum(fits[:, counted], pieces)
        return np.where(self._eligible[free.rows], fits, 0)

    def usable_on(self, free: FreeOn) -> Matrix:
        """Free thousandths of cards that each kind could use; nothing for kinds without cards."""
        return np.where(self._cards_each > 0, free.usable[:, self._size_of], 0)


def _asked_of(kinds: Sequence[PodKind], resource: str) -> _Asked:
    asked = np.array([dict(kind.shape).get(resource, 0) for kind in kinds], np.int64)
    asking = np.flatnonzero(asked)
    amounts, amount_of = np.unique(asked[asking], return_inverse=True)
    return _Asked(asking, amounts, amount_of)
