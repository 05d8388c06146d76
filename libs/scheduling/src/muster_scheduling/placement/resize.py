"""Gangs that grow and shrink: those that run keep their seats, ranks and indices.

More pods sit beside those that run, in the domain that these are bound to. A new pod gets the
lowest index of its set and the lowest rank that are free, so one that left leaves no gap for long.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from muster_domain.nodes import Placement, PodAssignment, TopologyAssignment
from muster_scheduling.placement.outcome import Gang
from muster_scheduling.placement.ranks import topologies_of
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.table import NodeTable
from muster_scheduling.placement.topology.reported import topology_of
from muster_scheduling.placement.topology.rows import row_tree
from muster_scheduling.placement.topology.vacancy import vacancy_of


def surplus(
    placement: Placement, counts: Mapping[str, int], first: Iterable[int]
) -> frozenset[int]:
    """The ranks that leave a gang of which so many pods stay: `first`, then the highest indices."""
    going = set(first)
    for name, held in placement.counts.items():
        pods = [pod for pod in placement.pods if pod.pod_set == name]
        spare = held - counts.get(name, held) - sum(pod.rank in going for pod in pods)
        last = sorted((pod for pod in pods if pod.rank not in going), key=lambda pod: -pod.index)
        going |= {pod.rank for pod in last[: max(0, spare)]}
    return frozenset(going)


def without(table: NodeTable, gang: Gang, ranks: frozenset[int]) -> Gang:
    """The gang once the pods of these ranks are gone."""
    pods = tuple(pod for pod in gang.placement.pods if pod.rank not in ranks)
    return _resized(gang, pods, _topologies(table, gang.placement, pods))


def lacking(
    table: NodeTable, request: GangRequest, gang: Gang, counts: Mapping[str, int], *, some: bool
) -> GangRequest:
    """The request of the pods that a gang lacks: all of them, or `some` as far as they fit.

    `request` is that of the whole gang.
    """
    held = gang.placement.counts
    outside: set[str] = set()
    pod_sets: list[PodSetRequest] = []
    for pod_set in request.pod_sets:
        more = counts.get(pod_set.name, 0) - held.get(pod_set.name, 0)
        if more > 0:
            beside, kept_out = _beside(table, gang, pod_set, more)
            outside |= kept_out
            pod_sets.append(replace(beside, count=more, min_count=0 if some else None))
    return replace(
        request, pod_sets=tuple(pod_sets), excluded=request.excluded | frozenset(outside)
    )


def grown(table: NodeTable, request: GangRequest, gang: Gang, more: Gang, number: int) -> Gang:
    """The gang with the pods that were found seats, as of the resize of that number."""
    taken = {pod.rank for pod in gang.placement.pods}
    indices = {(pod.pod_set, pod.index) for pod in gang.placement.pods}
    pods = list(gang.placement.pods)
    for pod in more.placement.pods:
        rank = next(n for n in range(len(taken) + 1) if n not in taken)
        index = next(n for n in range(len(indices) + 1) if (pod.pod_set, n) not in indices)
        taken.add(rank)
        indices.add((pod.pod_set, index))
        pods.append(replace(pod, rank=rank, index=index, resize=number))
    pods.sort(key=lambda pod: pod.rank)
    return _resized(gang, tuple(pods), topologies_of(table, request, pods))


def _resized(
    gang: Gang, pods: tuple[PodAssignment, ...], topology: Mapping[str, TopologyAssignment]
) -> Gang:
    placement = replace(gang.placement, pods=pods, topology=topology)
    counts = placement.counts
    return replace(
        gang,
        placement=placement,
        pod_sets=tuple(
            replace(
                pod_set,
                count=counts.get(pod_set.name, 0),
                min_count=min(pod_set.min_count, counts.get(pod_set.name, 0)),
            )
            for pod_set in gang.pod_sets
        ),
    )


def _topologies(
    table: NodeTable, before: Placement, pods: tuple[PodAssignment, ...]
) -> dict[str, TopologyAssignment]:
    nodes = {name: table.node(name) for name in sorted({pod.node for pod in pods})}
    return {
        name: topology_of(assignment.levels, (pod for pod in pods if pod.pod_set == name), nodes)
        for name, assignment in before.topology.items()
    }


def _beside(
    table: NodeTable, gang: Gang, pod_set: PodSetRequest, more: int
) -> tuple[PodSetRequest, frozenset[str]]:
    """What more pods of a set ask, and the nodes that those which run keep them from."""
    levels = pod_set.topology_levels
    if pod_set.topology is None or not levels:
        return pod_set, frozenset()
    columns = table.columns
    found = row_tree(columns, levels)
    rows: list[int] = found.rows.tolist()
    leaf_of = {row: leaf for leaf, row in enumerate(rows)}
    seated: dict[int, int] = {}
    for pod in gang.placement.pods:
        leaf = leaf_of.get(columns.row[pod.node]) if pod.node in columns.row else None
        if pod.pod_set == pod_set.name and leaf is not None:
            seated[leaf] = seated.get(leaf, 0) + 1
    vacancy = vacancy_of(found.tree, pod_set.topology, seated, more)
    topology = vacancy.request
    asked = replace(
        pod_set, topology=None if topology is None else replace(topology, pod_set_group="")
    )
    if vacancy.inside is None:
        return asked, frozenset()
    inside: set[str] = set()
    for row, kept in zip(rows, vacancy.inside, strict=True):
        if kept:
            inside.add(columns.records[row].name)
    return asked, frozenset(record.name for record in columns.records) - inside
