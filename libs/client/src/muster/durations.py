"""Durations as people write them: `90`, `90s`, `30m`, `2h`, `1h30m`, `1d`."""

import re

from muster.errors import BadArgument

_PARTS = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s?)?")
_UNITS_S = (86_400, 3_600, 60, 1)


def parse_seconds(text: str) -> int:
    """Seconds in a duration. Raises `BadArgument`."""
    match = _PARTS.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise BadArgument(f"{text!r} is not a duration", fix="write 90s, 30m, 2h or 1h30m")
    return sum(
        int(part) * unit for part, unit in zip(match.groups(), _UNITS_S, strict=True) if part
    )


def short(milliseconds: int) -> str:
    """A duration in its two largest units: `3d4h`, `2h05m`, `12m`, `9s`."""
    seconds = max(0, milliseconds) // 1000
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, seconds = divmod(rest, 60)
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m" if minutes else f"{seconds}s"
