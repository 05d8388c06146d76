"""One process that is started again whenever it ends, until it is told to stop."""

import http.client
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from muster_domain.errors import MusterError, NotFound
from muster_runtime.embedded import LOOPBACK
from muster_stack.reaper import Reaper

FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 10.0
STEADY_AFTER_S = 15.0
STOP_DEADLINE_S = 30.0
LOG_BYTES_MAX = 32 * 1024 * 1024
_POLL_S = 0.05
_PROBE_TIMEOUT_S = 2.0
_TAIL_BYTES = 3000


class StackError(MusterError):
    """Something did not start or did not become ready. The message ends with its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """What to run. `http_port` is where it answers /readyz."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    http_port: int = 0


class SupervisedProcess:
    """A child in its own session, restarted with a growing delay when it ends by itself."""

    def __init__(self, spec: ProcessSpec, log_path: Path, reaper: Reaper) -> None:
        self.spec = spec
        self.log_path = log_path
        self.starts = 0
        self._reaper = reaper
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        with self._lock:
            process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def url(self) -> str:
        """Where its health and its API are."""
        return f"http://{LOOPBACK}:{self.spec.http_port}"

    def start(self) -> None:
        """Start it and keep it running."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._supervise, args=(self._stop,), name=f"run {self.spec.name}", daemon=True
        )
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Stop restarting it and send SIGTERM, without waiting."""
        with self._lock:
            self._stop.set()
            process = self._process
        if process is not None:
            process.terminate()
            process.send_signal(signal.SIGCONT)

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Stop it for good; kill it when the deadline is over."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join(deadline_s)
        self.kill(stay_down=True)

    def kill(self, *, stay_down: bool = False) -> None:
        """SIGKILL. It is started again unless it is to stay down."""
        with self._lock:
            if stay_down:
                self._stop.set()
            process = self._process
        if process is not None:
            process.kill()
            process.wait()
        if stay_down and self._thread is not None:
            self._thread.join()

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and does nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def is_ready(self) -> bool:
        """Whether it runs and /readyz says so."""
        if self.pid is None:
            return False
        connection = http.client.HTTPConnection(
            LOOPBACK, self.spec.http_port, timeout=_PROBE_TIMEOUT_S
        )
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def wait_ready(self, deadline_s: float) -> None:
        """Return once it is ready. Raises `StackError`."""
        until = time.monotonic() + deadline_s
        while not self.is_ready():
            if time.monotonic() > until:
                raise StackError(
                    f"{self.spec.name} is not ready after {deadline_s:g} s:\n{self.log_tail()}"
                )
            time.sleep(_POLL_S)

    def log_tail(self) -> str:
        """The end of its log."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            process = self._process
        if process is None or process.poll() is not None:
            raise NotFound(f"{self.spec.name} does not run")
        process.send_signal(number)

    def _supervise(self, stop: threading.Event) -> None:
        delay_s = FIRST_DELAY_S
        while True:
            process = self._spawn(stop)
            if process is None:
                return
            started_s = time.monotonic()
            process.wait()
            self._reaper.drop(process.pid)
            if time.monotonic() - started_s > STEADY_AFTER_S:
                delay_s = FIRST_DELAY_S
            if stop.wait(delay_s):
                return
            delay_s = min(delay_s * 2, LONGEST_DELAY_S)

    def _spawn(self, stop: threading.Event) -> subprocess.Popen[bytes] | None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if self.log_path.stat().st_size > LOG_BYTES_MAX:
                self.log_path.replace(self.log_path.with_suffix(".log.1"))
        with self._lock, self.log_path.open("ab") as log:
            if stop.is_set():
                return None
            self._process = subprocess.Popen(  # noqa: S603 - the command is our own
                self.spec.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self.spec.environment),
                start_new_session=True,
            )
            self.starts += 1
            self._reaper.add(self._process.pid)
            return self._process
