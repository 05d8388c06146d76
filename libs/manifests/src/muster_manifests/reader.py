"""Typed access to one mapping of a document.

Every look-up names its key, so that what nobody asked for can be reported as an unknown field. A
value of the wrong type is reported with its place and read as absent, so that one pass finds all
problems of a document.
"""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from muster_domain.errors import InvalidValue
from muster_domain.pod_defaults import LimitRange, RuntimeClass, RuntimeClasses
from muster_domain.quantity import parse_quantity_milli
from muster_manifests.plain import Plain
from muster_manifests.problems import Path, Report

E = TypeVar("E", bound=StrEnum)

Place = tuple["Place | None", str | int]
"""A place in a document: the one above it and the step from there; None is the document itself."""

INT32_MAX = 2**31 - 1
_NO_ALIASES: Mapping[str, str] = {}
_SHOWN_MAX = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNT = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How strictly objects are read.

    `default_namespace` is given to namespaced objects that name none. `admission_rules` off takes
    objects that an API server's admission would refuse, as Kueue's own unit tests use them.
    `name_seed` tells two submissions of one manifest with `generateName` apart. `limit_ranges` and
    `runtime_classes` complete pods and bound them.
    """

    default_namespace: str = "default"
    admission_rules: bool = True
    name_seed: str = ""
    limit_ranges: tuple[LimitRange, ...] = ()
    runtime_classes: RuntimeClasses = field(default_factory=dict[str, RuntimeClass])


class ObjectReader:
    """Reads the fields of one mapping.

    A job has some thirty mappings, most of them without a finding, so the path to each is put
    together only when it is asked for.
    """

    __slots__ = ("_asked", "_lists", "_objects", "_place", "_values", "options", "report")

    def __init__(
        self,
        values: Mapping[str, Plain],
        report: Report,
        options: LoadOptions,
        place: "Place | None" = None,
    ) -> None:
        self.report = report
        self.options = options
        self._values = values
        self._place = place
        self._asked: set[str] = set()
        self._objects: dict[str, ObjectReader] = {}
        self._lists: dict[str, tuple[ObjectReader, ...]] = {}

    @property
    def path(self) -> Path:
        """Where the mapping stands in its document."""
        steps: list[str | int] = []
        place = self._place
        while place is not None:
            place, step = place
            steps.append(step)
        return tuple(reversed(steps))

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    @property
    def present(self) -> bool:
        """Whether anything is written here."""
        return bool(self._values)

    @property
    def values(self) -> Mapping[str, Plain]:
        """The mapping as written; reading it asks for nothing."""
        return self._values

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that are written, in order."""
        return tuple(self._values)

    def problem(self, key: str, problem: str, fix: str = "") -> None:
        """Report a problem of one field; an empty key means the mapping itself."""
        self.report.problem((*self.path, key) if key else self.path, problem, fix)

    def rule(self, key: str, problem: str, fix: str = "") -> None:
        """Report what an API server's admission refuses, unless its rules are off."""
        self.report.rule((*self.path, key) if key else self.path, problem, fix)

    def misfit(self, key: str, problem: str, fix: str = "") -> None:
        """Report requests that no pod may have; with the rules off they set the job aside."""
        self.report.misfit((*self.path, key) if key else self.path, problem, fix)

    def warn(self, key: str, problem: str, fix: str = "") -> None:
        """Report a doubt about one field; an empty key means the mapping itself."""
        self.report.warn((*self.path, key) if key else self.path, problem, fix)

    def raw(self, key: str) -> Plain:
        """Return the value as written."""
        self._asked.add(key)
        return self._values.get(key)

    def text(self, key: str, default: str = "") -> str:
        """Return a text."""
        self._asked.add(key)
        value = self._values.get(key)
        if isinstance(value, str):
            return value
        if value is None:
            return default
        self._wrong_type(key, value, "text", f"write {key}: {json.dumps(_as_text(value))}")
        return default

    def required_text(self, key: str) -> str:
        """Return a text that must be there."""
        value = self.text(key)
        if not value and not isinstance(self._values.get(key), int | list | dict):
            self.rule(key, "missing", f"write {key}: <name>")
        return value

    def integer(
        self, key: str, default: int = 0, *, low: int = -INT32_MAX - 1, high: int = INT32_MAX
    ) -> int:
        """Return a whole number within bounds."""
        value = self.optional_integer(key, low=low, high=high)
        return default if value is None else value

    def optional_integer(
        self, key: str, *, low: int = -INT32_MAX - 1, high: int = INT32_MAX
    ) -> int | None:
        """Return a whole number within bounds, or None where none is written."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong_type(key, value, "a whole number", f"write {key}: 1")
            return None
        if not low <= value <= high:
            self.problem(key, f"{value} is out of range", f"write a number from {low} to {high}")
            return None
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return true or false."""
        value = self.raw(key)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        self._wrong_type(key, value, "true or false", f"write {key}: true or {key}: false")
        return default

    def choice(
        self, key: str, choices: type[E], default: E, aliases: Mapping[str, str] = _NO_ALIASES
    ) -> E:
        """Return one of the enum's words; `aliases` maps older spellings to today's."""
        written = self.text(key)
        if not written:
            return default
        try:
            return choices(aliases.get(written, written))
        except ValueError:
            allowed = [choice.value for choice in choices if choice.value]
            self.problem(key, f"{written!r} is none of its values", f"write {' or '.join(allowed)}")
            return default

    def quantity(self, key: str) -> int | None:
        """Return a quantity in milli-units, or None where none is written."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | str):
            self._wrong_type(key, value, "a quantity", f"write {key}: 4 or {key}: 500m")
            return None
        try:
            return parse_quantity_milli(value)
        except InvalidValue as error:
            self.problem(key, error.problem, error.fix)
            return None

    def quantities(self, key: str) -> dict[str, int]:
        """Return quantities by resource name, in milli-units; none may be below zero."""
        if self.raw(key) is None:
            return {}
        reader = self.object(key)
        result: dict[str, int] = {}
        for name in reader.values:
            value = reader.quantity(name)
            if value is not None and value < 0:
                reader.problem(name, "below zero", "write 0 or more")
            elif value is not None:
                result[name] = value
        return result

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        result: list[str] = []
        for index, item in enumerate(self._items(key)):
            if isinstance(item, str):
                result.append(item)
            else:
                self.report.problem(
                    (*self.path, key, index),
                    f"{_as_text(item)} is not text",
                    f"write {json.dumps(_as_text(item))}",
                )
        return tuple(result)

    def integers(self, key: str, *, low: int) -> tuple[int, ...]:
        """Return a list of whole numbers, none below `low`."""
        result: list[int] = []
        for index, item in enumerate(self._items(key)):
            if isinstance(item, int) and not isinstance(item, bool) and item >= low:
                result.append(item)
            else:
                self.report.problem(
                    (*self.path, key, index),
                    f"{_as_text(item)} is not a whole number",
                    f"write {low} or more",
                )
        return tuple(result)

    def text_map(self, key: str) -> dict[str, str]:
        """Return texts by key, as labels and annotations are."""
        if self.raw(key) is None:
            return {}
        reader = self.object(key)
        return {name: reader.text(name) for name in reader.values}

    def time_ms(self, key: str) -> int | None:
        """Return an RFC 3339 time as milliseconds since 1970, or None where none is written."""
        written = self.text(key)
        if not written:
            return None
        try:
            return (datetime.fromisoformat(written) - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, TypeError, OverflowError):
            self.problem(key, f"{written!r} is not a time", "write 2026-01-31T12:00:00Z")
            return None

    def object(self, key: str) -> "ObjectReader":
        """Return the reader of the mapping under the key, empty where none is written."""
        known = self._objects.get(key)
        if known is not None:
            return known
        value = self.raw(key)
        if value is not None and not isinstance(value, dict):
            self._wrong_type(key, value, "a mapping", f"write {key}: and its fields below")
            value = None
        child = self._objects[key] = self._child(value or {}, (self._place, key))
        return child

    def objects(self, key: str) -> tuple["ObjectReader", ...]:
        """Return the readers of the mappings in the list under the key."""
        if self.raw(key) is None:
            return ()
        if key not in self._lists:
            readers: list[ObjectReader] = []
            for index, item in enumerate(self._items(key)):
                if isinstance(item, dict):
                    readers.append(self._child(item, ((self._place, key), index)))
                else:
                    self.report.problem(
                        (*self.path, key, index),
                        f"{_as_text(item)} is not a mapping",
                        "write - name: ...",
                    )
            self._lists[key] = tuple(readers)
        return self._lists[key]

    def accept(self, *keys: str) -> None:
        """Take keys that ask nothing of the scheduler, in silence."""
        self._asked.update(keys)

    def accept_all(self) -> None:
        """Take every key of this mapping in silence."""
        self._asked.update(self._values)

    def not_acted_on(self, *keys: str, why: str = "not acted upon") -> None:
        """Take keys with a warning that they have no effect."""
        if self._values.keys().isdisjoint(keys):
            return
        self._asked.update(keys)
        for key in keys:
            if self._values.get(key) not in (None, [], {}, "", False):
                self.warn(key, why)

    def again(self, options: LoadOptions) -> "ObjectReader":
        """A reader of the same mapping that nothing has been asked of, with other options."""
        return ObjectReader(self._values, self.report, options, self._place)

    def report_unknown(self) -> None:
        """Warn about every key, here and below, that no reader asked for."""
        if not self._asked.issuperset(self._values):
            for key in self._values:
                if key not in self._asked:
                    near = difflib.get_close_matches(key, sorted(self._asked), n=1)
                    fix = f"did you mean {near[0]}?" if near else ""
                    self.warn(key, "unknown field, ignored", fix)
        for child in self._objects.values():
            if child.present:
                child.report_unknown()
        for children in self._lists.values():
            for child in children:
                child.report_unknown()

    def _items(self, key: str) -> list[Plain]:
        value = self.raw(key)
        if value is None:
            return []
        if isinstance(value, list):
            return value
        self._wrong_type(key, value, "a list", f"write {key}: [...]")
        return []

    def _child(self, values: dict[str, Plain], place: "Place") -> "ObjectReader":
        return ObjectReader(values, self.report, self.options, place)

    def _wrong_type(self, key: str, value: Plain, wanted: str, fix: str) -> None:
        self.problem(key, f"{_as_text(value)} is not {wanted}", fix)


def count_of(text: str) -> int | None:
    """Return the whole number that a label or annotation holds, or None where it holds none."""
    return int(text) if _COUNT.fullmatch(text) else None


def _as_text(value: Plain) -> str:
    if isinstance(value, str):
        shown = value if len(value) <= _SHOWN_MAX else f"{value[:_SHOWN_MAX]}..."
        return shown or "an empty text"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return json.dumps(value)
