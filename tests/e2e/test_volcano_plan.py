"""`muster plan` where a Volcano session seats gangs: the command, with files, on a real Muster."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster_stack.plan import StackOptions
from muster_stack.stack import Stack
from muster_testing.waiting import wait_until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

DEADLINE_S = 60.0
SITS = "sits on  "
RACKS = {f"{SITS}sim-00, sim-01", f"{SITS}sim-02, sim-03"}
MUSTER = Path(sys.executable).parent / "muster"
FILES = Path(__file__).parent / "volcano"


def waits(name: str, pods: int, room: str) -> list[str]:
    """The plan of a job for which no rack has room."""
    because = (
        f"because  TopologyPlacementFailed: {pods}/{pods} tasks in gang unschedulable: "
        f"{pods} Pending, {pods} minAvailable; none of 2 HyperNodes up to tier 1 has room for "
        f"{pods} pods, {room}"
    )
    return [f"lab/{name}: would wait", because]


class Terminal:
    """A terminal of somebody who may do everything."""

    def __init__(self, stack: Stack) -> None:
        self._known = {
            **os.environ,
            "MUSTER_URL": stack.gateway_url,
            "MUSTER_TOKEN": stack.tokens["admin"],
        }

    def run(self, *words: str) -> list[str]:
        """What a command prints, line by line; it must succeed."""
        done = subprocess.run(
            [MUSTER, *words], capture_output=True, text=True, check=False, env=self._known
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def plan(self, name: str) -> list[str]:
        """What would become of a job, without what it asks for."""
        said = self.run("plan", str(FILES / f"{name}.yaml"))
        return [line.strip() for line in said if not line.lstrip().startswith(("asks", "flavors"))]

    def plan_once(self, name: str, verdict: str) -> list[str]:
        """The plan of a job once that is the verdict: services hear of each other later."""
        said: list[str] = []

        def settled() -> bool:
            said[:] = self.plan(name)
            return said[0] == f"lab/{name}: {verdict}"

        wait_until(settled, DEADLINE_S, lambda: "\n".join(said))
        return said


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    options = StackOptions(simulate="4x4gpu", log_level="WARNING")
    with Stack(tmp_path_factory.mktemp("plan"), options) as stack:
        found = Terminal(stack)
        found.run("apply", "-f", str(FILES / "cluster.yaml"))
        yield found


def test_a_plan_is_what_the_session_does_and_changes_nothing(terminal: Terminal) -> None:
    """Four machines that fill up: free, too narrow, full for an equal, not for who is urgent."""
    for _ in range(2):
        _, sits, _because = terminal.plan_once("pair", "would be admitted now")
        assert sits in RACKS
    assert terminal.plan("wide") == waits("wide", 3, "rack-a has room for 2")
    pair = terminal.run("submit", str(FILES / "pair.yaml"), "--wait=admitted")
    assert pair[-1].endswith(f"on {sits.removeprefix(SITS)}")

    terminal.run("submit", str(FILES / "stretchy.yaml"), "--wait=admitted")
    full = waits("pair", 2, "rack-a has room for 0")
    wait_until(
        lambda: terminal.plan("pair") == full, DEADLINE_S, lambda: str(terminal.plan("pair"))
    )

    _, sits, because, preempts = terminal.plan_once("urgent-one", "would start after preemption")
    node = sits.removeprefix(SITS)
    assert because.endswith(f"waits for 1 gang to leave {node}")
    assert preempts.endswith("(lab/stretchy)")
    urgent = terminal.run("submit", str(FILES / "urgent-one.yaml"), "--wait=admitted")
    assert urgent[-1].endswith(f"on {node}")
    listed = "\n".join(terminal.run("queue"))
    assert all(f" lab/{name} " in listed for name in ("pair", "stretchy", "urgent-one"))

    _, sits, _because, preempts = terminal.plan_once("urgent-pair", "would start after preemption")
    assert sits in RACKS
    assert preempts.endswith("(lab/pair)")
