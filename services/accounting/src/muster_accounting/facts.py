"""From messages of the log to what accounting keeps.

| fact of the log                             | becomes                                   |
|---------------------------------------------|-------------------------------------------|
| quota_reserved                              | the opening of an attempt                 |
| workload_admitted                           | its opening and its seating, or a resize  |
| workload_evicted                            | its eviction, and up to when work is kept |
| workload_checkpointed                       | up to when its work is kept               |
| workload_queued, workload_requeued          | its closing, if it had an attempt         |
| workload_finished                           | its closing with the outcome              |
| node_registered, node_condition_changed     | a node's report, a node's turn            |
| tokens_reported                             | requests to served models                 |
| devices_observed                            | how busy devices of attempts were         |
| interval_closed                             | a closing that nobody else has told       |

Times are the owners' own: those in the states, and the envelope's where a state has none.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster_contracts import codec, envelope, events, subjects
from muster_contracts.intervals import IntervalClosed
from muster_contracts.observations import (
    BLOCK_MS,
    MINUTE_MS,
    MINUTES,
    USES_MAX,
    DevicesObserved,
    ObservedUse,
)
from muster_contracts.subjects import Service
from muster_contracts.tokens import TokensReported
from muster_domain.errors import InvalidValue
from muster_domain.mig import counted_once, offered
from muster_domain.money import split
from muster_domain.nodes import Node, PodAssignment
from muster_domain.quantity import scale
from muster_domain.states import Admission, Admitted, PodSetAdmission, Reserved
from muster_domain.teams import team_of
from muster_domain.tokens import TokenUse
from muster_domain.workload import LocalQueueRef, PodSet, Workload
from muster_rating.attempts import (
    Attempt,
    Charge,
    Closing,
    Eviction,
    Opening,
    Owner,
    Seat,
    Seating,
    sum_charges,
)
from muster_rating.capacity import NodeFact, NodeReport, NodeTurn
from muster_rating.observations import Observation
from muster_rating.prices import HOUR_MS
from muster_runtime.reader import Received
from muster_scheduling.snapshot.volcano import VOLCANO_FLAVOR

_OF_ADMISSION = (
    "quota_reserved",
    "workload_admitted",
    "workload_checkpointed",
    "workload_evicted",
    "workload_queued",
    "workload_requeued",
    "workload_finished",
)

INPUTS: tuple[str, ...] = (
    *(subjects.facts_of(Service.ADMISSION, name) for name in _OF_ADMISSION),
    subjects.facts_of(Service.AGENT, "node_registered"),
    subjects.facts_of(Service.AGENT, "devices_observed"),
    subjects.facts_of(Service.PLACEMENT, "node_condition_changed"),
    subjects.facts_of(Service.GATEWAY, "tokens_reported"),
    subjects.facts_of(Service.ACCOUNTING, "interval_closed"),
)
"""The subjects of the log that accounting reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests to served models, which became known at `at_ms`."""

    at_ms: int
    uses: tuple[TokenUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """How busy devices were, which became known at `at_ms`."""

    at_ms: int
    observations: tuple[Observation, ...]


Fact = Attempt | NodeFact | Requests | Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Facts by what is kept of them, each in the order in which they came."""

    attempts: tuple[Attempt, ...] = ()
    nodes: tuple[NodeFact, ...] = ()
    uses: tuple[TokenUse, ...] = ()
    observations: tuple[Observation, ...] = ()


def told(facts: Iterable[Fact]) -> Told:
    """What facts tell."""
    known = tuple(facts)
    return Told(
        attempts=tuple(fact for fact in known if isinstance(fact, Attempt)),
        nodes=tuple(fact for fact in known if isinstance(fact, NodeReport | NodeTurn)),
        uses=tuple(use for fact in known if isinstance(fact, Requests) for use in fact.uses),
        observations=tuple(
            one for fact in known if isinstance(fact, Observed) for one in fact.observations
        ),
    )


def read_fact(received: Received) -> Fact | None:
    """What a message tells; None where it tells nothing about usage. Raises `InvalidValue`."""
    said = envelope.from_headers(received.headers)
    at_ms = said.time_ms or received.published_ms
    fact = codec.decode_event(subjects.event_name(received.subject), received.body)
    match fact:
        case events.NodeRegistered(node=node):
            return _report(node, at_ms, said.id)
        case TokensReported(uses=uses):
            return Requests(at_ms=at_ms, uses=uses)
        case IntervalClosed(workload_id=workload_id, attempt=number):
            return _closed(workload_id, number, fact.at_ms, 0)
        case DevicesObserved():
            return Observed(at_ms=at_ms, observations=tuple(_observations(fact)))
        case events.NodeConditionChanged(node=name, condition=condition, at_ms=since_ms):
            return NodeTurn(node=name, at_ms=since_ms, id=said.id, condition=condition)
        case _:
            return _read_workload_fact(fact, at_ms)


def _observations(fact: DevicesObserved) -> Iterator[Observation]:
    """One for each use of which a minute was told. Raises `InvalidValue`."""
    if fact.from_ms % BLOCK_MS or len(fact.uses) > USES_MAX:
        raise InvalidValue(
            f"{len(fact.uses)} uses of a block that begins at {fact.from_ms}",
            field="uses",
            fix=f"tell at most {USES_MAX} at a time, of a block of {MINUTES} whole minutes",
        )
    hour_ms = fact.from_ms // HOUR_MS * HOUR_MS
    first = (fact.from_ms - hour_ms) // MINUTE_MS
    for use in fact.uses:
        minutes = _minutes(use)
        if minutes:
            yield Observation(
                workload_id=use.workload_id,
                number=use.attempt,
                node=fact.node,
                resource=use.resource,
                hour_ms=hour_ms,
                minutes=sum(1 << (first + minute) for minute in minutes),
                observed=sum(use.observed),
                busy=sum(use.busy),
            )


def _minutes(use: ObservedUse) -> list[int]:
    """The minutes of a block that were looked at. Raises `InvalidValue`."""
    if len(use.observed) != MINUTES or len(use.busy) != MINUTES:
        raise InvalidValue(f"not {MINUTES} minutes", field="uses.observed")
    for observed, busy in zip(use.observed, use.busy, strict=True):
        if not 0 <= busy <= observed:
            raise InvalidValue(f"busy for {busy} of {observed}", field="uses.busy")
    return [minute for minute, observed in enumerate(use.observed) if observed]


def _read_workload_fact(fact: events.Event, at_ms: int) -> Attempt | None:
    told: Attempt | None = None
    match fact:
        case events.QuotaReserved(workload=workload, version=version, state=state):
            opening = _opening(workload, state, version)
            told = Attempt(workload_id=workload.id, number=state.attempt, opening=opening)
        case events.WorkloadAdmitted(workload=workload, version=version, state=state):
            resized = state.placement.resizes > 0
            seating = _seating(workload, state, version, at_ms if resized else state.admitted_at_ms)
            told = Attempt(
                workload_id=workload.id,
                number=state.attempt,
                opening=_opening(workload, state, version),
                seating=None if resized else seating,
                resizes=(seating,) if resized else (),
            )
        case events.WorkloadCheckpointed(workload_id=workload_id, state=state):
            told = Attempt(
                workload_id=workload_id,
                number=state.attempt,
                checkpointed_ms=state.checkpointed_at_ms,
            )
        case events.WorkloadEvicted():
            told = _evicted(fact)
        case events.WorkloadFinished(workload_id=workload_id, version=version, state=state):
            ended_ms, outcome = state.finished_at_ms, str(state.outcome)
            told = _closed(workload_id, state.attempt, ended_ms, version, outcome)
        case events.WorkloadQueued(workload=workload, version=version, state=state):
            told = _closed(workload.id, state.attempt, at_ms, version)
        case events.WorkloadRequeued(workload_id=workload_id, version=version, state=state):
            told = _closed(workload_id, state.attempt, at_ms, version)
        case _:
            pass
    return told


def _report(node: Node, at_ms: int, identity: str) -> NodeReport:
    return NodeReport(
        node=node.name,
        at_ms=at_ms,
        id=identity,
        allocatable=counted_once(node.allocatable, node.devices),
        labels=node.labels,
        devices=frozenset((*(device.resource for device in node.devices), *offered(node.devices))),
    )


def _closed(
    workload_id: str, number: int, at_ms: int, version: int, outcome: str = ""
) -> Attempt | None:
    if number == 0:
        return None
    closing = Closing(at_ms=at_ms, version=version, outcome=outcome)
    return Attempt(workload_id=workload_id, number=number, closing=closing)


def _evicted(fact: events.WorkloadEvicted) -> Attempt:
    state = fact.state
    eviction = Eviction(
        at_ms=state.since_ms,
        version=fact.version,
        reason=str(state.reason),
        preemption_reason=str(state.preemption_reason or ""),
        preemptor=state.preemptor,
    )
    return Attempt(
        workload_id=fact.workload_id,
        number=state.attempt,
        eviction=eviction,
        checkpointed_ms=state.checkpointed_at_ms,
    )


def _opening(workload: Workload, state: Reserved | Admitted, version: int) -> Opening:
    return Opening(
        at_ms=state.reserved_at_ms,
        version=version,
        owner=_owner(workload, state.admission),
        charges=_reserved(state.admission),
    )


def _owner(workload: Workload, admission: Admission) -> Owner:
    return Owner(
        namespace=workload.namespace,
        workload=workload.name,
        cluster_queue=admission.cluster_queue,
        local_queue=workload.queue.name if isinstance(workload.queue, LocalQueueRef) else "",
        team=team_of(workload.labels, workload.namespace),
        user=workload.user,
        kind=workload.owner.kind,
        priority=workload.priority,
        priority_class=workload.priority_class,
        labels=workload.labels,
        annotations=dict(workload.annotations),
    )


def _reserved(admission: Admission) -> tuple[Charge, ...]:
    try:
        usage = admission.usage
    except KeyError as error:
        raise InvalidValue(f"no flavor for {error}", field="state.admission") from error
    return tuple(
        Charge(flavor=flavor, resource=resource, quantity_milli=usage[flavor, resource])
        for flavor, resource in sorted(usage)
        if usage[flavor, resource]
    )


def _seating(workload: Workload, state: Admitted, version: int, at_ms: int) -> Seating:
    asked = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    on_nodes: dict[str, _OnNode] = {}
    for granted in state.admission.pod_sets:
        pods = [pod for pod in state.placement.pods if pod.pod_set == granted.name]
        _seat(on_nodes, granted, asked.get(granted.name), pods)
    seats = tuple(
        Seat(
            node=node,
            pods=on_nodes[node].pods,
            devices=on_nodes[node].devices,
            charges=sum_charges(on_nodes[node].charges),
        )
        for node in sorted(on_nodes)
    )
    return Seating(at_ms=at_ms, version=version, seats=seats)


@dataclass(slots=True)
class _OnNode:
    charges: list[Charge]
    pods: int = 0
    devices: int = 0


def _seat(
    on_nodes: dict[str, _OnNode],
    granted: PodSetAdmission,
    asked: PodSet | None,
    pods: list[PodAssignment],
) -> None:
    """Share what a pod set was granted among the nodes of its pods, which are all alike.

    Resources that it asked for and that no quota covers count in the flavor of the node, and so
    does what is charged to a Volcano queue, whose flavor is no hardware.
    """
    counts: dict[str, int] = {}
    for pod in pods:
        counts[pod.node] = counts.get(pod.node, 0) + 1
        entry = on_nodes.setdefault(pod.node, _OnNode([]))
        entry.pods += 1
        entry.devices += sum(len(indices) for indices in pod.devices.values())
        entry.devices += len(pod.instances)
    requests = scale(asked.requests, len(pods)) if asked is not None else {}
    total = {**requests, **granted.usage}
    nodes = sorted(counts)
    for resource in sorted(total):
        flavor = granted.flavors.get(resource, "")
        parts = split(total[resource], [counts[node] for node in nodes])
        for node, quantity in zip(nodes, parts, strict=True):
            if quantity:
                charge = Charge(
                    flavor="" if flavor == VOLCANO_FLAVOR else flavor,
                    resource=resource,
                    quantity_milli=quantity,
                )
                on_nodes[node].charges.append(charge)
