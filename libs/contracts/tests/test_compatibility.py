from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import pytest
from pydantic import TypeAdapter

from muster_contracts.compatibility import breaks
from muster_contracts.generate import broken


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class LessColour(StrEnum):
    RED = "red"


class MoreColour(StrEnum):
    RED = "red"
    BLUE = "blue"
    GREEN = "green"


@dataclass
class Walk:
    metres: int
    kind: Literal["walk"] = "walk"


@dataclass
class Ride:
    line: str
    kind: Literal["ride"] = "ride"


@dataclass
class ShortWalk:
    kind: Literal["walk"] = "walk"


@dataclass
class Tree:
    name: str
    below: "tuple[Tree, ...]" = ()


@dataclass
class OtherTree:
    below: "tuple[OtherTree, ...]" = ()


def fields(**kinds: object) -> dict[str, Any]:
    """The schema of a message with fields of these types; a pair is a type and its default."""
    namespace: dict[str, Any] = {"__annotations__": {}}
    for name, kind in kinds.items():
        taken, *default = kind if isinstance(kind, tuple) else (kind,)
        namespace["__annotations__"][name] = taken
        if default:
            namespace[name] = field(default=default[0])
    made = dataclass(kw_only=True)(type("Message", (), namespace))
    return TypeAdapter(made).json_schema()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(fields(a=int), fields(a=int), id="nothing"),
        pytest.param(fields(a=int), fields(a=int, b=(int, 0)), id="a field with a default"),
        pytest.param(fields(a=int), fields(a=(int, 3)), id="a default"),
        pytest.param(fields(a=Walk), fields(a=Walk | Ride), id="a form"),
        pytest.param(fields(a=Colour), fields(a=MoreColour), id="a word"),
        pytest.param(fields(a=int | None), fields(a=int | str | None), id="a type in a union"),
        pytest.param(fields(a=Tree), fields(a=Tree), id="a tree"),
    ],
)
def test_what_may_be_added(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert breaks(old, new) == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(fields(a=int, b=int), fields(a=int), "$.b: is gone", id="a field"),
        pytest.param(fields(a=int), fields(a=str), "$.a: was integer, is string", id="a type"),
        pytest.param(fields(a=int), fields(a=int, b=int), "$.b: has no default", id="required"),
        pytest.param(fields(a=(int, 1)), fields(a=int), "$.a: has no default", id="a default"),
        pytest.param(fields(a=Colour), fields(a=LessColour), "$.a: 'blue' is gone", id="a word"),
        pytest.param(
            fields(a=str), fields(a=Colour), "$.a: takes only some words now", id="any word"
        ),
        pytest.param(fields(a=Walk | Ride), fields(a=Walk), "$.a: kind=ride is gone", id="a form"),
        pytest.param(fields(a=int | None), fields(a=int), "$.a: null is gone", id="nothing"),
        pytest.param(
            fields(a=Walk), fields(a=ShortWalk), "$.a.metres: is gone", id="a field below"
        ),
        pytest.param(
            fields(a=tuple[Walk, ...]),
            fields(a=tuple[ShortWalk, ...]),
            "$.a[].metres: is gone",
            id="a field in a list",
        ),
        pytest.param(
            fields(a=dict[str, int]),
            fields(a=dict[str, str]),
            "$.a[]: was integer, is string",
            id="values of a map",
        ),
        pytest.param(
            fields(a=tuple[int, str]),
            fields(a=tuple[int, str, str]),
            "$.a: had 2 parts, has 3",
            id="parts",
        ),
        pytest.param(fields(a=Tree), fields(a=OtherTree), "$.a.name: is gone", id="in a tree"),
    ],
)
def test_what_breaks_somebody(old: dict[str, Any], new: dict[str, Any], said: str) -> None:
    assert breaks(old, new) == (said,)


def test_the_messages_keep_what_was_released() -> None:
    assert broken() == []
