"""Nodes with agents: pods that start, end, are stopped, and machines that fail."""

from dataclasses import dataclass, field

from muster_contracts import codec, envelope, events, subjects
from muster_contracts.commands import PodCommand, RunPod, StopPod
from muster_contracts.subjects import Service
from muster_domain.nodes import Node
from muster_simulation.world import World

HEARTBEAT_MS = 2_000
REACTION_MS_MAX = 400
DURATION = "muster.dev/simulated-duration-ms"
EXIT_CODE = "muster.dev/simulated-exit-code"
START_DURATION = "muster.dev/simulated-start-ms"
STOP_DURATION = "muster.dev/simulated-stop-ms"


@dataclass(slots=True)
class _Pod:
    command: RunPod
    running: bool = False
    over: bool = False


@dataclass(slots=True)
class SimulatedNode:
    """One machine. It keeps its own account of pods over a failure, as the agent does on disk."""

    world: World
    node: Node
    lease_ms: int
    incarnation: int = 1
    up: bool = True
    cut_off: bool = False
    _cuts: int = 0
    pods: dict[str, _Pod] = field(default_factory=dict[str, _Pod])
    _unsent: list[events.PodStarted | events.PodFinished] = field(
        default_factory=list["events.PodStarted | events.PodFinished"]
    )

    def start(self) -> None:
        """Register and live."""
        self.world.pod_listeners.append(self._on_command)
        self._register()
        self._beat()

    @property
    def running(self) -> list[RunPod]:
        """The pods whose processes run now."""
        return [pod.command for pod in self.pods.values() if pod.running and self.up]

    def succeed(self, workload_id: str) -> None:
        """Let the pods of a workload end well."""
        for uid, pod in sorted(self.pods.items()):
            if pod.running and pod.command.workload_id == workload_id:
                self._end(uid, pod, exit_code=0, stopped=False)

    def _register(self) -> None:
        fact = events.NodeRegistered(
            node=self.node, incarnation=self.incarnation, heartbeat_interval_ms=HEARTBEAT_MS
        )
        self._send(fact, f"{self.node.name}/{self.incarnation}")
        prefix = subjects.pod_command(self.node.name, "")
        for subject in sorted(self.world.pods):
            if subject.startswith(prefix.removesuffix("=")):
                self._on_command(subject, self.world.pods[subject][1])

    def _beat(self) -> None:
        world = self.world
        self.world.after(HEARTBEAT_MS, self._beat)
        if not self.up or self.cut_off:
            return
        if world.happens("node down", world.faults.node_down):
            self._go_down()
        elif world.happens("node cut off", world.faults.node_cut_off):
            self._be_cut_off()
        elif not world.happens("lost heartbeat", world.faults.lost_heartbeat):
            for listener in world.heartbeat_listeners:
                listener(self.node.name, world.now_ms)

    def _go_down(self) -> None:
        """Power is cut: every process is gone at once, and nobody says so."""
        self.up = False
        for pod in self.pods.values():
            pod.running = False
        self.world.after(self.world.chance("repair").randrange(90_000), self._come_back)

    def _come_back(self) -> None:
        self.up = True
        self.incarnation += 1
        for uid, pod in sorted(self.pods.items()):
            if not pod.over:
                self._end(uid, pod, exit_code=137, stopped=True)
        self._register()

    def _be_cut_off(self) -> None:
        away_ms = self.world.chance("cut off").randrange(60_000)
        self.cut()
        self.world.after(away_ms, self.reconnect)

    def cut(self) -> None:
        """The network is gone: pods run on until the agent stops them before the lease ends."""
        self.cut_off = True
        self._cuts += 1
        cut = self._cuts
        self.world.after(self.lease_ms - 1, lambda: self._stop_own_pods(cut))

    def _stop_own_pods(self, cut: int) -> None:
        if not self.cut_off or cut != self._cuts:
            return
        for uid, pod in sorted(self.pods.items()):
            if pod.running:
                self._end(uid, pod, exit_code=143, stopped=True)

    def reconnect(self) -> None:
        """The network is back: what happened meanwhile is told."""
        self.cut_off = False
        unsent, self._unsent = self._unsent, []
        for fact in unsent:
            self._send(fact, f"{fact.pod_uid}/{type(fact).__name__}")
        self._register()

    def _on_command(self, subject: str, body: bytes) -> None:
        if subject.split(".")[5] != subjects.token(self.node.name) or not self.up or self.cut_off:
            return
        kind = RunPod if b'"desired":"run"' in body else StopPod
        command: PodCommand = codec.decode(kind, body)
        delay = self.world.chance(f"node {self.node.name}").randrange(REACTION_MS_MAX)
        self.world.after(delay, lambda: self._obey(command))

    def _obey(self, command: PodCommand) -> None:
        if not self.up:
            return
        pod = self.pods.get(command.pod_uid)
        match command:
            case RunPod():
                if pod is None:
                    self._run(command)
            case StopPod():
                if pod is None:
                    blank = RunPod(
                        pod_uid=command.pod_uid,
                        workload_id=command.workload_id,
                        namespace="",
                        workload_name="",
                        attempt=command.attempt,
                        pod_set="",
                        index=0,
                        rank=0,
                        containers=(),
                    )
                    pod = self.pods[command.pod_uid] = _Pod(blank)
                self._stop(command.pod_uid, pod)

    def _stop(self, uid: str, pod: _Pod) -> None:
        """End a pod by order, as late as its annotation says."""

        def end() -> None:
            if not pod.over and self.up:
                self._end(uid, pod, exit_code=143, stopped=True)

        stop_ms = int(pod.command.annotations.get(STOP_DURATION, "0"))
        if stop_ms and pod.running:
            self.world.after(stop_ms, end)
        else:
            end()

    def _run(self, command: RunPod) -> None:
        """Begin a pod, as late as its annotation says."""
        pod = self.pods[command.pod_uid] = _Pod(command)
        start_ms = int(command.annotations.get(START_DURATION, "0"))
        if start_ms:
            self.world.after(start_ms, lambda: self._begin(command, pod))
        else:
            self._begin(command, pod)

    def _begin(self, command: RunPod, pod: _Pod) -> None:
        if pod.over or not self.up:
            return
        pod.running = True
        self._report(
            events.PodStarted(
                pod_uid=command.pod_uid,
                workload_id=command.workload_id,
                attempt=command.attempt,
                node=self.node.name,
            )
        )
        duration_ms = int(command.annotations.get(DURATION, "1000"))
        exit_code = int(command.annotations.get(EXIT_CODE, "0"))

        def end() -> None:
            if pod.running:
                self._end(command.pod_uid, pod, exit_code=exit_code, stopped=False)

        self.world.after(duration_ms, end)

    def _end(self, uid: str, pod: _Pod, *, exit_code: int, stopped: bool) -> None:
        pod.running = False
        pod.over = True
        self._report(
            events.PodFinished(
                pod_uid=uid,
                workload_id=pod.command.workload_id,
                attempt=pod.command.attempt,
                node=self.node.name,
                exit_code=exit_code,
                stopped=stopped,
            )
        )

    def _report(self, fact: events.PodStarted | events.PodFinished) -> None:
        if self.cut_off:
            self._unsent.append(fact)
        else:
            self._send(fact, f"{fact.pod_uid}/{type(fact).__name__}")

    def _send(self, fact: events.NodeFact, key: str) -> None:
        name = codec.EVENT_NAMES[type(fact)]
        subject = subjects.node_event(name, self.node.name)
        send_event(self.world, Service.AGENT, subject, fact, key)


def send_event(world: World, owner: Service, subject: str, fact: events.Event, key: str) -> None:
    """Publish a fact late, and now and then twice."""
    headers = envelope.to_headers(
        envelope.Envelope(
            id=envelope.derived_id(owner, key),
            source=f"/muster/{owner}",
            type=envelope.event_type(owner, codec.EVENT_NAMES[type(fact)]),
            time_ms=world.now_ms,
        )
    )
    body = codec.encode(fact)
    copies = 2 if world.happens("duplicate", world.faults.duplicate) else 1
    for _ in range(copies):
        delay = world.chance("delay").randrange(REACTION_MS_MAX)
        world.after(delay, lambda: world.publish(subject, headers, body))
