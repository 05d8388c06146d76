"""`python -m muster_stack.reaper`: ends what is left when its parent is gone.

Reads `+PID` and `-PID` lines; at the end of its input it kills the process groups it still knows.
A pipe ends with the process that holds it, however that process dies. Standard library only.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TextIO


def main() -> None:
    """Follow standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for pid in follow(sys.stdin):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def follow(lines: TextIO) -> list[int]:
    """The groups that are still registered when the lines end."""
    alive: set[int] = set()
    for line in lines:
        pid = int(line[1:])
        if line.startswith("+"):
            alive.add(pid)
        else:
            alive.discard(pid)
    return sorted(alive)


class Reaper:
    """The other end: say here what must not outlive this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            (sys.executable, "-m", "muster_stack.reaper"),
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def add(self, pid: int) -> None:
        """End this process group when we are gone."""
        self._say(f"+{pid}\n")

    def drop(self, pid: int) -> None:
        """The process has ended."""
        self._say(f"-{pid}\n")

    def close(self) -> None:
        """End whatever is still registered, and the reaper itself."""
        with self._lock:
            if self._process.stdin is not None and not self._process.stdin.closed:
                self._process.stdin.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        with self._lock:
            if self._process.stdin is not None and not self._process.stdin.closed:
                self._process.stdin.write(line)
                self._process.stdin.flush()


if __name__ == "__main__":
    main()
