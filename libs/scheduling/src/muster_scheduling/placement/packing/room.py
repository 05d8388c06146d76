"""Room for kinds of pods on nodes, as matrices: a row per node or candidate, a column per kind."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster_scheduling.placement.columns import LIMIT, Columns, Mask, Vector
from muster_scheduling.placement.eligibility import eligible_under
from muster_scheduling.placement.packing.mix import PodKind
from muster_scheduling.placement.record import PODS
from muster_scheduling.placement.shares import WHOLE

_FEW = 64
_FACTOR = np.int64(6364136223846793005)

Matrix = npt.NDArray[np.int64]


@dataclass(slots=True)
class FreeOn:
    """What is free on some rows: `quantities` by asked resource, `left` of each card, ascending.

    Rows of one of the `groups` are open to the same kinds.
    """

    rows: Vector
    groups: Vector
    quantities: Matrix
    left: Matrix

    def at(self, picked: Vector) -> "FreeOn":
        """A copy of some of the rows, or of one row several times."""
        return FreeOn(
            self.rows[picked], self.groups[picked], self.quantities[picked], self.left[picked]
        )

    def put(self, changed: "FreeOn") -> None:
        """Take over changed rows; these are all rows, in order."""
        self.quantities[changed.rows] = changed.quantities
        self.left[changed.rows] = changed.left

    @property
    def state(self) -> Matrix:
        """All that makes two rows equal."""
        return np.concatenate((self.groups[:, None], self.quantities, self.left), axis=1)

    def distinct(self) -> tuple[Vector, Vector]:
        """The first of all equal rows, and for each row which of the first it equals."""
        alone = np.arange(len(self.rows))
        if len(alone) < _FEW:
            return alone, alone
        state = self.state
        factors = _FACTOR ** np.arange(1, state.shape[1] + 1, dtype=np.int64)
        _, first, same = np.unique(state @ factors, return_index=True, return_inverse=True)
        equal = bool((state == state[first[same]]).all())
        return (first, same) if equal else (alone, alone)


class KindRoom:
    """What kinds ask for, and how many pods of each fit where.

    `asked` has their quantities by resource, `cards` and `milli` how many cards they take and how
    much of each; `eligible` says on which nodes they may be at all. No node has more than
    `cards_most` cards.
    """

    def __init__(self, columns: Columns, kinds: Sequence[PodKind]) -> None:
        self._columns = columns
        self.resources = tuple(
            sorted({r for kind in kinds for r, _ in kind.shape if r in columns.free or r != PODS})
        )
        self.cards_most = columns.cards.memory.shape[1]
        memory = columns.card_memory
        self.asked = np.array([self.quantities_of(kind) for kind in kinds], np.int64).reshape(
            len(kinds), len(self.resources)
        )
        self.cards = np.array([k.share.cards if k.share else k.cards for k in kinds], np.int64)
        milli = [max(1, kind.share.milli_of(memory)) if kind.share else WHOLE for kind in kinds]
        self.milli = np.array(milli, np.int64)
        self.eligible = np.ones((len(columns), len(kinds)), np.bool_)
        for number, kind in enumerate(kinds):
            self.eligible[:, number] = eligible_under(columns, kind.rules).usable
        self._open, groups = np.unique(self.eligible, axis=0, return_inverse=True)
        self._groups = groups.reshape(-1)

    def free_on(self, rows: Vector) -> FreeOn:
        """What is free on rows now."""
        columns, nothing = self._columns, np.zeros(len(rows), np.int64)
        free = [columns.free[r][rows] if r in columns.free else nothing for r in self.resources]
        return FreeOn(
            rows=rows,
            groups=self._groups[rows],
            quantities=np.stack(free, axis=1) if free else np.zeros((len(rows), 0), np.int64),
            left=np.sort(columns.cards.at(rows).left_milli, axis=1),
        )

    def quantities_of(self, kind: PodKind) -> Vector:
        """What one pod of a kind takes, as `FreeOn.quantities` has it."""
        asked = dict(kind.shape)
        return np.array([asked.get(resource, 0) for resource in self.resources], np.int64)

    def need_no_less(self, kinds: Vector, kind: int) -> Mask:
        """Which of some kinds need at least what a kind does, and may be nowhere that it may not.

        A seat for one of them is a seat for the kind.
        """
        outside = self._open[:, kinds] & ~self._open[:, kind, None]
        as_much = (self.asked[kinds] >= self.asked[kind]).all(axis=1)
        as_much &= (self.cards[kinds] >= self.cards[kind]) & (self.milli[kinds] >= self.milli[kind])
        return as_much & ~outside.any(axis=0)

    def seats_on(self, free: FreeOn, kinds: Vector) -> Matrix:
        """How many pods of each of some kinds fit on the given rows."""
        fits = np.full((len(free.rows), len(kinds)), LIMIT, np.int64)
        for number, asked in enumerate(self.asked[kinds].T):
            asking = np.flatnonzero(asked)
            left = np.maximum(free.quantities[:, number, None], 0)
            fits[:, asking] = np.minimum(fits[:, asking], left // asked[asking])
        with_cards = np.flatnonzero(self.cards[kinds])
        sizes, size_of = np.unique(self.milli[kinds[with_cards]], return_inverse=True)
        parts = (free.left[:, :, None] // sizes).sum(axis=1)[:, size_of]
        parts //= self.cards[kinds[with_cards]]
        fits[:, with_cards] = np.minimum(fits[:, with_cards], parts)
        return np.where(self.eligible[free.rows][:, kinds], fits, 0)
