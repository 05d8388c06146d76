"""Volcano's own cases: each suite passes at least as many as docs/conformance.md says."""

import copy
import json
import re
from typing import Any

import pytest

from . import peers

ROW = re.compile(r"\| `(?P<suite>[a-z]+-[a-z-]+)` \| (?P<passed>\d+) \| (?P<cases>\d+) \|")

pytestmark = peers.needs_cases


def floors() -> dict[str, int]:
    return {row["suite"]: int(row["passed"]) for row in ROW.finditer(peers.DOCUMENT.read_text())}


def cases(suite: str) -> list[tuple[dict[str, Any], Any]]:
    read = map(json.loads, (peers.SHARED / "volcano" / f"{suite}.jsonl").read_text().splitlines())
    return [(case, case.pop("expect")) for case in read if case["check"] == "common"]


@pytest.mark.parametrize(("suite", "floor"), floors().items())
def test_a_suite_passes_no_less_than_it_did(suite: str, floor: int) -> None:
    checker, adapter = peers.checker(), peers.adapter()
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
    suites = [path.stem for path in (peers.SHARED / "volcano").glob("*.jsonl")]
    scored = {suite for suite in suites if '"check": "common"' in text_of(suite)}
    assert set(floors()) == scored


def text_of(suite: str) -> str:
    """A suite as text, with one space after each colon."""
    text = (peers.SHARED / "volcano" / f"{suite}.jsonl").read_text()
    return text.replace('":"', '": "')
