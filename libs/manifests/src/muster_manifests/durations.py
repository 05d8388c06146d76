"""Durations as Go writes them: `1h30m`, `90s`, `1.5h`."""

import re
from decimal import Decimal

from muster_manifests.reader import ObjectReader

_PART = r"[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|s|m|h)"
_DURATION = re.compile(rf"(?:{_PART})+|0")
_PARTS = re.compile(r"([0-9.]+)(ms|s|m|h)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


def duration_ms(reader: ObjectReader, key: str) -> int | None:
    """Read a duration in milliseconds, rounded down, or None where none is written."""
    written = reader.text(key)
    if not written:
        return None
    if not _DURATION.fullmatch(written):
        reader.problem(key, f"{written!r} is not a duration", "write 30m, 1h30m or 90s")
        return None
    return int(sum(Decimal(number) * _UNITS_MS[unit] for number, unit in _PARTS.findall(written)))
