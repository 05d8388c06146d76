"""What would still find a place on a node: pods like those that came, tried one after another."""

import numpy as np

from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.placement.packing.room import FreeOn, KindRoom, Matrix

RUNS = 8
_PODS = 32
_GOLDEN = 2_654_435_769
_BITS = 32


class Future:
    """Some runs of pods to come, each kind as often as its `parts` of the mix say.

    They are the same for every node, so that two nodes differ by what is free on them alone. Steps
    of the golden ratio through the mix make every stretch of a run look like the whole.
    """

    def __init__(self, room: KindRoom, parts: Vector, demand: Vector) -> None:
        self._room = room
        until = np.cumsum(parts)
        steps = np.arange(1, RUNS * _PODS + 1, dtype=np.int64) * _GOLDEN % (1 << _BITS)
        drawn = np.searchsorted(until, steps * int(until[-1]) >> _BITS, side="right")
        kinds = drawn.reshape(RUNS, _PODS)
        self._most = room.cards_most
        self._kinds = kinds
        self._runs = np.arange(RUNS)
        self._asked = room.asked[kinds]
        self._cards = room.cards[kinds]
        self._milli = np.where(self._cards > 0, room.milli[kinds], 0)
        self._demand = demand[kinds]
        self._last = np.clip(self._most - self._cards, 0, max(0, self._most - 1))

    def filled_on(self, free: FreeOn) -> Vector:
        """How much all runs together would take of the given rows, every pod that fits in turn."""
        filled = np.zeros(len(free.rows), np.int64)
        able: Mask = self._room.eligible[free.rows][:, self._kinds] & (self._cards <= self._most)
        active = np.flatnonzero(able.any(axis=(1, 2)))
        waiting = able[active]
        quantities = np.repeat(free.quantities[active, None, :], RUNS, axis=1)
        left = np.repeat(free.left[active, None, :], RUNS, axis=1)
        runs = self._runs
        while len(active):
            self._drop_unfit(waiting, quantities, left)
            pod = waiting.argmax(axis=2)
            rows = np.arange(len(active))[:, None]
            fits = waiting[rows, runs, pod]
            on = fits.any(axis=1)
            if not on.all():
                active, waiting, pod, fits = active[on], waiting[on], pod[on], fits[on]
                quantities, left, rows = quantities[on], left[on], rows[: len(active)]
            waiting[rows, runs, pod] = False
            filled[active] += (self._demand[runs, pod] * fits).sum(axis=1)
            quantities -= self._asked[runs, pod] * fits[:, :, None]
            _take(left, self._cards[runs, pod] * fits, self._milli[runs, pod])
        return filled

    def _drop_unfit(self, waiting: Mask, quantities: Matrix, left: Matrix) -> None:
        """What does not fit now never will: room only becomes less."""
        for number in range(quantities.shape[2]):
            waiting &= quantities[:, :, number, None] >= self._asked[:, :, number]
        if self._most:
            waiting &= left[:, self._runs[:, None], self._last] >= self._milli


def _take(left: Matrix, cards: Matrix, milli: Matrix) -> None:
    """From so many cards, those with least left that have enough; all stay in ascending order."""
    position: Vector = np.arange(left.shape[2], dtype=np.int64)
    first: Matrix = (left < milli[:, :, None]).sum(axis=2)[:, :, None]
    taken: Mask = (position >= first) & (position < first + cards[:, :, None])
    left -= taken * milli[:, :, None]
    left.sort(axis=2)
