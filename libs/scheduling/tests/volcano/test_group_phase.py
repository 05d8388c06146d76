"""The phase that a PodGroup has after a session, by what its pods do."""

from dataclasses import replace

import pytest

from muster_domain.volcano import Pod, PodGroupPhase, PodPhase
from muster_scheduling.volcano import run_session

from .builders import configure, gang, node, pod, snapshot

NOTHING = configure("allocate", "gang")
PENDING, INQUEUE = PodGroupPhase.PENDING, PodGroupPhase.INQUEUE
RUNNING, UNKNOWN, COMPLETED = (
    PodGroupPhase.RUNNING,
    PodGroupPhase.UNKNOWN,
    PodGroupPhase.COMPLETED,
)


def pod_that(what: str, name: str) -> Pod:
    """One pod of the gang `x`, by what it does; who waits finds no room."""
    sits = pod("x", name, "cpu=1", on="a")
    waits = pod("x", name, "cpu=9")
    return {
        "runs": sits,
        "ends": replace(sits, deleting=True),
        "ended well": replace(sits, phase=PodPhase.SUCCEEDED),
        "failed": replace(sits, phase=PodPhase.FAILED),
        "waits": waits,
        "never sat and ends": replace(waits, deleting=True),
    }[what]


@pytest.mark.parametrize(
    ("before", "least", "what", "after"),
    [
        (RUNNING, 1, ["ends"], RUNNING),
        (RUNNING, 2, ["runs", "ends"], RUNNING),
        (RUNNING, 2, ["ends", "ends"], RUNNING),
        (RUNNING, 2, ["runs", "ends", "waits"], UNKNOWN),
        (RUNNING, 3, ["runs", "ends"], UNKNOWN),
        (RUNNING, 1, ["never sat and ends"], UNKNOWN),
        (RUNNING, 2, ["runs", "waits"], UNKNOWN),
        (RUNNING, 2, ["ended well", "ended well"], COMPLETED),
        (RUNNING, 2, ["ended well", "runs"], RUNNING),
        (INQUEUE, 2, ["runs", "runs", "waits"], RUNNING),
        (INQUEUE, 2, ["waits", "waits"], INQUEUE),
        (INQUEUE, 2, ["failed"], INQUEUE),
        (INQUEUE, 2, ["never sat and ends", "waits"], INQUEUE),
        (INQUEUE, 0, ["waits"], INQUEUE),
    ],
    ids=[
        "its only pod ends",
        "one of two ends",
        "both end",
        "one ends and another is to take its place",
        "too few even with the one that ends",
        "who never sat does not count",
        "a member is lost",
        "all are done",
        "one is done",
        "it has its minimum",
        "it waits",
        "too few are left",
        "who never sat and ends does not start it",
        "nothing of it has ever run",
    ],
)
def test_the_phase_follows_from_the_pods(
    before: PodGroupPhase, least: int, what: list[str], after: PodGroupPhase
) -> None:
    members = [pod_that(each, f"x-{number}") for number, each in enumerate(what)]
    plan = run_session(snapshot([node("a")], [gang("x", least, members, phase=before)]), NOTHING)
    changed = {change.job: change.after for change in plan.phases}
    assert changed.get("ns/x", before) is after


def test_a_gang_that_nothing_lets_in_is_pending() -> None:
    members = [pod("x", "x-0")]
    waiting = snapshot([node("a")], [gang("x", 1, members, phase=PENDING)])
    assert run_session(waiting, configure("enqueue", "gang")).phases[0].after is INQUEUE
    assert run_session(waiting, configure("backfill", "gang")).phases == ()
