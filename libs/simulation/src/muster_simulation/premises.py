"""What a house has: nodes and seats, quota, guests, and a clock with what is planned."""

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from muster_domain.conditions import Outcome
from muster_domain.states import Admission
from muster_domain.workload import Workload
from muster_scheduling.placement.request import GangRequest, request_for
from muster_scheduling.placement.table import NodeTable
from muster_scheduling.placement.topology.terms import topology_options
from muster_scheduling.snapshot.catalog import Configuration
from muster_scheduling.snapshot.turns import Turns
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.volcano.floor import Standing, rules_of
from muster_simulation.seating import Seating


class Phase(StrEnum):
    """Where a workload is on its way through."""

    PENDING = "pending"
    ADMITTED = "admitted"
    EVICTING = "evicting"
    FINISHED = "finished"


class What(StrEnum):
    """What happens to a workload or a node."""

    SUBMITTED = "submitted"
    ADMITTED = "admitted"
    UNSEATED = "unseated"
    RESEATED = "reseated"
    EVICTED = "evicted"
    STOPPING = "stopping"
    REQUEUED = "requeued"
    FINISHED = "finished"
    NODE_LOST = "node_lost"
    NODE_BACK = "node_back"


@dataclass(slots=True)
class Guest:
    """A workload and what has become of it. It runs for `run_ms`, and needs `stop_ms` to leave.

    `held_ms` is how long it held quota in all attempts that are over.
    """

    workload: Workload
    cluster_queue: str
    submitted_ms: int
    run_ms: int
    stop_ms: int
    phase: Phase = Phase.PENDING
    attempt: int = 0
    tries: int = 0
    admission: Admission | None = None
    nodes: tuple[str, ...] = ()
    first_admitted_ms: int | None = None
    admitted_ms: int = 0
    held_ms: int = 0
    ended_ms: int | None = None
    evictions: int = 0
    outcome: Outcome | None = None
    then: Outcome | None = None
    queued_at_ms: int | None = None
    unseated: str = ""
    avoided: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether it holds quota and is not to go."""
        return self.phase is Phase.ADMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One line of what happened."""

    at_ms: int
    what: What
    workload: str
    queue: str = ""
    reason: str = ""
    by: str = ""
    attempt: int = 0
    nodes: tuple[str, ...] = ()


@dataclass(slots=True)
class Premises:
    """Whatever is decided about, as it stands; who decides lives in it."""

    configuration: Configuration
    now_ms: int = 0
    guests: dict[str, Guest] = field(default_factory=dict[str, Guest])
    view: AdmissionView = field(init=False)
    turns: Turns = field(init=False)
    table: NodeTable = field(default_factory=NodeTable)
    seating: Seating = field(init=False)
    _events: list[tuple[int, int, Callable[[], None]]] = field(
        default_factory=list[tuple[int, int, Callable[[], None]]]
    )
    _order: "itertools.count[int]" = field(default_factory=itertools.count)
    _grew: bool = False

    def __post_init__(self) -> None:
        self.view = AdmissionView(self.configuration)
        self.turns = Turns(self.view)
        self.seating = Seating(self.table, rules_of(self.configuration))

    def configure(self, configuration: Configuration) -> None:
        """Take other declared objects."""
        self.configuration = configuration
        self.view.configure(configuration)
        self.seating.rules = rules_of(configuration)
        self.turns.configure(self.now_ms)

    def at(self, at_ms: int, action: Callable[[], None]) -> None:
        """Plan something. What is planned for one moment happens in the order of planning."""
        heapq.heappush(self._events, (max(at_ms, self.now_ms), next(self._order), action))

    def request(self, guest: Guest, admission: Admission) -> GangRequest:
        """What a guest asks of placement for what it was granted."""
        topologies = dict(self.configuration.topologies or {})
        flavors = self.view.catalog.flavors
        request = request_for(guest.workload, admission, flavors, topologies, elastic=True)
        return replace(request, options=topology_options(self.view.policy))

    def standing(self) -> Iterator[Standing]:
        """Everybody who has seats."""
        for guest in self.guests.values():
            gang = self.table.gang(guest.workload.id)
            if gang is not None:
                leaving = guest.phase is Phase.EVICTING
                yield Standing(workload=guest.workload, gang=gang, started=True, leaving=leaving)

    def capacity_grew(self) -> None:
        """Seats came free."""
        self._grew = True
