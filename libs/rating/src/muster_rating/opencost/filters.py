"""OpenCost's filter language, version 1.

    namespace:"team-a","team-b" + (label[app]:"web" | controllerName<~:"train")

`+` is and, `|` is or; one scope holds only one of them. Several values are or, and for a negated
comparison and. `label:app:"web"`, as it is often written, means `label[app]:"web"`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import accumulate
from typing import Generic, TypeVar

from lark import Lark, Token, Transformer
from lark.exceptions import LarkError, VisitError

from muster_domain.errors import InvalidValue
from muster_rating.opencost.allocations import UNALLOCATED, Properties, field_of

T = TypeVar("T")
Keep = Callable[[Properties], bool]

_GRAMMAR = r"""
?filter: element | both | either
both: element ("+" element)+
either: element ("|" element)+
?element: comparison | "(" filter ")"
comparison: NAME OPERATOR values                  -> of_field
          | NAME "[" KEY "]" OPERATOR values      -> of_key
          | NAME OPERATOR KEY OPERATOR values     -> misspelt
values: TEXT ("," TEXT)*
OPERATOR: "!<~:" | "!~>:" | "!~:" | "!:" | "<~:" | "~>:" | "~:" | ":"
NAME: /[A-Za-z]+/
KEY: /[A-Za-z0-9_.\/-]+/
TEXT: /"[^"]*"/
%import common.WS
%ignore WS
"""
_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    ":": lambda found, value: found == value,
    "~:": lambda found, value: value in found,
    "<~:": lambda found, value: found.startswith(value),
    "~>:": lambda found, value: found.endswith(value),
}
DEPTH_MAX = 50
"""How deep parentheses may nest."""
ALIASES = ("department", "environment", "owner", "product")
"""What a label of that name says, or else an annotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields(Generic[T]):
    """What a filter can ask of something: texts by name, and maps of texts by key."""

    texts: Mapping[str, Callable[[T], str]]
    maps: Mapping[str, Callable[[T], Mapping[str, str]]] = field(
        default_factory=dict[str, Callable[[T], Mapping[str, str]]]
    )

    @property
    def names(self) -> str:
        """All of them, as people write them."""
        return ", ".join((*self.texts, *(f"{name}[key]" for name in self.maps)))


def read_filter(text: str, fields: Fields[T]) -> Callable[[T], bool]:
    """What a filter lets through; an empty one everything. Raises `InvalidValue`."""
    if not text.strip():
        return lambda _item: True
    if _depth(text) > DEPTH_MAX:
        raise InvalidValue(
            f"the filter nests deeper than {DEPTH_MAX}",
            field="filter",
            fix='write several values of one field as namespace:"a","b"',
        )
    try:
        tree = _parser().parse(text)
        keep: Callable[[T], bool] = _Meaning(fields).transform(tree)
    except VisitError as error:
        if isinstance(error.orig_exc, InvalidValue):
            raise error.orig_exc from error
        raise
    except LarkError as error:
        where = getattr(error, "column", 0)
        raise InvalidValue(
            f"the filter {text!r} cannot be read at column {where}",
            field="filter",
            fix='write namespace:"a" + label[team]:"b"; parenthesise where + and | meet',
        ) from error
    return keep


def _depth(text: str) -> int:
    """How many parentheses are open at once, those in values counted too."""
    steps = ({"(": 1, ")": -1}.get(character, 0) for character in text)
    return max(accumulate(steps))


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(_GRAMMAR, start="filter", parser="lalr")


def sanitised(key: str) -> str:
    """A label's name as Prometheus writes it."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", key)


def value_of(labels: Mapping[str, str], key: str) -> str:
    """The value under a key, or under the first that reads the same once sanitised; else empty."""
    if key in labels:
        return labels[key]
    wanted = sanitised(key)
    return next((labels[name] for name in sorted(labels) if sanitised(name) == wanted), "")


def alias_of(properties: Properties, name: str) -> str:
    """What the label of that name says, or else the annotation."""
    return value_of(properties.labels, name) or value_of(properties.annotations, name)


class _Meaning(Transformer[Token, Callable[[T], bool]], Generic[T]):
    def __init__(self, fields: Fields[T]) -> None:
        super().__init__()
        self._fields = fields
        self._texts = {name.lower(): of for name, of in fields.texts.items()}

    def values(self, items: list[Token]) -> tuple[str, ...]:
        return tuple(str(item)[1:-1] for item in items)

    def both(self, items: list[Callable[[T], bool]]) -> Callable[[T], bool]:
        return lambda found: all(item(found) for item in items)

    def either(self, items: list[Callable[[T], bool]]) -> Callable[[T], bool]:
        return lambda found: any(item(found) for item in items)

    def of_field(self, items: list[Token]) -> Callable[[T], bool]:
        name, operator, values = items
        lowered = str(name).lower()
        keyed = self._fields.maps.get(lowered)
        if keyed is not None:
            keys = tuple(sanitised(value) for value in values)
            return _compare(lambda found: tuple(map(sanitised, keyed(found))), operator, keys)
        text = self._texts.get(lowered)
        if text is None:
            raise InvalidValue(
                f"there is no field {str(name)!r}",
                field="filter",
                fix=f"use {self._fields.names}",
            )
        return _compare(lambda found: (text(found),), operator, values)

    def of_key(self, items: list[Token]) -> Callable[[T], bool]:
        name, key, operator, values = items
        keyed = self._fields.maps.get(str(name).lower())
        if keyed is None:
            raise InvalidValue(
                f"{str(name)!r} has no keys", field="filter", fix=f"use {self._fields.names}"
            )
        return _compare(lambda found: (value_of(keyed(found), str(key)),), operator, values)

    def misspelt(self, items: list[Token]) -> Callable[[T], bool]:
        name, colon, key, operator, values = items
        if str(colon) != ":":
            raise InvalidValue(
                f"{str(colon)!r} stands before a key",
                field="filter",
                fix=f'write {name}[{key}]{colon}"value"',
            )
        return self.of_key([name, key, operator, values])


def _compare(
    of: Callable[[T], tuple[str, ...]], operator: str, values: "tuple[str, ...] | Token"
) -> Callable[[T], bool]:
    test = _TESTS[operator.removeprefix("!")]
    wanted = ["" if value == UNALLOCATED else value for value in values]

    def matches(item: T) -> bool:
        return any(test(found, value) for found in of(item) for value in wanted)

    if operator.startswith("!"):
        return lambda item: not matches(item)
    return matches


ALLOCATION_FIELDS: Fields[Properties] = Fields(
    texts={
        **{
            name: partial(field_of, name=name)
            for name in (
                "cluster", "node", "namespace", "controllerKind", "controllerName", "controller",
                "pod", "queue", "clusterQueue", "localQueue", "workload", "team", "user",
                "priorityClass",
            )
        },
        **{name: partial(alias_of, name=name) for name in ALIASES},
    },
    maps={"label": lambda found: found.labels, "annotation": lambda found: found.annotations},
)  # fmt: skip
ASSET_FIELDS: Fields[Properties] = Fields(
    texts={
        "cluster": lambda found: found.cluster,
        "node": lambda found: found.node,
        "name": lambda found: found.node,
    },
    maps={"label": lambda found: found.labels},
)
"""An asset is a node."""
