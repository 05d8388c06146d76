"""Arguments of plugins and actions: how they are written, and what counts as not written."""

import pytest

from muster_domain.volcano_scheduler import Argument
from muster_scheduling.volcano.arguments import Arguments, duration_ms


@pytest.mark.parametrize(
    ("value", "integer", "milli"),
    [
        (15, 15, 15_000),
        ("15", 15, 15_000),
        ("1.5", 1, 1_500),
        (-1, -1, -1_000),
        ("", 7, 7_000),
        ("many", 7, 7_000),
        (True, 7, 7_000),
        (None, 7, 7_000),
    ],
)
def test_numbers(value: "Argument | None", integer: int, milli: int) -> None:
    given = Arguments({} if value is None else {"key": value})
    assert given.integer("key", 7) == integer
    assert given.milli("key", 7_000) == milli
    assert given.integer("other", 7) == 7


@pytest.mark.parametrize(("value", "expected"), [(-1, 7), (0, 0), (3, 3), ("-0.5", 7)])
def test_less_than_the_least_counts_as_not_written(value: Argument, expected: int) -> None:
    given = Arguments({"key": value})
    assert given.integer("key", 7, at_least=0) == expected
    assert given.milli("key", 7_000, at_least=0) == expected * 1000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (False, False),
        ("true", True),
        ("False", False),
        ("1", True),
        ("0", False),
        ("not-a-flag", None),
        (None, None),
    ],
)
def test_flags(value: "Argument | None", *, expected: bool | None) -> None:
    given = Arguments({} if value is None else {"key": value})
    for default in (True, False):
        assert given.flag("key", default=default) is (default if expected is None else expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a, b", ("a", "b")),
        ("a,,b,", ("a", "b")),
        (("a", "b"), ("a", "b")),
        ("", ()),
        (None, ()),
    ],
)
def test_names(value: "Argument | None", expected: tuple[str, ...]) -> None:
    assert Arguments({} if value is None else {"key": value}).names("key") == expected


def test_texts_and_mappings() -> None:
    given = Arguments({"text": "a", "number": 3, "mapping": {"b": 1}})
    assert (given.text("text"), given.text("number"), given.text("none", "c")) == ("a", "3", "c")
    assert (given.mapping("mapping"), given.mapping("text"), given.mapping("none")) == (
        {"b": 1},
        {},
        {},
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1h30m", 5_400_000),
        ("600s", 600_000),
        ("1.5s", 1_500),
        ("250ms", 250),
        ("600abcde", None),
        ("10", None),
        ("-5s", None),
        ("", None),
    ],
)
def test_durations(written: str, expected: int | None) -> None:
    assert duration_ms(written) == expected
