"""`python -m tests.performance [PART ...]`: measure, write build/bench.json, print a table.

Parts: machines, core, gang, preemption, start, path; and where they are named, managed (the path
with jobs that agents run), kueue (Kueue's scheduler loads), cost (accounting) and packing (a
recorded trace, which `--openb` names). Nothing here judges: figures of a shared machine are read by
people.
"""

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from . import core, cost, gang, kueue, machines, packing, path, preemption, report, start
from .cost import CostPlan
from .kueue import KueuePlan
from .kueue_load import LOADS
from .path import PathPlan

DEFAULT_PARTS = ("machines", "core", "gang", "preemption", "start", "path")
PARTS = (*DEFAULT_PARTS, "managed", "packing", "kueue", "cost")
OUT = Path("build/bench.json")
PACKING_QUICK = 200
"""Pods of a trace, to try it out."""

Say = Callable[[str], None]
Figures = dict[str, Any]


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.performance", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--openb", type=Path, metavar="DIR", help="where packing's trace lies")
    parser.add_argument("--trace", default="default", help="which of its traces")
    parser.add_argument("--quick", action="store_true", help="the smallest sizes, to try it out")
    parser.add_argument(
        "--fraction", type=float, default=1.0, help="kueue: so much of each load (default: 1)"
    )
    parser.add_argument(
        "--live",
        action="append",
        choices=tuple(LOADS),
        help="kueue: a load for the running services (default: all of them)",
    )
    told = parser.parse_args()
    unknown = sorted(set(told.parts) - set(PARTS))
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if "packing" in told.parts and told.openb is None:
        parser.error("packing needs --openb DIR (make bench ONLY=packing OPENB=DIR)")
    console = Console()
    recorded = Recorded(told.openb, told.trace) if told.openb is not None else None
    loads = KueuePlan(fraction=told.fraction, live=told.live or tuple(LOADS))
    parts = tuple(told.parts) or DEFAULT_PARTS
    figures = measure(parts, console.print, quick=told.quick, recorded=recorded, loads=loads)
    report.write(told.out, figures)
    report.show(figures, console)
    console.print(f"written to {told.out}")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A trace for packing, and the folder with it."""

    folder: Path
    trace: str


def measure(
    parts: tuple[str, ...],
    say: Say,
    *,
    quick: bool,
    recorded: Recorded | None = None,
    loads: KueuePlan | None = None,
) -> Figures:
    """The figures of some parts, in the form of the file.

    Packing needs what is `recorded`; `loads` says how much of Kueue's loads is run.
    """
    load_before = report.load()
    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        for part, of_part in _PARTS.items():
            if part in parts:
                say(part)
                found[part] = of_part(Path(folder), say, quick)
        if "kueue" in parts:
            say("kueue")
            plan = _QUICK_LOADS if quick else loads or KueuePlan()
            found["kueue"] = kueue.measure(Path(folder) / "kueue", plan, say)
    if "packing" in parts and recorded is not None:
        say("packing")
        limit = PACKING_QUICK if quick else 0
        found["packing"] = packing.measure(recorded.folder, recorded.trace, say, limit)
    return {
        "format": report.FORMAT,
        "quick": quick,
        "machine": report.machine(),
        "load_before": load_before,
        "load_after": report.load(),
        "parts": found,
    }


def _machines(_folder: Path, say: Say, quick: bool) -> Figures:  # noqa: FBT001 - one form for all parts
    return machines.measure(200 if quick else 4_000, say)


def _core(_folder: Path, say: Say, quick: bool) -> list[Figures]:  # noqa: FBT001
    sizes = (1_000, 2_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
    return core.measure(sizes, say)


def _gang(_folder: Path, say: Say, quick: bool) -> Figures:  # noqa: FBT001
    if quick:
        large = gang.measure_gang(512, 100, 3, say)
        return {"large": large, "small": gang.measure_small(500, 200, say)}
    large = gang.measure_gang(10_000, 1_000, 50, say)
    return {"large": large, "small": gang.measure_small(5_000, 5_000, say)}


def _preemption(_folder: Path, say: Say, quick: bool) -> Figures:  # noqa: FBT001
    return preemption.measure(200, 70, 1, say) if quick else preemption.measure(2_000, 700, 5, say)


def _start(folder: Path, say: Say, quick: bool) -> Figures:  # noqa: FBT001
    return start.measure(folder / "start", 1 if quick else 3, say)


def _path(folder: Path, say: Say, quick: bool) -> Figures:  # noqa: FBT001
    plan = PathPlan(rates=(20,), rate_seconds=2.0, burst=50, bursts=1, warm_up=20)
    return path.measure(folder / "path", plan if quick else PathPlan(), say)


def _managed(folder: Path, say: Say, quick: bool) -> Figures:  # noqa: FBT001
    small = PathPlan(rates=(20,), rate_seconds=2.0, burst=50, bursts=1, warm_up=20, managed=True)
    return path.measure(folder / "managed", small if quick else PathPlan(managed=True), say)


def _cost(folder: Path, say: Say, quick: bool) -> Figures:  # noqa: FBT001
    small = CostPlan(jobs=100, intervals=3_000)
    return cost.measure(folder / "cost", small if quick else CostPlan(), say)


_QUICK_LOADS = KueuePlan(fraction=0.005, live=("baseline", "tas"))

_PARTS: dict[str, Callable[[Path, Say, bool], Any]] = {
    "machines": _machines,
    "core": _core,
    "gang": _gang,
    "preemption": _preemption,
    "start": _start,
    "path": _path,
    "managed": _managed,
    "cost": _cost,
}


if __name__ == "__main__":
    main()
