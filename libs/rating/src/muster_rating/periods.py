"""Periods of time as people name them, in the days of a named zone.

A period is computed from a moment, never counted up: the same moment is in the same period for
everybody, whatever ran or stood still in between. Months have 28 to 31 days of 23 to 25 hours.

    month     the calendar month
    7d        the week from Monday
    <n>d      n days, counted from 1970-01-01
    <n>h      n hours from midnight if n divides 24, else n/24 days
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from muster_domain.errors import InvalidValue
from muster_rating.windows import Window

MONTH = "month"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = date(1970, 1, 1)
_FIRST_MONDAY = date(1970, 1, 5)
_DAYS_OF_WEEK = 7
_HOURS_OF_DAY = 24
_DAYS_MAX = 366
_HOUR_MS = 3_600_000
_COUNTED = re.compile(r"([1-9]\d{0,4})([hd])")
_MONTH_ID = re.compile(r"(\d{4})-(\d{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """`[start_ms, end_ms)`. `id` says which one it is, in which zone: `2026-06@Europe/Madrid`."""

    id: str
    start_ms: int
    end_ms: int

    @property
    def window(self) -> Window:
        """Its time."""
        return Window(self.start_ms, self.end_ms)


def check_period(spec: str, zone: str) -> None:
    """Raises `InvalidValue` for a period or a zone that does not exist."""
    period_at(spec, zone, 0)


def period_at(spec: str, zone: str, at_ms: int) -> Period:
    """The period of a moment. Raises `InvalidValue`."""
    there = zone_of(zone)
    today = _local_day(there, at_ms)
    if spec == MONTH:
        return _month(there, zone, today.year, today.month)
    counted = _COUNTED.fullmatch(spec)
    if counted is None:
        raise InvalidValue(
            f"{spec!r} is no period", field="period", fix="write month, 7d, 30d, 24h or 8h"
        )
    count = int(counted[1])
    if counted[2] == "h" and count % _HOURS_OF_DAY:
        return _hours(there, zone, today, count, at_ms)
    days = count // _HOURS_OF_DAY if counted[2] == "h" else count
    if days > _DAYS_MAX:
        raise InvalidValue(f"{spec!r} is longer than a year", field="period", fix="write month")
    return _days(there, zone, today, days)


def periods_in(spec: str, zone: str, window: Window) -> Iterator[Period]:
    """The periods that a window touches, in order. Raises `InvalidValue`."""
    at_ms = window.start_ms
    while at_ms < window.end_ms:
        period = period_at(spec, zone, at_ms)
        yield period
        at_ms = period.end_ms


def month_of(month: str, zone: str) -> Period:
    """A calendar month by its name, `2026-06`. Raises `InvalidValue`."""
    found = _MONTH_ID.fullmatch(month)
    if found is None or not 1 <= int(found[2]) <= 12 or int(found[1]) < 1970:  # noqa: PLR2004 - months and the epoch
        raise InvalidValue(f"{month!r} is no month", field="period", fix="write 2026-06")
    return _month(zone_of(zone), zone, int(found[1]), int(found[2]))


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its name. Raises `InvalidValue`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidValue(
            f"{name!r} is no time zone", field="timeZone", fix="write one such as Europe/Madrid"
        ) from error


def day_text(at_ms: int, zone: str) -> str:
    """The day of a moment as `2026-06-30`. Raises `InvalidValue`."""
    return _local_day(zone_of(zone), at_ms).isoformat()


def utc_text(at_ms: int) -> str:
    """A moment as `2026-06-30T22:00:00Z`, parts of a second cut off."""
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _local_day(there: ZoneInfo, at_ms: int) -> date:
    return (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(there).date()


def _midnight_ms(there: ZoneInfo, day: date) -> int:
    """The first moment of a day. Where clocks skip midnight, that is the moment they skip it at."""
    return (datetime.combine(day, time(), there) - _EPOCH) // timedelta(milliseconds=1)


def _month(there: ZoneInfo, zone: str, year: int, month: int) -> Period:
    first = date(year, month, 1)
    following = date(year + month // 12, month % 12 + 1, 1)
    return Period(
        id=f"{year:04d}-{month:02d}@{zone}",
        start_ms=_midnight_ms(there, first),
        end_ms=_midnight_ms(there, following),
    )


def _days(there: ZoneInfo, zone: str, today: date, count: int) -> Period:
    origin = _FIRST_MONDAY if count == _DAYS_OF_WEEK else _FIRST_DAY
    first = today - timedelta(days=(today - origin).days % count)
    return Period(
        id=f"{first.isoformat()}+{count}d@{zone}",
        start_ms=_midnight_ms(there, first),
        end_ms=_midnight_ms(there, first + timedelta(days=count)),
    )


def _hours(there: ZoneInfo, zone: str, today: date, count: int, at_ms: int) -> Period:
    if _HOURS_OF_DAY % count:
        raise InvalidValue(
            f"{count} hours neither divide a day nor are whole days",
            field="period",
            fix="write 1h, 2h, 3h, 4h, 6h, 8h, 12h, 24h or 48h",
        )
    start_ms = _midnight_ms(there, today)
    end_ms = _midnight_ms(there, today + timedelta(days=1))
    number = min((at_ms - start_ms) // (count * _HOUR_MS), _HOURS_OF_DAY // count - 1)
    from_ms = start_ms + number * count * _HOUR_MS
    is_last = number == _HOURS_OF_DAY // count - 1
    return Period(
        id=f"{today.isoformat()}.{number}+{count}h@{zone}",
        start_ms=from_ms,
        end_ms=end_ms if is_last else min(end_ms, from_ms + count * _HOUR_MS),
    )
