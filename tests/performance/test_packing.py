"""The replay of a trace by its protocol, on a trace small enough to reckon by hand."""

import gzip
from pathlib import Path

import pytest
from rich.console import Console

from . import packing, report
from .__main__ import Recorded, measure

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,8192,2,T4\nn1,8000,8192,1,G2\n"
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p0,1000,1024,1,1000,G2
p1,1000,1024,1,400,
p2,1000,1024,1,600,
p3,1000,1024,0,0,
p4,1000,1024,1,1000,G2|V100M16
p5,1000,1024,1,1000,
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A folder with one trace: everything but p4, which comes when its model is taken, fits."""
    (tmp_path / "nodes.csv").write_text(NODES, encoding="utf-8")
    (tmp_path / "pods_small.csv").write_text(PODS, encoding="utf-8")
    (tmp_path / "orders").mkdir()
    for seed, order in (("1", "0\n1\n2\n3\n4\n5\n"), ("2", "0\n1\n2\n3\n5\n4\n")):
        path = tmp_path / "orders" / f"small-{seed}.txt.gz"
        path.write_bytes(gzip.compress(f"{order}#nodes\nn1\nn0\n".encode()))
    return tmp_path


def test_every_order_found_is_replayed_and_counted(trace: Path) -> None:
    figures = packing.measure(trace, "small", print)
    first, second = figures["seeds"]
    assert [first["seed"], second["seed"]] == ["1", "2"]
    assert first["first_rejection_percent"] == 100.0
    assert second["first_rejection_percent"] == 133.33
    assert second["allocated_percent"] == {"100": 100.0}
    assert first["rejected_until_100_percent"]["1 GPU"] == {"rejected": 1, "arrived": 2}
    assert first["rejected_until_100_percent"]["share"] == {"rejected": 0, "arrived": 2}
    assert first["decisions"] == 6
    assert figures["allocated_percent"] == {"100": {"mean": 83.34, "sd": 23.57}}


def test_packing_stands_in_the_file_and_the_table(trace: Path) -> None:
    recorded = Recorded(trace, "small")
    figures = measure(("packing",), print, quick=True, recorded=recorded)
    assert figures["parts"]["packing"]["trace"] == "small"
    report.show(figures, Console(quiet=True))


def test_a_trace_that_is_not_there_is_named(trace: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"other-SEED\.txt\.gz"):
        packing.measure(trace, "other", print)
