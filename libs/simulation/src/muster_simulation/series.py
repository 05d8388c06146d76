"""How much each queue uses and how many wait in it, at evenly spaced moments of a run.

The run's length is not known beforehand: when there are too many moments, every second is left out.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from muster_simulation.premises import Happening, What

POINTS_MAX = 1_440
FIRST_STEP_MS = 1_000

Levels = tuple[dict[str, int], dict[str, int]]
"""Milli-units in use and workloads waiting, by queue."""


@dataclass(slots=True)
class Series:
    """Point `n` is how things stood at the end of step `n`; `amount_of` says what a job holds."""

    amount_of: Callable[[str], int] = field(compare=False)
    step_ms: int = FIRST_STEP_MS
    points: list[Levels] = field(default_factory=list[Levels])
    _used: Counter[str] = field(default_factory=Counter[str])
    _waiting: Counter[str] = field(default_factory=Counter[str])
    _held: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, happening: Happening) -> None:
        """Count a happening; they come in the order of time."""
        self.run_to(happening.at_ms)
        queue, name = happening.queue, happening.workload
        match happening.what:
            case What.SUBMITTED:
                self._waiting[queue] += 1
            case What.ADMITTED:
                self._waiting[queue] -= 1
                amount = self._held[name] = self.amount_of(name)
                self._used[queue] += amount
            case What.REQUEUED:
                self._waiting[queue] += 1
                self._used[queue] -= self._held.pop(name)
            case What.FINISHED if name in self._held:
                self._used[queue] -= self._held.pop(name)
            case What.FINISHED if queue:
                self._waiting[queue] -= 1
            case _:
                pass

    def run_to(self, at_ms: int) -> None:
        """Note how things stood at every step that ended before."""
        while (len(self.points) + 1) * self.step_ms <= at_ms:
            self.points.append((dict(self._used), dict(self._waiting)))
            if len(self.points) == POINTS_MAX:
                self.points = self.points[1::2]
                self.step_ms *= 2
