"""Kueue's own cases: each suite passes at least as many as docs/conformance.md says."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from . import peers

ROW = re.compile(r"\| `(?P<suite>[a-z_]+)` \| (?P<passed>\d+) \| (?P<cases>\d+) \|")

pytestmark = peers.needs_cases


def floors() -> list[tuple[str, int]]:
    rows = ROW.finditer(peers.DOCUMENT.read_text())
    return [(row["suite"], int(row["passed"])) for row in rows]


def cases(suite: str) -> Iterator[tuple[dict[str, Any], Any]]:
    for line in (peers.SHARED / "kueue" / f"{suite}.jsonl").read_text().splitlines():
        case = json.loads(line)
        expected = case.pop("expect")
        case.pop("expect_if_observability_gate_off", None)
        if not case.get("k8s_only"):
            yield case, expected


@pytest.mark.parametrize(("suite", "floor"), floors())
def test_a_suite_passes_no_less_than_it_did(suite: str, floor: int) -> None:
    checker, adapter = peers.checker(), peers.adapter()
    shape = checker.KUEUE[suite]
    failed = [
        case["name"]
        for case, expected in cases(suite)
        if shape(adapter.run(suite, copy.deepcopy(case))) != shape(expected)
    ]
    total = sum(1 for _ in cases(suite))
    assert total - len(failed) >= floor, "\n".join(failed)


def test_every_suite_that_is_scored_has_a_floor() -> None:
    assert {suite for suite, _ in floors()} == set(peers.checker().KUEUE)
