"""Each package declares what it imports, and imports what it declares."""

import subprocess
import sys
from pathlib import Path

import pytest

from . import source

UNSEEN = {
    "aiosqlite": "sqlalchemy loads it by the name in the database's URL",
    "asyncpg": "sqlalchemy loads it by the name in the database's URL",
    "hiredis": "redis loads it where it is installed",
    "muster": "muster_stack adds its commands to that package's command line",
    "tzdata": "zoneinfo reads it where the machine has no time zones",
    "uvloop": "uvicorn loads it where it is installed",
}
"""Declared without an import in sight, and why."""
PACKAGES = sorted(
    path.removesuffix("/pyproject.toml")
    for path in source.files()
    if path.endswith("/pyproject.toml") and path.count("/") == 2
)


@pytest.mark.parametrize("package", PACKAGES)
def test_dependencies_are_declared(package: str) -> None:
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("deptry")),
            "src",
            "--no-ansi",
            "--per-rule-ignores",
            f"DEP002={'|'.join(UNSEEN)}",
        ],
        cwd=source.ROOT / package,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
