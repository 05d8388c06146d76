import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from muster_agent.inventory import ProcessOwner
from muster_agent.machine_reading import owners_of, read_machine, read_zones
from muster_domain.nodes import NumaZone

CPU_MILLI = len(os.sched_getaffinity(0)) * 1000
MEMORY = psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("files", "cpu_milli", "memory_bytes"),
    [
        pytest.param({}, CPU_MILLI, MEMORY, id="no control group"),
        pytest.param(
            {"cpu.max": "max 100000\n", "memory.max": "max\n"}, CPU_MILLI, MEMORY, id="unlimited"
        ),
        pytest.param(
            {"cpu.max": "50000 100000\n", "memory.max": "1048576\n"}, 500, 1_048_576, id="limited"
        ),
        pytest.param(
            {"cpu.max": "99900000 100000", "memory.max": "9" * 18}, CPU_MILLI, MEMORY, id="above"
        ),
    ],
)
def test_limits_of_the_control_group_count(
    tmp_path: Path, files: dict[str, str], cpu_milli: int, memory_bytes: int
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    found = read_machine(tmp_path, cgroup=tmp_path)
    assert (found.cpu_milli, found.memory_bytes) == (cpu_milli, memory_bytes)


def zone_folder(numa: Path, number: int, cpus: str, memory: str = "") -> None:
    folder = numa / f"node{number}"
    folder.mkdir()
    (folder / "cpulist").write_text(f"{cpus}\n")
    if memory:
        total = f"Node {number} MemTotal:  {memory} kB"
        (folder / "meminfo").write_text(f"{total}\nNode {number} MemFree: 1 kB\n")


def test_zones_have_the_processors_that_may_be_used(tmp_path: Path) -> None:
    zone_folder(tmp_path, 10, "8-11")
    zone_folder(tmp_path, 1, "2-3,6", "64")
    zone_folder(tmp_path, 2, "")
    (tmp_path / "possible").write_text("0-10\n")
    assert read_zones(tmp_path, {0, 3, 6, 8, 9}) == (
        NumaZone(number=1, cpus=(3, 6), memory_bytes=65_536),
        NumaZone(number=10, cpus=(8, 9)),
    )
    assert read_zones(tmp_path / "none", {0}) == ()


@pytest.fixture
def sleeper(request: pytest.FixtureRequest) -> Iterator[int]:
    process = subprocess.Popen(["sleep", "60"], env=request.param)
    yield process.pid
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("sleeper", "owner"),
    [
        pytest.param({"MUSTER_POD_UID": "mine"}, ProcessOwner.OURS, id="a pod of ours"),
        pytest.param({"MUSTER_POD_UID": "old"}, ProcessOwner.FOREIGN, id="a pod of somebody else"),
        pytest.param({"A": "b"}, ProcessOwner.FOREIGN, id="no pod"),
    ],
    indirect=["sleeper"],
)
def test_a_process_is_ours_if_its_environment_names_a_pod_of_ours(
    sleeper: int, owner: ProcessOwner
) -> None:
    assert owners_of([sleeper], {"mine"}) == {sleeper: owner}


def test_a_process_that_cannot_be_seen_is_unseen() -> None:
    assert owners_of([2**22 + 1], {"mine"}) == {2**22 + 1: ProcessOwner.UNSEEN}
