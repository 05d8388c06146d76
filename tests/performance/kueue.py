"""Kueue's three loads beside Kueue's own figures: through the core alone, and the running services.

All go through the core, and through the services those that are asked for; all three if none is. A
fraction takes the first part of each row of jobs; Kueue's figures are always those of the whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from . import kueue_core, kueue_live
from .kueue_load import LOADS, Load

CLASSES = ("large", "medium", "small")
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KueuePlan:
    """How much of each load is measured, and which go through the services."""

    fraction: float = 1.0
    live: Sequence[str] = tuple(LOADS)


def measure(folder: Path, plan: KueuePlan, say: Callable[[str], None]) -> Figures:
    """One entry for each load."""
    found: Figures = {}
    for name, load in LOADS.items():
        part = load.part(plan.fraction)
        found[name] = {"kueue": _published(load), "core": kueue_core.measure(part, say)}
        if name in plan.live:
            found[name]["live"] = kueue_live.measure(folder / name, part, say)
    return found


def _published(load: Load) -> Figures:
    workloads = sum(one.count for one in load.classes) * len(load.queues)
    return {
        "workloads": workloads,
        "wall_s": load.kueue.wall_s,
        "ideal_s": round(load.ideal_s(), 1),
        "per_second": round(workloads / load.kueue.wall_s, 1),
        "usage_percent": load.kueue.usage_percent,
        "wait": {name: {"mean_s": seconds} for name, seconds in load.kueue.wait_s.items()},
    }


def show(part: Figures, console: Console) -> None:
    """Muster beside Kueue: a column for each way to run a load, a row for each figure."""
    table = Table(title="Kueue's scheduler loads", title_justify="left")
    for name in ("load", "figure"):
        table.add_column(name)
    for name in RUNS:
        table.add_column(name, justify="right")
    for load, runs in part.items():
        for number, (name, figure) in enumerate(_FIGURES):
            cells = [figure(runs[run]) if run in runs else "" for run in RUNS]
            table.add_row("" if number else load, name, *cells)
        table.add_section()
    console.print(table)
    console.print("waits: mean (median/99th percentile); the core runs in virtual time")


def _plain(key: str, unit: str = "") -> Callable[[Figures], str]:
    def cell(figures: Figures) -> str:
        value = figures.get(key)
        return "" if value is None else f"{value:,}{unit}"

    return cell


def _wait(of: str) -> Callable[[Figures], str]:
    def cell(figures: Figures) -> str:
        wait = figures["wait"][of]
        spread = f" ({wait['p50_s']:g}/{wait['p99_s']:g})" if "p50_s" in wait else ""
        return f"{wait['mean_s']:g}{spread}"

    return cell


RUNS = ("kueue", "core", "live")
_FIGURES: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("workloads", _plain("workloads")),
    ("wall time", _plain("wall_s", " s")),
    ("at best, by quota", _plain("ideal_s", " s")),
    ("workloads a second", _plain("per_second")),
    ("nominal quota in use", _plain("usage_percent", " %")),
    *((f"wait of {name} ones, s", _wait(name)) for name in CLASSES),
    ("evictions", _plain("evictions")),
    ("decisions a second, whole run", _plain("decisions_per_second")),
    ("decisions a second, deciding alone", _plain("within_decide_per_second")),
)
