"""Volcano's own cases: each suite passes at least as many as docs/conformance.md says."""

import copy
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "conformance"
DOCUMENT = ROOT / "docs" / "conformance.md"
ROW = re.compile(r"\| `(?P<suite>[a-z]+-[a-z-]+)` \| (?P<passed>\d+) \| (?P<cases>\d+) \|")

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the peers' cases are not at {SHARED}")


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def floors() -> dict[str, int]:
    return {row["suite"]: int(row["passed"]) for row in ROW.finditer(DOCUMENT.read_text())}


def cases(suite: str) -> list[tuple[dict[str, Any], Any]]:
    read = map(json.loads, (SHARED / "volcano" / f"{suite}.jsonl").read_text().splitlines())
    return [(case, case.pop("expect")) for case in read if case["check"] == "common"]


@pytest.mark.parametrize(("suite", "floor"), floors().items())
def test_a_suite_passes_no_less_than_it_did(suite: str, floor: int) -> None:
    checker = load("conformance_check", SHARED / "check.py")
    adapter = load("conformance_adapter", Path(__file__).parent / "adapter.py")
    found = cases(suite)
    failed = [
        case["id"]
        for case, expected in found
        if not checker.volcano_equal(
            checker.volcano(expected), adapter.run(suite, copy.deepcopy(case))
        )
    ]
    assert len(found) - len(failed) >= floor, "\n".join(failed)


def test_every_suite_that_is_scored_has_a_floor() -> None:
    suites = [path.stem for path in (SHARED / "volcano").glob("*.jsonl")]
    scored = {suite for suite in suites if '"check": "common"' in text_of(suite)}
    assert set(floors()) == scored


def text_of(suite: str) -> str:
    """A suite as text, with one space after each colon."""
    text = (SHARED / "volcano" / f"{suite}.jsonl").read_text()
    return text.replace('":"', '": "')
