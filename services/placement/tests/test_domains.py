"""What placement answers about the floor as a whole: domains, what is free, and who has a card."""

from dataclasses import replace
from typing import Any

import pytest

from muster_contracts import codec, events
from muster_contracts.floor import DomainPage, DomainRow
from muster_contracts.queries import CardShare, NodePage, NodeRow
from muster_domain.errors import InvalidValue
from muster_domain.queues import HyperNode, ResourceFlavor, Topology
from muster_domain.workload import Workload
from muster_placement.queries import domains as answer_domains
from muster_placement.queries import nodes as answer_nodes
from muster_scheduling.volcano.floor import VolcanoRules
from muster_testing.builders import FLAVOR, GPU, node, workload

from .house import House

HOST = "kubernetes.io/hostname"
VGPU = "volcano.sh/vgpu-number"
HALL = Topology(name="dc", levels=("block", "rack", HOST))
SWITCHES = (
    HyperNode(name="s1", tier=1, node_members=("a0", "a1")),
    HyperNode(name="s2", tier=1, node_members=("b0",)),
    HyperNode(name="spine", tier=2, tier_name="core", hyper_node_members=("s1", "s2")),
)


@pytest.fixture
def house() -> House:
    """Two racks in one block: r1 with two nodes of 4 cards, r2 with one of 8; and one elsewhere."""
    made = House()
    flavor = ResourceFlavor(name=FLAVOR, topology_name="dc")
    made.machine.configure({FLAVOR: flavor}, {"dc": HALL}, None, VolcanoRules(hyper_nodes=SWITCHES))
    for name, rack, gpus in (("a0", "r1", 4), ("a1", "r1", 4), ("b0", "r2", 8)):
        made.register(replace(node(name, gpus), labels={"block": "b", "rack": rack}))
    made.register(node("lonely", 2))
    return made


def page_of(house: House, **question: object) -> DomainPage:
    return codec.decode(DomainPage, answer_domains(house.machine, question))


def node_of(house: House, name: str) -> NodeRow:
    page = codec.decode(NodePage, answer_nodes(house.machine, {}))
    return next(row for row in page.nodes if row.name == name)


def domain(page: DomainPage, *path: str) -> DomainRow:
    return next(row for row in page.domains if row.path == path)


def test_the_whole_floor_comes_first_and_each_domain_before_those_inside_it(house: House) -> None:
    page = page_of(house)
    assert [(row.topology, row.level, row.path, row.nodes) for row in page.domains] == [
        ("", "", (), 4),
        ("dc", "block", ("b",), 3),
        ("dc", "rack", ("b", "r1"), 2),
        ("dc", "rack", ("b", "r2"), 1),
        ("HyperNode", "core", ("spine",), 3),
        ("HyperNode", "tier 1", ("spine", "s1"), 2),
        ("HyperNode", "tier 1", ("spine", "s2"), 1),
    ]
    assert page.total == 7


def test_every_node_says_where_it_is(house: House) -> None:
    assert node_of(house, "a1").domains == {"dc": ("b", "r1"), "HyperNode": ("spine", "s1")}
    assert node_of(house, "lonely").domains == {}


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ({"contains": "a"}, ["a0", "a1"]),
        ({"topology": "dc"}, ["a0", "a1", "b0"]),
        ({"topology": "dc", "path": ("b", "r2")}, ["b0"]),
        ({"topology": "HyperNode", "path": ("spine", "s1")}, ["a0", "a1"]),
        ({"topology": "dc", "path": ("b", "r9")}, []),
        ({"topology": "nowhere", "path": ("b",)}, []),
        ({"outside": True}, ["lonely"]),
        ({"names": ("a0", "b0"), "contains": "b"}, ["b0"]),
    ],
)
def test_nodes_are_found_by_name_and_by_place(
    house: House, question: dict[str, Any], names: list[str]
) -> None:
    page = codec.decode(NodePage, answer_nodes(house.machine, question))
    assert [row.name for row in page.nodes] == names
    assert page.total == len(names)


def test_a_domain_counts_what_is_free_on_nodes_that_take_pods(house: House) -> None:
    house.run(workload("one", gpus=3))
    house.hear_node(events.DrainRequested(node="a1", drained=True), "a1")
    rack = domain(page_of(house), "b", "r1")
    assert (rack.nodes, rack.ready) == (2, 1)
    assert (rack.allocatable_milli[GPU], rack.free_milli[GPU]) == (8000, 1000)


def test_the_largest_gang_is_told_for_every_domain(house: House) -> None:
    house.run(workload("one", gpus=3))
    page = page_of(house, pods=[{GPU: 1000}, {GPU: 2000}, {GPU: 5000}])
    assert [row.largest for row in page.domains] == [
        (13, 6, 1), (13, 6, 1), (5, 2, 0), (8, 4, 1), (13, 6, 1), (5, 2, 0), (8, 4, 1),
    ]  # fmt: skip


def test_usual_pods_are_told_where_none_is_asked_for(house: House) -> None:
    page = page_of(house)
    assert [pod[GPU] for pod in page.pods] == [1000, 2000, 4000, 8000]
    assert domain(page, "b", "r2").largest[-1] == 1


def test_domains_come_in_pages(house: House) -> None:
    found = [row for offset in (0, 3, 6) for row in page_of(house, limit=3, offset=offset).domains]
    assert tuple(found) == page_of(house).domains


@pytest.mark.parametrize(
    "question", [{"limit": 0}, {"offset": -1}, {"pods": [{GPU: -1}]}, {"pods": [{GPU: 1}] * 17}]
)
def test_questions_out_of_reach_are_refused(house: House, question: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        page_of(house, **question)


def sharing(identity: str, cores: int) -> Workload:
    made = workload(identity)
    requests = {VGPU: 1000, "volcano.sh/vgpu-cores": cores * 1000}
    requests["volcano.sh/vgpu-memory-percentage"] = cores * 1000
    return replace(made, pod_sets=(replace(made.pod_sets[0], requests=requests),))


def test_a_shared_card_names_everybody_on_it(house: House) -> None:
    house.run(sharing("x", 50))
    house.run(sharing("y", 25))
    page = codec.decode(NodePage, answer_nodes(house.machine, {}))
    (card,) = (each for row in page.nodes for each in row.devices if each.shares)
    assert card.shares == (
        CardShare(holder="team-a/job-x", milli=500),
        CardShare(holder="team-a/job-y", milli=250),
    )
    assert (card.holder, card.left_milli) == ("team-a/job-x", 250)
