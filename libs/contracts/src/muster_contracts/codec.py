"""Bytes to frozen values and back, for every message there is."""

import re
from dataclasses import dataclass, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

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


_OBJECT = TypeAdapter(dict[str, Any])
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


@dataclass(frozen=True, slots=True)
class _Form:
    """How messages of one kind are written: what is kept of them, before what is not."""

    adapter: TypeAdapter[Any]
    kept: tuple[tuple[str, bytes], ...]
    """Fields that hold a workload or its state and nothing else, and how they begin."""
    names: set[str]

    def text(self, value: object) -> bytes:
        """JSON of a message of this kind."""
        if type(value) in _KEPT_TYPES:
            return _kept.text(value)
        if not self.kept:
            return self.adapter.dump_json(value)
        rest = self.adapter.dump_json(value, exclude=self.names)
        parts = [begin + _kept.text(getattr(value, name)) for name, begin in self.kept]
        if len(rest) > len(b"{}"):
            parts.append(rest[1:-1])
        return b"{" + b",".join(parts) + b"}"


@cache
def _form(kind: type[Any]) -> _Form:
    adapter: TypeAdapter[Any] = _adapter(kind)
    hints = get_type_hints(kind) if is_dataclass(kind) else {}
    kept = [
        name
        for name, hint in hints.items()
        if _KEPT_TYPES.issuperset(get_args(hint) if isinstance(hint, UnionType) else (hint,))
    ]
    begins = tuple((name, b'"%b":' % name.encode()) for name in kept)
    return _Form(adapter, begins, set(kept))


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)


def encode(value: object) -> bytes:
    """JSON of any message or domain value."""
    return _form(type(value)).text(value)


def decode(kind: type[T], body: bytes, *, bytes_max: int = BODY_BYTES_MAX) -> T:
    """Read one value. Raises `InvalidValue` naming the first field that is wrong."""
    if len(body) > bytes_max:
        raise InvalidValue(
            f"the message has {len(body)} bytes", fix=f"send at most {bytes_max} bytes"
        )
    try:
        return _adapter(kind).validate_json(body)
    except ValidationError as error:
        raise _first_wrong(error) from error


def decode_event(name: str, body: bytes) -> events.Event:
    """Read an event by the name in its subject. Raises `InvalidValue`."""
    kind = EVENT_TYPES.get(name)
    if kind is None:
        raise InvalidValue(f"there is no event {name!r}", field="subject")
    return decode(kind, body)


def decode_object(kind: type[T], value: object) -> T:
    """Read one value from parsed JSON. Raises `InvalidValue` like `decode`."""
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise _first_wrong(error) from error


def parse_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object that a body is, or None where it is anything else."""
    if not body.lstrip().startswith(b"{"):
        return None
    try:
        return _OBJECT.validate_json(body)
    except ValidationError:
        return None


def _first_wrong(error: ValidationError) -> InvalidValue:
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return InvalidValue(first["msg"], field=where or "body")
