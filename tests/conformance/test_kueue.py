"""Kueue's own cases: each suite passes at least as many as docs/conformance.md says."""

import copy
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "conformance"
DOCUMENT = ROOT / "docs" / "conformance.md"
ROW = re.compile(r"\| `(?P<suite>[a-z_]+)` \| (?P<passed>\d+) \| (?P<cases>\d+) \|")

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the peers' cases are not at {SHARED}")


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def floors() -> list[tuple[str, int]]:
    rows = ROW.finditer(DOCUMENT.read_text())
    return [(row["suite"], int(row["passed"])) for row in rows]


def cases(suite: str) -> Iterator[tuple[dict[str, Any], Any]]:
    for line in (SHARED / "kueue" / f"{suite}.jsonl").read_text().splitlines():
        case = json.loads(line)
        expected = case.pop("expect")
        case.pop("expect_if_observability_gate_off", None)
        if not case.get("k8s_only"):
            yield case, expected


@pytest.mark.parametrize(("suite", "floor"), floors())
def test_a_suite_passes_no_less_than_it_did(suite: str, floor: int) -> None:
    checker = load("conformance_check", SHARED / "check.py")
    adapter = load("conformance_adapter", Path(__file__).parent / "adapter.py")
    shape = checker.KUEUE[suite]
    failed = [
        case["name"]
        for case, expected in cases(suite)
        if shape(adapter.run(suite, copy.deepcopy(case))) != shape(expected)
    ]
    total = sum(1 for _ in cases(suite))
    assert total - len(failed) >= floor, "\n".join(failed)


def test_every_suite_that_is_scored_has_a_floor() -> None:
    checker = load("conformance_check", SHARED / "check.py")
    assert {suite for suite, _ in floors()} == set(checker.KUEUE)
