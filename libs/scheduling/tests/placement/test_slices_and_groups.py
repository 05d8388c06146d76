import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.conditions import UnplaceableReason
from muster_domain.nodes import Node
from muster_domain.workload import SliceConstraint, TopologyMode, TopologyRequest
from muster_scheduling.placement.checks import violations
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed, Unplaceable
from muster_scheduling.placement.request import PodSetRequest

from .builders import gang, node, nodes_of, pod_set, seat, table_of

LEVELS = ("block", "rack")


def rack(name: str, *gpus: int, block: str = "b") -> list[Node]:
    """Nodes `<rack>-<number>` with that many GPUs."""
    labels = {"block": block, "rack": name}
    return [node(f"{name}-{i}", cpu=64, gpus=count, labels=labels) for i, count in enumerate(gpus)]


def sliced(count: int, size: int, *, label: str = "rack", **fields: object) -> PodSetRequest:
    """GPU pods of which each `size` share a domain."""
    topology = TopologyRequest(
        mode=TopologyMode.REQUIRED,
        node_label="block",
        slices=(SliceConstraint(node_label=label, size=size),),
    )
    return pod_set(count, gpus=1, topology=topology, levels=LEVELS, **fields)


def grouped(count: int, *, name: str, gpus: int, label: str = "rack") -> PodSetRequest:
    topology = TopologyRequest(mode=TopologyMode.REQUIRED, node_label=label, pod_set_group="lws")
    return pod_set(count, name=name, gpus=gpus, topology=topology, levels=LEVELS)


def test_slices_stay_whole_within_their_racks() -> None:
    table = table_of(*rack("r1", 3), *rack("r2", 3), *rack("r3", 2))
    assert nodes_of(seat(table, gang(sliced(6, 2)))) == {"r1-0": 2, "r2-0": 2, "r3-0": 2}


def test_slices_that_would_be_torn_are_refused() -> None:
    table = table_of(*rack("r1", 3), *rack("r2", 3))
    outcome = place(table, gang(sliced(6, 2)))
    assert isinstance(outcome, Unplaceable)
    assert outcome.reason is UnplaceableReason.TOPOLOGY


@pytest.mark.parametrize(("least", "seated"), [(2, 4), (4, 4), (6, None)])
def test_elastic_slices_are_seated_as_whole_slices(least: int, seated: int | None) -> None:
    table = table_of(*rack("r1", 3), *rack("r2", 3))
    outcome = place(table, gang(sliced(8, 2, min_count=least)))
    found = outcome.gang.pod_sets[0].count if isinstance(outcome, Placed) else None
    assert found == seated


def test_slices_and_other_sets_share_what_there_is() -> None:
    table = table_of(*rack("r1", 4), *rack("r2", 2))
    placed = seat(table, gang(pod_set(2, name="other", gpus=1), sliced(4, 4)))
    by_set = {(pod.pod_set, pod.node) for pod in placed.placement.pods}
    assert by_set == {("main", "r1-0"), ("other", "r2-0")}


def test_slices_leave_nothing_twice() -> None:
    table = table_of(*rack("r1", 4))
    outcome = place(table, gang(sliced(4, 4), pod_set(1, name="other", gpus=1)))
    assert isinstance(outcome, Unplaceable)
    assert outcome.members_seated == 4


def test_nodes_outside_of_the_topology_take_no_slices() -> None:
    table = table_of(*rack("r1", 4), node("bare", gpus=8))
    assert nodes_of(seat(table, gang(sliced(4, 2)))) == {"r1-0": 4}


def test_a_leader_sits_with_its_workers_where_it_costs_none() -> None:
    table = table_of(*rack("r1", 8), *rack("r2", 4, 5), *rack("r3", 4, 4))
    sets = [grouped(1, name="leader", gpus=1), grouped(2, name="workers", gpus=4)]
    placed = seat(table, gang(*sets))
    assert [(pod.pod_set, pod.node) for pod in placed.placement.pods] == [
        ("leader", "r2-1"),
        ("workers", "r2-0"),
        ("workers", "r2-1"),
    ]


def test_a_group_that_fits_in_no_one_rack_is_refused() -> None:
    table = table_of(*rack("r1", 4), *rack("r2", 4))
    sets = [grouped(1, name="leader", gpus=1), grouped(1, name="workers", gpus=4)]
    outcome = place(table, gang(*sets))
    assert isinstance(outcome, Unplaceable)
    assert outcome.reason is UnplaceableReason.TOPOLOGY
    assert nodes_of(seat(table, gang(*(grouped(1, name=n, gpus=2) for n in "ab")))) == {"r1-0": 2}


@given(
    gpus=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=4),
    slices=st.integers(1, 4),
    size=st.integers(1, 4),
)
def test_slices_are_seated_exactly_when_the_racks_hold_enough(
    gpus: list[list[int]], slices: int, size: int
) -> None:
    nodes = [one for i, counts in enumerate(gpus) for one in rack(f"r{i}", *counts)]
    table = table_of(*nodes)
    outcome = place(table, gang(sliced(slices * size, size)))
    assert isinstance(outcome, Placed) == (sum(sum(c) // size for c in gpus) >= slices)
    if isinstance(outcome, Placed):
        table.bind(outcome.gang)
        assert violations(table) == ()
        of_rack: dict[str, int] = {}
        for name, count in nodes_of(outcome).items():
            of_rack[name[:2]] = of_rack.get(name[:2], 0) + count
        assert all(count % size == 0 for count in of_rack.values())
