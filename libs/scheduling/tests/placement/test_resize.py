"""Gangs that grow and shrink: who runs keeps seat, rank and index, whatever comes and goes."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from muster_domain.workload import TopologyMode, TopologyRequest
from muster_scheduling.placement.checks import violations
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Gang, Placed, Unplaceable
from muster_scheduling.placement.request import GangRequest
from muster_scheduling.placement.resize import grown, lacking, surplus, without
from muster_scheduling.placement.table import NodeTable

from .builders import gang, node, pod_set, seat, table_of

RACK = "rack"


def resize(table: NodeTable, request: GangRequest, held: Gang, count: int, number: int) -> Gang:
    """Bring a gang to `count` pods as far as there is room, and bind it."""
    going = surplus(held.placement, {"main": count}, ())
    after = without(table, held, going)
    table.release(held.workload)
    table.restore(after)
    more = lacking(table, request, after, {"main": count}, some=True)
    if more.pod_sets:
        outcome = place(table, more)
        if isinstance(outcome, Placed):
            after = grown(table, request, after, outcome.gang, number)
    after = replace(after, placement=replace(after.placement, resizes=number))
    table.release(held.workload)
    table.restore(after)
    return after


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_whatever_the_sizes_nobody_moves_and_nothing_is_given_twice(sizes: list[int]) -> None:
    table = table_of(node("a", gpus=4), node("b", gpus=3))
    seat(table, gang(pod_set(1, gpus=1), workload="other"))
    request = gang(pod_set(2, gpus=1))
    held = seat(table, request).gang
    for number, count in enumerate(sizes, 1):
        before = {(pod.rank, pod.index): pod for pod in held.placement.pods}
        held = resize(table, request, held, count, number)
        assert len(held.placement.pods) == min(count, 6)
        for pod in held.placement.pods:
            kept = before.get((pod.rank, pod.index))
            assert pod.resize == number or pod == kept
        assert violations(table) == ()


def test_the_named_ranks_go_first_and_are_filled_again() -> None:
    table = table_of(node("a", gpus=6))
    request = gang(pod_set(5, gpus=1))
    held = seat(table, request).gang
    going = surplus(held.placement, {"main": 2}, (1,))
    assert going == {1, 3, 4}
    left = without(table, held, going)
    assert [(pod.rank, pod.index) for pod in left.placement.pods] == [(0, 0), (2, 2)]
    table.release("w")
    table.restore(left)
    more = place(table, lacking(table, request, left, {"main": 4}, some=False))
    assert isinstance(more, Placed)
    found = grown(table, request, left, more.gang, 2)
    ranks = [(pod.rank, pod.index, pod.resize) for pod in found.placement.pods]
    assert ranks == [(0, 0, 0), (1, 1, 2), (2, 2, 0), (3, 3, 2)]


def test_more_pods_of_a_gang_that_must_sit_together_go_nowhere_else() -> None:
    racks = {"a": "r1", "b": "r1", "c": "r2"}
    table = table_of(*(node(name, gpus=2, labels={RACK: rack}) for name, rack in racks.items()))
    together = TopologyRequest(mode=TopologyMode.REQUIRED, node_label=RACK)
    request = gang(pod_set(3, gpus=1, topology=together))
    held = seat(table, request).gang
    assert set(held.placement.nodes) == {"a", "b"}
    one = place(table, lacking(table, request, held, {"main": 4}, some=False))
    assert isinstance(one, Placed)
    assert set(one.placement.nodes) <= {"a", "b"}
    two = place(table, lacking(table, request, held, {"main": 5}, some=False))
    assert isinstance(two, Unplaceable)
