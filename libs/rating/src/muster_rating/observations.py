"""How busy devices were, by attempt, node and hour, so far as somebody looked at them.

Units are those of usage, milli-units times milliseconds, so what was observed is a part of what was
held. An hour belongs to the window in which it begins: windows that meet add up to that of both.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from muster_rating.attempts import Pair
from muster_rating.holdings import Holding
from muster_rating.prices import HOUR_MS
from muster_rating.windows import Window

AttemptKey = tuple[str, int]
ObservationKey = tuple[int, str, int, str, str]
"""(hour, workload id, attempt, node, resource)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Of the `observed` time of an attempt's devices they worked for `busy`.

    Bit n of `minutes` says that the n-th minute of the hour was told.
    """

    workload_id: str
    number: int
    node: str
    resource: str
    hour_ms: int
    minutes: int
    observed: int
    busy: int

    @property
    def key(self) -> ObservationKey:
        """What identifies it."""
        return self.hour_ms, self.workload_id, self.number, self.node, self.resource

    def merge(self, other: "Observation") -> "Observation":
        """Both together; of a minute that was told already nothing more is taken."""
        if self.minutes & other.minutes:
            return self
        return replace(
            self,
            minutes=self.minutes | other.minutes,
            observed=self.observed + other.observed,
            busy=self.busy + other.busy,
        )


Observations = Mapping[AttemptKey, tuple[Observation, ...]]
"""By attempt, in order of time."""
NOTHING_OBSERVED: Observations = MappingProxyType({})


def by_attempt(observations: Iterable[Observation]) -> Observations:
    """Observations in order of their keys, by attempt."""
    found: dict[AttemptKey, list[Observation]] = {}
    for one in observations:
        found.setdefault((one.workload_id, one.number), []).append(one)
    return {key: tuple(of_attempt) for key, of_attempt in found.items()}


def observed_of(
    observations: Observations, holding: Holding, pair: Pair, window: Window
) -> Iterator[Observation]:
    """What was observed in a window of what an attempt held of a pair."""
    for one in observations.get(holding.attempt.key, ()):
        inside = window.start_ms <= one.hour_ms < window.end_ms
        if (
            inside
            and _is_of(holding, one)
            and one.resource == pair[1]
            and _flavor_of(holding, one) == pair[0]
        ):
            yield one


def _is_of(holding: Holding, observed: Observation) -> bool:
    """Whether it counts for this stretch of its attempt: the last one that the hour has part of."""
    next_hour_ms, end_ms = observed.hour_ms + HOUR_MS, holding.end_ms
    if holding.attempt.resizes and end_ms is not None and end_ms < next_hour_ms:
        return False
    return holding.seated_ms is None or holding.seated_ms < next_hour_ms


def _flavor_of(holding: Holding, observed: Observation) -> str | None:
    """The flavor that was charged for the observed devices; None where it could be several."""
    seating = holding.attempt.seating
    if seating is None:
        return None
    flavors = {
        (charge.flavor, seat.node)
        for seat in seating.seats
        for charge in seat.charges
        if charge.resource == observed.resource
    }
    anywhere = {flavor for flavor, _ in flavors}
    there = {flavor for flavor, node in flavors if node == observed.node}
    found = anywhere if len(anywhere) == 1 else there
    return min(found) if len(found) == 1 else None
