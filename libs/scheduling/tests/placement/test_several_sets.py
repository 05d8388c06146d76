import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_scheduling.placement.exhaustive import exhaustive_seats
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed

from .builders import GPU, gang, node, nodes_of, pod_set, seat, table_of


def test_the_hardest_set_is_seated_first() -> None:
    table = table_of(node("a", cpu=4, gpus=2), node("b", cpu=4))
    placed = seat(table, gang(pod_set(4, name="server"), pod_set(2, name="worker", cpu=2, gpus=1)))
    assert nodes_of(placed) == {"a": 2, "b": 4}


def test_sets_that_fit_in_no_tried_order_are_still_seated() -> None:
    table = table_of(node("a", cpu=4, gpus=4), node("b", cpu=5, gpus=4))
    wide = pod_set(3, name="wide", cpu=2, gpus=1)
    deep = pod_set(2, name="deep", cpu=1, gpus=2)
    placed = seat(table, gang(wide, deep))
    by_set = [(pod.pod_set, pod.node) for pod in placed.placement.pods]
    assert by_set == [("wide", "a"), ("wide", "b"), ("wide", "b"), ("deep", "a"), ("deep", "b")]


def test_ranks_follow_the_sets_as_written_not_as_seated() -> None:
    table = table_of(node("a", gpus=2), node("b"))
    pods = seat(table, gang(pod_set(2), pod_set(2, name="worker", gpus=1))).placement.pods
    assert [(pod.rank, pod.pod_set, pod.index) for pod in pods] == [
        (0, "main", 0),
        (1, "main", 1),
        (2, "worker", 0),
        (3, "worker", 1),
    ]


@pytest.mark.parametrize(
    ("sizes", "need"),
    [
        pytest.param((1, 4), (7, 1), id="not by sums"),
        pytest.param((2, 4), (2, 2), id="not by nodes, smaller second"),
        pytest.param((4, 3), (1, 2), id="not by nodes, larger second"),
        pytest.param((1, 2, 4), (2, 2, 2), id="not by nodes, three sets"),
    ],
)
def test_the_exhaustive_search_says_when_there_is_nothing(
    sizes: tuple[int, ...], need: tuple[int, ...]
) -> None:
    free = {"cpu": np.array([5, 5], np.int64)}
    shapes = [(("cpu", size),) for size in sizes]
    fits = [free["cpu"] // size for size in sizes]
    assert exhaustive_seats(free, fits, shapes, need) is None


@given(
    cpus=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    need=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    unusable=st.integers(0, 5),
)
def test_two_sets_get_an_exact_answer(
    cpus: list[int], sizes: tuple[int, int], need: tuple[int, int], unusable: int
) -> None:
    free = {"cpu": np.array(cpus, np.int64)}
    shapes = [(("cpu", size),) for size in sizes]
    fits = [free["cpu"] // size for size in sizes]
    fits[0][unusable % len(cpus)] = 0
    reachable = {(0, 0)}
    for row, cpu in enumerate(cpus):
        reachable = {
            (min(need[0], a + i), min(need[1], b + (cpu - i * sizes[0]) // sizes[1]))
            for a, b in reachable
            for i in range(int(fits[0][row]) + 1)
        }
    seats = exhaustive_seats(free, fits, shapes, need)
    assert (seats is not None) == (need in reachable)
    if seats is not None:
        assert tuple(seated.members for seated in seats) == need
        used = np.zeros(len(cpus), np.int64)
        for seated, of_set, size in zip(seats, fits, sizes, strict=True):
            assert (seated.counts <= of_set[seated.rows]).all()
            used[seated.rows] += seated.counts * size
        assert (used <= free["cpu"]).all()


def test_a_table_that_would_be_too_large_is_not_filled() -> None:
    free = {"cpu": np.full(300, 1000, np.int64)}
    fits = [free["cpu"] // 2, free["cpu"] // 3]
    shapes = ((("cpu", 2),), (("cpu", 3),))
    assert exhaustive_seats(free, fits, shapes, (70_000, 50_000)) is None


def test_the_exhaustive_search_gives_up_in_the_end() -> None:
    rows = 40
    free = {name: np.full(rows, 60, np.int64) for name in ("cpu", GPU)}
    shapes = tuple((("cpu", cpu), (GPU, 8 - cpu)) for cpu in range(1, 8))
    fits = [np.minimum(free["cpu"] // c[1], free[GPU] // g[1]) for c, g in shapes]
    assert exhaustive_seats(free, fits, shapes, (80,) * 7) is None


def test_many_sets_are_placed_together() -> None:
    table = table_of(*(node(f"n{i}", cpu=8, gpus=4) for i in range(6)))
    sets = [pod_set(2, name=f"s{i}", cpu=i + 1, gpus=i % 3) for i in range(5)]
    outcome = place(table, gang(*sets))
    assert isinstance(outcome, Placed)
    assert sum(nodes_of(outcome).values()) == 10
