"""Admission's state machine: facts in, one decision a cycle, everything it changed out as data."""

from muster_admission import intake
from muster_admission.book import Book
from muster_admission.budget_turn import heard
from muster_admission.checks import follow_queues
from muster_admission.cycle import ASK_AGAIN_AFTER_MS, Turn, no_victims, run_cycle
from muster_admission.metrics import AdmissionMetrics
from muster_admission.settings import AdmissionSettings
from muster_admission.stops import enforce_stops
from muster_contracts import codec, events, subjects
from muster_contracts.budgets import BudgetAllotted, BudgetDrawn
from muster_contracts.partitions import EVERY_PARTITION
from muster_contracts.subjects import Service
from muster_ledger.store import Image
from muster_runtime.machine import Changes
from muster_runtime.reader import Received
from muster_scheduling.snapshot.catalog import Configuration

_SPEAKERS = (Service.GATEWAY, Service.PLACEMENT, Service.PREEMPTION)


class AdmissionMachine:
    """Owns the workload states and the quota of one partition."""

    def __init__(
        self, image: Image, settings: AdmissionSettings, metrics: AdmissionMetrics
    ) -> None:
        self.book = Book(image, settings)
        self._metrics = metrics
        self.configured_at = -1
        """The declared object up to which the configuration is known."""
        self.turn = Turn()
        self.objects_needed = 0
        """The declared object up to which the catalogue must be read before deciding."""

    def inputs(self) -> tuple[str, ...]:
        """What others say about this partition's workloads and budgets, or nobody knows whose."""
        partitions = (self.book.partition, EVERY_PARTITION)
        return (
            *(
                subjects.workload_events_of(speaker, partition)
                for speaker in _SPEAKERS
                for partition in partitions
            ),
            subjects.budget_events_of(self.book.partition),
        )

    def configure(self, configuration: Configuration, sequence: int, now_ms: int) -> None:
        """Take the declared objects of this partition's trees, and what they stop."""
        self.configured_at = sequence
        self.book.configure(configuration, sequence, now_ms)
        enforce_stops(self.book, now_ms)
        follow_queues(self.book, now_ms)

    def ingest(self, received: Received, now_ms: int) -> None:
        """Take in one fact. Raises `InvalidValue` when it cannot be read."""
        fact = codec.decode_event(subjects.event_name(received.subject), received.body)
        book = self.book
        workload_id = subjects.event_workload(received.subject)
        book.announcer.causes[workload_id] = received.headers.get("ce-id", "")
        match fact:
            case events.WorkloadSubmitted():
                self._submitted(fact, received.headers.get("traceparent", ""), now_ms)
            case _ if isinstance(fact, events.JobWish):
                if self._may_speak_of(received.subject, workload_id):
                    intake.requested(book, fact, now_ms)
            case events.VictimsProposed():
                self.turn.proposals.append(fact)
            case events.VictimsNotFound():
                no_victims(book, self.turn, fact, now_ms)
            case events.CapacityChanged():
                intake.capacity_changed(book, now_ms)
            case BudgetDrawn():
                self.objects_needed = max(self.objects_needed, fact.objects_sequence)
                heard(book, fact)
            case BudgetAllotted():
                heard(book, fact)
            case _ if isinstance(fact, events.GangFact):
                intake.gang_became(book, fact, now_ms)
            case _:
                pass

    def _may_speak_of(self, subject: str, workload_id: str) -> bool:
        """Whether the namespace that a request comes from is the workload's own."""
        record = self.book.records.get(workload_id)
        return record is None or record.workload.namespace == subjects.event_namespace(subject)

    def decide(self, now_ms: int) -> Changes:
        """Run one cycle."""
        with self._metrics.attempt(self.turn.attempts):
            run_cycle(self.book, self.turn, now_ms)
        puts, deletes = self.book.take_changes(now_ms)
        changes = Changes(puts=puts, deletes=deletes, outbox=self.book.announcer.take())
        if changes:
            self.book.announcer.committed()
        return changes

    def committed(self) -> None:
        """Count what the last commit made true."""
        self._metrics.count(self.book)

    def wake_at_ms(self) -> int | None:
        """At once while the last decision ended by its budget; else when something is due."""
        if self.turn.exhausted:
            return 0
        ends = self.book.claims.ends_ms()
        ends += [asked_ms + ASK_AGAIN_AFTER_MS for _, asked_ms in self.turn.asked.values()]
        due = (
            self.book.next_deadline_ms(),
            self.book.turns.next_ms(),
            self.book.budgets.wake_at_ms(),
        )
        return min([*ends, *(at_ms for at_ms in due if at_ms is not None)], default=None)

    def _submitted(self, fact: events.WorkloadSubmitted, traceparent: str, now_ms: int) -> None:
        self.objects_needed = max(self.objects_needed, fact.objects_sequence)
        waiting = intake.submitted(self.book, fact, traceparent, now_ms)
        if waiting is not None:
            self.turn.arrived[waiting] = None
