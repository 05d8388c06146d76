"""The pods of one node: what is wanted against what is seen.

Fed with commands, observations and time; says what changed, what to report and (`pods.actions`)
what to do. Reads no clock and starts nothing. Idempotent by pod uid and run: a command or an
observation that comes twice, late or after a restart changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from muster_agent.pods import (
    EXIT_CANNOT_RUN,
    Commanded,
    ContainerRecord,
    CutOff,
    Ended,
    Exited,
    Happening,
    Pod,
    Report,
    RunBegan,
    RunEnded,
    Running,
    Starting,
    Stopping,
    Waiting,
    checkpoint_of,
)
from muster_contracts.commands import RunPod, StopPod
from muster_contracts.events import PodFinished, PodRestarting, PodStarted
from muster_domain.workload import RestartPolicy

ENDED_MAX = 100_000
"""Ends remembered; commands for older pods have long been replaced by a `StopPod`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRules:
    """Kubernetes' pauses: doubled from first to max, forgotten after running long enough.

    After `failures_max` restarts the next failure is the end.
    """

    failures_max: int = 6
    pause_first_ms: int = 10_000
    pause_max_ms: int = 300_000
    forget_after_ms: int = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PodChanges:
    """What a cycle changed, to be stored at once, and the reports that say so."""

    pods: tuple[Pod, ...] = ()
    ended: tuple[Ended, ...] = ()
    reports: tuple[Report, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pods or self.ended or self.reports)


class NodeMachine:
    """All pods of one node. `refusal` says why the node runs none; empty if it does."""

    def __init__(
        self,
        node: str,
        rules: RestartRules,
        *,
        refusal: str = "",
        pods: Iterable[Pod] = (),
        ended: Iterable[Ended] = (),
    ) -> None:
        self.node = node
        self.pods = {pod.uid: pod for pod in pods}
        self.ended = {one.report.pod_uid: one for one in ended}
        self._rules = rules
        self._refusal = refusal
        self._due: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        self._newly_ended: dict[str, None] = {}
        self._reports: list[Report] = []
        for pod in self.pods.values():
            self._set_due(pod)

    def handle(self, happening: Happening, now_ms: int) -> None:
        """Take in one thing that happened."""
        match happening:
            case Commanded():
                if isinstance(happening.command, RunPod):
                    self._told_to_run(happening.command, now_ms, recorded=happening.recorded)
                else:
                    self._told_to_stop(happening.command, now_ms)
            case RunBegan():
                self._began(happening, now_ms)
            case RunEnded():
                self._run_ended(happening, now_ms)
            case CutOff():
                self._cut_off(happening, now_ms)
            case _:
                assert_never(happening)

    def tick(self, now_ms: int) -> None:
        """Do what has become due."""
        for uid in [uid for uid, due_ms in self._due.items() if due_ms <= now_ms]:
            pod = self.pods[uid]
            if pod.stopping is not None:
                self._put(replace(pod, stopping=_next_step(pod.stopping)))
                continue
            self._put(
                replace(pod, containers=tuple(_start_if_due(one, now_ms) for one in pod.containers))
            )

    def wake_at_ms(self) -> int | None:
        """When `tick` has something to do, if ever."""
        return min(self._due.values(), default=None)

    def take_changes(self) -> PodChanges:
        """What changed since the last call."""
        changes = PodChanges(
            pods=tuple(self.pods[uid] for uid in self._changed if uid in self.pods),
            ended=tuple(self.ended[uid] for uid in self._newly_ended if uid in self.ended),
            reports=tuple(self._reports),
        )
        self._changed, self._newly_ended, self._reports = {}, {}, []
        return changes

    def _told_to_run(self, command: RunPod, now_ms: int, *, recorded: bool) -> None:
        uid = command.pod_uid
        if uid in self.pods or uid in self.ended:
            return
        pod = Pod(
            command=command,
            containers=tuple(ContainerRecord() for _ in command.containers or (None,)),
        )
        if self._refusal:
            refused = _finished(pod, self.node, EXIT_CANNOT_RUN, self._refusal, stopped=False)
            self._end(pod, refused, now_ms)
        elif recorded:
            self._put(pod)
        else:
            lost = "the node has no record of the pod any more"
            stopping = Stopping(cause="lost", kill_at_ms=now_ms, killing=True, message=lost)
            self._put(replace(pod, stopping=stopping))

    def _told_to_stop(self, command: StopPod, now_ms: int) -> None:
        uid = command.pod_uid
        known = self.ended.get(uid)
        if known is not None:
            self._reports.append(known.report)
            return
        pod = self.pods.get(uid)
        if pod is None:
            report = PodFinished(
                pod_uid=uid,
                workload_id=command.workload_id,
                attempt=command.attempt,
                node=self.node,
                exit_code=0,
                stopped=True,
                message="it did not run",
            )
            self._remember(Ended(report=report, at_ms=now_ms))
            return
        checkpoint = checkpoint_of(pod.command)
        until_ms = now_ms + checkpoint.within_ms if checkpoint is not None else 0
        kill_at_ms = max(now_ms, until_ms) + command.grace_ms
        told = Stopping(cause="told", kill_at_ms=kill_at_ms, checkpoint_until_ms=until_ms)
        self._stop(pod, told)
        self._settle(uid, now_ms)

    def _cut_off(self, happening: CutOff, now_ms: int) -> None:
        stopping = Stopping(
            cause="cut_off", kill_at_ms=now_ms + happening.grace_ms, message=happening.message
        )
        for pod in list(self.pods.values()):
            self._stop(pod, stopping)
            self._settle(pod.uid, now_ms)

    def _began(self, seen: RunBegan, now_ms: int) -> None:
        pod, record = self._find(seen)
        if pod is None or record is None or not isinstance(record.state, Starting):
            return
        self._put(_with(pod, seen.id.container, replace(record, state=Running(now_ms), began=True)))
        self._settle(pod.uid, now_ms)

    def _run_ended(self, seen: RunEnded, now_ms: int) -> None:
        pod, record = self._find(seen)
        if pod is None or record is None or not record.live:
            return
        over = replace(record, state=Exited(), exit_code=seen.exit_code, message=seen.message)
        if seen.lost and pod.stopping is None:
            stopping = Stopping(cause="lost", kill_at_ms=now_ms, message=seen.message)
            self._put(_with(pod, seen.id.container, over))
            self._stop(self.pods[pod.uid], stopping)
        elif pod.stopping is None and self._restarts(pod, record, seen):
            self._put(_with(pod, seen.id.container, self._pause(record, seen, now_ms)))
            self._say_restarting(self.pods[pod.uid], seen.id.container)
        else:
            self._put(_with(pod, seen.id.container, over))
        self._settle(pod.uid, now_ms)

    def _restarts(self, pod: Pod, record: ContainerRecord, seen: RunEnded) -> bool:
        match pod.command.restart_policy:
            case RestartPolicy.NEVER:
                return False
            case RestartPolicy.ON_FAILURE:
                return seen.exit_code != 0 and record.failures < self._rules.failures_max
            case RestartPolicy.ALWAYS:
                return seen.exit_code == 0 or record.failures < self._rules.failures_max
            case _:
                assert_never(pod.command.restart_policy)

    def _say_restarting(self, pod: Pod, container: int) -> None:
        """Say once that a pod that had started does not run whole until it has started again."""
        if not pod.reported:
            return
        record = replace(pod.containers[container], began=False)
        self._put(replace(_with(pod, container, record), reported=False))
        command = pod.command
        report = PodRestarting(
            pod_uid=pod.uid,
            workload_id=command.workload_id,
            attempt=command.attempt,
            node=self.node,
            times=pod.starts,
            message=f"a container ended with {record.exit_code}",
        )
        self._reports.append(report)

    def _pause(self, record: ContainerRecord, seen: RunEnded, now_ms: int) -> ContainerRecord:
        rules = self._rules
        ran_ms = now_ms - record.state.since_ms if isinstance(record.state, Running) else 0
        again = record.pause_ms > 0 and ran_ms < rules.forget_after_ms
        pause_ms = min(rules.pause_max_ms, 2 * record.pause_ms) if again else rules.pause_first_ms
        return replace(
            record,
            state=Waiting(now_ms + pause_ms),
            run=record.run + 1,
            failures=record.failures + (seen.exit_code != 0),
            pause_ms=pause_ms,
            exit_code=seen.exit_code,
            message=seen.message,
        )

    def _stop(self, pod: Pod, wanted: Stopping) -> None:
        """Stop a pod; who stopped it first stays the cause, the earlier deadline counts."""
        before = pod.stopping
        stopping = wanted
        if before is not None:
            stopping = replace(
                before,
                kill_at_ms=min(before.kill_at_ms, wanted.kill_at_ms),
                checkpoint_until_ms=min(before.checkpoint_until_ms, wanted.checkpoint_until_ms),
            )
        if stopping == before:
            return
        waiting_no_more = tuple(
            replace(one, state=Exited()) if isinstance(one.state, Waiting) else one
            for one in pod.containers
        )
        self._put(replace(pod, stopping=stopping, containers=waiting_no_more))

    def _settle(self, uid: str, now_ms: int) -> None:
        """Report what the containers of a pod amount to."""
        pod = self.pods[uid]
        if not pod.reported and all(one.began for one in pod.containers):
            pod = replace(pod, reported=True, starts=pod.starts + 1)
            self._put(pod)
            self._reports.append(_started(pod, self.node))
        if not all(isinstance(one.state, Exited) for one in pod.containers):
            return
        number, worst = next(
            ((number, one) for number, one in enumerate(pod.containers) if one.exit_code),
            (0, pod.containers[0]),
        )
        message = (pod.stopping.message if pod.stopping else "") or _why(pod, number, worst)
        report = _finished(
            pod, self.node, worst.exit_code, message, stopped=pod.stopping is not None
        )
        self._end(pod, report, now_ms)

    def _end(self, pod: Pod, report: PodFinished, now_ms: int) -> None:
        self.pods.pop(pod.uid, None)
        self._due.pop(pod.uid, None)
        self._remember(Ended(report=report, at_ms=now_ms))

    def _remember(self, ended: Ended) -> None:
        uid = ended.report.pod_uid
        self.ended[uid] = ended
        self._newly_ended[uid] = None
        self._reports.append(ended.report)
        if len(self.ended) > ENDED_MAX:
            del self.ended[next(iter(self.ended))]

    def _find(self, seen: RunBegan | RunEnded) -> tuple[Pod | None, ContainerRecord | None]:
        pod = self.pods.get(seen.id.pod_uid)
        if pod is None or seen.id.container >= len(pod.containers):
            return None, None
        record = pod.containers[seen.id.container]
        return pod, record if record.run == seen.id.run else None

    def _put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self._changed[pod.uid] = None
        self._set_due(pod)

    def _set_due(self, pod: Pod) -> None:
        due_ms = _due_ms(pod)
        if due_ms is None:
            self._due.pop(pod.uid, None)
        else:
            self._due[pod.uid] = due_ms


def _due_ms(pod: Pod) -> int | None:
    if pod.stopping is not None:
        if pod.stopping.checkpoint_until_ms:
            return pod.stopping.checkpoint_until_ms
        return None if pod.stopping.killing else pod.stopping.kill_at_ms
    waits = (one.state.until_ms for one in pod.containers if isinstance(one.state, Waiting))
    return min(waits, default=None)


def _next_step(stopping: Stopping) -> Stopping:
    """After saving it is asked to end, after the grace it is killed."""
    if stopping.checkpoint_until_ms:
        return replace(stopping, checkpoint_until_ms=0)
    return replace(stopping, killing=True)


def _start_if_due(record: ContainerRecord, now_ms: int) -> ContainerRecord:
    if isinstance(record.state, Waiting) and record.state.until_ms <= now_ms:
        return replace(record, state=Starting())
    return record


def _with(pod: Pod, number: int, record: ContainerRecord) -> Pod:
    containers = (*pod.containers[:number], record, *pod.containers[number + 1 :])
    return replace(pod, containers=containers)


def _started(pod: Pod, node: str) -> PodStarted:
    command = pod.command
    return PodStarted(
        pod_uid=pod.uid,
        workload_id=command.workload_id,
        attempt=command.attempt,
        node=node,
        times=pod.starts,
    )


def _finished(pod: Pod, node: str, exit_code: int, message: str, *, stopped: bool) -> PodFinished:
    command = pod.command
    return PodFinished(
        pod_uid=pod.uid,
        workload_id=command.workload_id,
        attempt=command.attempt,
        node=node,
        exit_code=exit_code,
        stopped=stopped,
        message=message,
    )


def _why(pod: Pod, number: int, record: ContainerRecord) -> str:
    if record.exit_code == 0:
        return record.message
    containers = pod.command.containers
    name = containers[number].name if containers else "main"
    again = f" after {record.failures} restarts" if record.failures else ""
    detail = f": {record.message}" if record.message else ""
    return f"container {name} ended with {record.exit_code}{again}{detail}"
