"""Plain values: what JSON can say, without floats.

A number with a fraction or an exponent is kept as its written text, so no quantity ever passes
through a float. Kubernetes has no field that tells `0.5` from `"0.5"`.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias, cast

from muster_manifests.problems import ManifestError, Mark, Path, Problem, field_path

Plain: TypeAlias = "bool | int | str | list[Plain] | dict[str, Plain] | None"

DEPTH_MAX = 64
"""Levels of nesting in one document."""

NODES_MAX = 200_000
"""Values in one document, counting what aliases repeat."""

_LEAVES = (str, int, bool, type(None))


class PlainBuilder:
    """Copies a parsed object to plain values, within the limits on depth and size."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._nodes = 0

    def build(self, value: object, path: Path = ()) -> Plain:
        """Return the plain form of `value`. Raises `ManifestError` for what JSON cannot say."""
        self._nodes += 1
        if len(path) > DEPTH_MAX or self._nodes > NODES_MAX:
            raise self._error(path, "the object is too deep or too large", "split it")
        if isinstance(value, _LEAVES):
            return value
        if isinstance(value, float | Decimal):
            return str(value)
        if isinstance(value, (dict, Mapping)):
            return self._mapping(cast("Mapping[object, object]", value), path)
        if isinstance(value, (list, Sequence)) and not isinstance(value, bytes | bytearray):
            items = cast("Sequence[object]", value)
            return [self.build(item, (*path, index)) for index, item in enumerate(items)]
        raise self._error(path, f"a {type(value).__name__} is not a JSON value")

    def _mapping(self, value: Mapping[object, object], path: Path) -> dict[str, Plain]:
        result: dict[str, Plain] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise self._error(path, f"the key {key!r} is not text", f'write "{key}"')
            if isinstance(item, _LEAVES) and len(path) < DEPTH_MAX:
                self._nodes += 1
                result[key] = item
            else:
                result[key] = self.build(item, (*path, key))
        if self._nodes > NODES_MAX:
            raise self._error(path, "the object is too deep or too large", "split it")
        return result

    def _error(self, path: Path, problem: str, fix: str = "") -> ManifestError:
        found = Problem(
            source=self._source, mark=Mark(), field=field_path(path), problem=problem, fix=fix
        )
        return ManifestError((found,))
