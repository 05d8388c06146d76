"""`muster nodes`: a table, or a map of cards coloured by team."""

from string import ascii_lowercase

from rich.table import Table
from rich.text import Text

from muster.durations import short
from muster.rendering.tables import plain_table
from muster.rendering.words import gpus_milli, is_gpu
from muster_contracts.queries import DeviceRow, NodePage, NodeRow
from muster_domain.nodes import DeviceHealth
from muster_domain.quantity import format_quantity

_COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")
_FREE, _FAILED, _OTHERS = ("·", "dim"), ("x", "bold red"), ("?", "bold yellow")
_MORE = "+"
_WORKLOADS_SHOWN = 3


def node_table(page: NodePage, now_ms: int, *, wide: bool) -> Table:
    """One line for each node."""
    columns = ["NODE", "STATE", "MODEL", "GPUS FREE", "CPU FREE", "MEMORY FREE", "WHO"]
    extra = ["HEARD", "LABELS"] if wide else []
    table = plain_table([*columns, *extra], right=("GPUS FREE", "CPU FREE", "MEMORY FREE", "HEARD"))
    for node in page.nodes:
        cells = [
            node.name,
            node.condition.value,
            ",".join(sorted({device.model for device in node.devices if device.model})) or "-",
            _of(gpus_milli(node.free_milli), gpus_milli(node.allocatable_milli)),
            _of(node.free_milli.get("cpu", 0), node.allocatable_milli.get("cpu", 0)),
            _of(node.free_milli.get("memory", 0), node.allocatable_milli.get("memory", 0)),
            _who(node),
        ]
        if wide:
            labels = ",".join(f"{name}={value}" for name, value in sorted(node.labels.items()))
            cells += [short(now_ms - node.last_heartbeat_ms), labels]
        table.add_row(*cells)
    return table


def node_map(page: NodePage) -> Text:
    """Nodes by cards. One letter and colour for each team; see the legend below it."""
    letters = _letters(page)
    text = Text()
    width = max((len(node.name) for node in page.nodes), default=0)
    for node in page.nodes:
        text.append(f"{node.name:<{width}}  ")
        for device in sorted(_cards(node), key=lambda card: (card.resource, card.index)):
            mark, style = _cell(device, letters)
            text.append(f"{mark} ", style=style)
        if node.condition.value != "ready":
            text.append(f" {node.condition.value}", style="bold red")
        text.append("\n")
    legend = [(*_FREE, "free"), (*_FAILED, "failed"), (*_OTHERS, "used outside Muster")]
    legend += [(*mark, team) for team, mark in letters.items()]
    for mark, style, meaning in legend:
        text.append(f"{mark} ", style=style)
        text.append(f"{meaning}   ")
    text.append(f"\nlargest gang of one-GPU pods that fits now: {page.largest_gang_of_one_gpu}")
    return text


def _cards(node: NodeRow) -> list[DeviceRow]:
    return [device for device in node.devices if is_gpu(device.resource)]


def _letters(page: NodePage) -> dict[str, tuple[str, str]]:
    teams = sorted(
        {
            device.holder.partition("/")[0]
            for node in page.nodes
            for device in node.devices
            if device.holder
        }
    )
    return {
        team: (
            ascii_lowercase[number] if number < len(ascii_lowercase) else _MORE,
            _COLOURS[number % len(_COLOURS)],
        )
        for number, team in enumerate(teams)
    }


def _cell(device: DeviceRow, letters: dict[str, tuple[str, str]]) -> tuple[str, str]:
    if device.health == DeviceHealth.FAILED:
        return _FAILED
    if device.holder:
        return letters[device.holder.partition("/")[0]]
    return _OTHERS if device.health == DeviceHealth.HELD_BY_OTHERS else _FREE


def _of(free_milli: int, total_milli: int) -> str:
    return f"{format_quantity(free_milli)}/{format_quantity(total_milli)}" if total_milli else "-"


def _who(node: NodeRow) -> str:
    shown = ", ".join(node.workloads[:_WORKLOADS_SHOWN])
    left = len(node.workloads) - _WORKLOADS_SHOWN
    return (f"{shown} and {left} more" if left > 0 else shown) or "-"
