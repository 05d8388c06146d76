"""The largest gang that is told is the largest that is seated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.nodes import Node, NodeCondition
from muster_domain.quantity import Resources
from muster_domain.queues import ResourceFlavor, Topology
from muster_domain.selectors import Toleration, TolerationOperator
from muster_domain.workload import TopologyMode, TopologyRequest
from muster_scheduling.placement.columns import Vector
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.largest import fits_by_flavor, largest_gang, usual_pods
from muster_scheduling.placement.outcome import Placed
from muster_scheduling.placement.request import PodSetRequest
from muster_scheduling.placement.table import NodeTable

from .builders import DEDICATED, GIB, GPU, gang, node, pod_set, table_of
from .test_properties import clusters, gangs

ANY = ResourceFlavor(name="any")
RACKED = ResourceFlavor(name="racked", topology_name="dc")
HALL = Topology(name="dc", levels=("row", "rack"))


def largest(
    table: NodeTable,
    pod: Resources,
    *flavors: ResourceFlavor,
    rows: Vector | None = None,
    excluded: frozenset[str] = frozenset(),
) -> int:
    columns = table.columns
    fits = fits_by_flavor(columns, pod, flavors or (ANY,), {HALL.name: HALL}, excluded)
    return largest_gang(fits, np.arange(len(columns)) if rows is None else rows)


def is_seated(table: NodeTable, pods: int, pod: Resources, **fields: object) -> bool:
    asked = PodSetRequest(name="main", count=pods, requests=pod, **fields)
    return isinstance(place(table, gang(asked, workload="new")), Placed)


@given(clusters(), gangs(), st.integers(1, 4), st.integers(0, 3), st.integers(0, 2))
def test_so_many_are_seated_and_not_one_more(
    nodes: list[Node], before: object, cpu: int, gib: int, gpus: int
) -> None:
    table = table_of(*nodes)
    outcome = place(table, before)
    if isinstance(outcome, Placed):
        table.bind(outcome.gang)
    pod = pod_set(cpu=cpu, gib=gib, gpus=gpus).requests
    pods = largest(table, pod)
    assert pods == 0 or is_seated(table, pods, pod)
    assert not is_seated(table, pods + 1, pod)


@given(clusters(), st.integers(1, 4), st.integers(0, 2))
def test_in_the_best_domain_so_many_are_seated_where_one_is_required(
    nodes: list[Node], cpu: int, gpus: int
) -> None:
    table = table_of(*nodes)
    pod = pod_set(cpu=cpu, gpus=gpus).requests
    for level in range(len(HALL.levels)):
        domains: dict[tuple[str, ...], list[int]] = {}
        for row, one in enumerate(nodes):
            path = tuple(one.labels[label] for label in HALL.levels[: level + 1])
            domains.setdefault(path, []).append(row)
        pods = max(largest(table, pod, RACKED, rows=np.array(each)) for each in domains.values())
        required = TopologyRequest(mode=TopologyMode.REQUIRED, node_label=HALL.levels[level])
        fields = {"topology": required, "levels": HALL.levels, "flavors": (RACKED,)}
        assert pods == 0 or is_seated(table, pods, pod, **fields)
        assert not is_seated(table, pods + 1, pod, **fields)


def test_processors_and_memory_count_and_not_cards_alone() -> None:
    table = table_of(node("a", cpu=16, gib=64, gpus=8), node("b", cpu=64, gib=16, gpus=8))
    assert largest(table, {GPU: 1000}) == 16
    assert largest(table, {GPU: 1000, "cpu": 4000}) == 12
    assert largest(table, {GPU: 1000, "cpu": 4000, "memory": 16 * GIB}) == 5


def test_a_gang_is_of_one_flavor_with_its_labels_and_tolerations() -> None:
    table = table_of(
        node("a", gpus=4, labels={"card": "a100"}),
        node("b", gpus=8, labels={"card": "h100"}, taints=(DEDICATED,)),
    )
    old = ResourceFlavor(name="old", node_labels={"card": "a100"})
    new = ResourceFlavor(name="new", node_labels={"card": "h100"})
    tolerant = Toleration(key="dedicated", operator=TolerationOperator.EXISTS)
    allowed = ResourceFlavor(name="new", node_labels={"card": "h100"}, tolerations=(tolerant,))
    assert largest(table, {GPU: 1000}, old, new) == 4
    assert largest(table, {GPU: 1000}, old, allowed) == 8


def test_nodes_that_take_no_pods_or_are_kept_for_others_do_not_count() -> None:
    table = table_of(node("a", gpus=4), node("b", gpus=4), node("c", gpus=4))
    table.set_condition("a", NodeCondition.CORDONED)
    assert largest(table, {GPU: 1000}) == 8
    assert largest(table, {GPU: 1000}, excluded=frozenset({"b"})) == 4


@pytest.mark.parametrize(
    ("nodes", "usual"),
    [
        ([], []),
        ([node("a", cpu=16)], []),
        ([node("a", cpu=17, gib=67, gpus=4)], [(1, 4, 16), (2, 8, 32), (4, 16, 64)]),
        (
            [node("a", cpu=8, gpus=2), node("b", cpu=64, gpus=2), node("c", cpu=64, gpus=2)],
            [(1, 32, 32), (2, 64, 64)],
        ),
    ],
    ids=["no nodes", "no cards", "in whole units", "as on most nodes"],
)
def test_a_card_usually_comes_with_its_part_of_the_node(
    nodes: list[Node], usual: list[tuple[int, int, int]]
) -> None:
    assert list(usual_pods(table_of(*nodes).columns)) == [
        {GPU: gpus * 1000, "cpu": cpu * 1000, "memory": gib * GIB} for gpus, cpu, gib in usual
    ]
