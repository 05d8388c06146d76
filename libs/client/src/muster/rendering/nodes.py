"""`muster nodes`: a table. The map is `node_map`'s."""

from rich.table import Table

from muster.durations import short
from muster.rendering.cards import cards_of, geometry, of_cards, turns_on
from muster.rendering.tables import plain_table
from muster_contracts.queries import NodePage, NodeRow
from muster_domain.quantity import format_quantity

_WORKLOADS_SHOWN = 3


def node_table(page: NodePage, now_ms: int, *, wide: bool) -> Table:
    """One line for each node."""
    columns = ["NODE", "STATE", "MODEL", "GPUS FREE", "CPU FREE", "MEMORY FREE", "WHO"]
    divided = any(device.slices for node in page.nodes for device in node.devices)
    columns_of_parts = ["GEOMETRY"] if divided else []
    extra = ["HEARD", *columns_of_parts, "LABELS"] if wide else []
    table = plain_table([*columns, *extra], right=("GPUS FREE", "CPU FREE", "MEMORY FREE", "HEARD"))
    for node in page.nodes:
        cells = [
            node.name,
            node.condition.value,
            _model(node),
            of_cards(*cards_of(node)),
            _of(node.free_milli.get("cpu", 0), node.allocatable_milli.get("cpu", 0)),
            _of(node.free_milli.get("memory", 0), node.allocatable_milli.get("memory", 0)),
            _who(node),
        ]
        if wide:
            labels = ",".join(f"{name}={value}" for name, value in sorted(node.labels.items()))
            shown = [geometry(node)] if divided else []
            cells += [short(now_ms - node.last_heartbeat_ms), *shown, labels]
        table.add_row(*cells)
    return table


def _model(node: NodeRow) -> str:
    models = ",".join(sorted({device.model for device in node.devices if device.model})) or "-"
    return ", ".join(part for part in (models, turns_on(node)) if part)


def _of(free_milli: int, total_milli: int) -> str:
    return f"{format_quantity(free_milli)}/{format_quantity(total_milli)}" if total_milli else "-"


def _who(node: NodeRow) -> str:
    shown = ", ".join(node.workloads[:_WORKLOADS_SHOWN])
    left = len(node.workloads) - _WORKLOADS_SHOWN
    return (f"{shown} and {left} more" if left > 0 else shown) or "-"
