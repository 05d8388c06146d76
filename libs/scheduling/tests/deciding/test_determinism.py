"""The same input gives the same decision, in every process and hash seed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_scheduling.admission import decide, violations

from .busy_tree import busy_view, digest

PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from deciding.busy_tree import main; main()"


def run(seed: str) -> str:
    where = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, where],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


def test_decisions_do_not_depend_on_the_hash_seed() -> None:
    first = run("1")
    assert len(first.splitlines()) == 4
    assert first == run("4242")


@pytest.mark.parametrize("fair", [False, True])
def test_deciding_twice_gives_the_same(fair: bool) -> None:  # noqa: FBT001 - a parameter
    view = busy_view(7, fair=fair)
    assert digest(decide(view.snapshot(0))) == digest(decide(view.snapshot(0)))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), fair=st.booleans(), inline=st.booleans())
def test_no_decision_breaks_a_rule(seed: int, *, fair: bool, inline: bool) -> None:
    view = busy_view(seed, fair=fair, size=25)
    for _ in range(3):
        snapshot = view.snapshot(0)
        decision = decide(snapshot, victims_inline=inline)
        assert violations(snapshot, decision) == ()
        view.apply(decision)
        for holder in [h for h in view.holders.values() if view.is_evicting(h.id)]:
            view.release(holder.id)
