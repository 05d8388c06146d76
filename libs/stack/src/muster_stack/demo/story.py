"""What happens, in order. Every step waits for what it claims to show, and fails if it does not."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from muster_contracts.commands import ControlAction
from muster_stack.bus import control
from muster_stack.demo.api import FINISHED, Api, Json, manifest
from muster_stack.demo.screen import GPU, Screen
from muster_stack.stack import Stack

REAL_NODE = "here"
SIMULATED_NODES = 16
PATIENCE_S = 60.0
POLL_S = 0.25
CI_JOBS = 36


class StoryError(Exception):
    """Something that was to be shown did not happen."""


@dataclass(slots=True)
class Story:
    """The acts share what they have started."""

    stack: Stack
    api: Api
    screen: Screen
    identities: dict[str, str] = field(default_factory=dict[str, str])

    def play(self) -> None:
        """All acts. Raises `StoryError` when one does not come true."""
        self._open_the_house()
        self._submit_gangs()
        self._refuse_the_impossible()
        self._borrow()
        self._run_small_jobs("before")
        self._owner_returns()
        self._admission_is_killed()
        self._node_dies()
        self._everything_ends()

    def _open_the_house(self) -> None:
        self._wait("all nodes report", lambda: len(self.api.nodes()) == SIMULATED_NODES + 1)
        self.screen.say("16 simulated nodes with 4 GPUs each and one real agent have reported")
        self.api.submit(manifest("teams"))
        self._wait("the queues are there", lambda: len(self.api.quota()["queues"]) >= 4)  # noqa: PLR2004 - two teams, two Volcano queues
        self.screen.say("team data has 16 GPUs, team research 8; each lends what it does not use")

    def _submit_gangs(self) -> None:
        self._submit("evaluation")
        self._wait_phase("evaluate-model", "Admitted", "Running")
        self.screen.say("data: a RayJob of 4 x 4 GPUs got its 16 GPUs, all at once", "green")
        self._submit("pretrain")
        self.screen.say("research: a Volcano job of 4 x 2 GPUs goes to the Volcano queue")

    def _refuse_the_impossible(self) -> None:
        for name, needed in (
            ("finetune-too-big", "asks 32 nvidia.com/gpu; team-data can have at most 20"),
            ("pretrain-too-big", "asks 32 nvidia.com/gpu; Volcano queue batch is capped at 24"),
        ):
            decision = self._submit(name, wait=True)["decision"]
            if decision["reason"] != "ExceedsMaxQuota" or needed not in decision["message"]:
                raise StoryError(f"{name} was to be refused: {decision}")
            self.screen.say(f"refused: {decision['message']}", "yellow")

    def _borrow(self) -> None:
        for number in range(4):
            self._submit_text(_sweep(number))
        self._wait("data borrows 4 GPUs", lambda: self._gpus("team-data", "borrowed_milli") == 4)  # noqa: PLR2004 - what research lends
        self.screen.say("data: four 1-GPU sweeps run on what research lends", "green")

    def _run_small_jobs(self, batch: str) -> None:
        for number in range(CI_JOBS):
            self._submit_text(_ci_job(batch, number))
        for number in range(2):
            self._submit_text(_real_job(batch, number))
        self.screen.say(f"{CI_JOBS} small CI jobs and 2 that run on this machine were submitted")

    def _owner_returns(self) -> None:
        self._submit("owner")
        self.screen.say("research: an urgent job wants the lent GPUs back")
        self._wait_phase("paper-deadline", "Admitted", "Running", FINISHED)
        preempted = [
            row["name"]
            for row in self.api.workloads(namespace="data")
            if row["name"].startswith("sweep-") and row["phase"] in ("Pending", "Evicting")
        ]
        if not preempted:
            raise StoryError("research got its GPUs back, but nobody was preempted for it")
        self.screen.say(f"research has its 8 GPUs; {', '.join(preempted)} wait again", "green")
        self._submit("finetune")
        self.screen.say("data: a PyTorchJob of 8 x 2 GPUs waits until the RayJob is done")

    def _admission_is_killed(self) -> None:
        self.stack.kill("admission")
        self.screen.say("the admission service was killed; CI goes on submitting", "red")
        self._run_small_jobs("after")
        self.stack.wait_ready("admission", PATIENCE_S)
        self.screen.say("admission is back and goes on where it was", "green")

    def _node_dies(self) -> None:
        self._wait_phase("finetune", "Running")
        before = self._row("finetune")
        node = before["nodes"][0]
        asyncio.run(control(self.stack, node, ControlAction.FAIL))
        self.screen.say(f"{node} lost its power under the PyTorchJob", "red")
        self._wait(
            "the gang runs elsewhere",
            lambda: self._restarted("finetune", before["attempt"], node),
        )
        self.screen.say("the gang was evicted whole and runs on other nodes", "green")
        asyncio.run(control(self.stack, node, ControlAction.RECOVER))

    def _everything_ends(self) -> None:
        self._wait(
            "every job ends",
            lambda: all(row["phase"] == FINISHED for row in self.api.workloads()),
            patience_s=120.0,
        )
        self.screen.say("every job has ended", "green")

    def _restarted(self, name: str, attempt: int, node: str) -> bool:
        row = self._row(name)
        return (
            row["attempt"] > attempt
            and row["phase"] in ("Running", FINISHED)
            and node not in row["nodes"]
        )

    def _submit(self, name: str, *, wait: bool = False) -> Json:
        return self._submit_text(manifest(name), wait=wait)

    def _submit_text(self, text: str, *, wait: bool = False) -> Json:
        job = self.api.submit(text, wait=wait)[0]
        self.identities[job["name"]] = job["id"]
        return job

    def _row(self, name: str) -> Json:
        found = self.api.workload(self.identities[name])
        return found["row"] if found is not None else {"phase": "Submitted"}

    def _gpus(self, queue: str, column: str) -> int:
        return sum(
            row[column] // 1000
            for row in self.api.quota()["rows"]
            if row["cluster_queue"] == queue and row["resource"] == GPU
        )

    def _wait_phase(self, name: str, *phases: str) -> None:
        self._wait(
            f"{name} is {' or '.join(phases)}",
            lambda: self._row(name)["phase"] in phases,
        )

    def _wait(
        self, what: str, condition: Callable[[], bool], patience_s: float = PATIENCE_S
    ) -> None:
        deadline_s = time.monotonic() + patience_s
        while not condition():
            if time.monotonic() > deadline_s:
                raise StoryError(f"after {patience_s:.0f} s it is still not true that {what}")
            time.sleep(POLL_S)


def _sweep(number: int) -> str:
    return _job(
        "data",
        f"sweep-{number}",
        "{nvidia.com/gpu: 1, cpu: 2, memory: 8Gi}",
        "30000",
        "kueue.x-k8s.io/priority-class: sweep",
    )


def _ci_job(batch: str, number: int) -> str:
    team = ("data", "research")[number % 2]
    return _job(
        team, f"ci-{batch}-{number}", "{cpu: 1, memory: 1Gi}", str(500 + 97 * (number % 20))
    )


def _real_job(batch: str, number: int) -> str:
    """A job for the real agent: its process says where it runs."""
    return f"""
apiVersion: batch/v1
kind: Job
metadata:
  name: real-{batch}-{number}
  namespace: research
  labels: {{kueue.x-k8s.io/queue-name: jobs}}
spec:
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {{kubernetes.io/hostname: {REAL_NODE}}}
      tolerations: [{{key: muster.dev/real, operator: Exists}}]
      containers:
        - name: main
          command: [sh, -c, "echo rank $RANK of $WORLD_SIZE"]
          resources:
            requests: {{cpu: 100m, memory: 64Mi}}
"""


def _job(namespace: str, name: str, requests: str, duration_ms: str, label: str = "") -> str:
    return f"""
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  namespace: {namespace}
  labels:
    kueue.x-k8s.io/queue-name: jobs
    {label}
spec:
  template:
    metadata:
      annotations: {{muster.dev/simulated-duration-ms: "{duration_ms}"}}
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: ci:1
          resources:
            limits: {requests}
"""
