"""The one clock of a service: durations and stamps come from the owner of a fact."""

import time


def now_ms() -> int:
    """Milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000
