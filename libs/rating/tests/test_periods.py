"""Periods in named zones, the days on which clocks change included."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.errors import InvalidValue
from muster_rating.periods import day_text, month_of, period_at, periods_in, utc_text
from muster_rating.windows import Window

HOUR_MS = 3_600_000
SPECS = ["month", "1h", "8h", "12h", "24h", "48h", "1d", "7d", "30d"]
ZONES = ["UTC", "Europe/Madrid", "Asia/Tokyo", "America/New_York", "Asia/Kolkata", "Africa/Cairo"]


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("spec", "zone", "at", "start", "end"),
    [
        ("month", "UTC", "2026-06-15T10:20Z", "2026-06-01T00:00Z", "2026-07-01T00:00Z"),
        ("7d", "UTC", "2026-06-15T10:20Z", "2026-06-15T00:00Z", "2026-06-22T00:00Z"),
        ("24h", "UTC", "2026-06-15T10:20Z", "2026-06-15T00:00Z", "2026-06-16T00:00Z"),
        ("12h", "UTC", "2026-06-15T10:20Z", "2026-06-15T00:00Z", "2026-06-15T12:00Z"),
        ("1d", "Europe/Madrid", "2026-03-28T23:30Z", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ("month", "Europe/Madrid", "2026-03-28T23:30Z", "2026-02-28T23:00Z", "2026-03-31T22:00Z"),
        ("month", "Asia/Tokyo", "2026-07-31T15:00Z", "2026-07-31T15:00Z", "2026-08-31T15:00Z"),
        ("1d", "Asia/Tokyo", "2026-07-31T15:00Z", "2026-07-31T15:00Z", "2026-08-01T15:00Z"),
    ],
)  # fmt: skip
def test_a_period_has_the_days_of_its_zone(
    spec: str, zone: str, at: str, start: str, end: str
) -> None:
    found = period_at(spec, zone, ms(at))
    assert (found.start_ms, found.end_ms) == (ms(start), ms(end))
    assert utc_text(found.start_ms) == start.replace("Z", ":00Z")


@pytest.mark.parametrize(
    ("month", "zone", "hours"),
    [
        ("2026-02", "UTC", 672),
        ("2026-03", "UTC", 744),
        ("2026-03", "Europe/Madrid", 743),
        ("2026-06", "Europe/Madrid", 720),
        ("2026-10", "Europe/Madrid", 745),
    ],
)
def test_a_month_is_as_long_as_its_clocks_make_it(month: str, zone: str, hours: int) -> None:
    found = month_of(month, zone)
    assert found.window.length_ms == hours * HOUR_MS
    assert found.id == f"{month}@{zone}"


@pytest.mark.parametrize("spec", ["", "5h", "36h", "0d", "1w", "month2", "30days", "367d", "1mo"])
def test_what_is_no_period_is_refused(spec: str) -> None:
    with pytest.raises(InvalidValue, match=r"period|hours|year"):
        period_at(spec, "UTC", 0)


@pytest.mark.parametrize("month", ["2026", "2026-13", "2026-6", "1969-12", "June"])
def test_what_is_no_month_is_refused(month: str) -> None:
    with pytest.raises(InvalidValue, match="no month"):
        month_of(month, "UTC")


def test_a_zone_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidValue, match="no time zone"):
        period_at("month", "Europe/Atlantis", 0)


def test_a_day_is_that_of_the_zone() -> None:
    assert day_text(ms("2026-06-30T23:00:00Z"), "Europe/Madrid") == "2026-07-01"


@given(
    spec=st.sampled_from(SPECS),
    zone=st.sampled_from(ZONES),
    at_ms=st.integers(0, ms("2040-01-01T00:00:00Z")),
)
def test_every_moment_is_in_one_period_and_the_next_begins_where_it_ends(
    spec: str, zone: str, at_ms: int
) -> None:
    found = period_at(spec, zone, at_ms)
    assert found.start_ms <= at_ms < found.end_ms
    assert period_at(spec, zone, found.start_ms) == found
    assert period_at(spec, zone, found.end_ms - 1) == found
    following = period_at(spec, zone, found.end_ms)
    assert following.start_ms == found.end_ms
    assert following.id != found.id
    assert list(periods_in(spec, zone, Window(at_ms, found.end_ms + 1))) == [found, following]
