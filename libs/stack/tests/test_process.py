import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from muster_domain.errors import NotFound
from muster_runtime.embedded import free_ports
from muster_stack.process import ProcessSpec, StackError, SupervisedProcess
from muster_stack.reaper import Reaper
from muster_testing.waiting import wait_until

SERVICE = str(Path(__file__).with_name("service.py"))


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    made = Reaper()
    yield made
    made.close()


def supervised(folder: Path, reaper: Reaper, *words: str, ready: str = "yes") -> SupervisedProcess:
    (port,) = free_ports(1)
    spec = ProcessSpec(
        name="one",
        command=(sys.executable, SERVICE, *words),
        environment={**os.environ, "PORT": str(port), "READY": ready},
        http_port=port,
    )
    return SupervisedProcess(spec, folder / "one.log", reaper)


def test_it_becomes_ready_and_stops(tmp_path: Path, reaper: Reaper) -> None:
    process = supervised(tmp_path, reaper)
    process.start()
    process.wait_ready(20)
    pid = process.pid
    process.stop()
    assert pid is not None
    assert not psutil.pid_exists(pid)
    assert process.pid is None


def test_a_killed_one_comes_back_as_another_process(tmp_path: Path, reaper: Reaper) -> None:
    process = supervised(tmp_path, reaper)
    process.start()
    process.wait_ready(20)
    before = process.pid
    process.kill()
    process.wait_ready(20)
    assert process.pid not in {None, before}
    assert process.starts == 2
    process.stop()


def test_one_that_is_to_stay_down_stays_down_until_started(tmp_path: Path, reaper: Reaper) -> None:
    process = supervised(tmp_path, reaper)
    process.start()
    process.wait_ready(20)
    process.kill(stay_down=True)
    assert process.pid is None
    with pytest.raises(NotFound):
        process.pause()
    process.start()
    process.wait_ready(20)
    assert process.starts == 2
    process.stop()


def test_one_that_crashes_is_tried_again_and_its_log_is_told(
    tmp_path: Path, reaper: Reaper
) -> None:
    process = supervised(tmp_path, reaper, "crash")
    process.start()
    wait_until(lambda: process.starts >= 3, 60, process.log_tail)
    with pytest.raises(StackError, match="this one always crashes"):
        process.wait_ready(0)
    process.stop()


def test_one_that_says_no_is_not_ready(tmp_path: Path, reaper: Reaper) -> None:
    process = supervised(tmp_path, reaper, ready="no")
    process.start()
    with pytest.raises(StackError, match="not ready after"):
        process.wait_ready(1)
    process.stop()


def test_a_paused_one_can_still_be_stopped(tmp_path: Path, reaper: Reaper) -> None:
    process = supervised(tmp_path, reaper)
    process.start()
    process.wait_ready(20)
    process.pause()
    wait_until(lambda: psutil.Process(process.pid).status() == "stopped", 60, process.log_tail)
    process.stop(deadline_s=10)
    assert process.pid is None


def test_nothing_outlives_the_process_that_held_it(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, SERVICE, str(tmp_path), str(free_ports(1)[0])],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    assert psutil.pid_exists(child)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    wait_until(lambda: not alive(child), 60, lambda: f"{child} is still there")


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


HOLDER = """
import os, sys, time
from pathlib import Path
from muster_stack.process import ProcessSpec, SupervisedProcess
from muster_stack.reaper import Reaper
service, folder, port = sys.argv[1:]
spec = ProcessSpec(
    name="one",
    command=(sys.executable, service),
    environment={**os.environ, "PORT": port},
    http_port=int(port),
)
process = SupervisedProcess(spec, Path(folder, "one.log"), Reaper())
process.start()
process.wait_ready(20)
print(process.pid, flush=True)
time.sleep(600)
"""
