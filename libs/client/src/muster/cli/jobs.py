"""Commands about jobs: submit, plan, wait, cancel."""

import os
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import typer

from muster.cli.files import read_file
from muster.cli.options import (
    Namespace,
    Output,
    Queue,
    Timeout,
    Workload,
    connect,
    namespace_or_default,
    refer,
)
from muster.cli.output import Format, emit, lines, say, warn
from muster.cli.waiting import Goal, deadline_after, wait_for
from muster.client import Client
from muster.durations import parse_seconds
from muster.errors import BadArgument, ExitCode
from muster.following import exit_of
from muster.rendering.words import short_id
from muster.rendering.workloads import decision_line, plan_lines
from muster_contracts.api import Accepted, AcceptedJob, Plans
from muster_contracts.jobs import Verdict

DEFAULT_LEASE = "60s"
FIRST_WORD_S = 2.0
"""How long a plain submission waits for the first decision, to say no at once."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (submit, plan, wait, cancel, checkpoint):
        app.command(rich_help_panel="Jobs")(command)


def submit(  # noqa: PLR0913 - one parameter for each option
    file: Annotated[str, typer.Argument(help="A manifest, or - for stdin")],
    *,
    wait: Annotated[
        str, typer.Option(metavar="[admitted|finished]", help="Wait; alone it means finished")
    ] = "",
    timeout: Timeout = "",
    external_lease: Annotated[
        bool, typer.Option("--external-lease", help="You run the job yourself and renew a lease")
    ] = False,
    lease: Annotated[str, typer.Option(help="How long that lease is")] = DEFAULT_LEASE,
    key: Annotated[str, typer.Option(help="The same key is the same submission")] = "",
    user: Annotated[str, typer.Option(help="In whose name, if the token may")] = "",
    namespace: Namespace = "",
    output: Output = Format.TABLE,
) -> None:
    """Send jobs. Without --wait it ends once they are safe and the first word is out."""
    goal = _goal(wait)
    seconds = parse_seconds(timeout) if timeout else None
    manifest = read_file(file)
    parameters = {
        "namespace": namespace_or_default(namespace),
        "source": manifest.name,
        "user": user,
        "external_lease_ms": parse_seconds(lease) * 1000 if external_lease else None,
        "wait": "decision",
        "wait_s": FIRST_WORD_S,
    }
    with connect() as client:
        accepted = client.submit(
            manifest.content, key=key or uuid.uuid4().hex, parameters=parameters
        )
        warn(accepted.warnings)
        code = _first_word(accepted)
        if goal is not None and code is ExitCode.OK:
            accepted, code = _wait_for_all(client, accepted, goal, seconds)
        emit(accepted, output, lambda _wide: lines(_accepted_lines(accepted)))
    raise typer.Exit(code)


def _goal(wait: str) -> Goal | None:
    if not wait:
        return None
    if wait in set(Goal):
        return Goal(wait)
    raise BadArgument(f"--wait={wait} is unknown", fix="write --wait=admitted or --wait=finished")


def _first_word(accepted: Accepted) -> ExitCode:
    for job in accepted.jobs:
        if job.decision is not None and job.decision.decision is Verdict.REFUSED:
            return exit_of(job.decision)
    return ExitCode.OK


def _wait_for_all(
    client: Client, accepted: Accepted, goal: Goal, seconds: int | None
) -> tuple[Accepted, ExitCode]:
    deadline_s = deadline_after(seconds)
    jobs: list[AcceptedJob] = []
    code = ExitCode.OK
    for job in accepted.jobs:
        resume = f"muster wait {short_id(job.id)} --for {goal.value}"
        outcome = wait_for(client, job.id, goal, deadline_s, resume)
        jobs.append(replace(job, decision=outcome.decision or job.decision))
        code = code or outcome.exit_code
    return replace(accepted, jobs=tuple(jobs)), code


def _accepted_lines(accepted: Accepted) -> list[str]:
    found = [f"{item.kind} {item.name} {item.effect}" for item in accepted.objects]
    for job in accepted.jobs:
        where = f"{job.queue} -> {job.cluster_queue}"
        found.append(f"{job.id}  {job.namespace}/{job.name}  {where}  priority {job.priority}")
        if job.decision is not None:
            found.append(f"  {decision_line(job.decision)}")
            if job.decision.explanation is not None and job.decision.explanation.remedy:
                found.append(f"  would start if  {job.decision.explanation.remedy}")
    return found


def plan(
    file: Annotated[str, typer.Argument(help="A manifest, or - for stdin")],
    *,
    namespace: Namespace = "",
    output: Output = Format.TABLE,
) -> None:
    """See what would become of jobs if they were sent now. Changes nothing."""
    manifest = read_file(file)
    parameters = {"namespace": namespace_or_default(namespace), "source": manifest.name}
    with connect() as client:
        plans = client.plan(manifest.content, parameters)
    warn(plans.warnings)
    emit(plans, output, lambda _wide: lines(_plan_lines(plans)))


def _plan_lines(plans: Plans) -> list[str]:
    return [
        line
        for job in plans.jobs
        for line in plan_lines(
            f"{job.namespace}/{job.name}", dict(job.requests_milli), job.cluster_queue, job.plan
        )
    ]


def wait(
    workload: Workload,
    *,
    until: Annotated[Goal, typer.Option("--for", help="What to wait for")] = Goal.FINISHED,
    timeout: Timeout = "",
    namespace: Namespace = "",
    output: Output = Format.TABLE,
) -> None:
    """Wait for a job. Ends with the job's own exit code: see `muster --help`."""
    seconds = parse_seconds(timeout) if timeout else None
    with connect() as client:
        resume = f"muster wait {workload} --for {until.value}"
        reference = refer(workload, namespace)
        outcome = wait_for(client, reference, until, deadline_after(seconds), resume)
    decision = outcome.decision
    if decision is not None:
        emit(decision, output, lambda _wide: decision_line(decision))
    raise typer.Exit(outcome.exit_code)


def cancel(
    workloads: Annotated[list[str] | None, typer.Argument(metavar="ID|NAME...")] = None,
    *,
    mine: Annotated[bool, typer.Option("--mine", help="All live jobs of mine")] = False,
    queue: Queue = "",
    message: Annotated[str, typer.Option("-m", "--message", help="Why")] = "",
    namespace: Namespace = "",
) -> None:
    """End jobs: by id, by name, or all of mine."""
    with connect() as client:
        found = [refer(workload, namespace) for workload in workloads or []]
        if mine:
            found += _live_of_mine(client, queue, namespace)
        elif not found:
            raise BadArgument("no job is named", fix="muster cancel ID, or muster cancel --mine")
        for reference in found:
            noted = client.cancel(reference, message)
            say(f"{short_id(noted.id)} {noted.namespace}/{noted.name} is being cancelled")


def checkpoint(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="[ID|NAME]",
            envvar="MUSTER_WORKLOAD_ID",
            help="An id or its beginning, or NAMESPACE/NAME; in a pod the workload that it is of",
        ),
    ],
    *,
    attempt: Annotated[
        int | None,
        typer.Option(min=0, help="Which one; 0 whichever runs. In a pod of the workload: its own"),
    ] = None,
    namespace: Namespace = "",
) -> None:
    """Say that a job has saved its work, so that an eviction costs what it does from now on."""
    reference = refer(workload, namespace)
    if attempt is None:
        attempt = own_attempt(reference, os.environ)
    with connect() as client:
        noted = client.checkpoint(reference, attempt)
        say(f"{short_id(noted.id)} {noted.namespace}/{noted.name} has saved its work")


def own_attempt(reference: str, environment: Mapping[str, str]) -> int:
    """The attempt that this pod belongs to; 0 where another workload is referred to."""
    named = environment.get("MUSTER_WORKLOAD", "").replace("/", ":", 1)
    identity = environment.get("MUSTER_WORKLOAD_ID", "")
    own = reference == named or identity.startswith(reference)
    return int(environment.get("MUSTER_ATTEMPT", "0")) if own else 0


def _live_of_mine(client: Client, queue: str, namespace: str) -> list[str]:
    rows = client.workloads(
        {
            "user": client.whoami().name,
            "queue": queue,
            "namespace": namespace,
            "phase": ["Pending", "QuotaReserved", "Admitted", "Running"],
            "limit": 1000,
        }
    ).page.rows
    return [row.id for row in rows]
