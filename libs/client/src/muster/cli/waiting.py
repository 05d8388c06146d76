"""Waiting in front of a person: each change a line on stderr, the standing below it."""

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from rich.status import Status

from muster.cli.output import say, stderr
from muster.client import Client
from muster.errors import ClientError, ExitCode
from muster.following import Following, exit_of, has_ended, is_admitted
from muster.rendering.words import short_id
from muster.rendering.workloads import decision_line
from muster_contracts.jobs import Decision
from muster_contracts.queries import WorkloadDetail

REFRESH_S = 5.0


class Goal(StrEnum):
    """What is waited for."""

    ADMITTED = "admitted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How waiting ended, and the last decision that was heard."""

    exit_code: ExitCode
    decision: Decision | None


def wait_for(
    client: Client, workload: str, goal: Goal, deadline_s: float | None, resume: str
) -> Outcome:
    """Wait until the workload reaches the goal, ends, or the time is over.

    `deadline_s` is on the monotonic clock. A preempted job that waits again is waited for again.
    """
    last: Decision | None = None
    with Following(client, workload) as following, _Standing(client, workload) as standing:
        while True:
            left_s = REFRESH_S if deadline_s is None else deadline_s - time.monotonic()
            if left_s <= 0:
                say(f"still {_state(last)}; take up waiting with: {resume}", "yellow")
                return Outcome(ExitCode.TIMED_OUT, last)
            decision = following.next(min(left_s, REFRESH_S))
            standing.refresh()
            if decision is None or decision == last:
                continue
            last = decision
            say(decision_line(decision))
            if has_ended(decision):
                return Outcome(exit_of(decision), decision)
            if goal is Goal.ADMITTED and is_admitted(decision):
                return Outcome(ExitCode.OK, decision)


def _state(decision: Decision | None) -> str:
    return decision.decision.value if decision is not None else "undecided"


class _Standing:
    """A spinner on a terminal that says where the workload stands; nothing where nobody looks."""

    def __init__(self, client: Client, workload: str) -> None:
        self._client = client
        self._workload = workload
        console = stderr()
        self._status = Status("waiting", console=console) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._status is not None:
            self._status.stop()

    def refresh(self) -> None:
        """Look again where it stands."""
        if self._status is None:
            return
        try:
            self._status.update(standing_line(self._client.workload(self._workload)))
        except ClientError:
            self._status.update("waiting for an answer")


def standing_line(detail: WorkloadDetail) -> str:
    """Where a workload stands, in one line."""
    row = detail.row
    position = row.position_in_cluster_queue
    parts = [
        f"{short_id(row.id)} {row.phase.value}",
        row.reason,
        f"position {position + 1} in {row.cluster_queue}" if position is not None else "",
        f"{detail.ahead_total} ahead" if detail.ahead_total else "",
    ]
    return "  ".join(part for part in parts if part)


def deadline_after(seconds: int | None) -> float | None:
    """When to stop, on the monotonic clock."""
    return None if seconds is None else time.monotonic() + seconds
