"""Parts of cards: what fits, which card, and that no card is given out more than once over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.errors import Conflict
from muster_domain.nodes import Device, Node
from muster_domain.queues import PlacementPolicy
from muster_scheduling.placement.checks import ViolationKind, violations
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Gang, Placed, Unplaceable
from muster_scheduling.placement.request import PodSetRequest
from muster_scheduling.placement.shares import Share, share_of
from muster_scheduling.placement.table import NodeTable

from .builders import GPU, gang, node, nodes_of, pod_set, seat, table_of

MIB = 2**20
SPREAD = PlacementPolicy.SPREAD


def vgpu(
    count: int = 1,
    *,
    cards: int = 1,
    cores: int = 0,
    percent: int = 0,
    mib: int = 0,
    name: str = "main",
) -> PodSetRequest:
    """Pods that share cards, as Volcano's users write it."""
    asked = {"number": cards, "cores": cores, "memory-percentage": percent, "memory": mib}
    extra = {f"volcano.sh/vgpu-{what}": n * 1000 for what, n in asked.items() if n}
    return pod_set(count, name=name, extra=extra)


def cards_node(name: str, cards: int, *, memory_bytes: int = 0) -> Node:
    """A node whose cards have so much memory."""
    devices = tuple(
        Device(index=index, resource=GPU, memory_bytes=memory_bytes) for index in range(cards)
    )
    allocatable = {"cpu": 64_000, "memory": 2**40, GPU: cards * 1000}
    return Node(name=name, allocatable=allocatable, devices=devices)


def cards_of(placed: Placed) -> list[tuple[int, ...]]:
    return [pod.devices[GPU] for pod in placed.placement.pods]


@pytest.mark.parametrize(
    ("requests", "share"),
    [
        ({}, None),
        ({GPU: 1000}, None),
        (
            {"volcano.sh/vgpu-number": 2000, "volcano.sh/vgpu-cores": 30_000},
            Share(cards=2, cores_milli=300, memory_milli=1000),
        ),
        (
            {"volcano.sh/vgpu-number": 1000, "volcano.sh/vgpu-memory": 2_000_000},
            Share(memory_bytes=2000 * MIB),
        ),
        (
            {"volcano.sh/vgpu-number": 1000, "volcano.sh/vgpu-memory-percentage": 25_000},
            Share(memory_milli=250),
        ),
        ({"volcano.sh/gpu-memory": 1024_000}, Share(memory_bytes=1024 * MIB)),
        ({"volcano.sh/gpu-number": 2000}, Share(cards=2, cores_milli=1000, memory_milli=1000)),
    ],
)
def test_a_share_is_read_as_volcanos_users_write_it(
    requests: dict[str, int], share: Share | None
) -> None:
    assert share_of(requests) == share


def test_shares_fill_one_card_before_they_open_the_next() -> None:
    table = table_of(node("a", gpus=2))
    for number in range(4):
        seat(table, gang(vgpu(cores=50, percent=50), workload=f"w{number}"))
    assert [cards_of_gang(table, f"w{number}") for number in range(4)] == [(0,), (0,), (1,), (1,)]
    outcome = place(table, gang(vgpu(cores=1, percent=1), workload="more"))
    assert isinstance(outcome, Unplaceable)
    assert "insufficient nvidia.com/gpu share (largest free 0 of 10m asked)" in (
        outcome.explanation.message
    )


def cards_of_gang(table: NodeTable, workload: str) -> tuple[int, ...]:
    bound = table.gang(workload)
    assert bound is not None
    return bound.placement.pods[0].devices[GPU]


def test_spread_opens_the_emptiest_card() -> None:
    table = table_of(node("a", gpus=2))
    asked = gang(vgpu(2, cores=50, percent=50), policy=SPREAD)
    assert cards_of(seat(table, asked)) == [(0,), (1,)]


def test_a_shared_card_is_not_given_out_whole_and_the_other_way_round() -> None:
    table = table_of(node("a", gpus=2))
    seat(table, gang(vgpu(cores=10, percent=10), workload="share"))
    assert cards_of(seat(table, gang(pod_set(gpus=1), workload="whole"))) == [(1,)]
    assert isinstance(place(table, gang(pod_set(gpus=1), workload="no")), Unplaceable)
    assert cards_of(seat(table, gang(vgpu(cores=10, percent=10), workload="v"))) == [(0,)]


def test_a_released_share_leaves_the_card_whole() -> None:
    table = table_of(node("a", gpus=1))
    seat(table, gang(vgpu(cores=10, percent=10), workload="share"))
    table.release("share")
    assert cards_of(seat(table, gang(pod_set(gpus=1)))) == [(0,)]


def test_memory_is_that_of_the_very_card() -> None:
    table = table_of(
        cards_node("a", 1, memory_bytes=1000 * MIB), cards_node("b", 1, memory_bytes=4000 * MIB)
    )
    assert nodes_of(seat(table, gang(vgpu(mib=1500)))) == {"b": 1}
    assert nodes_of(seat(table, gang(vgpu(percent=50), workload="half"))) == {"b": 1}
    assert isinstance(place(table, gang(vgpu(mib=1001), workload="large")), Unplaceable)
    assert nodes_of(seat(table, gang(vgpu(mib=1000), workload="all"))) == {"a": 1}


def test_all_cores_of_a_card_want_it_for_themselves() -> None:
    table = table_of(node("a", gpus=1))
    seat(table, gang(vgpu(percent=10), workload="memory only"))
    assert isinstance(place(table, gang(vgpu(cores=100, percent=10), workload="v")), Unplaceable)
    table.release("memory only")
    seat(table, gang(vgpu(cores=100, percent=10), workload="all cores"))
    assert isinstance(place(table, gang(vgpu(percent=10), workload="v")), Unplaceable)


def test_a_pod_gets_as_many_different_cards_as_it_asks_for() -> None:
    table = table_of(node("a", gpus=3))
    placed = seat(table, gang(vgpu(3, cards=2, cores=50, percent=50)))
    assert all(len(set(indices)) == 2 for indices in cards_of(placed))
    assert violations(table) == ()
    assert isinstance(place(table, gang(vgpu(cards=2, cores=50), workload="v")), Unplaceable)


def test_sets_that_share_and_sets_that_do_not_sit_apart() -> None:
    table = table_of(node("a", gpus=2), node("b", gpus=2))
    both = gang(vgpu(2, name="share", cores=50, percent=50), pod_set(2, name="whole", gpus=1))
    placed = seat(table, both)
    assert violations(table) == ()
    assert len({pod.node for pod in placed.placement.pods}) == 2


def test_a_card_that_has_filled_up_meanwhile_is_a_conflict() -> None:
    table = table_of(node("a", gpus=1))
    first = place(table, gang(vgpu(cores=60, percent=60), workload="first"))
    second = place(table, gang(vgpu(cores=60, percent=60), workload="second"))
    assert isinstance(first, Placed)
    assert isinstance(second, Placed)
    table.bind(first.gang)
    with pytest.raises(Conflict, match="card 0 has no room"):
        table.bind(second.gang)


def test_a_card_given_out_over_again_is_a_violation() -> None:
    table = table_of(node("a", gpus=1))
    placed = seat(table, gang(vgpu(cores=60, percent=60), workload="first"))
    again = Gang(workload="second", pod_sets=placed.gang.pod_sets, placement=placed.gang.placement)
    table.restore(again)
    assert [found.kind for found in violations(table)] == [ViolationKind.DEVICE_GIVEN_TWICE]


ASKED = st.tuples(
    st.integers(1, 2), st.integers(0, 10), st.integers(0, 10), st.integers(1, 3), st.booleans()
)


@given(asked=st.lists(ASKED, max_size=12), policy=st.sampled_from(PlacementPolicy))
def test_whatever_comes_is_seated_within_its_cards_and_given_back(
    asked: list[tuple[int, int, int, int, bool]], policy: PlacementPolicy
) -> None:
    table = table_of(node("a", gpus=3), node("b", gpus=2, failed=[1]))
    for number, (cards, cores, percent, count, whole) in enumerate(asked):
        if whole:
            one = pod_set(count, gpus=cards)
        else:
            one = vgpu(count, cards=cards, cores=10 * cores, percent=10 * percent)
        outcome = place(table, gang(one, workload=f"w{number}", policy=policy))
        if isinstance(outcome, Placed):
            table.bind(outcome.gang)
        assert violations(table) == ()
    for bound in table.gangs():
        table.release(bound.workload)
    assert isinstance(place(table, gang(pod_set(4, gpus=1))), Placed)
