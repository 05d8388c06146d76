"""Build .venv in the project's root from requirements.lock.

Needs only a Python of 3.11 or newer. Uses uv where it works, or takes it from PyPI with pip.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST = (3, 11)


def main() -> None:
    """Find uv and an interpreter, sync the locked packages, link the workspace."""
    python = find_python()
    uv = find_uv()
    run(uv, "venv", "--quiet", "--allow-existing", "--python", python, str(VENV))
    in_venv = ("--quiet", "--python", str(VENV / "bin" / "python"))
    run(uv, "pip", "sync", *in_venv, "--require-hashes", str(ROOT / "requirements.lock"))
    packages = sorted(path.parent for path in ROOT.glob("*/*/pyproject.toml"))
    links = [word for package in packages for word in ("--editable", str(package))]
    run(uv, "pip", "install", *in_venv, "--no-deps", "--no-build-isolation", *links)
    (VENV / "ready").touch()


def find_python() -> str:
    """The interpreter to use: MUSTER_PYTHON, or the one that runs this, or one on PATH."""
    candidates = [os.environ.get("MUSTER_PYTHON"), sys.executable]
    candidates += [shutil.which(f"python3.{minor}") for minor in (13, 12, 11)]
    for candidate in filter(None, candidates):
        probe = f"import sys; sys.exit(sys.version_info < {OLDEST})"
        if (
            subprocess.run([candidate, "-c", probe], check=False, capture_output=True).returncode
            == 0
        ):
            return candidate
    sys.exit("muster needs Python 3.11 or newer; set MUSTER_PYTHON to one")


def find_uv() -> str:
    """A uv that runs; installed into build/uv when there is none."""
    private = ROOT / "build" / "uv"
    for candidate in (VENV / "bin" / "uv", private / "bin" / "uv", shutil.which("uv")):
        if candidate and works(str(candidate)):
            return str(candidate)
    print("uv is missing, taking it from PyPI", file=sys.stderr)
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pin = next(line.split()[0] for line in lines if line.startswith("uv=="))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(private), pin]
    if subprocess.run(install, check=False).returncode != 0:
        sys.exit("pip could not install uv; install uv or python3-pip, then run make again")
    return str(private / "bin" / "uv")


def works(command: str) -> bool:
    """Whether the command starts at all (a pyenv shim on PATH may not)."""
    try:
        return (
            subprocess.run([command, "--version"], check=False, capture_output=True).returncode == 0
        )
    except OSError:
        return False


def run(*command: str) -> None:
    """Run a command from the project's root, or end with its status."""
    result = subprocess.run(command, cwd=ROOT, check=False)
    if result.returncode != 0:
        sys.exit(result.returncode)


if __name__ == "__main__":
    main()
