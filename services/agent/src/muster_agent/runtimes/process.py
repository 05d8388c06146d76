"""Pods as processes of this machine, each kept by a keeper that outlives the agent."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import rmtree

import psutil
import structlog

from muster_agent.pods import (
    EXIT_CANNOT_RUN,
    EXIT_LOST,
    ContainerRun,
    RunBegan,
    RunEnded,
    RunTask,
    checkpoint_of,
)
from muster_agent.runtimes import Divide, Observe, Processors, Write, keeper
from muster_agent.runtimes.tail import Tail
from muster_contracts.pod_environment import (
    command_line,
    container_environment,
    device_variables,
)
from muster_contracts.subjects import token
from muster_domain.errors import Conflict
from muster_domain.mig import MIG_PREFIX
from muster_domain.time_slicing import SHARED_GPU

POLL_S = 0.1
SWEEP_PAUSE_MAX_S = 2.0
MARK = "MUSTER_RUN"
"""Variable that tells whose a process is, whatever became of its group."""
EXIT_NEVER_STARTED = 143
STREAMS = ("stdout", "stderr")

_LET_GO: list[subprocess.Popen[bytes]] = []
"""Keepers that outlive the watching. Python calls one that is dropped while it runs a leak."""

_log = structlog.get_logger()

DeviceIdentifier = Callable[[str, int], str]
"""The identifier under which a device of a resource is made visible."""


class ProcessRuntime:
    """Runs commands in the node's own file system, as the agent's user."""

    def __init__(  # noqa: PLR0913 - what it tells, and what of the machine a pod gets
        self,
        folder: Path,
        lease: Path,
        *,
        observe: Observe,
        write: Write,
        identify: DeviceIdentifier,
        processors: Processors,
        divide: Divide,
    ) -> None:
        self._folder = folder
        self._lease = lease
        self._observe = observe
        self._write = write
        self._identify = identify
        self._processors = processors
        self._divide = divide
        self._watches: dict[ContainerRun, _Watch] = {}

    def run(self, task: RunTask) -> None:
        """As `Runtime`."""
        self._watch(task)

    def stop(self, task: RunTask, *, kill: bool) -> None:
        """As `Runtime`."""
        wanted = signal.SIGUSR1 if kill else signal.SIGTERM
        self._watch(task, wanted).ask(wanted)

    def checkpoint(self, task: RunTask) -> None:
        """As `Runtime`."""
        self._watch(task).checkpoint()

    def forget(self, pod_uid: str) -> None:
        """As `Runtime`; the output stays until it is pruned."""
        for run in [run for run in self._watches if run.pod_uid == pod_uid]:
            self._watches.pop(run).cancel()
        folder = pod_folder(self._folder, pod_uid)
        if folder.exists():
            (folder / "over").touch()

    async def close(self) -> None:
        """As `Runtime`."""
        watches, self._watches = list(self._watches.values()), {}
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*(watch.ended() for watch in watches))

    def _watch(self, task: RunTask, wanted: signal.Signals | None = None) -> "_Watch":
        watch = self._watches.get(task.id)
        if watch is None:
            environment = self._environment(task)
            watch = _Watch(task, self._folder, self._lease, environment, self._observe, self._write)
            watch.processors = self._processors(task.pod)
            watch.devices = partial(self._devices, task)
            self._watches[task.id] = watch
            watch.follow(wanted)
        return watch

    def _environment(self, task: RunTask) -> dict[str, str]:
        given = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": os.environ.get("HOME", "/"),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            **task.pod.environment,
            "MUSTER_POD_UID": task.pod.pod_uid,
            MARK: mark_of(task.id),
        }
        return container_environment(given, task.container)

    async def _devices(self, task: RunTask) -> dict[str, str]:
        """What makes a pod's parts of cards visible; its MIG instances exist from now on."""
        parts = dict.fromkeys(
            self._identify(resource, index)
            for resource in sorted(task.pod.devices)
            if resource == SHARED_GPU or resource.startswith(MIG_PREFIX)
            for index in task.pod.devices[resource]
        )
        visible = (*parts, *await self._divide(task.pod))
        return device_variables(visible) if visible else {}


def mark_of(run: ContainerRun) -> str:
    """What the processes of a run carry in `MARK`."""
    return f"{run.pod_uid}/{run.container}/{run.run}"


def pod_folder(folder: Path, pod_uid: str) -> Path:
    """Where a pod's output, working directory and runs lie."""
    return folder / "pods" / token(pod_uid)


def output_file(folder: Path, pod_uid: str, container: int, stream: str) -> Path:
    """The file with everything that a container wrote, over all its runs."""
    return pod_folder(folder, pod_uid) / f"container-{container}" / f"{stream}.log"


def prune_output(folder: Path, alive: Iterable[str], keep_s: int) -> None:
    """Remove the folders of pods that have been over for `keep_s`."""
    living = {token(uid) for uid in alive}
    for pod in sorted((folder / "pods").glob("*")):
        over = pod / "over"
        if pod.name in living:
            continue
        if not over.exists():
            over.touch()
        elif over.stat().st_mtime < time.time() - keep_s:
            rmtree(pod)


class _Watch:
    """One run, from before its start until nothing of it exists."""

    def __init__(
        self,
        task: RunTask,
        folder: Path,
        lease: Path,
        environment: dict[str, str],
        observe: Observe,
        write: Write,
    ) -> None:
        self._task = task
        self._environment = environment
        self._lease = lease
        self._observe = observe
        self._write = write
        self._pod_folder = pod_folder(folder, task.pod.pod_uid)
        self._run_folder = self._pod_folder / f"container-{task.id.container}" / f"{task.id.run}"
        self._logs = [
            output_file(folder, task.pod.pod_uid, task.id.container, name) for name in STREAMS
        ]
        self.processors: tuple[int, ...] = ()
        self.devices: Callable[[], Awaitable[dict[str, str]]] | None = None
        self._tails: list[Tail] = []
        self._keeper: subprocess.Popen[bytes] | None = None
        self._wanted: signal.Signals | None = None
        self._saves = False
        self._began = False
        self._nudge = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    def follow(self, wanted: signal.Signals | None) -> None:
        """Begin: start the run unless it was started before or is to end."""
        self._wanted = wanted
        self._following = asyncio.create_task(self._follow(), name=mark_of(self._task.id))

    def ask(self, wanted: signal.Signals) -> None:
        """Let the run end, or be killed."""
        if self._wanted is not wanted:
            self._wanted = wanted
            self._signal(wanted)
            self._nudge.set()

    def checkpoint(self) -> None:
        """Let the run save its work, now or as soon as it is seen to have begun."""
        self._saves = True
        if self._began:
            self._signal_to_save()

    def cancel(self) -> None:
        """Stop watching."""
        if self._following is not None:
            self._following.cancel()
        if self._keeper is not None and self._keeper.poll() is None:
            _LET_GO.append(self._keeper)

    async def ended(self) -> None:
        """Return when the watching is over."""
        if self._following is not None:
            await asyncio.wait([self._following])

    async def _follow(self) -> None:
        try:
            if self.devices is not None and self._wanted is None and not self._claimed():
                self._environment |= await self.devices()
            command = command_line(self._task.container, self._environment)
            if not command:
                self._finish(EXIT_CANNOT_RUN, "the container has no command to run as a process")
                return
            self._begin(command)
        except Conflict as error:
            self._finish(EXIT_CANNOT_RUN, str(error))
            return
        except OSError as error:
            self._finish(EXIT_CANNOT_RUN, f"cannot start: {error}")
            return
        while not await self._look_again():
            self._nudge.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._nudge.wait()

    def _begin(self, command: tuple[str, ...]) -> None:
        self._run_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._wanted is None and not self._claimed()
        self._tails = [Tail(path) for path in self._logs]
        if fresh:
            self._spawn(command)

    async def _look_again(self) -> bool:
        try:
            return await self._look()
        except OSError as error:
            _log.warning("cannot look at a run", pod=self._task.pod.pod_uid, error=str(error))
            return False

    async def _look(self) -> bool:
        """Take in what has happened; whether it is all over."""
        if not self._claimed():
            return await self._call_off()
        if not self._began and (self._run_folder / keeper.RUNNING).exists():
            self._began = True
            self._observe(RunBegan(self._task.id))
            if self._saves:
                self._signal_to_save()
            if self._wanted is not None:
                self._signal(self._wanted)
        self._pass_on(last=False)
        if self._kept():
            return False
        if self._keeper is not None:
            await asyncio.to_thread(self._keeper.wait)
        await self._sweep()
        self._pass_on(last=True)
        self._read_end()
        return True

    async def _call_off(self) -> bool:
        """Nobody owns the run yet. If it is to end, or its keeper is gone, nobody ever will."""
        failed = self._keeper is not None and self._keeper.poll() is not None
        if self._wanted is None and not failed:
            return False
        descriptor = keeper.claim(self._run_folder, "nobody")
        if descriptor is None:
            return False
        os.close(descriptor)
        await self._sweep()
        if failed and self._wanted is None:
            self._finish(EXIT_LOST, "the process could not be kept", lost=True)
        else:
            self._finish(EXIT_NEVER_STARTED, "it was called off before it started")
        return True

    def _read_end(self) -> None:
        try:
            end = json.loads((self._run_folder / keeper.ENDED).read_text())
        except FileNotFoundError:
            if (self._run_folder / keeper.STARTED).read_text() == "nobody":
                self._finish(EXIT_NEVER_STARTED, "it was called off before it started")
            else:
                self._finish(EXIT_LOST, "the process is gone and left no exit code", lost=True)
        else:
            self._finish(end["code"], end["message"], lost=end["cut_off"])

    def _finish(self, code: int, message: str, *, lost: bool = False) -> None:
        self._observe(RunEnded(id=self._task.id, exit_code=code, message=message, lost=lost))

    def _spawn(self, command: tuple[str, ...]) -> None:
        container = self._task.container
        directory = Path(container.working_directory or self._pod_folder / "work")
        if not container.working_directory:
            directory.mkdir(exist_ok=True, mode=0o700)
        if container.image and not self._logs[1].exists():
            self._logs[1].write_text(
                f"muster: image {container.image} is ignored, the command runs on the node itself\n"
            )
        checkpoint = checkpoint_of(self._task.pod)
        order = {
            "folder": str(self._run_folder),
            "argv": command,
            "environment": self._environment,
            "directory": str(directory),
            "lease": str(self._lease),
            "processors": self.processors,
            "checkpoint_signal": signal.Signals[checkpoint.signal] if checkpoint else 0,
        }
        with (
            tempfile.TemporaryFile() as words,
            self._logs[0].open("ab") as stdout,
            self._logs[1].open("ab") as stderr,
        ):
            words.write(json.dumps(order).encode())
            words.seek(0)
            self._keeper = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", keeper.__file__],
                stdin=words,
                stdout=stdout,
                stderr=stderr,
                cwd="/",
                env={},
                start_new_session=True,
            )

    def _signal_to_save(self) -> None:
        """Tell the keeper, if it is one that knows what to do then."""
        if (self._run_folder / keeper.CHECKPOINTS).exists():
            self._signal(signal.SIGUSR2)

    def _signal(self, number: signal.Signals) -> None:
        if not self._began or not self._kept():
            return
        owner = (self._run_folder / keeper.STARTED).read_text()
        with suppress(ProcessLookupError):
            os.kill(int(owner), number)

    def _claimed(self) -> bool:
        return (self._run_folder / keeper.STARTED).exists()

    def _kept(self) -> bool:
        """Whether the keeper lives: it holds the lock as long as it does."""
        if self._keeper is not None:
            self._keeper.poll()
        with (self._run_folder / keeper.STARTED).open() as started:
            try:
                fcntl.flock(started, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def _pass_on(self, *, last: bool) -> None:
        for name, tail in zip(STREAMS, self._tails, strict=True):
            if text := tail.read(last=last):
                self._write(self._task, name, text)

    async def _sweep(self) -> None:
        """Kill what is left of any run of the container, and return when it is gone.

        It may hold a device. A run of which there are no records has left its processes only.
        """
        mark = f"{self._task.id.pod_uid}/{self._task.id.container}/"
        pause_s = POLL_S
        while left := await asyncio.to_thread(_kill_marked, mark):
            if pause_s >= SWEEP_PAUSE_MAX_S:
                _log.warning("processes do not die", pod=self._task.pod.pod_uid, pids=left)
            await asyncio.sleep(pause_s)
            pause_s = min(SWEEP_PAUSE_MAX_S, pause_s * 2)


def _kill_marked(mark: str) -> list[int]:
    """Kill all processes whose mark begins so, and return those that were still there."""
    left: list[int] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK, "").startswith(mark):
                left.append(process.pid)
                process.kill()
    return left
