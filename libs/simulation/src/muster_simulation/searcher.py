"""The preemption service for one partition, one step at a time."""

from collections.abc import Callable
from typing import cast

from muster_contracts import codec, envelope, events, subjects
from muster_contracts.queries import Seats, SeatsQuestion
from muster_contracts.stored import is_admission_fact
from muster_contracts.subjects import Service
from muster_preemption.projection import Projection
from muster_preemption.search import Asking, search
from muster_scheduling.snapshot.catalog import Configuration
from muster_simulation.nodes import send_event
from muster_simulation.world import World

TURN_MS_MAX = 120
BATCH_MAX = 24
AskPlacement = Callable[[SeatsQuestion], Seats | None]
"""Where a gang would sit now; None while placement does not answer."""


class SearcherProcess:
    """Follows one partition and answers; a crash loses what it had read and not answered."""

    def __init__(
        self, world: World, partition: str, configuration: Configuration, ask: AskPlacement
    ) -> None:
        self._world = world
        self._ask = ask
        self._partition = partition
        self._configuration = configuration
        self._restart()
        self._turn()

    def _restart(self) -> None:
        image = self._world.shards.load(self._partition)
        self._projection = Projection(image)
        self._projection.configure(self._configuration, 0)
        self._position = image.watermark

    def configure(self, configuration: Configuration) -> None:
        """Take other declared objects."""
        self._configuration = configuration
        self._projection.configure(configuration, 0)

    def _turn(self) -> None:
        world = self._world
        world.after(world.chance(f"search {self._partition}").randrange(1, TURN_MS_MAX), self._step)

    def _step(self) -> None:
        world = self._world
        self._turn()
        if world.happens("searcher crash", world.faults.crash_before_commit):
            self._restart()
            return
        facts = (subjects.workload_events_of(Service.ADMISSION, self._partition),)
        batch, self._position = world.log.read(self._position, facts, BATCH_MAX)
        for received in batch:
            fact = codec.decode_event(subjects.event_name(received.subject), received.body)
            if is_admission_fact(fact):
                self._projection.apply(fact, world.now_ms)
            elif isinstance(fact, events.PreemptionRequested):
                self._answer(fact, received.headers["ce-id"], received.subject)

    def _answer(self, request: events.PreemptionRequested, cause: str, subject: str) -> None:
        found = self._search(search(self._projection, request, self._world.now_ms))
        if found is None:
            return
        name = codec.EVENT_NAMES[type(found)]
        reply = subjects.workload_event(
            Service.PREEMPTION,
            name,
            self._partition,
            subjects.event_namespace(subject),
            request.workload_id,
        )
        send_event(self._world, Service.PREEMPTION, reply, found, envelope.derived_id(cause))

    def _search(self, asking: Asking) -> events.PreemptionFact | None:
        try:
            asked = next(asking)
            while True:
                asked = asking.send(self._ask(asked))
        except StopIteration as end:
            return cast("events.PreemptionFact | None", end.value)
