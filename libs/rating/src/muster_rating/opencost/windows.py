"""Windows and steps as OpenCost writes them."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from muster_domain.errors import InvalidValue
from muster_rating.periods import MONTH, period_at
from muster_rating.windows import Window

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SETS_MAX = 2000
"""How many sets a window may be cut into."""
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_UNITS = {"hour": "1h", "day": "1d", "week": "7d", "month": MONTH}
_ALIGNED_TO = {"m": "m", "h": "h", "d": "d", "w": "d"}
_LAST = re.compile(r"([0-9]{1,5})([mhdw])(?: offset ([0-9]{1,5})([mhdw]))?")
_UNIX = re.compile(r"([0-9]{9,11})[,-]([0-9]{9,11})")
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_STEP = re.compile(r"(?:[0-9]{1,6}[smhdw])+")
_PART = re.compile(r"([0-9]+)([smhdw])")
_FORMS = (
    "write today, yesterday, week, lastweek, month, lastmonth, 7d, '7d offset 1d', "
    "two RFC 3339 times or two unix times with a comma between"
)


def read_window(text: str, now_ms: int, zone: str = "UTC") -> Window:
    """The window that a text means, its words and days being those of a named zone.

    A duration ends at the next whole unit in UTC, as OpenCost has it: `7d` is today and six days
    before. A week begins on Monday. Raises `InvalidValue`.
    """
    word = _WORDS.get(text)
    found = word(_local(now_ms, zone)) if word else None
    if word is None:
        _local(now_ms, zone)
        found = _last(text, now_ms) or _between(text)
    if found is None:
        raise InvalidValue(f"{text!r} is no window", field="window", fix=_FORMS)
    if found.end_ms <= found.start_ms:
        raise InvalidValue(f"the window {text!r} is empty", field="window", fix=_FORMS)
    if found.start_ms < 0:
        raise InvalidValue(f"{text!r} begins before 1970", field="window", fix="begin later")
    return found


def read_step(text: str, window: Window) -> list[Window]:
    """The window cut forward into steps, the last one clipped; whole for an empty text.

    Raises `InvalidValue`.
    """
    if not text:
        return [window]
    if not _STEP.fullmatch(text):
        raise InvalidValue(f"{text!r} is no step", field="step", fix="write 1h, 1d or 1h30m")
    step_ms = sum(int(count) * _UNITS_MS[unit] for count, unit in _PART.findall(text))
    if step_ms == 0 or window.length_ms > step_ms * SETS_MAX:
        raise InvalidValue(
            f"the step {text!r} cuts the window into more than {SETS_MAX} parts",
            field="step",
            fix="make it longer",
        )
    starts = range(window.start_ms, window.end_ms, step_ms)
    return [Window(start, min(start + step_ms, window.end_ms)) for start in starts]


def read_accumulate_by(text: str, steps: Sequence[Window], zone: str) -> list[Sequence[Window]]:
    """Steps that follow one another and lie in the same hour, day, week or month of a zone.

    Each alone for an empty text, together for `all`. A week begins on Monday. Raises
    `InvalidValue`, also for a step that lies in two.
    """
    if not text:
        return [[step] for step in steps]
    if text == "all":
        return [steps]
    spec = _UNITS.get(text)
    if spec is None:
        raise InvalidValue(
            f"{text!r} is nothing to accumulate by",
            field="accumulateBy",
            fix=f"write {', '.join(_UNITS)} or all",
        )
    units = [(period_at(spec, zone, step.start_ms), step) for step in steps]
    if any(step.end_ms > unit.end_ms for unit, step in units):
        raise InvalidValue(
            f"a step lies in more than one {text}", field="accumulateBy", fix="write step=1h or 1d"
        )
    return [
        [step for _, step in together] for _, together in groupby(units, key=lambda of: of[0].id)
    ]


def check_resolution(text: str) -> None:
    """Accept a resolution, which changes nothing: events say when things were. `InvalidValue`."""
    if text and not _STEP.fullmatch(text):
        raise InvalidValue(f"{text!r} is no resolution", field="resolution", fix="write 1m or 5m")


def _local(now_ms: int, zone: str) -> datetime:
    try:
        there = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidValue(
            f"{zone!r} is no time zone", field="tz", fix="write one such as Europe/Madrid"
        ) from error
    return (_EPOCH + timedelta(milliseconds=now_ms)).astimezone(there)


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _midnight(moment: datetime, days: int = 0) -> datetime:
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    return day + timedelta(days=days)


def _first(moment: datetime) -> datetime:
    return _midnight(moment).replace(day=1)


def _monday(moment: datetime) -> datetime:
    return _midnight(moment, -moment.weekday())


def _span(start: datetime, end: datetime) -> Window:
    return Window(_ms(start), _ms(end))


_WORDS: Mapping[str, Callable[[datetime], Window]] = {
    "today": lambda now: _span(_midnight(now), _midnight(now, 1)),
    "yesterday": lambda now: _span(_midnight(now, -1), _midnight(now)),
    "week": lambda now: _span(_monday(now), now),
    "lastweek": lambda now: _span(_midnight(_monday(now), -7), _monday(now)),
    "month": lambda now: _span(_first(now), now),
    "lastmonth": lambda now: _span(_first(_midnight(_first(now), -1)), _first(now)),
}


def _last(text: str, now_ms: int) -> Window | None:
    found = _LAST.fullmatch(text)
    if found is None:
        return None
    length_ms = int(found[1]) * _UNITS_MS[found[2]]
    if found[3]:
        end_ms = now_ms - int(found[3]) * _UNITS_MS[found[4]]
    else:
        unit_ms = _UNITS_MS[_ALIGNED_TO[found[2]]]
        end_ms = now_ms // unit_ms * unit_ms + unit_ms
    return Window(end_ms - length_ms, end_ms)


def _between(text: str) -> Window | None:
    unix = _UNIX.fullmatch(text)
    if unix is not None:
        return Window(int(unix[1]) * 1000, int(unix[2]) * 1000)
    start, _, end = text.partition(",")
    if not (_RFC3339.fullmatch(start) and _RFC3339.fullmatch(end)):
        return None
    try:
        return _span(*map(datetime.fromisoformat, (start.upper(), end.upper())))
    except (ValueError, OverflowError):
        return None
