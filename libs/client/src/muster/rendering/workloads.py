"""Lists of workloads and decisions."""

from datetime import UTC, datetime

from rich.table import Table

from muster.durations import short
from muster.rendering.tables import plain_table
from muster.rendering.words import asks, gpus, short_id
from muster_contracts.api import FlowView
from muster_contracts.jobs import Decision, Seat
from muster_contracts.queries import Ahead, Plan, WorkloadRow

NODES_SHOWN = 6
"""Nodes that a plan names; of more it gives the number."""


def workload_table(rows: tuple[WorkloadRow, ...], now_ms: int, *, wide: bool) -> Table:
    """One line for each workload. Positions count from 1; high priority goes first.

    ETA is by when it starts at the latest unless others go first, where time limits tell.
    """
    columns = ["ID", "NAME", "QUEUE", "PRIO", "STATE", "POS", "GPUS", "AGE", "ETA", "REASON"]
    extra = ["KIND", "PODS", "USER", "ATTEMPT", "NODES", "MESSAGE"] if wide else []
    table = plain_table([*columns, *extra], right=("PRIO", "POS", "GPUS", "AGE", "ETA", "PODS"))
    for row in rows:
        cells = [
            row.id if wide else short_id(row.id),
            f"{row.namespace}/{row.name}",
            row.queue,
            str(row.priority),
            row.phase.value,
            _position(row),
            gpus(row.requests_milli),
            short(now_ms - row.created_at_ms),
            _eta(row, now_ms),
            row.outcome.value if row.outcome is not None else row.reason,
        ]
        if wide:
            nodes = ",".join(row.nodes) or "-"
            cells += [row.kind, _pods(row), row.user, str(row.attempt), nodes, row.message]
        table.add_row(*cells)
    return table


def _pods(row: WorkloadRow) -> str:
    """How many pods it is to have, after those that it has while these are others."""
    return str(row.pods) if row.pods_now is None else f"{row.pods_now}/{row.pods}"


def _eta(row: WorkloadRow, now_ms: int) -> str:
    """By when it starts at the latest, as far as time limits of what runs say it."""
    if row.position_in_cluster_queue is None:
        return "-"
    if row.starts_by_ms is None:
        return "unknown"
    return f"<{short(max(0, row.starts_by_ms - now_ms))}"


def flow_table(flow: FlowView) -> Table:
    """One line for each step of a JobFlow, under one that says how far all of it is."""
    table = plain_table(["STEP", "STATE", "JOB", "WHY"])
    table.title = f"{flow.namespace}/{flow.name}  {flow.phase}"
    table.title_justify = "left"
    for step in flow.steps:
        table.add_row(step.name, step.state.value, step.job, step.message or "-")
    return table


def _position(row: WorkloadRow) -> str:
    position = row.position_in_cluster_queue
    return "-" if position is None else str(position + 1)


def decision_line(decision: Decision) -> str:
    """One decision as a line of a log, in UTC."""
    moment = datetime.fromtimestamp(decision.at_ms / 1000, UTC)
    where = _nodes(decision.assignments)
    parts = [
        f"{moment:%H:%M:%S}Z",
        f"{decision.namespace}/{decision.name}",
        decision.decision.value,
        decision.reason,
        f"on {where}" if where else "",
        f"by {short_id(decision.preemptor)}" if decision.preemptor else "",
        decision.message if decision.message != f"on {where}" else "",
    ]
    return "  ".join(part for part in parts if part)


def _nodes(seats: tuple[Seat, ...]) -> str:
    return ", ".join(dict.fromkeys(seat.node for seat in seats))


def _first_nodes(names: tuple[str, ...]) -> str:
    left = len(names) - NODES_SHOWN
    shown = ", ".join(names[:NODES_SHOWN])
    return f"{shown} and {left} more" if left > 0 else shown


def plan_lines(name: str, requests_milli: dict[str, int], queue: str, plan: Plan) -> list[str]:
    """What would become of one job."""
    explanation = plan.explanation
    behind = f", {plan.ahead_total} ahead" if plan.ahead_total else ""
    lines = [
        f"{name}: {plan.verdict.value}{behind}",
        f"  asks     {asks(requests_milli)} in {queue}",
    ]
    if plan.flavors:
        chosen = ", ".join(f"{name} {flavor}" for name, flavor in sorted(plan.flavors.items()))
        lines.append(f"  flavors  {chosen}")
    if plan.nodes:
        lines.append(f"  sits on  {_first_nodes(plan.nodes)}")
    if explanation.message:
        lines.append(f"  because  {explanation.reason}: {explanation.message}")
    if plan.victims:
        victims = ", ".join(
            f"{short_id(victim.id)} ({victim.namespace}/{victim.name}{_cost(victim)})"
            if victim.id
            else f"{victim.name}{_cost(victim)}"
            for victim in plan.victims
        )
        lines.append(f"  preempts {victims}")
    if explanation.remedy:
        lines.append(f"  would start if  {explanation.remedy}")
    return lines


def _cost(victim: Ahead) -> str:
    """What giving way costs a victim, as far as it is known."""
    if victim.lost_work_ms is None:
        return ""
    saves = ", cannot save its work" if victim.never_checkpoints else ""
    return f": {short(victim.lost_work_ms)} of work{saves}"
