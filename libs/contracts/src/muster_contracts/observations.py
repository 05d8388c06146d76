"""How busy devices were, as their agents saw it."""

from dataclasses import dataclass

MINUTE_MS = 60_000
MINUTES = 10
"""So many minutes are told at once; a block of them begins at a multiple of as much."""
BLOCK_MS = MINUTES * MINUTE_MS
USES_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedUse:
    """One attempt's devices of one resource, minute by minute from the beginning of the block.

    Milli-unit-milliseconds: `observed` is what was looked at, and `busy` the part of it in which
    the devices worked. A minute that was not looked at has zeros.
    """

    workload_id: str
    attempt: int
    resource: str
    observed: tuple[int, ...]
    busy: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesObserved:
    """agent: how busy the devices of its pods were in the block of minutes from `from_ms` on.

    A minute of an attempt is told once: whatever is said of it again does not count.
    """

    node: str
    from_ms: int
    uses: tuple[ObservedUse, ...]
