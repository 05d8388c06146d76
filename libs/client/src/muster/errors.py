"""What can go wrong for a user, and the exit code that says so.

The codes are part of the interface: scripts and CI systems branch on them.
"""

from enum import IntEnum

from muster_contracts.api import Refusal


class ExitCode(IntEnum):
    """How the command ended."""

    OK = 0
    FAILURE = 1
    BAD_REQUEST = 2
    REFUSED = 3
    TIMED_OUT = 4
    PREEMPTED = 5
    CANCELLED = 6
    JOB_FAILED = 7

    @property
    def meaning(self) -> str:
        """What the code says, in one line."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.OK: "done as asked",
    ExitCode.FAILURE: "Muster could not be reached, or failed itself",
    ExitCode.BAD_REQUEST: "bad request: a manifest or an argument is wrong, or names nothing",
    ExitCode.REFUSED: "refused: not allowed, in conflict, or it can never fit",
    ExitCode.TIMED_OUT: "timed out; the job is still there",
    ExitCode.PREEMPTED: "preempted and not waiting again",
    ExitCode.CANCELLED: "the job was cancelled",
    ExitCode.JOB_FAILED: "the job failed",
}


class ClientError(Exception):
    """Base of what the client raises on purpose. `exit_code` is what the command ends with."""

    exit_code = ExitCode.FAILURE


class Unreachable(ClientError):
    """Muster did not answer, or said that it cannot at the moment."""


class Refused(ClientError):
    """Muster answered with a refusal."""

    def __init__(self, status: int, refusal: Refusal) -> None:
        super().__init__(refusal.problem)
        self.status = status
        self.refusal = refusal
        self.exit_code = _EXIT_OF_KIND.get(refusal.kind, ExitCode.BAD_REQUEST)


_EXIT_OF_KIND = {
    "forbidden": ExitCode.REFUSED,
    "unauthenticated": ExitCode.REFUSED,
    "conflict": ExitCode.REFUSED,
    "internal": ExitCode.FAILURE,
    "foreign": ExitCode.FAILURE,
}


class BadArgument(ClientError):
    """Something on the command line is wrong."""

    exit_code = ExitCode.BAD_REQUEST

    def __init__(self, problem: str, *, fix: str = "") -> None:
        super().__init__(problem)
        self.fix = fix
