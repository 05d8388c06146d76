"""Placement's state machine: facts in, seats and commands out, one commit per cycle."""

from dataclasses import replace
from functools import partial
from typing import assert_never

from muster_contracts import codec, events, subjects
from muster_contracts.subjects import Service
from muster_domain.nodes import NodeCondition
from muster_domain.queues import PlacementPolicy, ResourceFlavor, Topology
from muster_domain.states import Admission
from muster_domain.workload import Workload
from muster_ledger.store import Image
from muster_placement import intake
from muster_placement.floor import Floor, SeatRequest
from muster_placement.pods import follow_due
from muster_placement.record import Confirmation, GangPhase, SeatedGang
from muster_placement.replacement import replace_lost
from muster_placement.resize import grow, stay, workload_resized
from muster_placement.settings import PlacementSettings
from muster_runtime.machine import Changes
from muster_runtime.reader import Received
from muster_scheduling.placement.explain import seated_message
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed, Unplaceable
from muster_scheduling.placement.request import GangRequest, policy_of, request_for
from muster_scheduling.placement.resize import lacking
from muster_scheduling.placement.topology.terms import TopologyOptions
from muster_scheduling.snapshot.volcano import VOLCANO_FLAVOR
from muster_scheduling.volcano.floor import Answer, Room, Standing, VolcanoRules, seat

_ADMITTED = codec.EVENT_NAMES[events.WorkloadAdmitted]
_OF_AGENTS = (
    events.NodeRegistered,
    events.PodStarted,
    events.PodRestarting,
    events.PodFinished,
)


class PlacementMachine:
    """Owns the nodes of one pool and everything seated on them."""

    def __init__(self, image: Image, settings: PlacementSettings, now_ms: int) -> None:
        self.floor = Floor(image, settings, now_ms)
        self.flavors: dict[str, ResourceFlavor] = {}
        self.topologies: dict[str, Topology] = {}
        self._settings = settings
        self._options = TopologyOptions()
        self.volcano = VolcanoRules()
        self._now_ms = now_ms
        self._unplaceable_since_growth = True
        self._waits_for_objects: dict[str, None] = {}

    def inputs(self) -> tuple[str, ...]:
        """Admission's facts, agents' about nodes and pods, and people's requests about nodes."""
        return (
            subjects.events_of(Service.ADMISSION),
            *(subjects.facts_of(Service.AGENT, codec.EVENT_NAMES[fact]) for fact in _OF_AGENTS),
            subjects.node_requests(),
        )

    def ingest(self, received: Received, now_ms: int) -> None:
        """Take in one fact. Raises `InvalidValue` when it cannot be read."""
        name = subjects.event_name(received.subject)
        if name == _ADMITTED:
            confirmed = codec.decode(Confirmation, received.body)
            self._heard_why(received)
            workload_id = subjects.event_workload(received.subject)
            intake.workload_admitted(self.floor, workload_id, confirmed.state.attempt, now_ms)
            return
        fact = codec.decode_event(name, received.body)
        if isinstance(fact, events.NodeFact | events.DrainRequested):
            self._node_fact(fact, now_ms)
        else:
            self._workload_fact(fact, received, now_ms)

    def _node_fact(self, fact: events.NodeFact | events.DrainRequested, now_ms: int) -> None:
        match fact:
            case events.NodeRegistered():
                intake.node_registered(self.floor, fact, now_ms)
            case events.PodStarted():
                intake.pod_started(self.floor, fact, now_ms)
            case events.PodRestarting():
                intake.pod_restarting(self.floor, fact, now_ms)
            case events.PodFinished():
                intake.pod_finished(self.floor, fact, now_ms)
            case events.DrainRequested():
                intake.drain_requested(self.floor, fact, now_ms)
            case events.NodeConditionChanged():
                pass
            case _:
                assert_never(fact)

    def _workload_fact(self, fact: events.Event, received: Received, now_ms: int) -> None:
        floor, subject = self.floor, received.subject
        self._heard_why(received)
        match fact:
            case events.QuotaReserved() | events.ChecksPassed():
                traceparent = received.headers.get("traceparent", "")
                intake.quota_reserved(floor, fact, subjects.event_partition(subject), traceparent)
            case events.WorkloadResized():
                workload_resized(floor, fact, now_ms)
            case events.WorkloadEvicted():
                intake.workload_evicted(
                    floor,
                    fact,
                    subjects.event_namespace(subject),
                    subjects.event_partition(subject),
                    now_ms,
                )
            case events.WorkloadFinished():
                intake.workload_finished(floor, fact, now_ms)
            case _:
                pass

    def _heard_why(self, received: Received) -> None:
        workload_id = subjects.event_workload(received.subject)
        self.floor.announcer.causes[workload_id] = received.headers.get("ce-id", "")

    def heard(self, node: str, now_ms: int) -> None:
        """A heartbeat came. Not stored: a new owner gives every node a fresh lease."""
        if node in self.floor.nodes:
            self.floor.heard(node, now_ms)

    def configure(
        self,
        flavors: dict[str, ResourceFlavor],
        topologies: dict[str, Topology],
        options: TopologyOptions | None = None,
        volcano: VolcanoRules | None = None,
    ) -> None:
        """Take the declared flavors and topologies, how those are filled, and Volcano's objects."""
        self.flavors = flavors
        self.topologies = topologies
        self._options = options or TopologyOptions()
        self.volcano = volcano or VolcanoRules()
        self._waits_for_objects.clear()

    @property
    def seating_flavors(self) -> tuple[ResourceFlavor, ...]:
        """The flavors of gangs, by name; Volcano's while it has queues, or where no other is."""
        used = [name for name in sorted(self.flavors) if name != VOLCANO_FLAVOR]
        if self.volcano.queues or not used:
            used = sorted(self.flavors)
        return tuple(self.flavors[name] for name in used)

    def decide(self, now_ms: int) -> Changes:
        """Judge silent nodes, then seat whoever asked, in the order of asking."""
        self._now_ms = now_ms
        self._watch_nodes(now_ms)
        follow_due(self.floor, now_ms)
        self.floor.drop_old_claims(now_ms)
        for request in list(self.floor.requests.values())[: self._settings.placements_max]:
            if self.knows(request.admission):
                self._seat(request, now_ms)
            else:
                self._waits_for_objects[request.workload.id] = None
        for workload_id in list(self.floor.growing):
            self._grow(self.floor.gangs[workload_id], now_ms)
        if self.floor.grew:
            self.floor.grew = False
            if self._unplaceable_since_growth:
                self._unplaceable_since_growth = False
                self.floor.announcer.capacity("seats came free", now_ms)
        puts, deletes = self.floor.take_changes()
        changes = Changes(puts=puts, deletes=deletes, outbox=self.floor.announcer.take())
        if changes:
            self.floor.announcer.committed()
        return changes

    def wake_at_ms(self) -> int | None:
        """The next moment at which a node may have been silent too long, or a policy is due."""
        if len(self.floor.requests) + len(self.floor.growing) > len(self._waits_for_objects):
            return 0
        judged = (
            self.floor.heard_ms[name] + self._patience_ms(entry.condition)
            for name, entry in self.floor.nodes.items()
            if entry.condition is not NodeCondition.FENCED
        )
        claims = (claim.until_ms for claim in self.floor.claims.values())
        return min((*judged, *self.floor.dues.values(), *claims), default=None)

    def _patience_ms(self, condition: NodeCondition) -> int:
        settings = self._settings
        fence_ms = settings.node_lease_ms + settings.node_fence_margin_ms
        return settings.node_suspect_ms if condition is NodeCondition.READY else fence_ms

    def _watch_nodes(self, now_ms: int) -> None:
        settings = self._settings
        fence_ms = settings.node_lease_ms + settings.node_fence_margin_ms
        for name, entry in sorted(self.floor.nodes.items()):
            silent_ms = now_ms - self.floor.heard_ms[name]
            if silent_ms >= fence_ms:
                if entry.condition is not NodeCondition.FENCED:
                    replaced = partial(self._replace_lost, node=name, now_ms=now_ms)
                    intake.fence(self.floor, name, now_ms, replaced)
            elif silent_ms >= settings.node_suspect_ms:
                if entry.condition is NodeCondition.READY:
                    self.floor.set_condition(name, NodeCondition.SUSPECT, now_ms)
            elif name in self.floor.unheard:
                continue
            elif entry.condition in (NodeCondition.SUSPECT, NodeCondition.FENCED):
                back = NodeCondition.CORDONED if entry.drained else NodeCondition.READY
                self.floor.set_condition(name, back, now_ms)
                self.floor.capacity_grew()

    def would_place(
        self, workload: Workload, admission: Admission, without: tuple[str, ...] = ()
    ) -> Answer:
        """Seats for the gang as things are now, or why not all of it finds them, and who would go.

        The seats of the workloads `without` count as free.
        """
        table, request = self.floor.table, self.request(workload, admission)
        gone = [table.release(other) for other in sorted(set(without)) if table.gang(other)]
        try:
            return self._answer(workload, request)
        finally:
            for gang in gone:
                table.restore(gang)

    def _answer(self, workload: Workload, request: GangRequest) -> Answer:
        """Seats as the gang's kind finds them: by Volcano's session, or by Muster's own rules."""
        if not self.volcano.decide(workload):
            return Answer(outcome=place(self.floor.table, request))
        standing = [
            Standing(
                workload=seated.workload,
                gang=seated.gang,
                started=seated.started,
                leaving=seated.lost or seated.phase in (GangPhase.ENDING, GangPhase.STOPPING),
            )
            for seated in self.floor.gangs.values()
            if self.floor.table.gang(seated.workload.id) is not None
        ]
        return seat(self.floor.table, standing, workload, request, self.volcano, self._now_ms)

    def request(self, workload: Workload, admission: Admission) -> GangRequest:
        """What is asked of the nodes for a workload with this quota. Its flavors must be known."""
        asked = request_for(workload, admission, self.flavors, self.topologies, elastic=True)
        policy = policy_of(asked, self._settings.placement_policy)
        kept = self.floor.claimed_by_others(workload.id)
        return replace(asked, policy=policy, options=self._options, excluded=kept)

    def _grow(self, seated: SeatedGang, now_ms: int) -> None:
        """Seek seats for the pods that a running gang lacks."""
        admission = seated.admission
        if admission is None or not self.knows(admission):
            self._waits_for_objects[seated.workload.id] = None
            return
        some = seated.workload.grows_by_itself
        whole = self.request(seated.workload, admission)
        table, gang = self.floor.table, seated.gang
        more = lacking(table, whole, gang, seated.counts, some=some)
        outcome = self._answer(seated.workload, more).outcome
        match outcome:
            case Placed(gang=found):
                asked = sum(pod_set.count for pod_set in more.pod_sets)
                self._unplaceable_since_growth |= asked > len(found.placement.pods)
                grow(self.floor, seated, whole, found, now_ms)
            case Unplaceable(explanation=why):
                self._unplaceable_since_growth = True
                stay(self.floor, seated, why, now_ms)
            case _:
                assert_never(outcome)

    def _replace_lost(self, seated: SeatedGang, *, node: str, now_ms: int) -> bool:
        admission = seated.admission
        if admission is None or not self.knows(admission):
            return False
        request = self.request(seated.workload, admission)
        return replace_lost(self.floor, seated, node, request, now_ms)

    def knows(self, admission: Admission) -> bool:
        """Whether the flavors of an admission, and their topologies, are declared."""
        flavors = [
            self.flavors.get(flavor)
            for pod_set in admission.pod_sets
            for flavor in pod_set.flavors.values()
        ]
        return all(
            flavor is not None
            and (not flavor.topology_name or flavor.topology_name in self.topologies)
            for flavor in flavors
        )

    def _victims(
        self, workload_id: str, room: Room | None, now_ms: int
    ) -> tuple[events.Victim, ...]:
        """Who is to leave for the gang; the nodes that they leave are kept for it from now on."""
        if room is None:
            return ()
        self.floor.claim(workload_id, room.nodes, now_ms)
        return tuple(
            events.Victim(
                workload_id=identity,
                attempt=self.floor.gangs[identity].attempt,
                reason=reason,
                ranks=room.surplus.get(identity, ()),
            )
            for identity, reason in sorted(room.victims.items())
        )

    def _seat(self, request: SeatRequest, now_ms: int) -> None:
        floor = self.floor
        asked = self.request(request.workload, request.admission)
        if asked.policy is PlacementPolicy.FRAGMENTATION and request.attempt == 1:
            floor.learn(asked)
        answer = self._answer(request.workload, asked)
        outcome = answer.outcome
        floor.answered(request.workload.id)
        match outcome:
            case Placed(gang=gang):
                asks_more = sum(p.count for p in asked.pod_sets) > len(gang.placement.pods)
                self._unplaceable_since_growth |= asks_more
                floor.drop_claim(request.workload.id)
                floor.seat(
                    SeatedGang(
                        workload=request.workload,
                        partition=request.partition,
                        attempt=request.attempt,
                        gang=gang,
                        admission=request.admission,
                        traceparent=request.traceparent,
                    )
                )
                fact: events.WorkloadFact = events.GangPlaced(
                    workload_id=request.workload.id,
                    attempt=request.attempt,
                    placement=gang.placement,
                    message=seated_message(floor.table, gang, asked.policy),
                )
            case Unplaceable(explanation=explanation):
                self._unplaceable_since_growth = True
                floor.remember_gone(request.workload.id, request.attempt, now_ms)
                fact = events.GangUnplaceable(
                    workload_id=request.workload.id,
                    attempt=request.attempt,
                    explanation=explanation,
                    victims=self._victims(request.workload.id, answer.room, now_ms),
                )
            case _:
                assert_never(outcome)
        floor.announcer.gang(
            request.workload,
            request.partition,
            fact,
            now_ms,
            traceparent=request.traceparent,
        )
