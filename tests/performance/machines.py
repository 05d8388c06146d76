"""The services' own machines on one job after the other, without bus, ledger or processes.

Processor time for each job and service: reading the facts, deciding, and writing what is stored
and said. What a service costs beyond this on the real path are the chassis, the bus client and the
ledger client.
"""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from muster_ledger.store import OutboxMessage
from muster_runtime.machine import Machine
from muster_runtime.publisher import Outgoing

from . import house, recording

BATCH = 100

Figures = dict[str, Any]


def measure(jobs: int, say: Callable[[str], None]) -> Figures:
    """Send so many jobs through, in batches as a busy path makes them."""
    figures = _Bench().run(jobs)
    say("  us a job: " + ", ".join(f"{name} {cost}" for name, cost in figures["cpu_us"].items()))
    return figures


class _Bench:
    def __init__(self) -> None:
        self._declared = recording.catalogue()
        self._admission: dict[str, Machine] = {}
        self._placement = recording.placement_machine(self._declared)
        self._spent = {"gateway": 0.0, "admission": 0.0, "placement": 0.0}
        self._sequences = count(1_000_000)
        self._numbers = count()

    def run(self, jobs: int) -> Figures:
        self._batch(BATCH)
        self._spent = dict.fromkeys(self._spent, 0.0)
        done = 0
        while done < jobs:
            done += self._batch(BATCH)
        each = {name: round(seconds * 1e6 / done) for name, seconds in self._spent.items()}
        return {"jobs": done, "cpu_us": {**each, "all": sum(each.values())}}

    def _batch(self, size: int) -> int:
        """How many of the batch were admitted."""
        submitted = self._submit(size)
        reserved = self._admit(submitted)
        placed = self._react("placement", self._placement, reserved)
        admitted = self._admit(placed)
        self._react("placement", self._placement, admitted)
        return sum(message.subject.startswith("muster.v1.decisions.") for message in admitted)

    def _submit(self, size: int) -> list[Outgoing]:
        messages: list[Outgoing] = []
        for number in (next(self._numbers) for _ in range(size)):
            name = house.job_name(number, "alone")
            team = house.TEAMS[number % len(house.TEAMS)]
            body = house.job_body(name, managed=False)
            with self._measured("gateway"):
                messages.append(recording.submission(self._declared, team, body, name))
        return messages

    def _admit(self, facts: Sequence[Outgoing | OutboxMessage]) -> list[OutboxMessage]:
        by_partition: dict[str, list[Outgoing | OutboxMessage]] = {}
        for fact in facts:
            by_partition.setdefault(fact.subject.split(".")[5], []).append(fact)
        said: list[OutboxMessage] = []
        for partition, own in by_partition.items():
            if partition not in self._admission:
                machine = recording.admission_machine(self._declared, partition)
                self._admission[partition] = machine
            said += self._react("admission", self._admission[partition], own)
        return said

    def _react(
        self, name: str, machine: Machine, facts: Sequence[Outgoing | OutboxMessage]
    ) -> tuple[OutboxMessage, ...]:
        heard = [
            recording.received(fact, next(self._sequences))
            for fact in facts
            if fact.subject.startswith("muster.evt.")
        ]
        with self._measured(name):
            for message in heard:
                machine.ingest(message, recording.NOW_MS)
            return machine.decide(recording.NOW_MS).outbox

    @contextmanager
    def _measured(self, name: str) -> Generator[None]:
        start = time.process_time()
        yield
        self._spent[name] += time.process_time() - start
