import pytest

from muster_domain.queues import ResourceFlavor, Topology
from muster_domain.states import Admission, PodSetAdmission
from muster_domain.workload import LocalQueueRef, Owner, PodSet, Workload
from muster_scheduling.placement.request import request_for

SPOT = ResourceFlavor(name="spot", node_labels={"kind": "spot"}, topology_name="rows")
PLAIN = ResourceFlavor(name="plain")
ROWS = Topology(name="rows", levels=("row", "rack"))


def workload(**fields: object) -> Workload:
    return Workload(
        id="w1",
        namespace="team",
        name="train",
        queue=LocalQueueRef(name="q"),
        pod_sets=(PodSet(name="main", count=8, requests={"cpu": 1000, "memory": 5}, **fields),),
        owner=Owner(api_version="batch/v1", kind="Job", name="train"),
        created_at_ms=0,
    )


def admitted(count: int) -> Admission:
    flavors = {"cpu": "spot", "memory": "plain"}
    return Admission(
        cluster_queue="cq", pod_sets=(PodSetAdmission(name="main", count=count, flavors=flavors),)
    )


def test_an_admission_becomes_a_request_with_its_flavors() -> None:
    flavors = {"spot": SPOT, "plain": PLAIN, "unused": PLAIN}
    request = request_for(workload(), admitted(6), flavors, {"rows": ROWS})
    asked = request.pod_sets[0]
    assert request.workload == "w1"
    assert (asked.name, asked.count, asked.min_count) == ("main", 6, None)
    assert asked.requests == {"cpu": 1000, "memory": 5}
    assert asked.flavors == (PLAIN, SPOT)
    assert asked.levels == ("row", "rack")


@pytest.mark.parametrize(
    ("elastic", "least", "admitted_count", "expected"),
    [
        pytest.param(True, 3, 8, 3, id="elastic keeps its least"),
        pytest.param(True, 3, 2, 2, id="the least is no more than was admitted"),
        pytest.param(True, None, 8, 8, id="a set without a least is whole"),
        pytest.param(False, 3, 8, None, id="partial admission is exact"),
    ],
)
def test_only_elastic_workloads_keep_their_least(
    elastic: bool,  # noqa: FBT001 - a column of the table
    least: int | None,
    admitted_count: int,
    expected: int | None,
) -> None:
    request = request_for(
        workload(min_count=least),
        admitted(admitted_count),
        {"spot": SPOT, "plain": PLAIN},
        {"rows": ROWS},
        elastic=elastic,
    )
    assert request.pod_sets[0].min_count == expected


def test_an_admission_into_a_flavor_that_is_not_given_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        request_for(workload(), admitted(8), {"spot": SPOT}, {"rows": ROWS})
