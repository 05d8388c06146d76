"""What would still find a place on a node: pods like those that came, tried one after another."""

import numpy as np
import numpy.typing as npt

from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.placement.packing.room import FreeOn, KindRoom

Cards = npt.NDArray[np.int32]

RUNS = 4
_PODS = 16
_GOLDEN = 2_654_435_769
_BITS = 32
_NONE = np.int32(2**31 - 1)


class Future:
    """Some runs of pods to come, each kind as often as its `parts` of the mix say.

    They are the same for every node, so that two nodes differ by what is free on them alone. Steps
    of the golden ratio through the mix make every stretch of a run look like the whole.
    """

    def __init__(self, room: KindRoom, parts: Vector, demand: Vector) -> None:
        until = np.cumsum(parts)
        steps = np.arange(1, RUNS * _PODS + 1, dtype=np.int64) * _GOLDEN % (1 << _BITS)
        drawn = np.searchsorted(until, steps * int(until[-1]) >> _BITS, side="right")
        kinds = drawn.reshape(RUNS, _PODS).T
        self._eligible = room.eligible.T[kinds]
        self._asked = room.asked[kinds].transpose(0, 2, 1)[..., None]
        cards = room.cards[kinds]
        self._several = [
            [(run, of_runs[run]) for run in range(RUNS) if of_runs[run] > 1]
            for of_runs in cards.tolist()
        ]
        self._steps = max(1, room.cards_most)
        milli = np.where(cards > 0, room.milli[kinds], 0) * self._steps
        self._milli = milli.astype(np.int32)[..., None]
        self._demand = demand[kinds][..., None]

    def filled_on(self, free: FreeOn) -> Vector:
        """How much all runs together would take of the given rows, every pod that fits in turn."""
        total = np.zeros((RUNS, len(free.rows)), np.int64)
        quantities = [np.repeat(column[None], RUNS, axis=0) for column in free.quantities.T]
        left = self._told_apart(free)
        for pod, eligible in enumerate(self._eligible[:, :, free.rows]):
            fits, taken = self._cards_for(pod, left)
            fits &= eligible
            for column, asked in zip(quantities, self._asked[pod], strict=True):
                fits &= column >= asked
            if fits.any():
                for column, asked in zip(quantities, self._asked[pod], strict=True):
                    np.subtract(column, asked * fits, out=column)
                left -= taken * (self._milli[pod] * fits)
                total += self._demand[pod] * fits
        return total.sum(axis=0)

    def _told_apart(self, free: FreeOn) -> Cards:
        """What is left by card, run and row, in such steps that no two cards of a row are equal."""
        left = np.zeros((self._steps, len(free.rows)), np.int32)
        left[: free.left.shape[1]] = np.maximum(free.left, 0).T * self._steps
        left += np.arange(self._steps, dtype=np.int32)[:, None]
        return np.repeat(left[:, None, :], RUNS, axis=1)

    def _cards_for(self, pod: int, left: Cards) -> tuple[Mask, Mask]:
        """Where enough cards have enough left, and which to take: the one with least left of these.

        A pod without cards takes nothing of one.
        """
        enough: Mask = left >= self._milli[pod]
        tightest = np.where(enough, left, _NONE).min(axis=0)
        fits, taken = tightest < _NONE, left == tightest
        for run, cards in self._several[pod]:
            nth = enough[:, run].cumsum(axis=0)
            fits[run] = nth[-1] >= cards
            taken[:, run] = enough[:, run] & (nth <= cards)
        return fits, taken
