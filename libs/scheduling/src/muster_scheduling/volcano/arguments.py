"""Typed access to the arguments of a plugin or an action."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from muster_domain.volcano_scheduler import Argument

_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|h|m|s))+")
_PART = re.compile(r"([0-9.]+)(ms|h|m|s)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments by name. What is missing or cannot be read is as if it were not there."""

    values: Mapping[str, Argument]

    def text(self, key: str, default: str = "") -> str:
        """A text."""
        value = self.values.get(key, default)
        return value if isinstance(value, str) else str(value)

    def milli(self, key: str, default: int, *, at_least: int | None = None) -> int:
        """A number in thousandths, the rest cut off; less than `at_least` is as if missing."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return default
        try:
            found = int(Decimal(str(value)) * 1000)
        except (InvalidOperation, OverflowError, ValueError):
            return default
        return default if at_least is not None and found < at_least else found

    def integer(self, key: str, default: int, *, at_least: int | None = None) -> int:
        """A whole number, a fraction cut off; less than `at_least` is as if missing."""
        found = self.milli(key, default * 1000) // 1000
        return default if at_least is not None and found < at_least else found

    def flag(self, key: str, *, default: bool = False) -> bool:
        """True or false, in YAML's or Go's spelling."""
        value = self.values.get(key)
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in {"true", "false", "1", "0"}:
            return value.lower() in {"true", "1"}
        return default

    def names(self, key: str) -> tuple[str, ...]:
        """A list of names, written with commas or as a list."""
        value = self.values.get(key)
        if isinstance(value, tuple):
            return tuple(str(item) for item in value)
        parts = (part.strip() for part in self.text(key).split(","))
        return tuple(part for part in parts if part)

    def mapping(self, key: str) -> Mapping[str, Argument]:
        """A mapping."""
        value = self.values.get(key)
        return value if isinstance(value, Mapping) else {}

    def duration_ms(self, key: str) -> int | None:
        """A Go duration in milliseconds."""
        return duration_ms(self.text(key))


def duration_ms(written: str) -> int | None:
    """A Go duration such as `1h30m` in milliseconds, or `None` for anything else."""
    if not _DURATION.fullmatch(written):
        return None
    return int(sum(Decimal(number) * _UNITS_MS[unit] for number, unit in _PART.findall(written)))
