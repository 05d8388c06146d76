"""`muster run`: wait for cards, run a command here on them, give them back."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Annotated, Any

import typer

from muster.cli.options import Namespace, Queue, Timeout, connect, namespace_or_default
from muster.cli.output import say, warn
from muster.cli.waiting import Goal, deadline_after, wait_for
from muster.client import Client
from muster.durations import parse_seconds
from muster.errors import BadArgument, ClientError, ExitCode
from muster.following import Following, exit_of, has_ended
from muster.lease import Lease
from muster.rendering.words import short_id
from muster.rendering.workloads import decision_line
from muster_contracts.jobs import Decision, Verdict
from muster_contracts.pod_environment import GPU_RESOURCE, device_variables

HOSTNAME_LABEL = "kubernetes.io/hostname"
LOOK_EVERY_S = 0.5
GRACE_S = 15.0
"""Between asking the command to stop and stopping it."""
_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
_GIVEN_BACK = (Verdict.PREEMPTED, Verdict.EVICTED, Verdict.REQUEUED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What `muster run` asks for."""

    name: str
    namespace: str
    queue: str
    priority_class: str
    resources: Mapping[str, str]
    node: str = ""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        rich_help_panel="Jobs",
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )(run)


def run(  # noqa: PLR0913 - one parameter for each option
    command: Annotated[list[str], typer.Argument(help="After --: what to run here")],
    *,
    gpus: Annotated[int, typer.Option("-g", "--gpus", min=0, help="Cards")] = 1,
    cpus: Annotated[str, typer.Option(help="Cores, for example 4 or 500m")] = "",
    memory: Annotated[str, typer.Option(help="Memory, for example 32Gi")] = "",
    queue: Queue = "",
    priority_class: Annotated[str, typer.Option("--priority", help="Priority class")] = "",
    name: Annotated[str, typer.Option(help="Name of the job")] = "",
    here: Annotated[bool, typer.Option("--here", help="Only cards of this machine")] = False,
    timeout: Timeout = "",
    lease: Annotated[str, typer.Option(help="Silence after which the cards are taken")] = "60s",
    namespace: Namespace = "",
) -> None:
    """Wait for cards, run a command on them, give them back.

    Ends with the command's exit code. Without cards in time it ends with 4; when they are taken
    while the command runs, the command is stopped and it ends with 5 (preempted), 6 (cancelled) or
    7 (anything else).
    """
    ask = Ask(
        name=_name(name, command),
        namespace=namespace_or_default(namespace),
        queue=queue,
        priority_class=priority_class,
        resources={
            resource: quantity
            for resource, quantity in (
                (GPU_RESOURCE, str(gpus) if gpus else ""),
                ("cpu", cpus),
                ("memory", memory),
            )
            if quantity
        },
        node=socket.gethostname() if here else "",
    )
    seconds = parse_seconds(timeout) if timeout else None
    with connect() as client:
        raise typer.Exit(_run(client, ask, command, parse_seconds(lease), seconds))


def _run(client: Client, ask: Ask, command: list[str], lease_s: int, timeout_s: int | None) -> int:
    accepted = client.submit(
        manifest_text(ask),
        key=uuid.uuid4().hex,
        parameters={
            "namespace": ask.namespace,
            "source": "muster run",
            "external_lease_ms": lease_s * 1000,
        },
    )
    warn(accepted.warnings)
    job = accepted.jobs[0]
    say(f"{short_id(job.id)} {job.namespace}/{job.name} waits in {job.queue}")
    with Lease(client, job.id, lease_s) as lease:
        try:
            outcome = wait_for(
                client, job.id, Goal.ADMITTED, deadline_after(timeout_s), "muster run again"
            )
        except BaseException:
            _give_up(client, job.id, "the caller went away")
            raise
        if outcome.exit_code is not ExitCode.OK or outcome.decision is None:
            _give_up(client, job.id, "not admitted in time")
            return outcome.exit_code
        return Running(client, outcome.decision, lease).run(command)


def _give_up(client: Client, workload: str, message: str) -> None:
    try:
        client.cancel(workload, message)
    except ClientError as error:
        say(f"not cancelled, its lease will end: {error}", "yellow")


class Running:
    """One command on cards that are ours for as long as the lease holds."""

    def __init__(self, client: Client, decision: Decision, lease: Lease) -> None:
        self._client = client
        self._decision = decision
        self._lease = lease

    def run(self, command: list[str]) -> int:
        """Run it to its end, or until the cards are taken. Returns the exit code."""
        self._warn_of_other_nodes()
        environment = {**os.environ, **environment_of(self._decision)}
        try:
            process = subprocess.Popen(command, env=environment)  # noqa: S603 - what we are for
        except OSError as error:
            self._finish(succeeded=False, message=str(error))
            raise BadArgument(f"cannot run {command[0]}: {error.strerror}") from error
        previous = self._forward_signals(process)
        try:
            with Following(self._client, self._decision.id) as following:
                return self._attend(process, following)
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            stop(process)

    def _attend(self, process: "subprocess.Popen[bytes]", following: Following) -> int:
        while True:
            try:
                code = process.wait(LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                taken = self._taken(following)
                if taken is None:
                    continue
                stop(process)
                return taken
            exit_code = 128 - code if code < 0 else code
            self._finish(succeeded=exit_code == 0, message=f"exit code {exit_code}")
            return exit_code

    def _taken(self, following: Following) -> int | None:
        """The exit code that says how the cards were lost, or None while they are ours."""
        if trouble := self._lease.lost():
            say(f"{trouble}; stopping the command", "bold red")
            return ExitCode.JOB_FAILED
        decision = following.next(0)
        if decision is None:
            return None
        if has_ended(decision):
            say(decision_line(decision), "bold red")
            return exit_of(decision) or ExitCode.JOB_FAILED
        if decision.decision in _GIVEN_BACK or decision.attempt > self._decision.attempt:
            say(decision_line(decision), "bold red")
            _give_up(self._client, decision.id, "its command does not run twice")
            preempted = decision.decision is Verdict.PREEMPTED or decision.preemptor
            return ExitCode.PREEMPTED if preempted else ExitCode.JOB_FAILED
        return None

    def _finish(self, *, succeeded: bool, message: str) -> None:
        try:
            self._client.finish(self._decision.id, succeeded=succeeded, message=message)
        except ClientError as error:
            say(f"the end was not reported, the lease will end: {error}", "yellow")

    def _forward_signals(self, process: "subprocess.Popen[bytes]") -> dict[int, Any]:
        """Pass signals on; a terminal has sent its Ctrl-C to the command already."""

        def forward(number: int, _frame: FrameType | None) -> None:
            from_terminal = number == signal.SIGINT and sys.stdin.isatty()
            if process.poll() is None and not from_terminal:
                process.send_signal(number)

        return {
            number: signal.signal(number, forward)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }

    def _warn_of_other_nodes(self) -> None:
        nodes = {seat.node for seat in self._decision.assignments}
        if nodes and nodes != {socket.gethostname()}:
            say(
                f"the cards are on {', '.join(sorted(nodes))}, the command runs on "
                f"{socket.gethostname()}; use --here for cards of this machine",
                "yellow",
            )


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Ask the process to end, and end it when it does not."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def environment_of(decision: Decision) -> dict[str, str]:
    """What the command finds in its environment: its name and its cards, as a pod would."""
    indices = [
        str(index)
        for seat in sorted(decision.assignments, key=lambda seat: seat.rank)
        for index in seat.devices.get(GPU_RESOURCE, ())
    ]
    nodes = dict.fromkeys(seat.node for seat in decision.assignments)
    return {
        "MUSTER_WORKLOAD": f"{decision.namespace}/{decision.name}",
        "MUSTER_WORKLOAD_ID": decision.id,
        "MUSTER_NAMESPACE": decision.namespace,
        "MUSTER_ATTEMPT": str(decision.attempt),
        "MUSTER_NODE": ",".join(nodes),
        **device_variables(tuple(indices)),
    }


def manifest_text(ask: Ask) -> str:
    """The job as a `batch/v1` manifest, in JSON."""
    labels = {
        "kueue.x-k8s.io/queue-name": ask.queue,
        "kueue.x-k8s.io/priority-class": ask.priority_class,
    }
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "resources": {"limits": dict(ask.resources)}}],
    }
    if ask.node:
        pod["nodeSelector"] = {HOSTNAME_LABEL: ask.node}
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": ask.name,
            "namespace": ask.namespace,
            "labels": {name: value for name, value in labels.items() if value},
        },
        "spec": {"parallelism": 1, "completions": 1, "template": {"spec": pod}},
    }
    return json.dumps(manifest)


def _name(given: str, command: list[str]) -> str:
    if given:
        return given
    word = _NOT_IN_NAMES.sub("-", os.path.basename(command[0]).lower()).strip("-") or "run"  # noqa: PTH119 - a word of a command line
    return f"{word[:40]}-{uuid.uuid4().hex[:8]}"
