"""Bytes to frozen values and back, for every message there is."""

import json
import re
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from muster_contracts import events
from muster_domain.errors import InvalidValue
from muster_domain.states import WorkloadState
from muster_domain.workload import Workload

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


_KEPT_TYPES = frozenset({Workload, *get_args(WorkloadState)})
_KEPT_BYTES_MAX = 4 * 1024 * 1024
_KEPT_COUNT_MAX = 4096


class _Kept:
    """The JSON of values that an owner stores and says in the same commit, so written once.

    They never change, so who they are says what they are. Bounded: when it is full, all is dropped.
    """

    def __init__(self) -> None:
        self._texts: dict[int, tuple[object, bytes]] = {}
        self._bytes = 0

    def text(self, value: object) -> bytes:
        """JSON of one value; the value itself is kept with it, so nobody else gets its identity."""
        found = self._texts.get(id(value))
        if found is not None:
            return found[1]
        written = _adapter(type(value)).dump_json(value)
        if self._bytes > _KEPT_BYTES_MAX or len(self._texts) >= _KEPT_COUNT_MAX:
            self._texts.clear()
            self._bytes = 0
        self._texts[id(value)] = (value, written)
        self._bytes += len(written)
        return written


_kept = _Kept()


@cache
def _kept_fields(kind: type) -> tuple[str, ...]:
    """The fields of a message that hold a workload or its state, and nothing else."""
    if not is_dataclass(kind):
        return ()
    return tuple(
        name
        for name, hint in get_type_hints(kind).items()
        if _KEPT_TYPES.issuperset(get_args(hint) if isinstance(hint, UnionType) else (hint,))
    )


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)


def encode(value: object) -> bytes:
    """JSON of any message or domain value."""
    kept = _kept_fields(type(value))
    if not kept:
        return _adapter(type(value)).dump_json(value)
    parts = [b'"%b":%b' % (name.encode(), _kept.text(getattr(value, name))) for name in kept]
    rest = _adapter(type(value)).dump_json(value, exclude=set(kept))
    return b"{%b}" % b",".join((*parts, rest[1:-1]) if len(rest) > len(b"{}") else parts)


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
