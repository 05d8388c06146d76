"""A placement machine with a clock of its own, and short words for everybody who talks to it."""

from dataclasses import dataclass, field, replace

from muster_contracts import codec, events, subjects
from muster_contracts.commands import PodCommand, RunPod, StopPod
from muster_contracts.partitions import PLACEMENT_SHARD
from muster_contracts.subjects import Service
from muster_domain.conditions import EvictionReason, Outcome
from muster_domain.nodes import Node, NodeCondition, Placement
from muster_domain.queues import ResourceFlavor
from muster_domain.states import (
    Admission,
    Admitted,
    Evicting,
    Finished,
    PodSetAdmission,
    Requeue,
    Reserved,
)
from muster_domain.workload import Workload
from muster_ledger.store import Image
from muster_placement.machine import PlacementMachine
from muster_placement.record import GangPhase, PodPhase, SeatedGang, pod_uid, uid_of
from muster_placement.settings import PlacementSettings
from muster_runtime.machine import Changes
from muster_scheduling.placement.checks import ViolationKind, violations
from muster_testing.builders import FLAVOR, GPU, T0_MS, node, node_fact, received, workload

NO_PLACEMENT = Placement(pods=())


@dataclass
class House:
    """Every cycle is checked: nothing is given out twice, and what is stored makes it all again."""

    settings: PlacementSettings = field(default_factory=PlacementSettings)
    now_ms: int = T0_MS
    stored: dict[str, bytes] = field(default_factory=dict[str, bytes])
    said: list[events.Event] = field(default_factory=list[events.Event])
    commands: list[tuple[str, PodCommand]] = field(default_factory=list[tuple[str, PodCommand]])
    version: int = 0
    knows_flavors: bool = True
    jobs: dict[str, Workload] = field(default_factory=dict[str, Workload])
    excused: frozenset[ViolationKind] = frozenset()

    def __post_init__(self) -> None:
        self.machine = self._make()

    def _make(self) -> PlacementMachine:
        image = Image(
            shard=PLACEMENT_SHARD,
            epoch=1,
            version=self.version,
            watermark=0,
            fields=dict(self.stored),
        )
        machine = PlacementMachine(image, self.settings, self.now_ms)
        if self.knows_flavors:
            machine.configure({FLAVOR: ResourceFlavor(name=FLAVOR)}, {})
        return machine

    def restart(self) -> None:
        """Crash, and go on from what was committed."""
        self.machine = self._make()

    def learn_flavors(self) -> Changes:
        self.knows_flavors = True
        self.machine.configure({FLAVOR: ResourceFlavor(name=FLAVOR)}, {})
        return self.cycle()

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
            if message.subject.startswith("muster.evt."):
                name = subjects.event_name(message.subject)
                self.said.append(codec.decode_event(name, message.body))
            else:
                kind = RunPod if b'"desired":"run"' in message.body else StopPod
                where = subjects.untoken(message.subject.split(".")[5])
                self.commands.append((where, codec.decode(kind, message.body)))
        self._check()
        return changes

    def _check(self) -> None:
        floor = self.machine.floor
        assert [v for v in violations(floor.table) if v.kind not in self.excused] == []
        again = self._make().floor
        assert (again.gangs, again.nodes) == (floor.gangs, floor.nodes)
        assert set(again.requests) == set(floor.requests)
        assert again.gone == floor.gone
        assert list(again.table.gangs()) == list(floor.table.gangs())

    def hear(self, fact: events.Event, about: str, speaker: Service = Service.ADMISSION) -> Changes:
        self.machine.ingest(received(fact, speaker, about), self.now_ms)
        return self.cycle()

    def hear_node(self, fact: events.Event, name: str) -> Changes:
        self.machine.ingest(node_fact(fact, name), self.now_ms)
        return self.cycle()

    def register(self, *nodes: Node, incarnation: int = 1) -> None:
        for each in nodes:
            fact = events.NodeRegistered(
                node=each, incarnation=incarnation, heartbeat_interval_ms=2_000
            )
            self.hear_node(fact, each.name)

    def beat(self, *names: str) -> None:
        for name in names:
            self.machine.heard(name, self.now_ms)

    def reserve(self, asked: Workload, attempt: int = 1) -> Changes:
        self.jobs[asked.id] = asked
        state = Reserved(
            admission=admission(asked), reserved_at_ms=self.now_ms, attempt=attempt, queued_at_ms=0
        )
        return self.hear(events.QuotaReserved(workload=asked, version=1, state=state), asked.id)

    def confirm(self, identity: str = "w1", attempt: int = 1) -> Changes:
        asked = self.jobs[identity]
        state = Admitted(
            admission=admission(asked),
            placement=NO_PLACEMENT,
            reserved_at_ms=0,
            admitted_at_ms=self.now_ms,
            attempt=attempt,
            queued_at_ms=0,
        )
        return self.hear(events.WorkloadAdmitted(workload=asked, version=2, state=state), identity)

    def evict(self, identity: str = "w1", attempt: int = 1) -> Changes:
        state = Evicting(
            admission=admission(self.jobs.get(identity) or workload(identity)),
            reason=EvictionReason.PREEMPTED,
            then=Requeue(),
            since_ms=self.now_ms,
            attempt=attempt,
            queued_at_ms=0,
        )
        fact = events.WorkloadEvicted(workload_id=identity, version=3, state=state)
        return self.hear(fact, identity)

    def end(self, identity: str = "w1", attempt: int = 1) -> Changes:
        state = Finished(outcome=Outcome.CANCELLED, finished_at_ms=self.now_ms, attempt=attempt)
        fact = events.WorkloadFinished(workload_id=identity, version=3, state=state)
        return self.hear(fact, identity)

    def pod_started(self, rank: int = 0, identity: str = "w1", attempt: int = 1) -> Changes:
        where = self.seat_of(rank, identity)
        fact = events.PodStarted(
            pod_uid=self.uid(rank, identity, attempt),
            workload_id=identity,
            attempt=attempt,
            node=where,
        )
        return self.hear_node(fact, where)

    def pod_restarts(self, rank: int = 0, times: int = 1, identity: str = "w1") -> Changes:
        where = self.seat_of(rank, identity)
        uid = self.uid(rank, identity)
        fact = events.PodRestarting(
            pod_uid=uid, workload_id=identity, attempt=1, node=where, times=times
        )
        return self.hear_node(fact, where)

    def pod_runs_again(self, rank: int = 0, times: int = 2, identity: str = "w1") -> Changes:
        where = self.seat_of(rank, identity)
        uid = self.uid(rank, identity)
        fact = events.PodStarted(
            pod_uid=uid, workload_id=identity, attempt=1, node=where, times=times
        )
        return self.hear_node(fact, where)

    def pod_ended(
        self,
        rank: int = 0,
        code: int = 0,
        identity: str = "w1",
        attempt: int = 1,
        *,
        stopped: bool = False,
    ) -> Changes:
        where = self.seat_of(rank, identity)
        fact = events.PodFinished(
            pod_uid=self.uid(rank, identity, attempt),
            workload_id=identity,
            attempt=attempt,
            node=where,
            exit_code=code,
            stopped=stopped,
        )
        return self.hear_node(fact, where)

    def uid(self, rank: int, identity: str = "w1", attempt: int = 1) -> str:
        """The pod that is in the seat now."""
        seated = self.machine.floor.gangs.get(identity)
        if seated is None or seated.attempt != attempt:
            return pod_uid(identity, attempt, rank)
        return uid_of(seated, seated.gang.placement.pods[rank])

    def seat_of(self, rank: int, identity: str) -> str:
        seated = self.machine.floor.gangs.get(identity)
        return seated.gang.placement.pods[rank].node if seated is not None else "n1"

    def run(self, asked: Workload) -> None:
        """Seat it, confirm it, and let all its pods start."""
        self.reserve(asked)
        self.confirm(asked.id)
        for rank in range(sum(pod_set.count for pod_set in asked.pod_sets)):
            self.pod_started(rank, asked.id)

    def gang(self, identity: str = "w1") -> SeatedGang | None:
        return self.machine.floor.gangs.get(identity)

    def phase(self, identity: str = "w1") -> GangPhase | None:
        seated = self.gang(identity)
        return seated.phase if seated is not None else None

    def pods(self, identity: str = "w1") -> list[PodPhase]:
        seated = self.gang(identity)
        return list(seated.pods.values()) if seated is not None else []

    def condition(self, name: str) -> NodeCondition:
        return self.machine.floor.nodes[name].condition

    def free(self, name: str) -> int:
        return self.machine.floor.table.free(name)[GPU] // 1000

    def names(self) -> list[str]:
        """The names of everything said, in order."""
        return [codec.EVENT_NAMES[type(fact)] for fact in self.said]

    def last(self, kind: type[events.Event]) -> events.Event:
        return [fact for fact in self.said if isinstance(fact, kind)][-1]

    def count(self, kind: type[events.Event]) -> int:
        return sum(isinstance(fact, kind) for fact in self.said)

    def stops(self) -> list[str]:
        return [command.pod_uid for _, command in self.commands if command.desired == "stop"]

    def starts(self) -> list[str]:
        return [command.pod_uid for _, command in self.commands if command.desired == "run"]


def admission(asked: Workload) -> Admission:
    return Admission(
        cluster_queue="cq",
        pod_sets=tuple(
            PodSetAdmission(
                name=pod_set.name,
                count=pod_set.count,
                flavors=dict.fromkeys(pod_set.requests, FLAVOR),
                usage=pod_set.total_requests,
            )
            for pod_set in asked.pod_sets
        ),
    )


def two_nodes(settings: PlacementSettings | None = None) -> House:
    house = House(settings or PlacementSettings())
    house.register(node("n1", 4), node("n2", 4))
    house.said.clear()
    return house


def renamed(asked: Workload, identity: str) -> Workload:
    return replace(asked, id=identity)
