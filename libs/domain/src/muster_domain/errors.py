"""Errors typed by what the caller does next.

    MusterError
    ├── InvalidValue   the input is wrong; say where and what to write instead
    ├── Conflict       the id exists with another body, or the state forbids the change
    ├── NotFound       no such thing
    ├── Forbidden      the caller may not do this
    ├── Transient      try the same call again later
    └── Fenced         somebody else owns this now; drop your state

One table each maps them to an acknowledgement, an HTTP status and an exit code.
"""


class MusterError(Exception):
    """Base of everything Muster raises on purpose."""


class InvalidValue(MusterError):
    """A value that cannot be taken as it is."""

    def __init__(self, problem: str, *, field: str = "", fix: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.field = field
        self.fix = fix

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        return f"{where}{self.problem}" + (f"; {self.fix}" if self.fix else "")


class Conflict(MusterError):
    """The id is taken by something else, or the state of the thing forbids the change."""


class NotFound(MusterError):
    """Nothing of that name."""


class Forbidden(MusterError):
    """The caller's role or namespaces do not allow it."""


class Transient(MusterError):
    """A dependency did not answer; the same call may be made again."""


class Fenced(MusterError):
    """The lease under which this work was done belongs to somebody else now."""
