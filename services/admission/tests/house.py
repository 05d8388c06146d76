"""An admission machine with a clock of its own, and short words for everybody who talks to it."""

from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry

from muster_admission.books_check import discrepancies
from muster_admission.machine import AdmissionMachine
from muster_admission.metrics import AdmissionMetrics
from muster_admission.rebuild import books_of
from muster_admission.settings import AdmissionSettings
from muster_contracts import codec, events, subjects
from muster_contracts.books import BooksKept, Told, note, told_otherwise
from muster_contracts.jobs import Decision
from muster_contracts.subjects import Service
from muster_domain.conditions import Explanation, Outcome, UnplaceableReason
from muster_domain.states import WorkloadState
from muster_domain.workload import Workload
from muster_ledger.model import Ledger
from muster_ledger.store import Image
from muster_runtime.machine import Changes
from muster_scheduling.snapshot.catalog import Configuration
from muster_testing.builders import PARTITION, T0_MS, placement, received, submitted, workload

NO_SEATS = Explanation(reason=UnplaceableReason.INSUFFICIENT_RESOURCES, message="no node has room")


def speaker_of(fact: events.Event) -> Service:
    if isinstance(fact, events.GangFact | events.CapacityChanged):
        return Service.PLACEMENT
    if isinstance(fact, events.PreemptionFact):
        return Service.PREEMPTION
    return Service.GATEWAY


@dataclass
class House:
    """Every cycle is checked: the books agree, and what is stored makes the same books again."""

    configuration: Configuration
    settings: AdmissionSettings = field(default_factory=AdmissionSettings)
    now_ms: int = T0_MS
    partition: str = PARTITION
    stored: dict[str, bytes] = field(default_factory=dict[str, bytes])
    said: list[events.Event] = field(default_factory=list[events.Event])
    decisions: list[Decision] = field(default_factory=list[Decision])
    version: int = 0
    books: Told = field(default_factory=Told)
    """What the log says of everything beside workloads and their ledger."""
    _sequence: int = 0

    def __post_init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = AdmissionMetrics(self.registry)
        self.machine = self._make()

    def _make(self) -> AdmissionMachine:
        image = Image(
            shard=self.partition,
            epoch=1,
            version=self.version,
            watermark=0,
            fields=dict(self.stored),
        )
        machine = AdmissionMachine(image, self.settings, self.metrics)
        machine.configure(self.configuration, 0, self.now_ms)
        return machine

    def restart(self) -> None:
        """Crash, and go on from what was committed."""
        self.machine = self._make()

    def configure(self, configuration: Configuration) -> Changes:
        self.configuration = configuration
        self.machine.configure(configuration, 1, self.now_ms)
        return self.cycle()

    def take(self, fact: events.Event, about: str, **where: str) -> None:
        self._sequence += 1
        self.machine.ingest(
            received(fact, speaker_of(fact), about, sequence=self._sequence, **where), self.now_ms
        )

    def cycle(self, after_ms: int = 0) -> Changes:
        """Let time pass, decide, and commit."""
        self.now_ms += after_ms
        changes = self.machine.decide(self.now_ms)
        self.stored.update(changes.puts)
        for name in changes.deletes:
            self.stored.pop(name, None)
        if changes:
            self.version += 1
        for message in changes.outbox:
            name = subjects.event_name(message.subject)
            if message.subject.startswith("muster.evt."):
                fact = codec.decode_event(name, message.body)
                self.said.append(fact)
                if isinstance(fact, BooksKept):
                    note(self.books, fact)
            else:
                self.decisions.append(codec.decode(Decision, message.body))
        self.check()
        return changes

    def say(self, fact: events.Event, about: str = "w1", **where: str) -> Changes:
        """Hear a fact and decide."""
        self.take(fact, about, **where)
        return self.cycle()

    def check(self) -> None:
        assert discrepancies(self.machine.book) == []
        again = self._make().book
        assert again.records == self.machine.book.records
        assert again.view.histories == self.machine.book.view.histories
        assert again.live_names == self.machine.book.live_names
        assert again.tombstones == self.machine.book.tombstones
        assert again.aside == self.machine.book.aside
        assert again.unseated.keys() == self.machine.book.unseated.keys()
        assert Ledger.from_fields(self.stored).balances() == self.machine.book.ledger.balances()
        assert told_otherwise(self.books, books_of(self.stored)) == ()

    def state(self, identity: str = "w1") -> WorkloadState:
        return self.machine.book.records[identity].state

    def kind(self, identity: str = "w1") -> str:
        return self.state(identity).kind

    def kinds(self, *identities: str) -> list[str]:
        return [self.kind(identity) for identity in identities]

    def facts(self, kind: type[events.Event]) -> list[events.Event]:
        return [fact for fact in self.said if isinstance(fact, kind)]

    def submit(self, asked: Workload | None = None, queue: str = "cq") -> Changes:
        asked = asked or workload()
        return self.say(submitted(asked, queue), asked.id)

    def place(self, identity: str = "w1") -> Changes:
        """Placement finds seats for the present attempt."""
        asked = self.machine.book.records[identity].workload
        fact = events.GangPlaced(
            workload_id=identity, attempt=self.attempt(identity), placement=placement(asked)
        )
        return self.say(fact, identity)

    def place_as(self, seated: Workload) -> Changes:
        """Placement finds seats for these pods of the workload."""
        fact = events.GangPlaced(
            workload_id=seated.id, attempt=self.attempt(seated.id), placement=placement(seated)
        )
        return self.say(fact, seated.id)

    def start(self, identity: str = "w1") -> Changes:
        attempt = self.attempt(identity)
        return self.say(events.GangStarted(workload_id=identity, attempt=attempt), identity)

    def release(self, identity: str = "w1") -> Changes:
        attempt = self.attempt(identity)
        return self.say(events.GangReleased(workload_id=identity, attempt=attempt), identity)

    def refuse_seats(self, identity: str = "w1") -> Changes:
        fact = events.GangUnplaceable(
            workload_id=identity, attempt=self.attempt(identity), explanation=NO_SEATS
        )
        return self.say(fact, identity)

    def cancel(self, identity: str = "w1") -> Changes:
        return self.say(events.CancelRequested(workload_id=identity, by="ann"), identity)

    def finish(self, identity: str = "w1", outcome: Outcome = Outcome.SUCCEEDED) -> Changes:
        fact = events.GangFinished(
            workload_id=identity, attempt=self.attempt(identity), outcome=outcome
        )
        return self.say(fact, identity)

    def run(self, asked: Workload | None = None, queue: str = "cq") -> None:
        """Submit, place and start."""
        asked = asked or workload()
        self.submit(asked, queue)
        self.place(asked.id)
        self.start(asked.id)

    def attempt(self, identity: str = "w1") -> int:
        return self.state(identity).attempt


def of_attempt(fact: events.GangFact, attempt: int) -> events.GangFact:
    return replace(fact, attempt=attempt)
