import pytest

from muster_domain.errors import InvalidValue
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed, Unplaceable
from muster_scheduling.placement.request import PodSetRequest

from .builders import GPU, gang, node, nodes_of, pod_set, seat, table_of


@pytest.mark.parametrize(
    ("gpus", "seated"),
    [
        pytest.param(10, 10, id="all"),
        pytest.param(7, 7, id="as many as fit"),
        pytest.param(5, 5, id="the least"),
    ],
)
def test_an_elastic_gang_gets_its_least_and_more_as_far_as_it_fits(gpus: int, seated: int) -> None:
    table = table_of(node("a", gpus=gpus))
    outcome = seat(table, gang(pod_set(10, gpus=1, min_count=5)))
    assert nodes_of(outcome) == {"a": seated}
    assert outcome.gang.pod_sets[0].count == seated
    assert outcome.gang.pod_sets[0].min_count == 5


def test_an_elastic_gang_below_its_least_is_refused() -> None:
    table = table_of(node("a", gpus=4))
    outcome = place(table, gang(pod_set(10, gpus=1, min_count=5)))
    assert isinstance(outcome, Unplaceable)
    assert outcome.members_seated == 4


def test_the_least_of_every_set_comes_before_more_of_any() -> None:
    table = table_of(node("a", gpus=6))
    outcome = seat(
        table,
        gang(
            pod_set(4, name="first", gpus=1, min_count=1),
            pod_set(4, name="second", gpus=1, min_count=3),
        ),
    )
    assert [pod_set.count for pod_set in outcome.gang.pod_sets] == [3, 3]


def test_a_set_that_is_not_elastic_is_seated_whole() -> None:
    table = table_of(node("a", gpus=4), node("b"))
    outcome = seat(
        table, gang(pod_set(2, name="server"), pod_set(8, name="worker", gpus=1, min_count=2))
    )
    assert [pod_set.count for pod_set in outcome.gang.pod_sets] == [2, 4]


def test_indices_of_an_elastic_set_have_no_gaps() -> None:
    table = table_of(node("a", gpus=2), node("b", gpus=3))
    pods = seat(table, gang(pod_set(9, gpus=1, min_count=2))).placement.pods
    assert [pod.index for pod in pods] == [0, 1, 2, 3, 4]
    assert [pod.rank for pod in pods] == [0, 1, 2, 3, 4]


def test_nobody_at_all_is_not_a_gang_even_when_nobody_is_enough() -> None:
    table = table_of(node("a"))
    assert isinstance(place(table, gang(pod_set(3, gpus=1, min_count=0))), Unplaceable)
    outcome = place(table, gang(pod_set(3, gpus=1, min_count=0), pod_set(name="x")))
    assert isinstance(outcome, Placed)


@pytest.mark.parametrize("least", [-1, 4])
def test_the_least_is_between_none_and_all(least: int) -> None:
    with pytest.raises(InvalidValue, match="write 0 <= min_count <= count"):
        pod_set(3, min_count=least)


def test_requests_are_not_below_zero() -> None:
    with pytest.raises(InvalidValue, match="below zero"):
        PodSetRequest(name="main", count=1, requests={GPU: -1})


def test_pod_sets_have_different_names() -> None:
    with pytest.raises(InvalidValue, match="two pod sets"):
        gang(pod_set(), pod_set())
