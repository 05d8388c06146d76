"""Where a workload would find seats now, domain by domain, and the largest gang of its shape."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np

from muster_contracts import codec
from muster_contracts.fit import (
    FIT_PAGE_MAX,
    SITTING_SHOWN,
    WAYS_MAX,
    DomainFit,
    FitPage,
    FitQuestion,
    PodSetAsked,
    PodSetFit,
    Way,
)
from muster_domain.errors import InvalidValue
from muster_domain.nodes import NodeCondition
from muster_domain.quantity import Resources
from muster_domain.queues import HyperNode
from muster_domain.states import Admission
from muster_domain.workload import NetworkTopology, NetworkTopologyMode, TopologyMode, Workload
from muster_placement.domains import HYPER_NODES, Domain, floor_plan, tier_level
from muster_placement.machine import PlacementMachine
from muster_placement.record import SeatedGang
from muster_scheduling.placement.columns import CONDITIONS, Columns, Vector
from muster_scheduling.placement.largest import largest_in_one
from muster_scheduling.placement.outcome import Placed, Predicate, Unplaceable
from muster_scheduling.placement.plan import Plan, plan
from muster_scheduling.placement.record import is_extended
from muster_scheduling.placement.seating import fits_at_most

_READY = CONDITIONS.index(NodeCondition.READY)


def fit(machine: PlacementMachine, question: dict[str, Any]) -> bytes:
    """A page of domains for a workload. Raises `InvalidValue`.

    Admissions in flavors that are not declared here, or not yet, are left out.
    """
    asked = codec.decode_object(FitQuestion, question)
    _check(asked)
    columns = machine.floor.table.columns
    domains = floor_plan(columns, machine.topologies.values(), machine.volcano.hyper_nodes).domains
    tries = [
        _try(machine, asked.workload, admission, domains)
        for admission in asked.admissions
        if machine.knows(admission)
    ]
    crowd = _crowd(columns, machine.floor.gangs.values(), asked.workload.id)
    resources = sorted({name for each in asked.workload.pod_sets for name in each.requests})
    page = FitPage(
        ways=tuple(each.way for each in tries),
        domains=tuple(
            _row(columns, domain, resources, [each.plans for each in tries], crowd)
            for domain in domains[asked.offset : asked.offset + asked.limit]
        ),
        total=len(domains),
    )
    return codec.encode(page)


def _check(asked: FitQuestion) -> None:
    if not 1 <= asked.limit <= FIT_PAGE_MAX or asked.offset < 0:
        raise InvalidValue(f"a page has 1 to {FIT_PAGE_MAX} domains", field="limit")
    if len(asked.admissions) > WAYS_MAX:
        raise InvalidValue(
            f"{len(asked.admissions)} admissions are too many",
            field="admissions",
            fix=f"ask for at most {WAYS_MAX}",
        )


@dataclass(frozen=True, slots=True)
class _Try:
    """One admission against the nodes as they are: each pod set alone, and what came of it."""

    plans: tuple[Plan, ...]
    way: Way


def _try(
    machine: PlacementMachine,
    workload: Workload,
    admission: Admission,
    domains: Sequence[Domain],
) -> _Try:
    columns, request = machine.floor.table.columns, machine.request(workload, admission)
    plans = tuple(plan(columns, pod_set, request.excluded) for pod_set in request.pod_sets)
    bound = _bound(workload.network_topology, machine.volcano.hyper_nodes)
    asked = tuple(_asked(each, workload.network_topology, bound) for each in plans)
    places = _places(asked, bound, machine.volcano.hyper_nodes, domains)
    members, place = largest_in_one(columns, request, plans, [each.rows for each in places])
    outcome = machine.would_place(workload, admission).outcome
    match outcome:
        case Placed(gang=gang):
            members, message = len(gang.placement.pods), ""
        case Unplaceable(explanation=why):
            if not machine.volcano.decide(workload):
                members = outcome.members_seated
            message = why.message
        case _:
            assert_never(outcome)
    way = Way(
        pod_sets=asked,
        asked=sum(each.pods for each in asked),
        enough=sum(each.pod_set.least for each in plans),
        largest=members,
        path=places[place].path if members and place >= 0 else (),
        message=message,
    )
    return _Try(plans, way)


def _bound(wanted: NetworkTopology | None, hyper_nodes: Iterable[HyperNode]) -> int | None:
    """The highest tier that a gang may span; None where nothing bounds it."""
    if wanted is None or wanted.mode is NetworkTopologyMode.SOFT:
        return None
    if not wanted.highest_tier_name:
        return wanted.highest_tier
    named = [node.tier for node in hyper_nodes if node.tier_name == wanted.highest_tier_name]
    return min(named, default=None)


def _asked(found: Plan, wanted: NetworkTopology | None, bound: int | None) -> PodSetAsked:
    pod_set, topology = found.pod_set, found.pod_set.topology
    level, required = "", False
    if wanted is not None:
        level = wanted.highest_tier_name
        if not level and wanted.highest_tier is not None:
            level = tier_level(wanted.highest_tier)
        required = bound is not None
    elif topology is not None and topology.mode is not TopologyMode.UNCONSTRAINED:
        level = topology.node_label or next(reversed(pod_set.topology_levels), "")
        required = found.required
    return PodSetAsked(
        name=pod_set.name,
        pods=pod_set.count,
        requests_milli=pod_set.requests,
        main=_main(pod_set.requests),
        flavors=tuple(flavor.name for flavor in pod_set.flavors),
        level=level,
        required=required,
    )


def _places(
    asked: Sequence[PodSetAsked],
    bound: int | None,
    hyper_nodes: Iterable[HyperNode],
    domains: Sequence[Domain],
) -> Sequence[Domain]:
    """The domains of which the gang must have one; the whole floor where it may sit anywhere."""
    if bound is not None:
        tiers = {node.name: node.tier for node in hyper_nodes}
        return [
            domain
            for domain in domains
            if domain.topology == HYPER_NODES
            and tiers[domain.path[-1]] <= bound
            and (len(domain.path) == 1 or tiers[domain.path[-2]] > bound)
        ]
    levels = {each.level for each in asked if each.required}
    return [domain for domain in domains if domain.level in levels] or domains[:1]


@dataclass(frozen=True, slots=True)
class _Crowd:
    """Everybody who sits somewhere: the row and the number of the gang of each pod."""

    rows: Vector
    gangs: Vector
    names: tuple[str, ...]
    own: int


def _crowd(columns: Columns, gangs: Iterable[SeatedGang], own: str) -> _Crowd:
    known = tuple(gangs)
    seats = [
        (columns.row[pod.node], number)
        for number, gang in enumerate(known)
        for pod in gang.gang.placement.pods
        if pod.node in columns.row
    ]
    table = np.array(seats, np.int64).reshape(-1, 2)
    identities = [gang.workload.id for gang in known]
    return _Crowd(
        rows=table[:, 0],
        gangs=table[:, 1],
        names=tuple(gang.workload.key for gang in known),
        own=identities.index(own) if own in identities else -1,
    )


def _row(
    columns: Columns,
    domain: Domain,
    resources: Sequence[str],
    tries: Sequence[Sequence[Plan]],
    crowd: _Crowd,
) -> DomainFit:
    inside = np.zeros(len(columns), np.bool_)
    inside[domain.rows] = True
    ready = domain.rows[columns.condition[domain.rows] == _READY]
    pods = np.bincount(crowd.gangs[inside[crowd.rows]], minlength=len(crowd.names))
    here: list[int] = np.flatnonzero(pods).tolist()
    others = sorted(
        (gang for gang in here if gang != crowd.own),
        key=lambda gang: (-pods[gang], crowd.names[gang]),
    )
    return DomainFit(
        topology=domain.topology,
        level=domain.level,
        path=domain.path,
        nodes=len(domain.rows),
        ready=len(ready),
        allocatable_milli=_sums(columns.offered, resources, domain.rows),
        free_milli=_sums(columns.free, resources, ready),
        fits=tuple(tuple(_fit(columns, each, domain.rows) for each in plans) for plans in tries),
        seated=int(pods[crowd.own]) if crowd.own >= 0 else 0,
        sitting=tuple(crowd.names[gang] for gang in others[:SITTING_SHOWN]),
        sitting_total=len(others),
    )


def _sums(columns: Mapping[str, Vector], resources: Sequence[str], rows: Vector) -> dict[str, int]:
    return {
        name: sum(np.maximum(columns[name][rows], 0).tolist())
        for name in resources
        if name in columns
    }


def _fit(columns: Columns, found: Plan, rows: Vector) -> PodSetFit:
    codes, fits = found.eligible.code[rows], found.fits[rows]
    usable = rows[codes == 0]
    counts = np.bincount(codes, minlength=len(found.eligible.refusals) + 1)[1:].tolist()
    refused = {
        f"{predicate}: {detail}": count
        for (predicate, detail), count in zip(found.eligible.refusals, counts, strict=True)
        if count
    }
    full = int(np.count_nonzero(fits[codes == 0] == 0))
    if full:
        refused[Predicate.RESOURCE] = full
    free = columns.free.get(_main(found.pod_set.requests))
    return PodSetFit(
        pods=fits_at_most(fits, found.pod_set.count)[1],
        usable=len(usable),
        refused=refused,
        largest_free_milli=0 if free is None else int(free[usable].max(initial=0)),
    )


def _main(requests: Resources) -> str:
    """The resource that a pod is short of first: a card if it asks for one, else cpu."""
    cards = sorted(name for name in requests if requests[name] and is_extended(name))
    return cards[0] if cards else "cpu"
