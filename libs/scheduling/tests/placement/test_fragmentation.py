"""Packing by what the pods seen so far could still use."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.queues import PlacementPolicy
from muster_scheduling.placement.columns import LIMIT
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed, Unplaceable
from muster_scheduling.placement.packing.future import RUNS, Future
from muster_scheduling.placement.packing.losses import Losses
from muster_scheduling.placement.packing.mix import KINDS_MAX, PODS_MAX, PodMix, kind_of
from muster_scheduling.placement.packing.prices import prices
from muster_scheduling.placement.packing.room import KindRoom
from muster_scheduling.placement.request import PodSetRequest
from muster_scheduling.placement.table import NodeTable

from .builders import GPU, gang, node, nodes_of, pod_set, seat, table_of
from .test_shares import vgpu

FRAGMENTATION = PlacementPolicy.FRAGMENTATION


def learned(table: NodeTable, arrivals: Iterable[tuple[PodSetRequest, int]]) -> PodMix:
    """A table at the prices of this mix."""
    mix = PodMix()
    for one, pods in arrivals:
        mix.arrived(kind_of(one), pods)
    table.prices = prices(table.columns, mix)
    return mix


def seat_one(table: NodeTable, one: PodSetRequest, workload: str = "w") -> Placed:
    return seat(table, gang(one, workload=workload, policy=FRAGMENTATION))


def test_processors_that_idle_cards_need_are_left_to_them() -> None:
    table = table_of(node("a", cpu=16, gpus=2), node("b", cpu=32, gpus=1))
    learned(table, [(pod_set(cpu=8, gpus=1), 100), (pod_set(cpu=8), 100)])
    assert nodes_of(seat_one(table, pod_set(cpu=8))) == {"b": 1}


def test_a_pod_goes_where_it_spoils_no_seat_for_a_scarce_kind() -> None:
    table = table_of(node("a", cpu=8, gpus=8), node("b", cpu=64, gpus=8))
    learned(table, [(pod_set(cpu=1, gpus=1), 90), (pod_set(cpu=60, gpus=8), 10)])
    assert nodes_of(seat_one(table, pod_set(cpu=1, gpus=1))) == {"a": 1}


def test_what_a_node_lacks_for_the_second_pod_counts_as_for_the_first() -> None:
    table = table_of(node("a", cpu=17, gpus=2), node("b", cpu=13, gpus=2))
    learned(table, [(pod_set(cpu=8, gpus=1), 100), (pod_set(cpu=1), 100)])
    assert nodes_of(seat_one(table, pod_set(cpu=4))) == {"b": 1}


def test_a_future_fills_no_node_with_more_than_fits() -> None:
    table = table_of(node("a", cpu=20, gpus=8), node("b", cpu=64, gpus=2), node("c", cpu=64))
    one, both_cards, half = pod_set(cpu=4, gpus=1), pod_set(gpus=2), vgpu(cores=50, percent=50)
    room = KindRoom(table.columns, [kind_of(pod) for pod in (one, both_cards, half)])
    demand = np.array([1000, 2000, 500], np.int64)
    free = room.free_on(np.arange(3))

    def filled(*parts: int) -> list[int]:
        return Future(room, np.array(parts, np.int64), demand).filled_on(free).tolist()

    assert filled(1, 0, 0) == [RUNS * 5000, RUNS * 2000, 0]
    assert filled(0, 1, 0) == [RUNS * 8000, RUNS * 2000, 0]
    assert filled(0, 0, 1) == [RUNS * 8000, RUNS * 2000, 0]
    assert filled(1, 0, 1)[1:] == [RUNS * 2000, 0]


WHOLE_NODE = pod_set(cpu=60, gpus=8)
ONE_CARD = pod_set(cpu=4, gpus=1)


def test_a_node_stays_whole_before_anybody_asked_for_one() -> None:
    table = table_of(node("a", cpu=64, gpus=8), node("b", cpu=64, gpus=4))
    learned(table, [(ONE_CARD, 100)])
    assert nodes_of(seat_one(table, ONE_CARD)) == {"b": 1}


def kept(table: NodeTable, one: PodSetRequest) -> int:
    return next(price.kept for price in table.prices if price.kind == kind_of(one))


def test_seats_are_kept_for_large_jobs_that_came_and_for_what_came_by_chance() -> None:
    table = table_of(*(node(f"n{number:02}", cpu=64, gpus=8) for number in range(36)))
    learned(table, [(ONE_CARD, 112), (WHOLE_NODE, 3)])
    # 288 cards are free, and 115 pods took 136: as many again are 243 pods. Four of 115 are due,
    # since one more may have come as not; that makes 8.5, and two deviations of 5.1.
    assert kept(table, WHOLE_NODE) == 18
    # Of pods that take all of a node one is due, which makes 2.1, and two deviations of 2.6.
    assert [price.kept for price in table.prices if price.part == 0] == [7]


@pytest.mark.parametrize(("whole", "chosen"), [(36, "n00"), (3, "z")])
def test_no_whole_node_is_broken_while_no_more_are_left_than_are_kept(
    whole: int, chosen: str
) -> None:
    """A pod on z spoils a card; on another node it spoils only the seat for a large job."""
    large = (node(f"n{number:02}", cpu=96, gpus=8) for number in range(whole))
    table = table_of(*large, node("z", cpu=64, gpus=7))
    learned(table, [(pod_set(cpu=8, gpus=1), 112), (pod_set(cpu=90, gpus=8), 3)])
    assert (whole <= kept(table, pod_set(cpu=90, gpus=8))) == (chosen == "z")
    assert nodes_of(seat_one(table, pod_set(cpu=12))) == {chosen: 1}


def test_a_kept_node_is_given_to_who_fits_nowhere_else() -> None:
    table = table_of(node("a", cpu=64, gpus=8))
    learned(table, [(WHOLE_NODE, 50), (ONE_CARD, 50)])
    assert nodes_of(seat_one(table, ONE_CARD)) == {"a": 1}


def test_a_share_goes_to_the_card_whose_rest_is_of_use() -> None:
    table = table_of(node("a", gpus=2))
    half = vgpu(cores=50, percent=50)
    learned(table, [(half, 50), (vgpu(cores=30, percent=30), 50)])
    assert seat_one(table, half, "half").placement.pods[0].devices[GPU] == (0,)
    seat_one(table, vgpu(cores=70, percent=70), "other")
    placed = seat_one(table, vgpu(cores=20, percent=20), "tightest is the other")
    assert placed.placement.pods[0].devices[GPU] == (0,)


def test_without_prices_it_packs_like_binpack() -> None:
    table = table_of(node("a", gpus=8), node("b", gpus=8), node("c", gpus=2))
    assert nodes_of(seat_one(table, pod_set(gpus=1))) == {"c": 1}


def test_prices_are_looked_at_again_after_enough_arrivals() -> None:
    mix = PodMix()
    mix.arrived(kind_of(pod_set(gpus=1)), 15)
    assert not mix.due
    mix.arrived(kind_of(pod_set(gpus=1)), 1)
    assert mix.due
    mix.priced = mix.pods
    assert not mix.due


def test_a_mix_written_down_and_read_is_the_same() -> None:
    mix = PodMix()
    mix.arrived(kind_of(pod_set(gpus=1)), 3)
    mix.arrived(kind_of(vgpu(cores=10)), 4)
    read = PodMix.of(mix.written())
    assert read.counts == mix.counts
    assert read.pods == 7


def test_a_mix_is_bounded_and_forgets_the_old() -> None:
    mix = PodMix()
    for cores in range(2 * KINDS_MAX):
        mix.arrived(kind_of(pod_set(cpu=1 + cores)), 1)
    assert len(mix.counts) == KINDS_MAX
    mix.arrived(kind_of(pod_set(gpus=1)), PODS_MAX)
    assert mix.pods <= PODS_MAX
    assert mix.pods == sum(mix.counts.values())


SETS = st.one_of(
    st.builds(pod_set, cpu=st.integers(1, 8), gpus=st.integers(0, 3)),
    st.builds(vgpu, cores=st.integers(1, 9).map(lambda tenth: 10 * tenth)),
)
NODES = st.lists(st.tuples(st.integers(4, 32), st.integers(0, 4)), min_size=1, max_size=6)


@given(shapes=NODES, before=st.lists(SETS, max_size=5), after=st.lists(SETS, max_size=5))
def test_losses_follow_every_change_as_if_made_anew(
    shapes: list[tuple[int, int]], before: list[PodSetRequest], after: list[PodSetRequest]
) -> None:
    table = table_of(
        *(node(f"n{number}", cpu=cpu, gpus=gpus) for number, (cpu, gpus) in enumerate(shapes))
    )
    learned(table, [(one, 5) for one in before])
    for number, one in enumerate(after):
        outcome = place(table, gang(one, workload=f"w{number}", policy=FRAGMENTATION))
        if isinstance(outcome, Placed):
            table.bind(outcome.gang)
        anew = Losses(table.columns, table.prices)
        for asked in (*before, *after):
            kind = kind_of(asked)
            assert np.array_equal(table.losses.of(kind).worth, anew.of(kind).worth)
            assert np.array_equal(table.losses.of(kind).whole, anew.of(kind).whole)
            assert np.array_equal(table.losses.ranked(kind), anew.ranked(kind))
            fits = not isinstance(place(table, gang(asked, workload="x")), Unplaceable)
            if table.columns.has_devices(GPU):
                assert bool((anew.of(kind).worth < LIMIT).any()) == fits
