"""What an agent knows of its pods, as data; what happens to them; what is to be done.

    container   Starting ─▶ Running ─▶ Exited
                   ▲           │
                   └─ Waiting ◀┘  (it is restarted after a pause)

A pod that is over leaves an `Ended` behind, so that no later word about it starts it again.
"""

from dataclasses import dataclass
from typing import Literal

from muster_contracts.commands import PodCommand, RunPod
from muster_contracts.events import PodFinished, PodRestarting, PodStarted
from muster_domain.workload import Container

EXIT_LOST = 137
"""Reported for a container that nobody saw ending, as Kubernetes does."""
EXIT_CANNOT_RUN = 126
EXIT_NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Starting:
    """It was decided to start it; whether the process exists is not known yet."""

    kind: Literal["starting"] = "starting"


@dataclass(frozen=True, slots=True)
class Running:
    """Its process was seen."""

    since_ms: int
    kind: Literal["running"] = "running"


@dataclass(frozen=True, slots=True)
class Waiting:
    """It ended and is to be started again."""

    until_ms: int
    kind: Literal["waiting"] = "waiting"


@dataclass(frozen=True, slots=True)
class Exited:
    """It ended for good."""

    kind: Literal["exited"] = "exited"


ContainerState = Starting | Running | Waiting | Exited


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord:
    """One container. `run` counts its starts from 1; the exit is that of the last run."""

    state: ContainerState = Starting()
    run: int = 1
    began: bool = False
    failures: int = 0
    pause_ms: int = 0
    exit_code: int = 0
    message: str = ""

    @property
    def live(self) -> bool:
        """Whether a process of it may exist."""
        return isinstance(self.state, Starting | Running)


CHECKPOINT_SIGNAL = "muster.dev/checkpoint-signal"
"""Annotation: the signal upon which a pod saves its work, sent before it is asked to end."""

CHECKPOINT_SECONDS = "muster.dev/checkpoint-seconds"
"""Annotation: how long saving may take; whoever is done ends by himself."""

CHECKPOINT_SIGNALS = ("SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP")
CHECKPOINT_DEFAULT_MS = 30_000
CHECKPOINT_MAX_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """How a pod is told to save its work, and how long it may take."""

    signal: str
    within_ms: int


def checkpoint_of(command: RunPod) -> Checkpoint | None:
    """What the pod's annotations say; none without a signal that is one of the known."""
    name = command.annotations.get(CHECKPOINT_SIGNAL, "")
    if name not in CHECKPOINT_SIGNALS:
        return None
    written = command.annotations.get(CHECKPOINT_SECONDS, "")
    within_ms = int(written) * 1000 if written.isdecimal() else CHECKPOINT_DEFAULT_MS
    return Checkpoint(signal=name, within_ms=min(within_ms, CHECKPOINT_MAX_MS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """The pod is being ended: asked to at first, killed from `kill_at_ms` on.

    Before `checkpoint_until_ms`, if that is not 0, it is told to save its work and goes on.
    """

    cause: Literal["told", "cut_off", "lost"]
    kill_at_ms: int
    checkpoint_until_ms: int = 0
    killing: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that is not over. `reported` while it was said to have started, `starts` how often."""

    command: RunPod
    containers: tuple[ContainerRecord, ...]
    stopping: Stopping | None = None
    reported: bool = False
    starts: int = 0

    @property
    def uid(self) -> str:
        """The pod's id."""
        return self.command.pod_uid


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A pod that is over, as it was reported."""

    report: PodFinished
    at_ms: int


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """One run of one container: what a runtime starts at most once."""

    pod_uid: str
    container: int
    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    """A run and what a runtime needs to know of it. `since_ms` if its process was seen before."""

    id: ContainerRun
    pod: RunPod
    since_ms: int | None = None

    @property
    def container(self) -> Container:
        """What to start; a pod without containers has one that says nothing."""
        containers = self.pod.containers
        return containers[self.id.container] if containers else Container(name="main")


@dataclass(frozen=True, slots=True)
class Commanded:
    """Somebody wants something of a pod. `recorded`: this agent's records reach back so far."""

    command: PodCommand
    recorded: bool = True


@dataclass(frozen=True, slots=True)
class RunBegan:
    """A runtime saw the process."""

    id: ContainerRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """Nothing of the run exists any more. `lost`: it did not end by itself and nobody ended it."""

    id: ContainerRun
    exit_code: int
    message: str = ""
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOff:
    """The bus was silent for so long that the node must end its pods within `grace_ms`."""

    grace_ms: int
    message: str


Happening = Commanded | RunBegan | RunEnded | CutOff


@dataclass(frozen=True, slots=True)
class Run:
    """There must be a process of this run, or its end must be reported. Idempotent."""

    task: RunTask


@dataclass(frozen=True, slots=True)
class Stop:
    """The run must end: asked (`kill` false) or killed. Its end must be reported. Idempotent."""

    task: RunTask
    kill: bool


@dataclass(frozen=True, slots=True)
class Save:
    """The run must be sent the pod's checkpoint signal, and goes on. Twice does no harm."""

    task: RunTask


Action = Run | Stop | Save
Report = PodStarted | PodRestarting | PodFinished


def actions(pod: Pod) -> tuple[Action, ...]:
    """What the state of a pod demands of the runtime."""
    demanded: list[Action] = []
    for number, record in enumerate(pod.containers):
        if not record.live:
            continue
        since_ms = record.state.since_ms if isinstance(record.state, Running) else None
        task = RunTask(
            id=ContainerRun(pod.uid, number, record.run), pod=pod.command, since_ms=since_ms
        )
        if pod.stopping is None:
            demanded.append(Run(task))
        elif pod.stopping.checkpoint_until_ms and since_ms is not None:
            demanded.append(Save(task))
        else:
            demanded.append(Stop(task, kill=pod.stopping.killing))
    return tuple(demanded)
