"""Waiting for a workload: its decisions as they fall, through breaks of the connection."""

import queue
import threading
import time
from types import TracebackType
from typing import Self

from muster.client import Client
from muster.errors import ExitCode, Refused, Unreachable
from muster_contracts import codec
from muster_contracts.jobs import Decision, Verdict
from muster_domain.conditions import EvictionReason, Outcome

RETRY_S = 1.0
OUTAGE_MAX_S = 120.0
"""How long Muster may be away before waiting is given up."""
UNKNOWN_MAX_S = 15.0
"""How long a job that was just sent may be unknown to whoever is asked."""

_EXIT_OF_OUTCOME = {
    Outcome.SUCCEEDED: ExitCode.OK,
    Outcome.FAILED: ExitCode.JOB_FAILED,
    Outcome.CANCELLED: ExitCode.CANCELLED,
    Outcome.REFUSED: ExitCode.REFUSED,
    Outcome.DEACTIVATED: ExitCode.JOB_FAILED,
    Outcome.LEASE_EXPIRED: ExitCode.JOB_FAILED,
}


def has_ended(decision: Decision) -> bool:
    """Whether nothing more will be decided."""
    return decision.decision in (Verdict.FINISHED, Verdict.REFUSED)


def is_admitted(decision: Decision) -> bool:
    """Whether the workload has its seats now."""
    return decision.decision is Verdict.ADMITTED


def exit_of(decision: Decision) -> ExitCode:
    """The exit code of a workload that has ended."""
    if decision.reason == EvictionReason.PREEMPTED:
        return ExitCode.PREEMPTED
    if decision.outcome is None:
        return ExitCode.REFUSED if decision.decision is Verdict.REFUSED else ExitCode.OK
    return _EXIT_OF_OUTCOME[decision.outcome]


class Following:
    """Hears the decisions about one workload in a thread of its own.

    After a break the last decision is heard again, so none that matters is missed.
    """

    def __init__(self, client: Client, workload: str) -> None:
        self._client = client
        self._workload = workload
        self._heard: queue.Queue[Decision | Exception] = queue.Queue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="following", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()

    def next(self, timeout_s: float) -> Decision | None:
        """The next decision, or None when none fell in time.

        Raises `Refused`, and `Unreachable` when Muster has been away for too long.
        """
        try:
            heard = self._heard.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None
        if isinstance(heard, Exception):
            raise heard
        return heard

    def _run(self) -> None:
        failing_since_s = 0.0
        while not self._stopped.is_set():
            try:
                if self._read_to_the_end():
                    return
                failing_since_s = 0.0
            except (Refused, Unreachable) as error:
                failing_since_s = failing_since_s or time.monotonic()
                if time.monotonic() - failing_since_s >= _patience_s(error):
                    self._heard.put(error)
                    return
            self._stopped.wait(RETRY_S)

    def _read_to_the_end(self) -> bool:
        """Whether the stream came to its end, and did not just break off."""
        for event in self._client.watch({"workload": self._workload}):
            if self._stopped.is_set() or event.event == "end":
                return True
            if event.event == "decision":
                self._heard.put(codec.decode(Decision, event.data.encode()))
        return False


def _patience_s(error: Exception) -> float:
    if isinstance(error, Unreachable):
        return OUTAGE_MAX_S
    unknown = isinstance(error, Refused) and error.refusal.kind == "not_found"
    return UNKNOWN_MAX_S if unknown else 0.0
