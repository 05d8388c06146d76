"""`muster demo`: the whole house on this machine, watchable, and checked at the end."""

import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from muster.cli.output import stdout
from muster_contracts.subjects import Service
from muster_stack.demo.api import Api
from muster_stack.demo.report import examine, write
from muster_stack.demo.screen import Screen, queue_table, quota_table
from muster_stack.demo.story import REAL_NODE, SIMULATED_NODES, Story, StoryError
from muster_stack.plan import StackOptions
from muster_stack.stack import Stack

PRICES = """
currency: EUR
flavors:
  h100-sxm:
    nvidia.com/gpu: {hourly: "1.40"}
    cpu: {hourly: "0.02"}
    memory: {hourly: "0.003", per: 1Gi}
  volcano:
    nvidia.com/gpu: {hourly: "1.40"}
    cpu: {hourly: "0.02"}
    memory: {hourly: "0.003", per: 1Gi}
"""
LEASE = {
    "MUSTER_NODE_LEASE_MS": "8000",
    "MUSTER_AGENT_HEARTBEAT_INTERVAL_MS": "500",
    "MUSTER_AGENT_STOP_WINDOW_MS": "2000",
    "MUSTER_NODE_SUSPECT_MS": "4000",
    "MUSTER_NODE_FENCE_MARGIN_MS": "2000",
}
_FAILED = 1


def demo(
    folder: Annotated[
        Path, typer.Option(help="Where servers keep data and logs; emptied first")
    ] = Path("build/demo"),
) -> None:
    """Run everything on this machine for a minute or two and check that nothing was lost."""
    console = stdout()
    began_s = time.monotonic()
    shutil.rmtree(folder / "stack", ignore_errors=True)
    with Screen(console) as screen:
        screen.say("starting NATS, Valkey and every service as processes of this machine")
        with Stack(folder / "stack", _options()) as stack:
            api = Api(stack.gateway_url, stack.headers("admin"))
            screen.watch(api)
            try:
                Story(stack, api, screen).play()
            except StoryError as error:
                screen.say(f"failed: {error}", "bold red")
                screen.show(quota_table(api.quota()))
                screen.show(queue_table(api.workloads()))
                raise typer.Exit(_FAILED) from error
            screen.say("reading the whole log, the ledger and the bill back")
            findings = examine(stack, api)
            report = write(folder / "report.json", findings, api, time.monotonic() - began_s)
    console.print(cost_table(report))
    console.print(summary_table(report))
    console.print(f"report: {folder / 'report.json'}")
    if findings.broken or report["lost"]:
        raise typer.Exit(_FAILED)


def _options() -> StackOptions:
    return StackOptions(
        simulate=f"{SIMULATED_NODES}x4gpu:accelerator=h100-sxm",
        nodes=(REAL_NODE,),
        environment={**LEASE, "MUSTER_TRACE_RATIO": "0"},
        service_environment={
            Service.AGENT: {
                "MUSTER_AGENT_LABELS": "accelerator=h100-sxm",
                "MUSTER_AGENT_TAINTS": "muster.dev/real=true:NoSchedule",
            },
            Service.ACCOUNTING: {"MUSTER_PRICES": PRICES},
        },
    )


def cost_table(report: dict[str, Any]) -> Table:
    """What each team used and what it cost; the rows sum to the last."""
    table = Table(title=f"Cost by team ({report['currency']})")
    for column in ("team", "GPU-seconds", "lost GPU-seconds", "cost"):
        table.add_column(column, justify="left" if column == "team" else "right")
    for row in report["cost"]:
        used = row["resource_time"].get("nvidia.com/gpu", 0)
        lost = row["lost_time"].get("nvidia.com/gpu", 0)
        micros = row["cost_micros"]
        table.add_row(
            row["key"].strip("_"),
            f"{used / 1_000_000:,.1f}",
            f"{lost / 1_000_000:,.1f}",
            "unknown" if micros is None else f"{micros / 1_000_000:,.4f}",
        )
    return table


def summary_table(report: dict[str, Any]) -> Table:
    """The counts and the invariants."""
    table = Table(title=f"{report['wall_seconds']} s", show_header=False)
    for name in ("submitted", "admitted", "preempted", "requeued", "finished", "lost"):
        table.add_row(name, str(report[name]))
    for name, verdict in report["invariants"].items():
        table.add_row(name, verdict, style="" if verdict == "ok" else "bold red")
    return table
