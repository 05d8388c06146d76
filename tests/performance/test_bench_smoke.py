"""The benches run, and their file has the documented form. No time is judged."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from . import report
from .__main__ import measure

PATH_PROCESSES = {"gateway", "admission", "placement", "preemption", "accounting", "nats", "valkey"}


def test_what_runs_in_one_process_is_measured() -> None:
    figures = measure(("machines", "core", "gang", "preemption"), print, quick=True)
    parts = figures["parts"]
    assert list(parts) == ["machines", "core", "gang", "preemption"]
    assert set(parts["machines"]["cpu_us"]) == {"gateway", "admission", "placement", "all"}
    assert [row["pending"] for row in parts["core"]] == [1_000, 2_000]
    assert all(row["admitted_a_decision"] == 106 for row in parts["core"])
    assert parts["gang"]["large"]["nodes_used"] == 13
    assert parts["gang"]["small"]["jobs"] == 200
    assert (parts["preemption"]["candidates"], parts["preemption"]["victims"]) == (70, 5)
    assert figures["machine"]["processors"] > 0
    report.show(figures, Console(quiet=True))


@pytest.mark.servers
@pytest.mark.timeout(600)
def test_the_bare_path_and_the_real_one_admit_every_job() -> None:
    figures = measure(("path",), print, quick=True)
    part = figures["parts"]["path"]
    for kind in ("bare", "real"):
        assert part[kind]["saturation"]["count"] == 50
        assert [row["count"] for row in part[kind]["rates"]] == [40]
        assert set(part[kind]["saturation"]["cpu_us"]) >= PATH_PROCESSES
    assert part["ratio"]["cpu"] > 0
    report.show(figures, Console(quiet=True))


@pytest.mark.servers
@pytest.mark.timeout(600)
def test_kueues_loads_end_in_the_core_and_in_the_running_services() -> None:
    figures = measure(("kueue",), print, quick=True)
    part = figures["parts"]["kueue"]
    assert {name: list(runs) for name, runs in part.items()} == {
        "baseline": ["kueue", "core", "live"],
        "large-scale": ["kueue", "core"],
        "tas": ["kueue", "core", "live"],
    }
    assert part["baseline"]["kueue"]["workloads"] == 15_000
    assert part["large-scale"]["kueue"]["workloads"] == 50_000
    for runs in part.values():
        for figures_of in (runs[name] for name in ("core", "live") if name in runs):
            admitted = sum(wait["count"] for wait in figures_of["wait"].values())
            assert admitted == figures_of["workloads"]
    report.show(figures, Console(quiet=True))


@pytest.mark.servers
@pytest.mark.timeout(600)
def test_accounting_is_measured() -> None:
    figures = measure(("cost",), print, quick=True)
    part = figures["parts"]["cost"]
    assert part["metering"]["facts"] > 0
    assert part["report"]["intervals"] == 3_000
    assert set(part["report"]["report_ms"]) == {"team", "cluster_queue", "label:project"}
    report.show(figures, Console(quiet=True))


def test_a_part_measured_alone_leaves_the_others_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "build" / "bench.json"
    report.write(file, {"format": 1, "parts": {"core": [1]}})
    report.write(file, {"format": 1, "parts": {"gang": {"large": 2}}})
    assert json.loads(file.read_text())["parts"] == {"core": [1], "gang": {"large": 2}}
