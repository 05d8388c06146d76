"""What is wrong or doubtful in a manifest, as values with a place and a remedy."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from muster_domain.errors import MusterError

Path = tuple[str | int, ...]
"""Keys and list positions from the root of one document."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SHOWN_MAX = 10


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in a text, counted from 1. Line 0 is unknown (the object was not read from text)."""

    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding: where it is, what is wrong, and what to write instead."""

    source: str
    mark: Mark
    field: str
    problem: str
    fix: str = ""

    def __str__(self) -> str:
        place = f"{self.source}:{self.mark.line}:{self.mark.column}" if self.mark.line else ""
        head = ": ".join(part for part in (place or self.source, self.field) if part)
        return f"{head}: {self.problem}" + (f"; {self.fix}" if self.fix else "")


class ManifestError(MusterError):
    """A file that is not taken: every problem found in it. Nothing of the file may be applied."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        shown = [str(problem) for problem in self.problems[:_SHOWN_MAX]]
        left = len(self.problems) - len(shown)
        return "\n".join([*shown, f"and {left} more"] if left > 0 else shown)


def field_path(path: Path) -> str:
    """Write the path as people do: `spec.flavors[1].labels["example.com/tier"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


class Report:
    """Collects what is found while one document is read."""

    def __init__(
        self, source: str, marks: Mapping[Path, Mark], *, admission_rules: bool = True
    ) -> None:
        self.source = source
        self._admission_rules = admission_rules
        self._marks = marks
        self._problems: dict[Problem, None] = {}
        self._warnings: dict[Problem, None] = {}
        self._misfits: dict[Problem, None] = {}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that keeps the document from being taken, in the order found."""
        return tuple(self._problems)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Everything else the author should know, in the order found."""
        return tuple(self._warnings)

    @property
    def misfits(self) -> tuple[Problem, ...]:
        """Why no pod could be made of the document, where an API server's rules are off."""
        return tuple(self._misfits)

    def problem(self, path: Path, problem: str, fix: str = "") -> None:
        """Something that keeps the document from being taken."""
        self._problems[self._finding(path, problem, fix)] = None

    def rule(self, path: Path, problem: str, fix: str = "") -> None:
        """What an API server's admission refuses; in silence when its rules are off."""
        if self._admission_rules:
            self.problem(path, problem, fix)

    def misfit(self, path: Path, problem: str, fix: str = "") -> None:
        """What keeps a pod from being made: a problem, or with the rules off a misfit."""
        if self._admission_rules:
            self.problem(path, problem, fix)
        else:
            self._misfits[self._finding(path, problem, fix)] = None

    def warn(self, path: Path, problem: str, fix: str = "") -> None:
        """Something the author should know; the document is taken."""
        self._warnings[self._finding(path, problem, fix)] = None

    def take(self, other: "Report") -> None:
        """Take over what another report holds."""
        self._problems |= dict.fromkeys(other.problems)
        self._warnings |= dict.fromkeys(other.warnings)

    def _finding(self, path: Path, problem: str, fix: str) -> Problem:
        return Problem(
            source=self.source,
            mark=self._nearest_mark(path),
            field=field_path(path),
            problem=problem,
            fix=fix,
        )

    def _nearest_mark(self, path: Path) -> Mark:
        for length in range(len(path), -1, -1):
            mark = self._marks.get(path[:length])
            if mark is not None:
                return mark
        return Mark()
