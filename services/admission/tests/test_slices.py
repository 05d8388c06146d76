"""Slices of elastic jobs are refused: nothing may be charged for two of them at once (R-110)."""

from muster_domain.states import Finished
from muster_scheduling.snapshot.workloads import REPLACES
from muster_testing.builders import cluster_queue, configuration, workload

from .house import House


def test_a_slice_that_would_replace_another_is_refused_with_what_to_do_instead() -> None:
    house = House(configuration(cluster_queue(gpus=4)))
    house.run(workload("w1", 2))
    house.submit(workload("w2", 3, annotations={REPLACES: "team-a/job-w1"}))
    state = house.state("w2")
    assert isinstance(state, Finished)
    assert "and apply it again under its own name" in state.message
