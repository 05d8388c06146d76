"""Keeps one process for the agent: starts it at most once and writes down how it ended.

A program of its own, started by path, with the standard library only. It outlives the agent, so
that an agent that was restarted finds the process, or how it ended. It reads a JSON object from
its input: `folder` (of this run), `argv`, `environment`, `directory`, `lease`, `processors` that it
keeps to, none for all, and `checkpoint_signal`, 0 for none.

    folder/started   the keeper's process id; locked as long as the keeper lives. Whoever creates
                     it owns the run: a second keeper, or one whose run was called off, does nothing
    folder/running   exists once the process exists
    folder/checkpoints  exists where the keeper passes a checkpoint signal on
    folder/ended     {"code": exit code, "message": text, "cut_off": bool}

SIGTERM is passed on to the process group, SIGUSR2 as the checkpoint signal, SIGUSR1 kills it. What
is left of the group when the process ends is killed. When the time in the lease file is over and
nobody has moved it on, the group is killed: the node is cut off and the agent is not there to do
it.
"""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

STARTED = "started"
RUNNING = "running"
CHECKPOINTS = "checkpoints"
ENDED = "ended"
LEASE_POLL_S = 0.5
_NOTICED = (
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCHLD,
    signal.SIGHUP,
    signal.SIGINT,
)


def steady_ms() -> int:
    """Milliseconds since boot, time asleep included; the same for all processes."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def claim(folder: Path, owner: str) -> int | None:
    """Own the run: a locked descriptor, or None when somebody owns it already."""
    draft = folder / f"{STARTED}.{os.getpid()}"
    descriptor = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, owner.encode())
        os.link(draft, folder / STARTED)
    except FileExistsError:
        os.close(descriptor)
        return None
    finally:
        draft.unlink()
    return descriptor


def write_end(folder: Path, code: int, message: str = "", *, cut_off: bool = False) -> None:
    """Write down how the run ended, whole or not at all."""
    draft = folder / f"{ENDED}.draft"
    draft.write_text(json.dumps({"code": code, "message": message, "cut_off": cut_off}))
    draft.replace(folder / ENDED)


def main() -> None:
    """Keep the process that the input describes."""
    order = json.load(sys.stdin)
    folder = Path(order["folder"])
    if claim(folder, str(os.getpid())) is None:
        return
    wake, ring = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    for number in _NOTICED:
        signal.signal(number, _noticed)
    try:
        if order["processors"]:
            os.sched_setaffinity(0, order["processors"])
        process = subprocess.Popen(  # noqa: S603 - running what it is told is its purpose
            order["argv"],
            env=order["environment"],
            cwd=order["directory"],
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        what = error.filename or order["argv"][0]
        write_end(folder, code, f"cannot start {what}: {error.strerror}")
        return
    if order["checkpoint_signal"]:
        (folder / CHECKPOINTS).touch()
    (folder / RUNNING).touch()
    cut_off = _keep(process, wake, Path(order["lease"]), order["checkpoint_signal"])
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    write_end(folder, code if code >= 0 else 128 - code, cut_off=cut_off)


def _noticed(_number: int, _frame: object) -> None:
    """Leave the signal to the wakeup descriptor; exec resets this in the child."""


def _keep(
    process: "subprocess.Popen[bytes]", wake: int, lease: Path, checkpoint_signal: int
) -> bool:
    """Return when the process has ended, not reaped: whether its time was over."""
    cut_off = False
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        select.select([wake], [], [], LEASE_POLL_S)
        with suppress(BlockingIOError):
            for number in os.read(wake, 64):
                if number == signal.SIGTERM:
                    os.killpg(process.pid, signal.SIGTERM)
                elif number == signal.SIGUSR2 and checkpoint_signal:
                    os.killpg(process.pid, checkpoint_signal)
                elif number == signal.SIGUSR1:
                    os.killpg(process.pid, signal.SIGKILL)
        if not cut_off and _is_over(lease):
            cut_off = True
            os.killpg(process.pid, signal.SIGKILL)
    return cut_off


def _is_over(lease: Path) -> bool:
    try:
        return steady_ms() >= int(lease.read_text())
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    main()
