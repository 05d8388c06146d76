"""Bytes to frozen values and back, for every message there is."""

import json
import re
from functools import cache
from typing import TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from muster_contracts import events
from muster_domain.errors import InvalidValue

T = TypeVar("T")

BODY_BYTES_MAX = 512 * 1024
"""A larger message is refused at the door."""

ANSWER_BYTES_MAX = 1024 * 1024
"""What the bus carries in one message; pages of answers stay below it."""

_WORD = re.compile(r"(?<!^)(?=[A-Z])")
EVENT_TYPES: dict[str, type[events.Event]] = {
    _WORD.sub("_", kind.__name__).lower(): kind for kind in get_args(events.Event)
}
"""Event name in subjects (`quota_reserved`) to its type."""

EVENT_NAMES = {kind: name for name, kind in EVENT_TYPES.items()}


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)


def encode(value: object) -> bytes:
    """JSON of any message or domain value."""
    return _adapter(type(value)).dump_json(value, exclude_defaults=False)


def decode(kind: type[T], body: bytes, *, bytes_max: int = BODY_BYTES_MAX) -> T:
    """Read one value. Raises `InvalidValue` naming the first field that is wrong."""
    if len(body) > bytes_max:
        raise InvalidValue(
            f"the message has {len(body)} bytes", fix=f"send at most {bytes_max} bytes"
        )
    try:
        return _adapter(kind).validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidValue(first["msg"], field=where or "body") from error


def decode_event(name: str, body: bytes) -> events.Event:
    """Read an event by the name in its subject. Raises `InvalidValue`."""
    kind = EVENT_TYPES.get(name)
    if kind is None:
        raise InvalidValue(f"there is no event {name!r}", field="subject")
    return decode(kind, body)


def decode_object(kind: type[T], value: object) -> T:
    """Read one value from parsed JSON. Raises `InvalidValue` like `decode`."""
    return decode(kind, json.dumps(value).encode())
