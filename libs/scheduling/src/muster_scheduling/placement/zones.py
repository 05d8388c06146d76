"""NUMA zones: room for pods whose processors and cards must be near each other.

Only whole processors of pods that asked for nearness are counted against a zone; other pods run
anywhere on the node. A set with such a policy does not share nodes with other sets of its gang.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster_domain.nodes import NumaPolicy

Numbers = npt.NDArray[np.int64]

NUMA_POLICY = "volcano.sh/numa-topology-policy"
"""Annotation of a pod."""

_NO_LIMIT = 2**62
_STRICT = (NumaPolicy.SINGLE_NUMA_NODE, NumaPolicy.RESTRICTED)


@dataclass(frozen=True, slots=True)
class Near:
    """What one pod wants of one zone: milli-units of cpu, and whole cards."""

    policy: NumaPolicy
    cpu_milli: int
    cards: int

    @property
    def strict(self) -> bool:
        """Whether it can be refused a node for want of a zone."""
        return self.policy in _STRICT


@dataclass(frozen=True, slots=True)
class Zones:
    """Zones as vectors: a row per node, a column per zone, nothing where a node has fewer."""

    cpu_milli: Numbers
    free_cpu_milli: Numbers
    cards: Numbers
    free_cards: Numbers

    @classmethod
    def none(cls, rows: int, columns: int) -> "Zones":
        """No zones on so many nodes."""
        nothing = np.zeros((rows, columns), np.int64)
        return cls(nothing, nothing.copy(), nothing.copy(), nothing.copy())

    def pods_fitting(self, near: Near) -> Numbers:
        """How many such pods each node seats by its zones alone; no limit where none applies."""
        fits = self._times(self.free_cpu_milli, self.free_cards, near)
        return np.where(self.needed(near), fits, _NO_LIMIT)

    def needed(self, near: Near) -> npt.NDArray[np.bool_]:
        """Nodes on which a pod that insists on a zone gets one or no seat."""
        if near.policy is NumaPolicy.SINGLE_NUMA_NODE:
            return np.ones(len(self.cpu_milli), np.bool_)
        return self._times(self.cpu_milli, self.cards, near) > 0

    @staticmethod
    def _times(cpu_milli: Numbers, cards: Numbers, near: Near) -> Numbers:
        times = np.maximum(cpu_milli, 0) // max(1, near.cpu_milli)
        if near.cards:
            times = np.minimum(times, cards // near.cards)
        return times.sum(axis=1)
