import pytest

from muster_domain.conditions import UnplaceableReason
from muster_domain.nodes import Node
from muster_domain.queues import PlacementPolicy
from muster_domain.selectors import NodeDemand
from muster_domain.workload import TopologyMode, TopologyRequest
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Unplaceable
from muster_scheduling.placement.request import GangRequest

from .builders import gang, node, nodes_of, pod_set, seat, table_of

HOST = "kubernetes.io/hostname"
LEVELS = ("block", "rack", HOST)


def rack(block: str, name: str, *cpus: int) -> list[Node]:
    """Nodes `<block>-<rack>-<number>` with that many cores."""
    return [
        node(f"{block}-{name}-{number}", cpu=cpu, labels={"block": block, "rack": name})
        for number, cpu in enumerate(cpus)
    ]


def ask(
    count: int,
    mode: TopologyMode,
    label: str = "",
    *,
    levels: tuple[str, ...] = LEVELS,
    min_count: int | None = None,
) -> GangRequest:
    topology = TopologyRequest(mode=mode, node_label=label)
    return gang(pod_set(count, topology=topology, levels=levels, min_count=min_count))


REQUIRED, PREFERRED = TopologyMode.REQUIRED, TopologyMode.PREFERRED


@pytest.mark.parametrize(
    ("label", "count", "expected"),
    [
        pytest.param("rack", 5, {"b1-r2-0": 3, "b1-r2-1": 2}, id="the tightest rack"),
        pytest.param("rack", 8, {"b1-r1-0": 4, "b1-r1-1": 4}, id="a whole rack"),
        pytest.param("block", 9, {"b1-r1-0": 4, "b1-r1-1": 4, "b1-r2-1": 1}, id="few racks"),
        pytest.param(HOST, 4, {"b1-r1-0": 4}, id="one node"),
        pytest.param("", 3, {"b1-r2-0": 3}, id="the lowest level when none is named"),
    ],
)
def test_required_topology_sits_in_one_domain(
    label: str, count: int, expected: dict[str, int]
) -> None:
    table = table_of(*rack("b1", "r1", 4, 4), *rack("b1", "r2", 3, 2), *rack("b2", "r1", 4, 3))
    assert nodes_of(seat(table, ask(count, REQUIRED, label))) == expected


def test_racks_of_one_name_in_two_blocks_are_two_domains() -> None:
    table = table_of(*rack("b1", "r1", 4), *rack("b2", "r1", 4))
    outcome = place(table, ask(8, REQUIRED, "rack"))
    assert isinstance(outcome, Unplaceable)
    assert outcome.reason is UnplaceableReason.TOPOLOGY
    assert outcome.members_seated == 4
    assert outcome.explanation.message == (
        "4 of 8 members can be seated, in rack b1/r1; "
        "main: 2/2 nodes fit, the topology fits only 4 out of 8 pods in one rack"
    )


@pytest.mark.parametrize(
    ("label", "count", "expected"),
    [
        pytest.param("rack", 4, {"b1-r1-0": 2, "b1-r1-1": 2}, id="as asked"),
        pytest.param("rack", 6, {"b1-r1-0": 2, "b1-r1-1": 2, "b1-r2-0": 2}, id="one level wider"),
        pytest.param(
            "rack",
            9,
            {"b1-r1-0": 2, "b1-r1-1": 2, "b1-r2-0": 2, "b1-r2-1": 2, "b2-r1-1": 1},
            id="anywhere",
        ),
    ],
)
def test_preferred_topology_widens_until_it_fits(
    label: str, count: int, expected: dict[str, int]
) -> None:
    table = table_of(*rack("b1", "r1", 2, 2), *rack("b1", "r2", 2, 2), *rack("b2", "r1", 2, 1))
    assert nodes_of(seat(table, ask(count, PREFERRED, label))) == expected


def test_nodes_without_the_labels_take_no_part() -> None:
    table = table_of(node("bare", cpu=64), *rack("b1", "r1", 2))
    outcome = place(table, ask(3, PREFERRED, "rack"))
    assert isinstance(outcome, Unplaceable)
    assert "1 topology label block" in outcome.explanation.message


def test_unconstrained_goes_wherever_there_is_room() -> None:
    table = table_of(*rack("b1", "r1", 2, 2), *rack("b2", "r1", 3))
    outcome = seat(table, ask(7, TopologyMode.UNCONSTRAINED))
    assert nodes_of(outcome) == {"b1-r1-0": 2, "b1-r1-1": 2, "b2-r1-0": 3}


def test_a_label_stands_alone_without_a_topology() -> None:
    table = table_of(*rack("b1", "r1", 4), *rack("b2", "r1", 4))
    assert len(nodes_of(seat(table, ask(8, REQUIRED, "rack", levels=())))) == 2


def test_ranks_follow_the_domains() -> None:
    labelled = [
        node("a", cpu=1, labels={"block": "y", "rack": "r"}),
        node("b", cpu=1, labels={"block": "x", "rack": "r"}),
        node("c", cpu=1, labels={"block": "y", "rack": "r"}),
    ]
    placed = seat(table_of(*labelled), ask(3, PREFERRED, "rack"))
    assert [pod.node for pod in placed.placement.pods] == ["b", "a", "c"]


def test_an_elastic_set_takes_the_domain_that_holds_most_of_it() -> None:
    table = table_of(*rack("b1", "r1", 2), *rack("b1", "r2", 3), *rack("b1", "r3", 3))
    assert nodes_of(seat(table, ask(5, REQUIRED, "rack", min_count=2))) == {"b1-r2-0": 3}


def test_more_of_an_elastic_set_stays_in_its_domain() -> None:
    table = table_of(*rack("b1", "r1", 3), *rack("b1", "r2", 2))
    topology = TopologyRequest(mode=REQUIRED, node_label="rack")
    request = gang(
        pod_set(1, name="server"),
        pod_set(9, min_count=2, topology=topology, levels=LEVELS, name="worker"),
    )
    placed = seat(table, request)
    workers = {pod.node for pod in placed.placement.pods if pod.pod_set == "worker"}
    assert len(workers) == 1


def test_spread_takes_the_emptiest_node_when_all_must_share_one() -> None:
    table = table_of(*rack("b1", "r1", 4, 6, 6))
    seat(table, gang(pod_set(1, demand=NodeDemand(node_selector={HOST: "b1-r1-1"})), workload="v"))
    pods = pod_set(4, topology=TopologyRequest(mode=REQUIRED, node_label=HOST))
    placed = seat(table, gang(pods, policy=PlacementPolicy.SPREAD))
    assert nodes_of(placed) == {"b1-r1-2": 4}
