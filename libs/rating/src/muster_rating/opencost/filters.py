"""OpenCost's filter language, version 1.

    namespace:"team-a","team-b" + (label[app]:"web" | controllerName<~:"train")

`+` is and, `|` is or; one scope holds only one of them. Several values are or, and for a negated
comparison and. `label:app:"web"`, as it is often written, means `label[app]:"web"`.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from lark import Lark, Token, Transformer
from lark.exceptions import LarkError, VisitError

from muster_domain.errors import InvalidValue
from muster_rating.opencost.allocations import UNALLOCATED, Properties, field_of, labels_of

Keep = Callable[[Properties], bool]

_GRAMMAR = r"""
?filter: element | both | either
both: element ("+" element)+
either: element ("|" element)+
?element: comparison | "(" filter ")"
comparison: NAME OPERATOR values                  -> of_field
          | NAME "[" KEY "]" OPERATOR values      -> of_key
          | NAME ":" KEY OPERATOR values          -> of_key
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
FIELDS = (
    "cluster", "node", "namespace", "controllerKind", "controllerName", "controller", "pod",
    "queue", "clusterQueue", "localQueue", "workload", "team", "user", "priorityClass",
)  # fmt: skip
MAPS = ("label", "annotation")


def read_filter(text: str) -> Keep:
    """What a filter lets through; an empty one everything. Raises `InvalidValue`."""
    if not text.strip():
        return lambda _properties: True
    try:
        tree = _parser().parse(text)
        keep: Keep = _Meaning().transform(tree)
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


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(_GRAMMAR, start="filter", parser="earley")


def sanitised(key: str) -> str:
    """A label's name as Prometheus writes it."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", key)


class _Meaning(Transformer[Token, Keep]):
    def values(self, items: list[Token]) -> tuple[str, ...]:
        return tuple(str(item)[1:-1] for item in items)

    def both(self, items: list[Keep]) -> Keep:
        return lambda properties: all(item(properties) for item in items)

    def either(self, items: list[Keep]) -> Keep:
        return lambda properties: any(item(properties) for item in items)

    def of_field(self, items: list[Token]) -> Keep:
        name, operator, values = items
        if str(name) in MAPS:
            return _compare(lambda found: tuple(labels_of(found, str(name))), operator, values)
        known = {field.lower(): field for field in FIELDS}.get(str(name).lower())
        if known is None:
            raise InvalidValue(
                f"there is no field {str(name)!r}",
                field="filter",
                fix=f"use {', '.join((*FIELDS, 'label[key]', 'annotation[key]'))}",
            )
        return _compare(lambda found: (field_of(found, known),), operator, values)

    def of_key(self, items: list[Token]) -> Keep:
        name, key, operator, values = items
        if str(name) not in MAPS:
            raise InvalidValue(f"{str(name)!r} has no keys", field="filter", fix="use label[key]")
        wanted = sanitised(str(key))

        def value(found: Properties) -> tuple[str, ...]:
            named = {sanitised(k): v for k, v in labels_of(found, str(name)).items()}
            return (named.get(wanted, ""),)

        return _compare(value, operator, values)


def _compare(
    of: Callable[[Properties], tuple[str, ...]], operator: str, values: "tuple[str, ...] | Token"
) -> Keep:
    test = _TESTS[operator.removeprefix("!")]
    wanted = ["" if value == UNALLOCATED else value for value in values]

    def matches(properties: Properties) -> bool:
        return any(test(found, value) for found in of(properties) for value in wanted)

    if operator.startswith("!"):
        return lambda properties: not matches(properties)
    return matches
