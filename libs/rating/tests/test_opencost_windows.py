"""Windows and steps by OpenCost's words."""

from datetime import datetime

import pytest

from muster_domain.errors import InvalidValue
from muster_rating.opencost.windows import (
    check_resolution,
    read_accumulate_by,
    read_step,
    read_window,
)
from muster_rating.prices import HOUR_MS
from muster_rating.windows import Window


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


NOW = at("2026-06-15T10:20:30Z")
"""A Monday."""


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("today", "2026-06-15T00:00:00Z", "2026-06-16T00:00:00Z"),
        ("yesterday", "2026-06-14T00:00:00Z", "2026-06-15T00:00:00Z"),
        ("week", "2026-06-15T00:00:00Z", "2026-06-15T10:20:30Z"),
        ("lastweek", "2026-06-08T00:00:00Z", "2026-06-15T00:00:00Z"),
        ("month", "2026-06-01T00:00:00Z", "2026-06-15T10:20:30Z"),
        ("lastmonth", "2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z"),
        ("7d", "2026-06-09T00:00:00Z", "2026-06-16T00:00:00Z"),
        ("1w", "2026-06-09T00:00:00Z", "2026-06-16T00:00:00Z"),
        ("2h", "2026-06-15T09:00:00Z", "2026-06-15T11:00:00Z"),
        ("90m", "2026-06-15T08:51:00Z", "2026-06-15T10:21:00Z"),
        ("7d offset 1d", "2026-06-07T10:20:30Z", "2026-06-14T10:20:30Z"),
        ("7d offset 1w", "2026-06-01T10:20:30Z", "2026-06-08T10:20:30Z"),
        ("1767225600,1767312000", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("1767225600-1767312000", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        (
            "2026-01-01 00:00:00z,2026-01-01T00:00:00.5Z",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00.500Z",
        ),
        ("30m offset 2h", "2026-06-15T07:50:30Z", "2026-06-15T08:20:30Z"),
        (
            "2026-01-01T00:00:00Z,2026-01-01T12:30:00+01:00",
            "2026-01-01T00:00:00Z",
            "2026-01-01T11:30:00Z",
        ),
    ],
)
def test_a_window_is_what_the_text_means(text: str, start: str, end: str) -> None:
    assert read_window(text, NOW) == Window(at(start), at(end))


@pytest.mark.parametrize(
    ("zone", "now", "hours"),
    [
        ("UTC", "2026-04-02T00:00:00Z", 744),
        ("Europe/Madrid", "2026-04-02T00:00:00Z", 743),
        ("Europe/Madrid", "2026-11-02T00:00:00Z", 745),
        ("Europe/Madrid", "2026-07-01T00:00:00Z", 720),
        ("Asia/Tokyo", "2026-03-01T00:00:00Z", 672),
    ],
)
def test_a_month_is_that_of_its_zone(zone: str, now: str, hours: int) -> None:
    assert read_window("lastmonth", at(now), zone).length_ms == hours * HOUR_MS


def test_a_day_on_which_clocks_change_has_its_own_length() -> None:
    day = read_window("today", at("2026-03-29T10:00:00Z"), "Europe/Madrid")

    assert day == Window(at("2026-03-28T23:00:00Z"), at("2026-03-29T22:00:00Z"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "0d",
        "7days",
        "-7d",
        "7d offset",
        "1767312000,1767225600",
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00,2026-01-02T00:00:00",
        "2026-01-02T00:00:00Z,2026-01-01T00:00:00Z",
        "7d,8d",
        "Today",
        " 7d",
        "7d  offset 1d",
        "\u0667d",
        "99999w",
        "2026-W01-4T00:00:00Z,2026-01-02T00:00:00Z",
        "20260101T000000Z,20260102T000000Z",
        "2026-01-01T00Z,2026-01-02T00Z",
        "2026-01-01T00:00:00Z,2026-13-02T00:00:00Z",
        "2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,2026-01-03T00:00:00Z",
        "x2026-01-01T00:00:00Z,2026-01-02T00:00:00Z",
        "0001-01-01T00:00:00+14:00,2026-01-02T00:00:00Z",
    ],
)
def test_no_other_text_is_a_window(text: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_window(text, NOW)

    assert refused.value.field == "window"


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "../../etc/passwd", "", "/etc"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_window("7d", NOW, zone)

    assert refused.value.field == "tz"


def test_steps_go_forward_and_the_last_is_clipped() -> None:
    window = Window(0, 5 * HOUR_MS)

    assert read_step("", window) == [window]
    assert read_step("2h", window) == [
        Window(0, 2 * HOUR_MS),
        Window(2 * HOUR_MS, 4 * HOUR_MS),
        Window(4 * HOUR_MS, 5 * HOUR_MS),
    ]
    assert read_step("1h30m", window)[0] == Window(0, HOUR_MS * 3 // 2)


@pytest.mark.parametrize("text", ["0h", "day", "1", "1s", "1h "])
def test_no_other_text_is_a_step(text: str) -> None:
    with pytest.raises(InvalidValue):
        read_step(text, Window(0, 5 * HOUR_MS))


def test_a_resolution_is_read_and_changes_nothing() -> None:
    check_resolution("")
    check_resolution("5m")
    with pytest.raises(InvalidValue):
        check_resolution("fine")


def test_steps_are_put_together_by_the_weeks_and_months_of_a_zone() -> None:
    asked = read_window("2026-06-26T22:00:00Z,2026-07-03T22:00:00Z", 0)
    days = read_step("1d", asked)
    by_month = read_accumulate_by("month", days, "Europe/Madrid")
    by_week = read_accumulate_by("week", days, "Europe/Madrid")
    assert [len(of_month) for of_month in by_month] == [4, 3]
    assert by_month[1][0].start_ms == at("2026-06-30T22:00:00Z")
    assert [len(of_week) for of_week in by_week] == [2, 5]
    assert read_accumulate_by("day", days, "Europe/Madrid") == [[day] for day in days]
    assert read_accumulate_by("", days, "UTC") == [[day] for day in days]
    assert read_accumulate_by("all", days, "UTC") == [days]
    hours = read_step("1h", asked)
    assert [len(day) for day in read_accumulate_by("day", hours, "UTC")] == [2, *[24] * 6, 22]


@pytest.mark.parametrize("text", ["day", "hour", "quarter", "Month"])
def test_no_step_is_counted_in_two_units(text: str) -> None:
    days = read_step("1d", read_window("2026-06-26T22:00:00Z,2026-06-28T22:00:00Z", 0))
    with pytest.raises(InvalidValue) as caught:
        read_accumulate_by(text, days, "UTC")
    assert caught.value.field == "accumulateBy"
