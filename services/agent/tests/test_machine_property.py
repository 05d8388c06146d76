"""Any order and repetition of commands, observations and crashes ends in the same state.

The world keeps its promises (a run starts at most once, its end can be seen again), as
`test_process_runtime` shows of the real one. A crash forgets everything that was not committed.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_agent.machine import NodeMachine, RestartRules
from muster_agent.pods import (
    Commanded,
    ContainerRun,
    Ended,
    Pod,
    Run,
    RunBegan,
    RunEnded,
    RunTask,
    actions,
)
from muster_contracts.commands import PodCommand
from muster_contracts.events import PodFinished
from muster_domain.workload import RestartPolicy

from .builders import run_pod, stop_pod

RULES = RestartRules(failures_max=2, pause_first_ms=10, pause_max_ms=20)
UIDS = ("a-1-0", "b-1-0", "c-1-0")
Step = tuple[Literal["command", "cycle", "end", "see", "tick", "crash", "crash before acting"], int]


@dataclass
class World:
    """Processes, as they are whoever watches."""

    exit_codes: tuple[int, ...]
    starts: Counter[ContainerRun] = field(default_factory=Counter[ContainerRun])
    alive: dict[ContainerRun, RunTask] = field(default_factory=dict[ContainerRun, RunTask])
    over: dict[ContainerRun, int] = field(default_factory=dict[ContainerRun, int])

    def run(self, task: RunTask) -> None:
        if task.id not in self.alive and task.id not in self.over:
            self.starts[task.id] += 1
            self.alive[task.id] = task

    def stop(self, task: RunTask) -> None:
        self.alive.pop(task.id, None)
        self.over.setdefault(task.id, 143)

    def end(self, number: int) -> None:
        if self.alive:
            run = sorted(self.alive, key=str)[number % len(self.alive)]
            self.alive.pop(run)
            self.over[run] = planned(self.exit_codes, run.container, run.run)


@dataclass
class Disk:
    """What survives a crash."""

    pods: dict[str, Pod] = field(default_factory=dict[str, Pod])
    ended: dict[str, Ended] = field(default_factory=dict[str, Ended])
    reports: list[object] = field(default_factory=list[object])


class Agent:
    def __init__(self, world: World, disk: Disk) -> None:
        self.world, self.disk, self.now_ms = world, disk, 0
        self.machine = NodeMachine("n1", RULES, pods=disk.pods.values(), ended=disk.ended.values())

    def commit(self) -> None:
        changes = self.machine.take_changes()
        self.disk.pods.update({pod.uid: pod for pod in changes.pods})
        for ended in changes.ended:
            self.disk.pods.pop(ended.report.pod_uid, None)
            self.disk.ended[ended.report.pod_uid] = ended
        self.disk.reports += changes.reports

    def act(self) -> None:
        for pod in list(self.machine.pods.values()):
            for action in actions(pod):
                if isinstance(action, Run):
                    self.world.run(action.task)
                else:
                    self.world.stop(action.task)

    def see(self, number: int) -> None:
        runs = sorted({*self.world.alive, *self.world.over}, key=str)
        if not runs:
            return
        run = runs[number % len(runs)]
        if run in self.world.over:
            self.machine.handle(RunEnded(id=run, exit_code=self.world.over[run]), self.now_ms)
        else:
            self.machine.handle(RunBegan(run), self.now_ms)


def play(commands: list[PodCommand], steps: list[Step], world: World) -> tuple[Disk, World]:
    disk = Disk()
    agent = Agent(world, disk)
    for step, number in steps:
        match step:
            case "command":
                command = commands[number % len(commands)]
                agent.machine.handle(Commanded(command), agent.now_ms)
            case "cycle":
                agent.commit()
                agent.act()
            case "end":
                world.end(number)
            case "see":
                agent.see(number)
            case "tick":
                agent.now_ms += number
                agent.machine.tick(agent.now_ms)
            case "crash" | "crash before acting":
                if step == "crash before acting":
                    agent.commit()
                now_ms = agent.now_ms
                agent = Agent(world, disk)
                agent.now_ms = now_ms
    finish(agent, commands)
    return disk, world


def finish(agent: Agent, commands: list[PodCommand]) -> None:
    """Everything that was under way comes to its end."""
    for command in commands:
        agent.machine.handle(Commanded(command), agent.now_ms)
    for _ in range(40):
        agent.commit()
        agent.act()
        for number in range(len(agent.world.starts) + len(agent.world.over)):
            agent.see(number)
        agent.world.end(0)
        agent.now_ms += 1000
        agent.machine.tick(agent.now_ms)
    agent.commit()
    assert not agent.machine.pods


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["command", "cycle", "end", "see", "tick", "crash", "crash before acting"]),
        st.integers(0, 30),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(
    steps=STEPS,
    policy=st.sampled_from([RestartPolicy.NEVER, RestartPolicy.ON_FAILURE]),
    exit_codes=st.sampled_from([(0,), (1,), (1, 0), (1, 1, 0, 2)]),
    stopped=st.sets(st.sampled_from(UIDS)),
)
def test_the_end_is_the_same_whatever_happens_on_the_way(
    steps: list[Step],
    policy: RestartPolicy,
    exit_codes: tuple[int, ...],
    stopped: set[str],
) -> None:
    commands: list[PodCommand] = [
        run_pod(uid, ("a",), ("b",), restart_policy=policy) for uid in UIDS
    ]
    commands += [stop_pod(uid) for uid in UIDS if uid in stopped]
    disk, world = play(commands, steps, World(exit_codes))

    assert max(world.starts.values(), default=0) <= 1
    assert not world.alive
    ends: dict[str, set[PodFinished]] = {uid: set() for uid in UIDS}
    for report in disk.reports:
        if isinstance(report, PodFinished):
            ends[report.pod_uid].add(report)
    assert {uid: len(reports) for uid, reports in ends.items()} == dict.fromkeys(UIDS, 1)
    for uid in UIDS:
        if uid not in stopped:
            first, second = (expected(exit_codes, policy, container) for container in (0, 1))
            assert disk.ended[uid].report.exit_code == (first[-1] or second[-1])
            assert not disk.ended[uid].report.stopped
            assert runs_of(uid, world) == (len(first), len(second))


def planned(exit_codes: tuple[int, ...], container: int, run: int) -> int:
    return exit_codes[(run + container - 1) % len(exit_codes)]


def expected(exit_codes: tuple[int, ...], policy: RestartPolicy, container: int) -> list[int]:
    """The exit codes of a container's runs, one after the other."""
    codes = [planned(exit_codes, container, 1)]
    while policy is RestartPolicy.ON_FAILURE and codes[-1] and len(codes) <= RULES.failures_max:
        codes.append(planned(exit_codes, container, len(codes) + 1))
    return codes


def runs_of(uid: str, world: World) -> tuple[int, int]:
    runs = [run for run in world.starts if run.pod_uid == uid]
    return sum(run.container == 0 for run in runs), sum(run.container == 1 for run in runs)
