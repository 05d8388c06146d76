"""Pods whose processors and cards want to be in one NUMA zone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.errors import Conflict
from muster_domain.nodes import Device, Node, NumaPolicy, NumaZone
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed, PlacementOutcome, Unplaceable
from muster_scheduling.placement.request import numa_policy
from muster_scheduling.placement.table import NodeTable

from .builders import GPU, gang, node, nodes_of, pod_set, seat, table_of

SINGLE, RESTRICTED = NumaPolicy.SINGLE_NUMA_NODE, NumaPolicy.RESTRICTED
BEST_EFFORT = NumaPolicy.BEST_EFFORT


def two_zones(name: str = "a", *, cpus: int = 8, cards: int = 2) -> Node:
    """A node with two equal zones."""
    return Node(
        name=name,
        allocatable={"cpu": 2 * cpus * 1000, "memory": 2**50, GPU: 2 * cards * 1000},
        zones=tuple(
            NumaZone(number=zone, cpus=tuple(range(zone * cpus, (zone + 1) * cpus)))
            for zone in range(2)
        ),
        devices=tuple(
            Device(index=index, resource=GPU, numa_node=index // cards)
            for index in range(2 * cards)
        ),
    )


def ask(
    table: NodeTable, workload: str, policy: NumaPolicy, *, cpu: int = 1, gpus: int = 0
) -> PlacementOutcome:
    """Place a pod, and bind it where it fits."""
    outcome = place(table, gang(pod_set(cpu=cpu, gpus=gpus, numa=policy), workload=workload))
    if isinstance(outcome, Placed):
        table.bind(outcome.gang)
    return outcome


def zones_of(outcome: PlacementOutcome) -> tuple[int, ...]:
    assert isinstance(outcome, Placed), outcome
    return outcome.placement.pods[0].zones


def test_processors_and_cards_come_from_one_zone_the_fuller_one_first() -> None:
    table = table_of(two_zones())
    first = ask(table, "w0", SINGLE, cpu=4, gpus=1)
    second = ask(table, "w1", SINGLE, cpu=4, gpus=1)
    third = ask(table, "w2", SINGLE, cpu=4, gpus=2)
    assert [zones_of(one) for one in (first, second, third)] == [(0,), (0,), (1,)]
    assert isinstance(third, Placed)
    assert third.placement.pods[0].devices == {GPU: (2, 3)}


def test_room_that_no_zone_has_alone_is_refused_with_numbers() -> None:
    table = table_of(two_zones())
    ask(table, "w0", SINGLE, cpu=5)
    ask(table, "w1", SINGLE, cpu=5)
    outcome = ask(table, "w2", SINGLE, cpu=4)
    assert isinstance(outcome, Unplaceable)
    assert "insufficient cpu in one NUMA zone (largest free 3 of 4 asked)" in (
        outcome.explanation.message
    )
    assert zones_of(ask(table, "w3", BEST_EFFORT, cpu=4)) == ()


def test_what_no_zone_could_ever_hold_is_seated_across_zones_when_restricted() -> None:
    table = table_of(two_zones())
    assert isinstance(ask(table, "w0", SINGLE, cpu=9), Unplaceable)
    assert zones_of(ask(table, "w1", RESTRICTED, cpu=9)) == ()


def test_what_a_zone_could_hold_waits_for_one_when_restricted() -> None:
    table = table_of(two_zones())
    ask(table, "w0", SINGLE, cpu=1, gpus=1)
    ask(table, "w1", SINGLE, cpu=8)
    outcome = ask(table, "w2", RESTRICTED, cpu=1, gpus=2)
    assert isinstance(outcome, Unplaceable)
    assert "insufficient cpu in one NUMA zone (largest free 7" in outcome.explanation.message
    table.release("w1")
    assert zones_of(ask(table, "w2", RESTRICTED, cpu=1, gpus=2)) == (1,)


def test_cards_apart_are_refused_with_numbers() -> None:
    table = table_of(two_zones())
    ask(table, "w0", SINGLE, cpu=1, gpus=1)
    ask(table, "w1", SINGLE, cpu=8, gpus=1)
    outcome = ask(table, "w2", RESTRICTED, cpu=1, gpus=2)
    assert isinstance(outcome, Unplaceable)
    assert "nvidia.com/gpu in one NUMA zone (largest free 1 of 2" in outcome.explanation.message


def test_a_node_that_reports_no_zones_keeps_nothing_together() -> None:
    table = table_of(node("a", gpus=2))
    assert isinstance(ask(table, "w0", SINGLE), Unplaceable)
    assert zones_of(ask(table, "w1", RESTRICTED)) == ()


def test_a_zone_that_has_filled_up_meanwhile_is_a_conflict_and_comes_back_when_released() -> None:
    table = table_of(two_zones(cpus=2))
    asked = [gang(pod_set(cpu=2, numa=SINGLE), workload=f"w{number}") for number in range(2)]
    first, second = (place(table, one) for one in asked)
    assert isinstance(first, Placed)
    assert isinstance(second, Placed)
    table.bind(first.gang)
    with pytest.raises(Conflict, match="NUMA zone 0"):
        table.bind(second.gang)
    table.release("w0")
    table.bind(second.gang)


def test_sets_of_a_gang_that_want_to_be_near_have_nodes_of_their_own() -> None:
    table = table_of(two_zones("a"), two_zones("b"))
    both = gang(pod_set(2, name="near", gpus=1, numa=SINGLE), pod_set(1, name="any", gpus=1))
    assert nodes_of(seat(table, both)) == {"a": 2, "b": 1}


def test_the_policy_is_an_annotation_and_unknown_words_ask_for_nothing() -> None:
    key = "volcano.sh/numa-topology-policy"
    assert [numa_policy({key: one}) for one in NumaPolicy] == list(NumaPolicy)
    assert numa_policy({key: "near"}) is NumaPolicy.NONE
    assert numa_policy({}) is NumaPolicy.NONE


ASKED = st.tuples(st.sampled_from(NumaPolicy), st.integers(1, 6), st.integers(0, 3))


@given(asked=st.lists(ASKED, max_size=10))
def test_no_zone_is_ever_given_out_more_than_once_over(
    asked: list[tuple[NumaPolicy, int, int]],
) -> None:
    table = table_of(two_zones("a", cpus=6), two_zones("b", cpus=4, cards=1))
    for number, (policy, cpu, gpus) in enumerate(asked):
        outcome = ask(table, f"w{number}", policy, cpu=cpu, gpus=gpus)
        if policy is SINGLE and isinstance(outcome, Placed):
            seated = outcome.placement.pods[0]
            devices = {d.index: d for d in table.node(seated.node).devices}
            cards = seated.devices.get(GPU, ())
            assert {devices[index].numa_node for index in cards} <= set(seated.zones)
            assert len(seated.zones) == 1
    assert bool((table.columns.zones.free_cpu_milli >= 0).all())
