"""What a holder of quota is charged while pods of it are done (R-15)."""

import pytest

from muster_domain.states import Admission, PodSetAdmission
from muster_domain.workload import PodSet
from muster_scheduling.snapshot.workloads import charged

from .builders import FLAVOR, FR, GPU, K


@pytest.mark.parametrize(
    ("admitted", "declared", "done", "pieces"),
    [
        (20, 20, 9, 11),
        (20, 10, 9, 1),
        (10, 10, 12, 0),
        (4, 6, 1, 4),
        (4, 6, 3, 3),
    ],
    ids=["some", "fewer declared since", "more than there are", "not yet", "partially admitted"],
)
def test_pods_that_are_done_give_their_part_back_and_never_more(
    admitted: int, declared: int, done: int, pieces: int
) -> None:
    granted = PodSetAdmission(
        name="main", count=admitted, flavors={GPU: FLAVOR}, usage={GPU: admitted * K}
    )
    admission = Admission(cluster_queue="a", pod_sets=(granted,))
    pods = PodSet(name="main", count=declared, requests={GPU: K})
    assert charged(admission, (pods,), {"main": done}) == {FR: pieces * K}
