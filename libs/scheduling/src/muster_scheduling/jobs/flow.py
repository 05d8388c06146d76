"""Which steps of a JobFlow are to be started, from what became of their jobs (F1, F2)."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster_domain.job_flow import FlowPhase, FlowStep, JobFlow, StepState


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProgress:
    """How far a flow is, and each of its steps."""

    phase: FlowPhase
    states: Mapping[str, StepState]

    @property
    def ready(self) -> tuple[str, ...]:
        """The steps that are to be started now, in the order of the flow."""
        return tuple(name for name, state in self.states.items() if state is StepState.READY)


def progress(flow: JobFlow, jobs: Mapping[str, StepState]) -> FlowProgress:
    """How far a flow is, given what became of the jobs that were started, by step.

    A step follows once all its targets have completed. A job that failed fails the flow for good:
    what runs goes on, but nothing is started any more.
    """
    failed = StepState.FAILED in jobs.values()
    states = {step.name: _state(step, jobs, failed=failed) for step in flow.steps}
    return FlowProgress(phase=_phase(states), states=states)


def _state(step: FlowStep, jobs: Mapping[str, StepState], *, failed: bool) -> StepState:
    if step.name in jobs:
        return jobs[step.name]
    done = all(jobs.get(target) is StepState.COMPLETED for target in step.targets)
    return StepState.READY if done and not failed else StepState.BLOCKED


def _phase(states: Mapping[str, StepState]) -> FlowPhase:
    found = set(states.values())
    if StepState.FAILED in found:
        return FlowPhase.FAILED
    if found <= {StepState.COMPLETED}:
        return FlowPhase.SUCCEED
    if found & {StepState.RUNNING, StepState.COMPLETED}:
        return FlowPhase.RUNNING
    return FlowPhase.PENDING
