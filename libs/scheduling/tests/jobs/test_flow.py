from collections.abc import Mapping

import pytest

from muster_domain.job_flow import FlowPhase, FlowStep, JobFlow, StepState
from muster_scheduling.jobs.flow import progress

FLOW = JobFlow(
    namespace="team",
    name="nightly",
    steps=(
        FlowStep(name="a"),
        FlowStep(name="b"),
        FlowStep(name="c", targets=("a", "b")),
        FlowStep(name="d", targets=("c",)),
    ),
)
RUNNING, PENDING = StepState.RUNNING, StepState.PENDING
DONE, FAILED = StepState.COMPLETED, StepState.FAILED


@pytest.mark.parametrize(
    ("jobs", "ready", "phase"),
    [
        ({}, ("a", "b"), FlowPhase.PENDING),
        ({"a": PENDING, "b": PENDING}, (), FlowPhase.PENDING),
        ({"a": RUNNING}, ("b",), FlowPhase.RUNNING),
        ({"a": DONE, "b": RUNNING}, (), FlowPhase.RUNNING),
        ({"a": DONE, "b": DONE}, ("c",), FlowPhase.RUNNING),
        ({"a": DONE, "b": DONE, "c": PENDING}, (), FlowPhase.RUNNING),
        ({"a": DONE, "b": FAILED}, (), FlowPhase.FAILED),
        ({"a": FAILED}, (), FlowPhase.FAILED),
        ({"a": DONE, "b": DONE, "c": DONE, "d": DONE}, (), FlowPhase.SUCCEED),
    ],
)
def test_a_step_follows_once_its_targets_have_completed(
    jobs: Mapping[str, StepState], ready: tuple[str, ...], phase: FlowPhase
) -> None:
    found = progress(FLOW, jobs)
    assert (found.ready, found.phase) == (ready, phase)


def test_a_job_is_called_after_its_flow_and_template() -> None:
    assert [FLOW.job_name(step) for step in FLOW.steps[:2]] == ["nightly-a", "nightly-b"]
