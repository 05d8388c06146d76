"""Commands that look: queue, explain, quota, nodes, watch, cost, ledger."""

import json
import sys
import time
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer
from rich.console import Group, RenderableType

from muster.cli.options import Namespace, Output, Queue, Workload, connect, refer
from muster.cli.output import Format, emit, lines, say, stdout, warn_unpriced
from muster.cli.tokens import print_tokens
from muster.client import Client, StreamEvent, seated_on
from muster.errors import ExitCode, Unreachable
from muster.following import OUTAGE_MAX_S, RETRY_S
from muster.rendering.cost import cost_csv, cost_heading, cost_table
from muster.rendering.explain import SEEKING
from muster.rendering.explain import explain as explanation
from muster.rendering.floor import Floor
from muster.rendering.node_map import largest_gang_table, node_map
from muster.rendering.nodes import node_table
from muster.rendering.quota import LEGEND, inactive_lines, quota_table
from muster.rendering.turns import turn_lines
from muster.rendering.workloads import decision_line, workload_table
from muster_contracts import codec
from muster_contracts.api import Books
from muster_contracts.fit import FitPage
from muster_contracts.floor import DomainPage
from muster_contracts.jobs import Decision
from muster_contracts.queries import NodePage, Phase, WorkloadDetail
from muster_domain.money import IdlePolicy

LIVE = [phase.value for phase in Phase if phase is not Phase.FINISHED]
LIMIT = 500
_DIMENSIONS = {"queue": "cluster_queue"}


class Status(StrEnum):
    """What has become of workloads, in the words of kueuectl."""

    ALL = "all"
    PENDING = "pending"
    QUOTA_RESERVED = "quotareserved"
    ADMITTED = "admitted"
    FINISHED = "finished"


class Basis(StrEnum):
    """What queues pay for: as the ChargingPolicy says, or all on one basis."""

    POLICY = "policy"
    USAGE = "usage"
    COMMITMENT = "commitment"
    BOTH = "both"


STATUS_PHASES: dict[Status, tuple[Phase, ...]] = {
    Status.PENDING: (Phase.PENDING,),
    Status.QUOTA_RESERVED: (Phase.RESERVED,),
    Status.ADMITTED: (Phase.ADMITTED, Phase.RUNNING, Phase.EVICTING),
    Status.FINISHED: (Phase.FINISHED,),
}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (queue, explain, quota, nodes, watch, logs):
        app.command(rich_help_panel="What is going on")(command)
    app.command(rich_help_panel="Money")(cost)
    ledger = typer.Typer(help="The books.", no_args_is_help=True)
    ledger.command("verify")(verify)
    app.add_typer(ledger, name="ledger", rich_help_panel="Money")


def now_ms() -> int:
    """The clock of this machine, for ages."""
    return time.time_ns() // 1_000_000


def queue(  # noqa: PLR0913 - one parameter for each option
    *,
    local_queue: Queue = "",
    cluster_queue: Annotated[str, typer.Option("--cluster-queue", help="ClusterQueue")] = "",
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="Only this one")] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Only mine")] = False,
    every: Annotated[bool, typer.Option("--all", help="Finished ones too")] = False,
    status: Annotated[
        list[Status] | None, typer.Option("--status", help="Only those; may be repeated")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many")] = LIMIT,
    output: Output = Format.TABLE,
) -> None:
    """List jobs: who runs, then who waits in the order of the queues."""
    with connect() as client:
        found = client.workloads(
            {
                "namespace": namespace,
                "queue": local_queue,
                "cluster_queue": cluster_queue,
                "user": client.whoami().name if mine else "",
                "phase": _phases(status or [], every=every),
                "limit": limit,
            }
        )
        queues = client.quota(cluster_queue).page.queues if cluster_queue else ()
    _warn_silent(found.silent)
    emit(found.page, output, lambda wide: workload_table(found.page.rows, now_ms(), wide=wide))
    for row in queues if output in (Format.TABLE, Format.WIDE) else ():
        for line in turn_lines(row.turns):
            say(line)
    if not found.page.rows and output in (Format.TABLE, Format.WIDE):
        say("no job is like that; those that have ended too: --all")
    left = found.page.total - len(found.page.rows)
    if left > 0:
        say(f"{left} more; narrow with -q, -n or --mine, or raise --limit")


def _phases(status: list[Status], *, every: bool) -> list[str]:
    """The phases that are asked for; none is all of them."""
    if every or Status.ALL in status:
        return []
    chosen = [phase.value for one in status for phase in STATUS_PHASES[one]]
    return chosen or LIVE


def explain(
    workload: Workload, *, namespace: Namespace = "", output: Output = Format.TABLE
) -> None:
    """Say why a job waits, with the numbers, and what would help."""
    with connect() as client:
        detail = client.workload(refer(workload, namespace))
        for_people = output in (Format.TABLE, Format.WIDE)
        on = seated_on(client, detail) if for_people else ()
        fit = _fit(client, detail) if for_people else None
    emit(detail, output, lambda _wide: lines(explanation(detail, now_ms(), on, fit)))


def _fit(client: Client, detail: WorkloadDetail) -> FitPage | None:
    """Where it would find seats, if it seeks any and placement answers."""
    if detail.row.phase not in SEEKING:
        return None
    try:
        return client.fit(detail.row.id)
    except Unreachable:
        return None


def quota(
    name: Annotated[str, typer.Argument(help="One ClusterQueue")] = "",
    *,
    output: Output = Format.TABLE,
) -> None:
    """Show quota and its use: what is one's own, borrowed, lent, free."""
    with connect() as client:
        found = client.quota(name)
    _warn_silent(found.silent)
    emit(found.page, output, lambda wide: quota_table(found.page, wide=wide))
    if output in (Format.TABLE, Format.WIDE):
        turns = [line for row in found.page.queues for line in turn_lines(row.turns)]
        for line in [*inactive_lines(found.page), *turns, LEGEND]:
            say(line)


def nodes(
    *,
    as_map: Annotated[
        bool, typer.Option("--map", help="Draw machines and cards by topology, and what fits now")
    ] = False,
    pod: Annotated[
        list[str] | None,
        typer.Option(
            help="With --map: tell the largest gang of pods like this, as in"
            " gpu=8,cpu=32,memory=200Gi; may be repeated"
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """List nodes, what is free on them and who is there."""
    with connect() as client:
        page = client.nodes()
        domains = client.domains(pod or ()) if as_map or pod else None
    if domains is None:
        emit(page, output, lambda wide: node_table(page, now_ms(), wide=wide))
    else:
        emit(Floor(nodes=page, domains=domains), output, partial(_map, page, domains))


def _map(page: NodePage, domains: DomainPage, wide: bool) -> RenderableType:  # noqa: FBT001 - of emit
    width = stdout().width
    largest, drawn = largest_gang_table(domains, width), node_map(page, domains, width, wide=wide)
    return drawn if largest is None else Group(largest, "", drawn)


def watch(
    workload: Annotated[str, typer.Argument(metavar="[ID|NAME]", help="Only this job")] = "",
    *,
    queue_name: Queue = "",
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="Only this one")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Print decisions as they fall, until interrupted or the job ends."""
    filters = {"queue": queue_name, "namespace": namespace}
    if workload:
        filters = {"workload": refer(workload, namespace)}
    with connect() as client:
        _follow(client, filters, output)


def _follow(client: Client, filters: dict[str, str], output: Format) -> None:
    """Print events, taking the stream up where it broke."""
    away_since_s = 0.0
    while True:
        try:
            for event in client.watch(filters):
                away_since_s = 0.0
                if event.event == "end":
                    return
                if event.event == "lagging":
                    say("too slow, some decisions may be missed", "yellow")
                if event.event == "decision":
                    _print_decision(event, output)
                    if event.id and "workload" not in filters:
                        filters = {**filters, "after": event.id}
        except Unreachable as error:
            away_since_s = away_since_s or time.monotonic()
            if time.monotonic() - away_since_s > OUTAGE_MAX_S:
                raise
            say(str(error), "yellow")
        time.sleep(RETRY_S)


def _print_decision(event: StreamEvent, output: Format) -> None:
    if output in (Format.JSON, Format.YAML):
        text = json.dumps(json.loads(event.data), ensure_ascii=False)
    else:
        text = decision_line(codec.decode(Decision, event.data.encode()))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def logs(workload: Workload, *, namespace: Namespace = "") -> None:
    """Print what a job's pods write from now on, until it ends."""
    with connect() as client:
        for event in client.output(refer(workload, namespace)):
            if event.event == "output":
                piece: dict[str, str] = json.loads(event.data)
                target = sys.stderr if piece["stream"] == "stderr" else sys.stdout
                target.write(piece["text"])
                target.flush()
            if event.event == "dropped":
                say(f"{event.data} pieces were dropped: too slow", "yellow")


def cost(  # noqa: PLR0913 - one parameter for each option
    *,
    by: Annotated[str, typer.Option(help="team, queue, user, namespace, ...")] = "namespace",
    start: Annotated[str, typer.Option("--from", help="A date or time, UTC; else this month")] = "",
    end: Annotated[str, typer.Option("--to", help="A date or time, UTC; else now")] = "",
    idle: Annotated[IdlePolicy, typer.Option(help="Who pays for idle GPUs")] = IdlePolicy.ROW,
    basis: Annotated[
        Basis | None,
        typer.Option(help="What queues pay; --by queue as the ChargingPolicy says, else usage"),
    ] = None,
    lender_credit: Annotated[
        int, typer.Option("--lender-credit", min=0, max=100, help="Percent lenders get back")
    ] = 100,
    tokens: Annotated[bool, typer.Option("--tokens", help="A section on tokens too")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show what a window cost: used, borrowed, lent, lost to preemption, idle, and the sum."""
    with connect() as client:
        report = client.cost(
            {
                "by": _DIMENSIONS.get(by, by),
                "from": start,
                "to": end,
                "idle": str(idle),
                **({} if basis is None else {"basis": str(basis)}),
                "lender_credit": str(lender_credit),
            }
        )
    warn_unpriced(report.unpriced)
    if report.policy:
        say(f"charged by {', '.join(report.policy)}")
    if output is Format.CSV:
        sys.stdout.write(cost_csv(report))
        return
    if output in (Format.TABLE, Format.WIDE):
        say(cost_heading(report))
    emit(report, output, lambda _wide: cost_table(report))
    if tokens:
        print_tokens(by, start, end)


def verify(*, output: Output = Format.TABLE) -> None:
    """Prove that the books agree. Ends with 1 where they do not, or where nobody answered."""
    with connect() as client:
        books = client.verify()
    emit(books, output, lambda _wide: lines(_book_lines(books)))
    if books.silent or any(report.discrepancies for report in books.reports):
        raise typer.Exit(ExitCode.FAILURE)


def _book_lines(books: Books) -> list[str]:
    found: list[str] = []
    for report in books.reports:
        state = "DIFFERS" if report.discrepancies else "agrees"
        found.append(
            f"{report.partition}  {state}  version {report.version}, {report.holds} holds, "
            f"{report.workloads} workloads"
        )
        found += [f"  {difference}" for difference in report.discrepancies]
    return found + [f"{partition}  no answer" for partition in books.silent]


def _warn_silent(silent: tuple[str, ...]) -> None:
    if silent:
        say(f"no answer from {', '.join(silent)}: the list is not complete", "yellow")
