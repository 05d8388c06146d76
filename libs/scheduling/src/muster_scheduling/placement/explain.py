"""Why there are no seats, in numbers and in one line for people."""

from collections.abc import Sequence

import numpy as np

from muster_domain.conditions import Explanation, UnplaceableReason
from muster_domain.mig import MIG_PREFIX
from muster_domain.nodes import PodAssignment
from muster_domain.quantity import format_quantity
from muster_domain.queues import PlacementPolicy
from muster_domain.time_slicing import SHARED_GPU, replicas_on
from muster_domain.workload import TopologyMode
from muster_scheduling.placement.columns import LIMIT, Columns, Mask
from muster_scheduling.placement.domains import narrow
from muster_scheduling.placement.outcome import (
    Gang,
    PodSetVerdict,
    Predicate,
    Refusal,
    Shortfall,
    Unplaceable,
)
from muster_scheduling.placement.plan import Plan, Seating
from muster_scheduling.placement.record import MILLI, PODS, NodeRecord, is_extended
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.seating import domain_totals, fits_at_most
from muster_scheduling.placement.shares import GPU, Share
from muster_scheduling.placement.table import NodeTable
from muster_scheduling.placement.topology.rows import RowFits, row_tree, seat_rows
from muster_scheduling.placement.topology.selection import NotFitting
from muster_scheduling.placement.topology.terms import UnusableRequest, resolve, slice_size
from muster_scheduling.placement.zones import Near

_NODES_TOLD = 4
_REASONS = (
    (Predicate.RESOURCE, UnplaceableReason.INSUFFICIENT_RESOURCES),
    (Predicate.TOPOLOGY_LABEL, UnplaceableReason.TOPOLOGY),
    (Predicate.TAINT, UnplaceableReason.UNTOLERATED_TAINT),
    (Predicate.NODE_AFFINITY, UnplaceableReason.NODE_SELECTOR_MISMATCH),
    (Predicate.NODE_SELECTOR, UnplaceableReason.NODE_SELECTOR_MISMATCH),
)
"""The reason of a set that no node can seat: of the check that nodes came furthest to."""


def unsupported(columns: Columns, request: GangRequest) -> Unplaceable | None:
    """A refusal of what no nodes could satisfy, if the request asks for it."""
    for pod_set in request.pod_sets:
        found = _fraction(columns, pod_set) or _topology(pod_set)
        if found is not None:
            return _refused(request, pod_set.name, *found)
    group = _group(request)
    return _refused(request, *group) if group is not None else None


def unplaceable(
    columns: Columns, request: GangRequest, plans: Sequence[Plan], best: Seating
) -> Unplaceable:
    """The refusal of a gang for which the search found at most `best`."""
    verdicts = tuple(_verdict(columns, request, found) for found in plans)
    reason = _reason(plans, verdicts)
    asked, seated = _asked(request), _seated(verdicts, best)
    counts = {"members_asked": asked, "members_seated": seated, "nodes": len(columns)}
    for verdict in verdicts:
        for refusal in verdict.refusals:
            name = f"nodes: {refusal.predicate}"
            counts[name] = counts.get(name, 0) + refusal.nodes
    short = [
        _describe(found, verdict, several=len(plans) > 1)
        for found, verdict in zip(plans, verdicts, strict=True)
        if reason is not UnplaceableReason.INSUFFICIENT_RESOURCES or _is_short(found, verdict)
    ]
    where = _best_domain(columns, plans[0]) if len(plans) == 1 and seated else ""
    message = f"{seated} of {asked} members can be seated{where}; " + "; ".join(short)
    return Unplaceable(
        reason=reason,
        explanation=Explanation(reason=reason, message=message, counts=counts),
        members_asked=asked,
        members_seated=seated,
        pod_sets=verdicts,
    )


def _seated(verdicts: Sequence[PodSetVerdict], best: Seating) -> int:
    """The most members that were seated; a topology says it of a set that it refused whole."""
    alone = verdicts[0] if len(verdicts) == 1 else None
    if alone is None or alone.topology is None:
        return best.members
    return max(best.members, alone.topology.fitting * alone.asked // alone.topology.needed)


def _best_domain(columns: Columns, found: Plan) -> str:
    """The domain in which most pods of a set find seats, if they must sit in one."""
    topology = found.pod_set.topology
    if not found.required or topology is None or topology.slices:
        return ""
    level = found.domains.number_of(topology.node_label)
    domain_of = found.domains.levels[level]
    best = int(np.argmax(domain_totals(domain_of, found.fits)))
    row = int(np.argmax(domain_of == best))
    labels = (columns.label(label) for label in found.domains.labels[: level + 1])
    path = "/".join(str(label.values[int(label.codes[row])]) for label in labels)
    return f", in {found.domains.labels[level]} {path}"


def seated_message(table: NodeTable, gang: Gang, policy: PlacementPolicy) -> str:
    """Where a gang sits and what it leaves there, once it is bound; in one line for people."""
    nodes = gang.placement.nodes
    told = [f"{name}: {_left_on(table, name)}" for name in nodes[:_NODES_TOLD]]
    if len(nodes) > _NODES_TOLD:
        told.append(f"and {len(nodes) - _NODES_TOLD} more nodes")
    turns = max((_replicas(table, pod) for pod in gang.placement.pods), default=1)
    if turns > 1:
        told.append(f"up to {turns} pods take turns on each card and share its memory unguarded")
    return f"{policy}: {'; '.join(told)}"


def _replicas(table: NodeTable, pod: PodAssignment) -> int:
    """How many pods take turns on the cards that a pod has, if it has replicas of any."""
    labels = table.node(pod.node).labels
    shared = pod.devices.get(SHARED_GPU) or pod.devices.get(GPU)
    return replicas_on(labels) if shared else 1


def _left_on(table: NodeTable, name: str) -> str:
    free, record = table.free(name), table.record(name)
    whole = [
        f"{max(0, quantity) // MILLI} whole {resource}"
        for resource, quantity in sorted(free.items())
        if is_extended(resource)
    ]
    rest = [f"{format_quantity(free.get('cpu', 0))} cpu"] if not whole else []
    slices = [
        f"{card.slices - card.slices_held} of {card.slices} slices of card {card.index}"
        for card in record.divided
        if card.slices_held
    ]
    return f"leaves {', '.join((*whole, *_shares_left(record), *slices, *rest))}"


def _shares_left(record: NodeRecord) -> list[str]:
    """What is left of the cards of which a part is taken."""
    if not record.card_indices:
        return []
    return [
        f"{format_quantity(int(left))} of card {index}"
        for index, left in zip(record.card_indices, record.cards().left_milli, strict=True)
        if 0 < left < MILLI
    ]


def _refused(
    request: GangRequest, name: str, reason: UnplaceableReason, message: str, remedy: str
) -> Unplaceable:
    return Unplaceable(
        reason=reason,
        explanation=Explanation(reason=reason, message=f"{name}: {message}", remedy=remedy),
        members_asked=_asked(request),
    )


def _asked(request: GangRequest) -> int:
    return sum(pod_set.count for pod_set in request.pod_sets)


def _fraction(
    columns: Columns, pod_set: PodSetRequest
) -> tuple[UnplaceableReason, str, str] | None:
    for resource in sorted(pod_set.requests):
        quantity = pod_set.requests[resource]
        if quantity % MILLI and (columns.has_devices(resource) or is_extended(resource)):
            whole = -(-quantity // MILLI)
            return (
                UnplaceableReason.FRACTIONAL_DEVICE,
                f"{format_quantity(quantity)} of {resource}: devices are given out whole",
                f'write {resource}: "{whole}"',
            )
    return None


def _topology(pod_set: PodSetRequest) -> tuple[UnplaceableReason, str, str] | None:
    request, levels = pod_set.topology, pod_set.topology_levels
    if request is None:
        return None
    unsupported_topology = UnplaceableReason.UNSUPPORTED_TOPOLOGY
    if not levels and request.mode is not TopologyMode.UNCONSTRAINED:
        message = "a topology is asked for, but the flavor has none and no level is named"
        return unsupported_topology, message, "name a level, or give the flavor a topologyName"
    if request.slices and pod_set.count % request.slices[0].size:
        message = f"{pod_set.count} pods are not whole slices of {request.slices[0].size}"
        return unsupported_topology, message, "write a count that the slice size divides"
    try:
        if levels:
            resolve(levels, request, pod_set.count)
    except UnusableRequest as refusal:
        return unsupported_topology, str(refusal), f"write levels of {', '.join(levels)}"
    return None


def _group(request: GangRequest) -> tuple[str, UnplaceableReason, str, str] | None:
    """A pod set group is one leader and its workers, under one topology (R-82)."""
    groups: dict[str, list[PodSetRequest]] = {}
    for pod_set in request.pod_sets:
        if pod_set.topology is not None and pod_set.topology.pod_set_group:
            groups.setdefault(pod_set.topology.pod_set_group, []).append(pod_set)
    for name, members in groups.items():
        counts = sorted(pod_set.count for pod_set in members)
        levels = {pod_set.topology_levels for pod_set in members}
        if len(members) > 2 or (len(members) == 2 and counts[0] != 1) or len(levels) > 1:  # noqa: PLR2004 - a leader and its workers
            message = f"pod set group {name} is not one leader with its workers in one topology"
            remedy = "put one pod set of count 1 and one other into the group"
            return members[0].name, UnplaceableReason.UNSUPPORTED_TOPOLOGY, message, remedy
    return None


def _verdict(columns: Columns, request: GangRequest, found: Plan) -> PodSetVerdict:
    pod_set = found.pod_set
    _, fitting = fits_at_most(found.fits, pod_set.count)
    shortfall = _shortfall(columns, request, found)
    if shortfall is not None:
        inside = shortfall.fitting * slice_size(pod_set.topology)
    else:
        inside = narrow(found.domains, pod_set, found.fits, pod_set.count).members
    return PodSetVerdict(
        name=pod_set.name,
        asked=pod_set.count,
        fitting=fitting,
        fitting_in_one_domain=inside if found.required else None,
        topology=shortfall,
        nodes=len(columns),
        nodes_fitting=int(np.count_nonzero(found.fits)),
        refusals=(*_static_refusals(found), *_resource_refusals(columns, found)),
    )


def _shortfall(columns: Columns, request: GangRequest, found: Plan) -> Shortfall | None:
    """What the topology lacks for a set alone; none where it would seat it."""
    pod_set, labels = found.pod_set, found.pod_set.topology_levels
    if not pod_set.by_topology or not pod_set.count or not labels:
        return None
    terms = resolve(labels, pod_set.topology, pod_set.count, options=request.options)
    fits = RowFits(found.fits, np.zeros_like(found.fits), found.fits)
    try:
        seat_rows(row_tree(columns, labels), terms, fits, request.options)
    except NotFitting as refusal:
        return Shortfall(fitting=refusal.fitting, needed=refusal.needed)
    return None


def _static_refusals(found: Plan) -> list[Refusal]:
    refused = np.bincount(found.eligible.code, minlength=len(found.eligible.refusals) + 1)
    return [
        Refusal(predicate=predicate, detail=detail, nodes=nodes)
        for (predicate, detail), nodes in zip(
            found.eligible.refusals, refused[1:].tolist(), strict=True
        )
    ]


def _resource_refusals(columns: Columns, found: Plan) -> list[Refusal]:
    usable = found.eligible.usable
    left = usable & (found.fits == 0)
    refusals: list[Refusal] = []
    for resource, quantity in sorted(
        found.shape, key=lambda item: (not is_extended(item[0]), item)
    ):
        column = columns.free.get(resource)
        if column is None and resource == PODS:
            continue
        short = left if column is None or quantity > LIMIT else left & (column < quantity)
        if short.any():
            largest = 0 if column is None else int(column[short].max(initial=0))
            refusals.append(
                Refusal(
                    predicate=Predicate.RESOURCE,
                    detail=resource + _of_slices(columns, resource, short),
                    nodes=int(np.count_nonzero(short)),
                    asked_milli=quantity,
                    largest_free_milli=largest,
                )
            )
            left = left & ~short
    near = found.pod_set.near
    if near is not None and near.strict:
        apart = left & (columns.zones.pods_fitting(near) == 0)
        if apart.any():
            refusals.append(_zone_refusal(columns, near, apart))
            left = left & ~apart
    if found.share is not None and left.any():
        refusals.append(_share_refusal(columns, found.share, left))
    elif found.instances and left.any():
        refusals.append(_instances_refusal(columns, found, left))
    return refusals


def _of_slices(columns: Columns, resource: str, short: Mask) -> str:
    """How many slices are free on cards that lack room for a MIG instance, where there are any."""
    rows = np.flatnonzero(short).tolist() if resource.startswith(MIG_PREFIX) else []
    cards = [card for row in rows for card in columns.records[row].divided]
    if not cards:
        return ""
    free = max(card.slices - card.slices_held for card in cards)
    return f" on {len(cards)} divided cards with at most {free} of {cards[0].slices} slices free"


def _instances_refusal(columns: Columns, found: Plan, left: Mask) -> Refusal:
    """Each of the MIG instances of a pod could be made, but not all of them."""
    records = [columns.records[row] for row in np.flatnonzero(left).tolist()]
    rules = next(card.rules for record in records for card in record.divided)
    asked = sum(rules.profiles[name].slices * count for name, count in found.instances)
    free = max(sum(card.slices - card.slices_held for card in record.divided) for record in records)
    together = " and ".join(f"{count} x {name}" for name, count in found.instances)
    return Refusal(
        predicate=Predicate.RESOURCE,
        detail=f"slices of cards for {together}",
        nodes=len(records),
        asked_milli=asked * MILLI,
        largest_free_milli=free * MILLI,
    )


def _zone_refusal(columns: Columns, near: Near, apart: Mask) -> Refusal:
    """No NUMA zone holds the pod; in numbers of what the zones lack most, cards before cpu."""
    zones = columns.zones
    free, asked, what = zones.free_cpu_milli, near.cpu_milli, "cpu"
    if near.cards and int(zones.free_cards[apart].max(initial=0)) < near.cards:
        free, asked, what = zones.free_cards * MILLI, near.cards * MILLI, GPU
    return Refusal(
        predicate=Predicate.RESOURCE,
        detail=f"{what} in one NUMA zone",
        nodes=int(np.count_nonzero(apart)),
        asked_milli=asked,
        largest_free_milli=int(free[apart].max(initial=0)),
    )


def _share_refusal(columns: Columns, share: Share, left: Mask) -> Refusal:
    """No card with room for the share, or too few of them; both sides in thousandths of a card."""
    of_cards = columns.cards.at(np.flatnonzero(left)).left_milli
    return Refusal(
        predicate=Predicate.RESOURCE,
        detail=f"{GPU} share" if share.cards == 1 else f"{GPU} shares on {share.cards} cards",
        nodes=int(np.count_nonzero(left)),
        asked_milli=share.milli_of(columns.card_memory),
        largest_free_milli=int(of_cards.max(initial=0)),
    )


def _is_short(found: Plan, verdict: PodSetVerdict) -> bool:
    inside = verdict.fitting_in_one_domain
    alone = verdict.fitting if inside is None else inside
    return alone < max(1, found.pod_set.least)


def _reason(plans: Sequence[Plan], verdicts: Sequence[PodSetVerdict]) -> UnplaceableReason:
    for verdict in verdicts:
        if not verdict.nodes_fitting and verdict.asked:
            met = {refusal.predicate for refusal in verdict.refusals}
            furthest = (reason for predicate, reason in _REASONS if predicate in met)
            return next(furthest, UnplaceableReason.NO_NODES)
    for found, verdict in zip(plans, verdicts, strict=True):
        inside = verdict.fitting_in_one_domain
        if inside is not None and inside < found.pod_set.least <= verdict.fitting:
            return UnplaceableReason.TOPOLOGY
        if found.pod_set.by_topology and verdict.fitting >= found.pod_set.least:
            return UnplaceableReason.TOPOLOGY
    return UnplaceableReason.GANG_INCOMPLETE


def _describe(found: Plan, verdict: PodSetVerdict, *, several: bool) -> str:
    line = f"{verdict.name}: {verdict.nodes_fitting}/{verdict.nodes} nodes fit"
    topology = found.pod_set.topology
    if verdict.topology is not None:
        line += f", {_describe_shortfall(found, verdict.topology)}"
    elif topology is not None and verdict.fitting_in_one_domain is not None:
        level = topology.node_label or found.domains.labels[-1]
        line += f", {verdict.fitting_in_one_domain} of {verdict.asked} pods fit in one {level}"
    elif several and verdict.nodes_fitting:
        line += f", {verdict.fitting} of {verdict.asked} pods fit"
    refusals = ", ".join(_describe_refusal(refusal) for refusal in verdict.refusals)
    return f"{line}: {refusals}" if refusals else line


def _describe_shortfall(found: Plan, shortfall: Shortfall) -> str:
    pod_set = found.pod_set
    topology, size = pod_set.topology, slice_size(pod_set.topology)
    level = topology.node_label if topology is not None else ""
    unit = "pods" if size == 1 else f"slices of {size}"
    inside = f" in one {level or pod_set.topology_levels[-1]}" if found.required else ""
    name = pod_set.topology_name
    where = f"topology {name} fits" if name else "the topology fits"
    return f"{where} only {shortfall.fitting} out of {shortfall.needed} {unit}{inside}"


def _describe_refusal(refusal: Refusal) -> str:
    if refusal.predicate is Predicate.EXCLUDED:
        return f"{refusal.nodes} {refusal.predicate}"
    if refusal.predicate is Predicate.NOT_READY:
        return f"{refusal.nodes} {refusal.predicate} ({refusal.detail})"
    if refusal.predicate is not Predicate.RESOURCE:
        return f"{refusal.nodes} {refusal.predicate} {refusal.detail}"
    largest = format_quantity(refusal.largest_free_milli)
    asked = format_quantity(refusal.asked_milli)
    return (
        f"{refusal.nodes} {refusal.predicate} {refusal.detail} "
        f"(largest free {largest} of {asked} asked)"
    )
