"""Every rule of `.importlinter` fires on what it forbids; `make arch` applies them to the tree."""

import os
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

from . import source

CONFIGURATION = ".importlinter"
PLANTS = {
    "layers": ("muster_admission/rows.py", "muster_placement.floor"),
    "testing": ("muster_gateway/changes.py", "muster_testing.waiting"),
    "pure": ("muster_domain/policy.py", "random"),
    "dates": ("muster_ledger/store.py", "datetime"),
    "machines": ("muster_placement/machine.py", "time"),
    "store": ("muster_admission/book.py", "redis"),
    "tables": ("muster_gateway/kinds.py", "sqlalchemy"),
    "bus": ("muster_agent/pods.py", "nats"),
    "wire": ("muster_domain/workload.py", "pydantic"),
    "web": ("muster_accounting/rows.py", "starlette"),
    "hardware": ("muster_placement/pods.py", "aiodocker"),
    "acyclic": ("muster_rating/prices.py", "muster_rating.report"),
}
"""For each rule a file and an import that it must not have."""


def lint(folder: Path) -> str:
    """What import-linter says about the packages in a folder."""
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("lint-imports")),
            "--config",
            str(source.ROOT / CONFIGURATION),
            "--no-cache",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_every_import_rule_fires(tmp_path: Path) -> None:
    for path in source.shipped():
        copy = tmp_path / path.split("/src/")[1]
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.ROOT / path, copy)
    for path, forbidden in PLANTS.values():
        file = tmp_path / path
        file.write_text(f"{file.read_text()}\nimport {forbidden}\n")
    said = lint(tmp_path)
    rules = ConfigParser()
    rules.read(source.ROOT / CONFIGURATION)
    names = {
        section.rpartition(":")[2]: rules[section]["name"]
        for section in rules.sections()
        if ":contract:" in section
    }
    assert set(names) == set(PLANTS), "a rule without a plant, or a plant without a rule"
    silent = [rule for rule, name in names.items() if f"{name} BROKEN" not in said]
    assert silent == [], said
