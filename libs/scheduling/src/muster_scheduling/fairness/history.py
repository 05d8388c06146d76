"""What LocalQueues have used lately, and the order between them (R-70 to R-75).

Consumption is kept in millionths of a milli-unit, so that a short tick against a long half-life
still counts. Times and decay come in; nothing here reads a clock.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction

from muster_domain.policy import AdmissionFairSharing
from muster_domain.quantity import Resources

FINE = 1_000_000
"""Parts of a milli-unit in which consumption is counted."""

_SCALE = 10**18
_EXACT = Context(prec=50)

UsageKey = tuple[bool, Fraction]
"""(without weight, weighted usage): smaller goes first."""

NOTHING: UsageKey = (False, Fraction(0))


def kept(elapsed_ms: int, half_life_ms: int) -> int:
    """What is left of consumption after a time, in parts of 10**18; nothing without half-life."""
    if half_life_ms <= 0:
        return 0
    exponent = _EXACT.divide(Decimal(-max(0, elapsed_ms)), Decimal(half_life_ms))
    return int(_EXACT.multiply(_EXACT.power(Decimal(2), exponent), Decimal(_SCALE)))


def decayed(
    consumed: Mapping[str, int], usage: Resources, elapsed_ms: int, half_life_ms: int
) -> dict[str, int]:
    """Consumption after `usage` has lasted for a time: it moves towards the usage (R-71).

    `usage` in milli-units, consumption in their millionths. Without half-life nothing is kept.
    """
    if half_life_ms <= 0:
        return {}
    keep = kept(elapsed_ms, half_life_ms)
    return {
        name: (consumed.get(name, 0) * keep + usage.get(name, 0) * FINE * (_SCALE - keep)) // _SCALE
        for name in sorted({*consumed, *usage})
    }


def entry_penalty(requests: Resources, policy: AdmissionFairSharing) -> dict[str, int]:
    """What a workload counts from the moment it is let in, in millionths (R-72)."""
    weight = _SCALE - kept(policy.sampling_ms, policy.half_life_ms)
    return {name: amount * FINE * weight // _SCALE for name, amount in requests.items()}


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


@dataclass(slots=True)
class LocalQueueHistory:
    """One LocalQueue's consumption up to `updated_ms`, and a penalty for each that was let in."""

    updated_ms: int = 0
    consumed: dict[str, int] = field(default_factory=dict[str, int])
    penalties: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    def tick(self, usage: Resources, now_ms: int, half_life_ms: int) -> None:
        """Let `usage` of admitted workloads count up to now."""
        elapsed = max(0, now_ms - self.updated_ms)
        self.consumed = decayed(self.consumed, usage, elapsed, half_life_ms)
        self.updated_ms = max(self.updated_ms, now_ms)

    def settle(self, workload_id: str, usage: Resources, now_ms: int, half_life_ms: int) -> None:
        """A workload is admitted: fold its penalty into what is consumed."""
        penalty = self.penalties.pop(workload_id, None)
        if penalty is None:
            return
        self.tick(usage, now_ms, half_life_ms)
        for name, amount in penalty.items():
            self.consumed[name] = self.consumed.get(name, 0) + amount

    @property
    def penalty(self) -> dict[str, int]:
        """What those that were let in count, until they are admitted."""
        return _sum(self.penalties.values())

    @property
    def total(self) -> dict[str, int]:
        """What orders the LocalQueue: consumption and penalties."""
        return _sum((self.consumed, *self.penalties.values()))

    def key(self, weight_milli: int, policy: AdmissionFairSharing) -> UsageKey:
        """Its place among the LocalQueues of a ClusterQueue; last without weight (R-70)."""
        if weight_milli <= 0:
            return (True, Fraction(0))
        total = sum(amount * policy.weight_milli(name) for name, amount in self.total.items())
        return (False, Fraction(total, weight_milli))
