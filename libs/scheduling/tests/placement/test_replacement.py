"""The pods of one lost node find other seats; everybody else keeps theirs (R-88)."""

from collections import Counter

import pytest

from muster_domain.nodes import DomainCount, NodeCondition, TopologyAssignment
from muster_domain.queues import ResourceFlavor
from muster_domain.selectors import NodeDemand
from muster_domain.workload import SliceConstraint, TopologyMode, TopologyRequest
from muster_scheduling.placement.checks import violations
from muster_scheduling.placement.outcome import Gang, Placed, PlacementOutcome
from muster_scheduling.placement.replacement import replace_node
from muster_scheduling.placement.request import GangRequest
from muster_scheduling.placement.table import NodeTable

from .builders import GPU, gang, node, pod_set, seat, table_of

HOST = "kubernetes.io/hostname"
LEVELS = ("rack", HOST)
FLAVOR = ResourceFlavor(name="gpu", topology_name="dc")


def hall(**gpus_by_rack: tuple[int, ...]) -> NodeTable:
    """Nodes `<rack>-<number>` with that many GPUs."""
    return table_of(
        *(
            node(f"{rack}-{number}", gpus=gpus, labels={"rack": rack})
            for rack, sizes in gpus_by_rack.items()
            for number, gpus in enumerate(sizes)
        )
    )


def ask(
    count: int,
    label: str = "",
    mode: TopologyMode = TopologyMode.REQUIRED,
    slices: tuple[tuple[str, int], ...] = (),
) -> GangRequest:
    topology = TopologyRequest(
        mode=mode,
        node_label=label,
        slices=tuple(SliceConstraint(node_label=name, size=size) for name, size in slices),
    )
    pods = pod_set(count, gpus=1, topology=topology, levels=LEVELS, flavors=(FLAVOR,))
    return gang(pods)


def lose(table: NodeTable, request: GangRequest, name: str) -> PlacementOutcome:
    table.set_condition(name, NodeCondition.FENCED)
    bound = table.gang(request.workload)
    assert bound is not None
    return replace_node(table, request, bound, name)


def counts(moved: Gang) -> dict[str, int]:
    return dict(Counter(pod.node for pod in moved.placement.pods))


def test_only_the_pods_of_the_lost_node_move_and_keep_their_ranks() -> None:
    table = hall(r1=(2, 2, 2), r2=(8,))
    request = ask(4, "rack")
    before = seat(table, request)
    outcome = lose(table, request, "r1-1")
    assert isinstance(outcome, Placed)
    moved = outcome.gang
    assert counts(moved) == {"r1-0": 2, "r1-2": 2}
    kept = [pod for pod in before.placement.pods if pod.node != "r1-1"]
    assert [pod for pod in moved.placement.pods if not pod.replacement] == kept
    assert [(pod.rank, pod.replacement) for pod in moved.placement.pods] == [
        (0, 0), (1, 0), (2, 1), (3, 1),
    ]  # fmt: skip
    assert moved.placement.topology["main"] == TopologyAssignment(
        levels=(HOST,),
        domains=(DomainCount(values=("r1-0",), count=2), DomainCount(values=("r1-2",), count=2)),
    )
    assert moved.placement.replacements == 1
    table.release("w")
    table.bind(moved)
    assert violations(table) == ()


@pytest.mark.parametrize(
    ("mode", "label", "moved"),
    [
        pytest.param(TopologyMode.REQUIRED, "rack", None, id="not out of the rack it requires"),
        pytest.param(TopologyMode.PREFERRED, "rack", {"r1-0": 2, "r2-0": 2}, id="anywhere"),
        pytest.param(TopologyMode.UNCONSTRAINED, "", {"r1-0": 2, "r2-0": 2}, id="anywhere too"),
    ],
)
def test_the_new_seats_are_where_the_level_requires_them(
    mode: TopologyMode, label: str, moved: dict[str, int] | None
) -> None:
    table = hall(r1=(2, 2), r2=(8,))
    request = ask(4, "rack", TopologyMode.REQUIRED)
    seat(table, request)
    outcome = lose(table, ask(4, label, mode), "r1-1")
    assert (counts(outcome.gang) if isinstance(outcome, Placed) else None) == moved
    if moved is None:
        assert "r1-1 cannot be replaced: 0 of 2 members can be seated" in str(outcome)


def test_a_broken_slice_is_made_whole_in_its_own_domain() -> None:
    """kueue#6913: half of a slice may not sit in another rack than the other half."""
    table = hall(r1=(1, 1, 1), r2=(1, 1, 1))
    request = ask(4, "", TopologyMode.UNCONSTRAINED, (("rack", 2),))
    placed = seat(table, request)
    lost = placed.placement.pods[-1].node
    rack = lost.partition("-")[0]
    outcome = lose(table, request, lost)
    assert isinstance(outcome, Placed)
    assert [pod.node.partition("-")[0] for pod in outcome.placement.pods if pod.replacement] == [
        rack
    ]


def test_a_second_node_that_takes_no_pods_is_not_replaced_too() -> None:
    table = hall(r1=(2, 2, 2, 2))
    request = ask(6, "rack")
    seat(table, request)
    table.set_condition("r1-2", NodeCondition.SUSPECT)
    outcome = lose(table, request, "r1-1")
    assert "r1-1 cannot be replaced: r1-2 does not take pods either" in str(outcome)


def test_rank_0_is_not_replaced_while_others_run() -> None:
    """They know its address; they would wait for it where it is no more."""
    table = hall(r1=(2, 2, 2))
    request = ask(4, "rack")
    seat(table, request)
    assert "r1-0 cannot be replaced: the others know rank 0" in str(lose(table, request, "r1-0"))


def test_a_gang_that_sat_on_one_node_moves_whole() -> None:
    table = hall(r1=(2, 2))
    request = ask(2, HOST)
    seat(table, request)
    outcome = lose(table, request, "r1-0")
    assert isinstance(outcome, Placed)
    assert counts(outcome.gang) == {"r1-1": 2}


def test_pods_without_a_topology_are_not_replaced() -> None:
    table = hall(r1=(2, 2))
    request = gang(pod_set(2, gpus=1))
    name = seat(table, request).placement.pods[-1].node
    assert "have no topology to be replaced in" in str(lose(table, request, name))


def test_replaced_pods_get_devices_that_nobody_holds() -> None:
    table = hall(r1=(2, 2, 3))
    selected = NodeDemand(node_selector={HOST: "r1-2"})
    seat(table, gang(pod_set(1, gpus=1, demand=selected), workload="other"))
    request = ask(4, "rack")
    assert counts(seat(table, request).gang) == {"r1-0": 2, "r1-1": 2}
    outcome = lose(table, request, "r1-1")
    assert isinstance(outcome, Placed)
    assert [pod.devices for pod in outcome.placement.pods if pod.replacement] == [
        {GPU: (1,)}, {GPU: (2,)},
    ]  # fmt: skip
