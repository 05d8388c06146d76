"""What a person does first: start everything, copy the lines that it prints, ask, stop it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from muster_testing.waiting import wait_until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

MUSTER = Path(sys.executable).parent / "muster"
NARROW = {**os.environ, "COLUMNS": "50"}
LAST_LINE = "export MUSTER_TOKEN="


def test_the_printed_lines_can_be_copied_from_a_narrow_terminal(tmp_path: Path) -> None:
    folder, printed = tmp_path / "a folder of some length", tmp_path / "printed"
    command = [MUSTER, "up", "--data", folder, "--http-port", "0", "--console-port", "0"]
    with (
        printed.open("w") as screen,
        subprocess.Popen([*command, "--simulate", ""], stderr=screen, env=NARROW) as up,
    ):
        try:
            wait_until(lambda: LAST_LINE in printed.read_text(), 180, printed.read_text)
            copied = [line for line in printed.read_text().splitlines() if "export " in line]
            ask = "\n".join([*copied, f"{MUSTER} queue -o json"])
            answer = subprocess.run(
                ["bash", "-euc", ask], capture_output=True, text=True, check=False, env=NARROW
            )
            assert answer.returncode == 0, answer.stderr
        finally:
            up.send_signal(signal.SIGINT)
        assert up.wait(60) == 0
    assert "stopped; the data stays in" in printed.read_text()
