"""A session over the floor of placement: seats for one Volcano gang, or who would have to go.

Everything that sits is in the session: gangs of Volcano queues as what they are, others as pods
that hold their nodes. The gang that asks has its quota, so it is Inqueue; the session allocates,
and evicts as far as its configuration has actions for it. Seats are then given out as everywhere:
ranks in pod set order, devices by index.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from muster_domain.conditions import Explanation, PreemptionReason, UnplaceableReason
from muster_domain.mig import MIG_PREFIX, profile_of
from muster_domain.nodes import Node, NodeCondition, Placement, PodAssignment
from muster_domain.queues import HyperNode, PriorityClass, VolcanoQueue
from muster_domain.volcano import Pod, PodGroup, PodGroupPhase, PodPhase
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration
from muster_domain.workload import PodSet, VolcanoQueueRef, Workload
from muster_scheduling.placement.geometry import ask_of
from muster_scheduling.placement.outcome import (
    Gang,
    Placed,
    PlacementOutcome,
    SeatedPodSet,
    Unplaceable,
)
from muster_scheduling.placement.ranks import FreeDevices
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.table import NodeTable
from muster_scheduling.snapshot.catalog import Configuration
from muster_scheduling.volcano.opening import DEFAULT_QUEUE
from muster_scheduling.volcano.plan import EvictionReason, JobOutcome, Plan, Verdict
from muster_scheduling.volcano.run import run_session
from muster_scheduling.volcano.snapshot import SessionSnapshot

NODES_SHOWN = 6
"""Nodes that an explanation names; of more it gives the number."""
ALLOCATE = "allocate"
DEFAULT_SCHEDULER = SchedulerConfiguration(
    actions=(ALLOCATE,),
    tiers=(
        tuple(PluginOption(name=name) for name in ("priority", "gang", "conformance")),
        tuple(
            PluginOption(name=name) for name in ("predicates", "binpack", "network-topology-aware")
        ),
    ),
)
"""Without a scheduler configuration: nobody is evicted, and nodes are packed."""

_OF_PARTS = ("deviceshare", "numa-aware")
_TOPOLOGY = frozenset({Verdict.UNKNOWN_TIER, Verdict.INVALID_TOPOLOGY})
_REASONS: Mapping[EvictionReason, PreemptionReason] = {
    EvictionReason.PREEMPT: PreemptionReason.IN_CLUSTER_QUEUE,
    EvictionReason.RECLAIM: PreemptionReason.IN_COHORT_RECLAMATION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A gang with seats, all of which it keeps until it has ended; one that is leaving, soon."""

    workload: Workload
    gang: Gang
    started: bool = False
    leaving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VolcanoRules:
    """What Volcano's objects say: queues, HyperNodes, and what its scheduler is told to do."""

    queues: tuple[VolcanoQueue, ...] = ()
    hyper_nodes: tuple[HyperNode, ...] = ()
    scheduler: SchedulerConfiguration | None = None

    def decide(self, workload: Workload) -> bool:
        """Whether the session seats this workload.

        It does where somebody has configured it, and for every bound on HyperNodes.
        """
        if workload.network_topology is not None:
            return True
        return self.scheduler is not None and isinstance(workload.queue, VolcanoQueueRef)


def rules_of(configuration: Configuration) -> VolcanoRules:
    """What a session knows of a declared configuration."""
    return VolcanoRules(
        queues=tuple(configuration.volcano_queues.values()),
        hyper_nodes=tuple(configuration.hyper_nodes.values()),
        scheduler=configuration.volcano_scheduler,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Workloads that would have to go, and the nodes on which the gang would then sit.

    Of those in `surplus` only these ranks, without which their gang is worth running.
    """

    victims: Mapping[str, PreemptionReason]
    nodes: frozenset[str]
    surplus: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Seats, or why there are none; then `room` may say how there would be some."""

    outcome: PlacementOutcome
    room: Room | None = None


def seat(
    table: NodeTable,
    standing: Iterable[Standing],
    workload: Workload,
    request: GangRequest,
    rules: VolcanoRules,
    now_ms: int,
) -> Answer:
    """Run one session for a gang. Holds nothing and evicts nobody.

    Of a gang that has seats the request is for the pods that it lacks; nobody goes for these.
    """
    unknown = _unknown_tier(workload, rules)
    if unknown:
        return Answer(outcome=_refused(workload, UnplaceableReason.TOPOLOGY, unknown, {}))
    members = tuple(standing)
    snapshot = _snapshot(table, members, workload, request, rules, now_ms)
    plan = run_session(snapshot, _configuration(rules))
    key = f"{workload.namespace}/{workload.id}"
    first = _first_rank(workload, members)
    nodes = {_rank(bind.pod) - first: bind.node for bind in plan.binds if bind.job == key}
    if nodes:
        placed = _placed(table, workload, request, nodes)
        apart = _without_parts(table, placed, request)
        return Answer(outcome=placed if apart is None else _apart(workload, apart))
    refused = _unplaceable(workload, plan.outcomes.get(key))
    if first:
        return Answer(outcome=refused)
    room = _room(plan, key, sum(_asked_least(request).values()), members)
    return Answer(outcome=refused if room is None else _waiting(refused, room, members), room=room)


def _unknown_tier(workload: Workload, rules: VolcanoRules) -> str:
    """Why a bound on HyperNodes cannot be kept. Volcano would take it for no bound at all (C4)."""
    wanted = workload.network_topology
    if wanted is None:
        return ""
    names = sorted({node.tier_name for node in rules.hyper_nodes if node.tier_name})
    if wanted.highest_tier_name and wanted.highest_tier_name not in names:
        known = ", ".join(names) or "none"
        return f"no HyperNode has the tier name {wanted.highest_tier_name!r}; there are: {known}"
    return ""


def _configuration(rules: VolcanoRules) -> SchedulerConfiguration:
    """What is configured, always with allocation, and without waiting to be let into the queue.

    Also always with the plugins that keep pods from parts of a machine that others have.
    """
    scheduler = rules.scheduler or DEFAULT_SCHEDULER
    actions = tuple(name for name in scheduler.actions if name != "enqueue")
    configured = {option.name for tier in scheduler.tiers for option in tier}
    more = tuple(PluginOption(name=name) for name in _OF_PARTS if name not in configured)
    return replace(
        scheduler,
        actions=actions if ALLOCATE in actions else (ALLOCATE, *actions),
        tiers=(*scheduler.tiers, more) if more else scheduler.tiers,
    )


def _snapshot(
    table: NodeTable,
    standing: tuple[Standing, ...],
    workload: Workload,
    request: GangRequest,
    rules: VolcanoRules,
    now_ms: int,
) -> SessionSnapshot:
    others = [each for each in standing if each.workload.id != workload.id]
    own = [each for each in standing if each.workload.id == workload.id]
    everybody = [*(each.workload for each in others), workload]
    nodes = table.nodes()
    return SessionSnapshot(
        now_ms=now_ms,
        nodes=tuple(_usable(table, node) for node in nodes),
        conditions={
            node.name: NodeCondition.CORDONED
            if node.name in request.excluded
            else table.condition(node.name)
            for node in nodes
        },
        columns=table.columns,
        queues=rules.queues,
        hyper_nodes=rules.hyper_nodes,
        priority_classes=tuple(
            PriorityClass(name=str(value), value=value, of_pods=True)
            for value in sorted({each.priority for each in everybody})
        ),
        pod_groups=(
            *(
                _group(each.workload, _least_of(each.workload), PodGroupPhase.RUNNING)
                for each in others
                if _in_session(each.workload)
            ),
            _group(workload, _least_of(workload), PodGroupPhase.RUNNING)
            if own
            else _group(workload, _asked_least(request), PodGroupPhase.INQUEUE),
        ),
        pods=(
            *(pod for each in (*others, *own) for pod in _seated_pods(each)),
            *_waiting_pods(workload, request, _first_rank(workload, standing)),
        ),
    )


def _usable(table: NodeTable, node: Node) -> Node:
    """The node with what Muster may give out of it: devices that failed are nobody's."""
    record = table.record(node.name)
    allocatable = {
        name: min(quantity, record.free_milli(name) + record.used.get(name, 0))
        for name, quantity in node.allocatable.items()
        if not (record.divided and name.startswith(MIG_PREFIX))
    }
    allocatable = {**node.allocatable, **allocatable}
    return node if allocatable == node.allocatable else replace(node, allocatable=allocatable)


def _in_session(workload: Workload) -> bool:
    return isinstance(workload.queue, VolcanoQueueRef) or workload.network_topology is not None


def _queue_of(workload: Workload) -> str:
    named = workload.queue.name if isinstance(workload.queue, VolcanoQueueRef) else ""
    return named or workload.volcano_queue or DEFAULT_QUEUE


def _least_of(workload: Workload) -> dict[str, int]:
    return {
        pod_set.name: pod_set.count if pod_set.min_count is None else pod_set.min_count
        for pod_set in workload.pod_sets
    }


def _asked_least(request: GangRequest) -> dict[str, int]:
    return {pod_set.name: pod_set.least for pod_set in request.pod_sets}


def _group(workload: Workload, least: Mapping[str, int], phase: PodGroupPhase) -> PodGroup:
    return PodGroup(
        namespace=workload.namespace,
        name=workload.id,
        min_member=sum(least.values()),
        min_task_member=least,
        queue=_queue_of(workload),
        priority_class=str(workload.priority),
        network_topology=workload.network_topology,
        phase=phase,
        created_at_ms=workload.created_at_ms,
        labels=workload.labels,
        annotations=workload.annotations,
    )


def _seated_pods(each: Standing) -> list[Pod]:
    sets = {pod_set.name: pod_set for pod_set in each.workload.pod_sets}
    grouped = _in_session(each.workload)
    return [
        _pod(
            each.workload,
            sets[seat.pod_set],
            seat.rank,
            phase=PodPhase.RUNNING if each.started else PodPhase.PENDING,
            leaving=each.leaving,
            grouped=grouped,
            seat=seat,
        )
        for seat in each.gang.placement.pods
    ]


def _first_rank(workload: Workload, standing: tuple[Standing, ...]) -> int:
    """After the ranks of its pods that have seats."""
    own = (each for each in standing if each.workload.id == workload.id)
    return max((pod.rank + 1 for each in own for pod in each.gang.placement.pods), default=0)


def _waiting_pods(workload: Workload, request: GangRequest, first: int) -> list[Pod]:
    sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    names = [asked.name for asked in request.pod_sets for _ in range(asked.count)]
    return [_pod(workload, sets[name], first + number) for number, name in enumerate(names)]


def _pod(  # noqa: PLR0913 - where a pod stands
    workload: Workload,
    pod_set: PodSet,
    rank: int,
    *,
    phase: PodPhase = PodPhase.PENDING,
    leaving: bool = False,
    grouped: bool = True,
    seat: PodAssignment | None = None,
) -> Pod:
    return Pod(
        namespace=workload.namespace,
        name=f"{workload.id}-{rank}",
        pod_group=workload.id if grouped else "",
        role=pod_set.name,
        leads=seat is not None and _leads(workload, seat),
        phase=phase,
        node=seat.node if seat is not None else "",
        devices=seat.devices if seat is not None else {},
        instances=seat.instances if seat is not None else (),
        zones=seat.zones if seat is not None else (),
        deleting=leaving,
        priority=workload.priority,
        requests=pod_set.requests,
        init_requests=pod_set.requests,
        containers=(pod_set.requests,),
        demand=pod_set.demand,
        labels=pod_set.labels,
        annotations=pod_set.annotations,
        created_at_ms=workload.created_at_ms,
    )


def _leads(workload: Workload, pod: PodAssignment) -> bool:
    """Whether others of the gang depend on a pod: its first rank, or a task that they wait for."""
    tasks = workload.job_policies.tasks if workload.job_policies is not None else ()
    return pod.rank == 0 or any(pod.pod_set in task.depends_on for task in tasks)


def _rank(pod: str) -> int:
    return int(pod.rpartition("-")[2])


def _placed(
    table: NodeTable, workload: Workload, request: GangRequest, nodes: Mapping[int, str]
) -> Placed:
    """Seats on the nodes that the session chose; pods that found none leave no gap in the ranks."""
    chosen: list[tuple[PodSetRequest, list[str]]] = []
    first = 0
    for pod_set in request.pod_sets:
        ranks = range(first, first + pod_set.count)
        chosen.append((pod_set, [nodes[rank] for rank in ranks if rank in nodes]))
        first += pod_set.count
    hand_out = FreeDevices(table, request.policy)
    hand_out.divide(chosen)
    pods: list[PodAssignment] = []
    for pod_set, of_set in chosen:
        pods += hand_out.seat(pod_set, of_set, first_rank=len(pods))
    counts = Counter(pod.pod_set for pod in pods)
    seated = tuple(
        SeatedPodSet(
            name=pod_set.name,
            count=counts[pod_set.name],
            requests=pod_set.requests,
            min_count=pod_set.least,
        )
        for pod_set in request.pod_sets
    )
    return Placed(
        gang=Gang(workload=workload.id, pod_sets=seated, placement=Placement(pods=tuple(pods)))
    )


def _without_parts(table: NodeTable, placed: Placed, request: GangRequest) -> PodAssignment | None:
    """The first seat without a part of its machine that pods hold which are about to leave."""
    sets = {pod_set.name: pod_set for pod_set in request.pod_sets}
    for pod in placed.placement.pods:
        near, ask = sets[pod.pod_set].near, ask_of(sets[pod.pod_set].requests)
        if near is not None and not pod.zones:
            zones, row = table.columns.zones, table.columns.row[pod.node]
            if near.strict and zones.needed(near)[row]:
                return pod
        given = Counter(instance.profile for instance in pod.instances)
        given.update({profile_of(r): len(indices) for r, indices in pod.devices.items()})
        short = any(given[profile] < count for profile, count in ask)
        if short and table.record(pod.node).divided:
            return pod
    return None


def _apart(workload: Workload, pod: PodAssignment) -> Unplaceable:
    message = f"waits for pods to leave their NUMA zone or slices of cards on {pod.node}"
    return _refused(workload, UnplaceableReason.INSUFFICIENT_RESOURCES, message, {})


def _unplaceable(workload: Workload, outcome: JobOutcome | None) -> Unplaceable:
    bound = workload.network_topology is not None
    if outcome is None:
        reason, message = UnplaceableReason.GANG_INCOMPLETE, "the session did not look at it"
    else:
        topology = bound or outcome.verdict in _TOPOLOGY
        reason = (
            UnplaceableReason.TOPOLOGY if topology else UnplaceableReason.INSUFFICIENT_RESOURCES
        )
        message = outcome.message
    refusals = outcome.refusals if outcome is not None else ()
    return _refused(workload, reason, message, {each.reason: each.nodes for each in refusals})


def _refused(
    workload: Workload, reason: UnplaceableReason, message: str, nodes: Mapping[str, int]
) -> Unplaceable:
    asked = sum(pod_set.count for pod_set in workload.pod_sets)
    explanation = Explanation(
        reason=reason, message=message, counts={"members_asked": asked, **nodes}
    )
    return Unplaceable(reason=reason, explanation=explanation, members_asked=asked)


def _waiting(refused: Unplaceable, room: Room, standing: tuple[Standing, ...]) -> Unplaceable:
    """The refusal of a gang that gets its seats once others have left them."""
    going = [each for each in standing if each.leaving or each.workload.id in room.victims]
    held = {node for each in going for node in each.gang.placement.nodes}
    nodes = sorted(held & room.nodes)
    gangs = sum(not room.nodes.isdisjoint(each.gang.placement.nodes) for each in going)
    shown = ", ".join(nodes[:NODES_SHOWN])
    more = f" and {len(nodes) - NODES_SHOWN} more" if len(nodes) > NODES_SHOWN else ""
    message = f"waits for {gangs} gang{'' if gangs == 1 else 's'} to leave {shown}{more}"
    counts = {**refused.explanation.counts, "gangs_leaving": gangs, "nodes_awaited": len(nodes)}
    explanation = replace(refused.explanation, message=message, counts=counts)
    return replace(refused, explanation=explanation)


def _room(plan: Plan, key: str, least: int, standing: tuple[Standing, ...]) -> Room | None:
    """Who has to go, where the session found the whole gang a place that others still hold."""
    promised = [promise.node for promise in plan.pipelines if promise.job == key]
    if not promised or len(promised) < least:
        return None
    known = {each.workload.id: each for each in standing}
    victims: dict[str, PreemptionReason] = {}
    ranks: dict[str, set[int]] = {}
    for eviction in plan.evictions:
        identity = eviction.job.partition("/")[2]
        if eviction.by == key and eviction.reason in _REASONS and identity in known:
            victims[identity] = _REASONS[eviction.reason]
            ranks.setdefault(identity, set()).add(_rank(eviction.pod))
    surplus = {
        identity: tuple(sorted(going))
        for identity, going in sorted(ranks.items())
        if _is_surplus(known[identity], going)
    }
    return Room(victims=victims, nodes=frozenset(promised), surplus=surplus)


def _is_surplus(each: Standing, going: set[int]) -> bool:
    """Whether a gang is worth running without these ranks. Without who leads it, it never is."""
    leaders = {pod.rank for pod in each.gang.placement.pods if _leads(each.workload, pod)}
    if not each.workload.grows_by_itself or not each.started or going & leaders:
        return False
    left = Counter(pod.pod_set for pod in each.gang.placement.pods if pod.rank not in going)
    return all(left[name] >= least for name, least in _least_of(each.workload).items())
