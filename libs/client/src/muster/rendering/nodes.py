"""`muster nodes`: a table. The map is `node_map`'s."""

from rich.table import Table

from muster.durations import short
from muster.rendering.tables import plain_table
from muster.rendering.words import gpus_milli
from muster_contracts.queries import NodePage, NodeRow
from muster_domain.mig import MIG_PREFIX
from muster_domain.nodes import DeviceHealth
from muster_domain.quantity import format_quantity
from muster_domain.time_slicing import replicas_on

_WORKLOADS_SHOWN = 3
_HEALTHY = str(DeviceHealth.HEALTHY)
_WITHOUT_HOLDER = {_HEALTHY: "idle", str(DeviceHealth.HELD_BY_OTHERS): "used outside Muster"}


def node_table(page: NodePage, now_ms: int, *, wide: bool) -> Table:
    """One line for each node."""
    columns = ["NODE", "STATE", "MODEL", "GPUS FREE", "CPU FREE", "MEMORY FREE", "WHO"]
    divided = any(device.slices for node in page.nodes for device in node.devices)
    geometry = ["GEOMETRY"] if divided else []
    extra = ["HEARD", *geometry, "LABELS"] if wide else []
    table = plain_table([*columns, *extra], right=("GPUS FREE", "CPU FREE", "MEMORY FREE", "HEARD"))
    for node in page.nodes:
        cells = [
            node.name,
            node.condition.value,
            _model(node),
            _of(*_cards(node)),
            _of(node.free_milli.get("cpu", 0), node.allocatable_milli.get("cpu", 0)),
            _of(node.free_milli.get("memory", 0), node.allocatable_milli.get("memory", 0)),
            _who(node),
        ]
        if wide:
            labels = ",".join(f"{name}={value}" for name, value in sorted(node.labels.items()))
            shown = [_geometry(node)] if divided else []
            cells += [short(now_ms - node.last_heartbeat_ms), *shown, labels]
        table.add_row(*cells)
    return table


def _model(node: NodeRow) -> str:
    models = ",".join(sorted({device.model for device in node.devices if device.model})) or "-"
    turns = replicas_on(node.labels)
    return f"{models}, {turns} pods take turns on each" if turns > 1 else models


def _cards(node: NodeRow) -> tuple[int, int]:
    """Cards that are free, and all of them, in milli-units; a divided one by its free slices.

    What a divided card could be is in many resources, of which it can be only some.
    """
    divided = [device for device in node.devices if device.slices]
    if not divided:
        return gpus_milli(node.free_milli), gpus_milli(node.allocatable_milli)
    others = {name for name in node.allocatable_milli if not name.startswith(MIG_PREFIX)}
    free = gpus_milli({name: node.free_milli.get(name, 0) for name in others})
    total = gpus_milli({name: node.allocatable_milli[name] for name in others})
    fixed = [device for device in node.devices if device.resource.startswith(MIG_PREFIX)]
    free += sum(1000 for device in fixed if not device.holder and device.health == _HEALTHY)
    return free + sum(d.left_milli for d in divided), total + 1000 * len(fixed + divided)


def _geometry(node: NodeRow) -> str:
    """How each divided card is divided: `0: 1g.10gb@6 team/job, 3g.40gb@0 idle, 3 of 8 free`."""
    cards: list[str] = []
    for device in node.devices:
        if not device.slices:
            continue
        parts = [
            f"{one.profile}@{one.start} {one.holder or _WITHOUT_HOLDER.get(one.health, one.health)}"
            for one in device.instances
        ]
        held = sum(one.slices for one in device.instances if one.holder or one.health != _HEALTHY)
        parts.append(f"{device.slices - held} of {device.slices} slices free")
        cards.append(f"{device.index}: {', '.join(parts)}")
    return "; ".join(cards) or "-"


def _of(free_milli: int, total_milli: int) -> str:
    return f"{format_quantity(free_milli)}/{format_quantity(total_milli)}" if total_milli else "-"


def _who(node: NodeRow) -> str:
    shown = ", ".join(node.workloads[:_WORKLOADS_SHOWN])
    left = len(node.workloads) - _WORKLOADS_SHOWN
    return (f"{shown} and {left} more" if left > 0 else shown) or "-"
