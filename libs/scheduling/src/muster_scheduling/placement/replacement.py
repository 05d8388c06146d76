"""New seats for the pods of one lost node, for gangs that a topology seated (R-88)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from muster_domain.conditions import Explanation, UnplaceableReason
from muster_domain.nodes import NodeCondition, PodAssignment
from muster_scheduling.placement.attempt import Attempt
from muster_scheduling.placement.explain import unplaceable
from muster_scheduling.placement.outcome import Gang, Placed, PlacementOutcome, Unplaceable
from muster_scheduling.placement.plan import Plan, plan
from muster_scheduling.placement.ranks import FreeDevices, nodes_in_order, topologies_of
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.table import NodeTable
from muster_scheduling.placement.topology.rows import row_tree
from muster_scheduling.placement.topology.vacancy import vacancy_of


def replace_node(
    table: NodeTable, request: GangRequest, gang: Gang, lost_node: str
) -> PlacementOutcome:
    """The gang with the pods of `lost_node` on other nodes, everybody else where they are.

    Binds nothing. The new seats are in the domain that the pod set's level or broken slice
    requires. Refused where a pod there is of no topology, where rank 0 is among them and others are
    not (they were told its address when they started), where another of the gang's nodes takes no
    pods either (one node is replaced, two are not), and where there are no seats.
    """
    pods = gang.placement.pods
    lost = [pod for pod in pods if pod.node == lost_node]
    sets = {pod_set.name: pod_set for pod_set in request.pod_sets if pod_set.levels}
    if not all(pod.pod_set in sets for pod in lost):
        return _refused(lost, lost_node, "some of its pods have no topology to be replaced in")
    if len(lost) < len(pods) and any(pod.rank == 0 for pod in lost):
        return _refused(lost, lost_node, "the others know rank 0 there")
    unusable = _unusable(table, gang, lost_node)
    if unusable:
        return _refused(lost, lost_node, f"{unusable} does not take pods either")
    plans = [
        _vacancy(table, request, gang, sets[name], lost_node)
        for name in dict.fromkeys(pod.pod_set for pod in lost)
    ]
    order = tuple((number,) for number in range(len(plans)))
    seating = Attempt(table.columns, request, plans, order).run()
    if not seating.complete:
        asked = replace(request, pod_sets=tuple(found.pod_set for found in plans))
        refused = unplaceable(table.columns, asked, plans, seating)
        message = f"{lost_node} cannot be replaced: {refused.explanation.message}"
        return replace(refused, explanation=replace(refused.explanation, message=message))
    new_nodes = {
        found.pod_set.name: nodes_in_order(table.columns, found, seats)
        for found, seats in zip(plans, seating.seats, strict=True)
    }
    seats = _reseat(table, gang, sets, lost_node, new_nodes)
    topology = topologies_of(table, request, seats)
    placement = replace(gang.placement, pods=tuple(seats), topology=topology)
    return Placed(gang=replace(gang, placement=placement))


def _unusable(table: NodeTable, gang: Gang, lost_node: str) -> str:
    ready = {node.name for node in table.nodes()}
    for name in gang.placement.nodes:
        gone = name not in ready or table.condition(name) is not NodeCondition.READY
        if name != lost_node and gone:
            return name
    return ""


def _vacancy(
    table: NodeTable, request: GangRequest, gang: Gang, pod_set: PodSetRequest, lost_node: str
) -> Plan:
    columns = table.columns
    found = row_tree(columns, pod_set.levels)
    leaf_of = {row: leaf for leaf, row in enumerate(found.rows.tolist())}
    seated: dict[int, int] = {}
    lost = 0
    for pod in gang.placement.pods:
        if pod.pod_set == pod_set.name and pod.node == lost_node:
            lost += 1
        elif pod.pod_set == pod_set.name:
            leaf = leaf_of[columns.row[pod.node]]
            seated[leaf] = seated.get(leaf, 0) + 1
    vacancy = vacancy_of(found.tree, pod_set.topology, seated, lost)
    topology = vacancy.request
    asked = replace(
        pod_set,
        count=lost,
        min_count=None,
        topology=None if topology is None else replace(topology, pod_set_group=""),
    )
    planned = plan(columns, asked, request.excluded | {lost_node})
    if vacancy.inside is None:
        return planned
    inside = np.zeros(len(columns), np.bool_)
    inside[found.rows[vacancy.inside]] = True
    return replace(planned, fits=np.where(inside, planned.fits, 0))


def _reseat(
    table: NodeTable,
    gang: Gang,
    sets: dict[str, PodSetRequest],
    lost_node: str,
    new_nodes: dict[str, list[str]],
) -> list[PodAssignment]:
    hand_out = FreeDevices(table)
    hand_out.divide((sets[name], nodes) for name, nodes in new_nodes.items())
    number = gang.placement.replacements + 1
    left = {name: iter(nodes) for name, nodes in new_nodes.items()}
    pods: list[PodAssignment] = []
    for pod in gang.placement.pods:
        if pod.node != lost_node:
            pods.append(pod)
            continue
        seat = replace(pod, node=next(left[pod.pod_set]), replacement=number)
        pods.append(hand_out.furnish(seat, sets[pod.pod_set]))
    return pods


def _refused(lost: Sequence[PodAssignment], node: str, why: str) -> Unplaceable:
    reason = UnplaceableReason.TOPOLOGY
    message = f"{node} cannot be replaced: {why}"
    return Unplaceable(
        reason=reason,
        explanation=Explanation(reason=reason, message=message),
        members_asked=len(lost),
    )
