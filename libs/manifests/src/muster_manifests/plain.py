"""Plain values: what JSON can say, without floats.

A number with a fraction or an exponent is kept as its written text, so no quantity ever passes
through a float. Kubernetes has no field that tells `0.5` from `"0.5"`.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias, cast

from muster_manifests.problems import ManifestError, Mark, Problem, field_path

Plain: TypeAlias = "bool | int | str | list[Plain] | dict[str, Plain] | None"

DEPTH_MAX = 64
"""Levels of nesting in one document."""

NODES_MAX = 200_000
"""Values in one document, counting what aliases repeat."""

_LEAVES = (str, int, bool, type(None))


class _NotPlainError(Exception):
    """What JSON cannot say; every level that it leaves adds its step to the place."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.fix = fix
        self.steps: list[str | int] = []


class PlainBuilder:
    """Copies a parsed object to plain values, within the limits on depth and size."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._nodes = 1

    def build(self, value: object) -> Plain:
        """Return the plain form of `value`. Raises `ManifestError` for what JSON cannot say."""
        try:
            return self._build(value, 0)
        except _NotPlainError as error:
            place = field_path(tuple(reversed(error.steps)))
            found = Problem(
                source=self._source, mark=Mark(), field=place, problem=error.problem, fix=error.fix
            )
            raise ManifestError((found,)) from error

    def _build(self, value: object, depth: int) -> Plain:
        if isinstance(value, dict):
            return self._mapping(cast("Mapping[object, object]", value), depth + 1)
        if isinstance(value, list):
            return self._list(cast("Sequence[object]", value), depth + 1)
        if isinstance(value, _LEAVES):
            return value
        if isinstance(value, float | Decimal):
            return str(value)
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[object, object]", value), depth + 1)
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
            return self._list(cast("Sequence[object]", value), depth + 1)
        raise _NotPlainError(f"a {type(value).__name__} is not a JSON value")

    def _mapping(self, value: Mapping[object, object], depth: int) -> dict[str, Plain]:
        self._count(len(value), depth)
        result: dict[str, Plain] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise _NotPlainError(f"the key {key!r} is not text", f'write "{key}"')
            if isinstance(item, _LEAVES):
                result[key] = item
                continue
            try:
                result[key] = self._build(item, depth)
            except _NotPlainError as error:
                error.steps.append(key)
                raise
        return result

    def _list(self, value: Sequence[object], depth: int) -> list[Plain]:
        self._count(len(value), depth)
        result: list[Plain] = []
        for index, item in enumerate(value):
            try:
                result.append(self._build(item, depth))
            except _NotPlainError as error:
                error.steps.append(index)
                raise
        return result

    def _count(self, values: int, depth: int) -> None:
        self._nodes += values
        if self._nodes > NODES_MAX or (values and depth > DEPTH_MAX):
            raise _NotPlainError("the object is too deep or too large", "split it")
