"""Volcano's JobFlow: jobs made from templates, each once those it depends on have completed."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTemplate:
    """A Job that a flow may start; its manifest says the rest."""

    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStep:
    """A job from the template of this name, after the jobs of the steps in `targets`."""

    name: str
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFlow:
    """Steps that follow from one another, without a circle."""

    namespace: str
    name: str
    steps: tuple[FlowStep, ...]

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def job_name(self, step: FlowStep) -> str:
        """What the job of a step is called (F1)."""
        return f"{self.name}-{step.name}"


class FlowPhase(StrEnum):
    """How far a flow is (F2)."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEED = "Succeed"
    FAILED = "Failed"


class StepState(StrEnum):
    """How far the job of a step is. `BLOCKED` waits for others, `READY` is to be started."""

    BLOCKED = "Blocked"
    READY = "Ready"
    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
