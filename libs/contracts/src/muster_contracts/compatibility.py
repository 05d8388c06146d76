"""What must stay true of a message's schema from one release to the next.

Readers ignore what they do not know and fill in what is missing, so fields may be added with
defaults. What breaks somebody is a field that goes or changes its type, a new field without a
default, and a word or form that an enumeration or a union loses. A word or form that is added
breaks only readers that are older than it: they have to be replaced before it is first written.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
_DEFINITION = "#/$defs/"
_SHAPES = ("items", "additionalProperties")


def breaks(old: Schema, new: Schema) -> tuple[str, ...]:
    """Where the new schema refuses or loses what the old one took, sorted."""
    return tuple(sorted(set(_Comparison(old, new).at("$", old, new))))


class _Comparison:
    """Walks two schemas together; each pair of definitions is compared once."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old: Schema = old.get("$defs", {})
        self._new: Schema = new.get("$defs", {})
        self._seen: set[tuple[str, str]] = set()

    def at(self, path: str, old: Schema, new: Schema) -> Iterator[str]:
        """What breaks at a path and below it."""
        if "$ref" in old and "$ref" in new:
            pair = (old["$ref"], new["$ref"])
            if pair in self._seen:
                return
            self._seen.add(pair)
        before, after = _resolved(old, self._old), _resolved(new, self._new)
        if "anyOf" in before or "anyOf" in after:
            yield from self._forms(path, before, after)
        elif before.get("type") != after.get("type"):
            yield f"{path}: was {before.get('type')}, is {after.get('type')}"
        else:
            yield from _lost_words(path, before, after)
            yield from self._fields(path, before, after)
            yield from self._parts(path, before, after)

    def _forms(self, path: str, old: Schema, new: Schema) -> Iterator[str]:
        after = {_form(form, self._new): form for form in new.get("anyOf", (new,))}
        for form in old.get("anyOf", (old,)):
            name = _form(form, self._old)
            if name in after:
                yield from self.at(f"{path}<{name}>", form, after[name])
            else:
                yield f"{path}: {name} is gone"

    def _fields(self, path: str, old: Schema, new: Schema) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name in before:
            if name in after:
                yield from self.at(f"{path}.{name}", before[name], after[name])
            else:
                yield f"{path}.{name}: is gone"
        for name in new.get("required", ()):
            if name not in old.get("required", ()):
                yield f"{path}.{name}: has no default"

    def _parts(self, path: str, old: Schema, new: Schema) -> Iterator[str]:
        for key in _SHAPES:
            if isinstance(old.get(key), dict) and isinstance(new.get(key), dict):
                yield from self.at(f"{path}[]", old[key], new[key])
        before, after = old.get("prefixItems", ()), new.get("prefixItems", ())
        if len(before) != len(after):
            yield f"{path}: had {len(before)} parts, has {len(after)}"
        for index, (part, other) in enumerate(zip(before, after, strict=False)):
            yield from self.at(f"{path}[{index}]", part, other)


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    reference: str = schema.get("$ref", "")
    return definitions[reference.removeprefix(_DEFINITION)] if reference else schema


def _form(schema: Schema, definitions: Schema) -> str:
    """What tells one form of a union from the others: its constant field, its name or its type."""
    fields: Schema = _resolved(schema, definitions).get("properties", {})
    constants = [f"{name}={field['const']}" for name, field in fields.items() if "const" in field]
    name = str(schema.get("$ref", schema.get("type", ""))).removeprefix(_DEFINITION)
    return ",".join(constants) or name


def _lost_words(path: str, old: Schema, new: Schema) -> Iterator[str]:
    before = old.get("enum", [old["const"]] if "const" in old else [])
    after = new.get("enum", [new["const"]] if "const" in new else None)
    if after is not None:
        if not before:
            yield f"{path}: takes only some words now"
        yield from (f"{path}: {word!r} is gone" for word in before if word not in after)
