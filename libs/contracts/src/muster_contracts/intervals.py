"""What accounting says of the intervals in its books."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalClosed:
    """accounting: an attempt whose end it never heard of is over, at `at_ms` at the latest."""

    workload_id: str
    attempt: int
    at_ms: int
    message: str = ""
