"""Ceilings of Volcano queues, alone and under each other."""

from collections.abc import Mapping

import pytest

from muster_domain.conditions import PendingReason
from muster_domain.queues import VolcanoQueue
from muster_domain.workload import VolcanoQueueRef
from muster_scheduling import AdmissionView, Configuration
from muster_scheduling.admission import ReserveQuota, decide, max_possible, violations

from .builders import GPU, K, job, waiting


def tree(**queues: tuple[str, int | None]) -> AdmissionView:
    """Queues by name: the one above, and the ceiling in GPUs."""
    declared = {
        name: VolcanoQueue(
            name=name, parent=parent, capability={} if cap is None else {GPU: cap * K}
        )
        for name, (parent, cap) in queues.items()
    }
    return AdmissionView(Configuration(volcano_queues=declared))


def admitted(view: AdmissionView, asks: Mapping[str, int]) -> list[str]:
    """Who of these gets in, all waiting at once: GPUs by queue."""
    for age, (name, gpus) in enumerate(asks.items()):
        waiting(view, job(name, VolcanoQueueRef(name=name), gpus, created=age))
    decision = decide(view.snapshot(0))
    assert violations(view.snapshot(0), decision) == ()
    return sorted(
        effect.workload_id
        for group in decision.groups
        for effect in group.effects
        if isinstance(effect, ReserveQuota)
    )


@pytest.mark.parametrize(
    ("queues", "asks", "expected"),
    [
        ({"a": ("", 2), "b": ("", 2)}, {"a": 2, "b": 2}, ["a", "b"]),
        ({"p": ("", 2), "a": ("p", None), "b": ("p", None)}, {"a": 2, "b": 2}, ["a"]),
        ({"p": ("", 4), "a": ("p", 4), "b": ("p", 4)}, {"a": 3, "b": 2}, ["a"]),
        ({"p": ("", 4), "a": ("p", 2), "b": ("p", 4)}, {"a": 2, "b": 2}, ["a", "b"]),
        ({"p": ("", None), "a": ("p", 2), "b": ("p", None)}, {"a": 2, "b": 99}, ["a", "b"]),
        ({"r": ("", 3), "p": ("r", 9), "a": ("p", 9), "b": ("r", 9)}, {"a": 2, "b": 2}, ["a"]),
        ({"r": ("", 9), "p": ("r", 2), "a": ("p", 9), "b": ("p", 9)}, {"a": 2, "b": 1}, ["a"]),
        ({"p": ("", 3), "a": ("p", None)}, {"p": 2, "a": 2}, ["p"]),
        ({"p": ("", 4), "a": ("p", 9), "b": ("p", 9)}, {"a": 3, "b": 1}, ["a", "b"]),
        ({"a": ("nowhere", 2)}, {"a": 2}, ["a"]),
    ],
    ids=[
        "strangers do not share",
        "children without a ceiling share that of their parent",
        "ceilings of children do not add up",
        "a parent is used up exactly",
        "a parent without a ceiling bounds nobody",
        "the top's ceiling holds two levels down",
        "the middle's ceiling holds below a wider top",
        "what sits in the parent itself counts",
        "ceilings wider than the parent's are worth the parent's",
        "a parent that nobody declared bounds nobody",
    ],
)
def test_every_ceiling_on_the_way_up_holds(
    queues: dict[str, tuple[str, int | None]], asks: dict[str, int], expected: list[str]
) -> None:
    assert admitted(tree(**queues), asks) == expected


def test_who_stands_in_a_circle_is_not_let_in() -> None:
    assert admitted(tree(a=("b", 2), b=("a", 2)), {"a": 1}) == []


def test_the_queue_with_the_lowest_ceiling_is_named() -> None:
    view = tree(p=("", 2), a=("p", 8))
    (pending,) = waiting(view, job("w", VolcanoQueueRef(name="a"), 4))
    found = max_possible(view, pending)
    assert found is not None
    assert found.reason is PendingReason.EXCEEDS_MAX_QUOTA
    assert found.message == "asks 4 nvidia.com/gpu; Volcano queue p is capped at 2 (capability)"


def test_who_waits_is_told_how_much_is_free() -> None:
    view = tree(p=("", 3), a=("p", None), b=("p", None))
    waiting(view, job("a", VolcanoQueueRef(name="a"), 2))
    waiting(view, job("b", VolcanoQueueRef(name="b"), 2, created=1))
    told = decide(view.snapshot(0)).explanations["b"]
    assert told.reason is PendingReason.WAITING_FOR_QUOTA
    assert told.message == (
        "Volcano queue b: insufficient nvidia.com/gpu within its capability and those above it, "
        "2 asked, 1 of 3 free"
    )
    assert told.remedy == "1 more nvidia.com/gpu free in Volcano queue b, or ask 1 nvidia.com/gpu"
    assert told.preemption == ""


def test_a_ceiling_that_shrank_below_what_is_asked_is_told() -> None:
    view = tree(a=("", 2))
    waiting(view, job("w", VolcanoQueueRef(name="a"), 4))
    told = decide(view.snapshot(0)).explanations["w"]
    assert told.reason is PendingReason.EXCEEDS_MAX_QUOTA
    assert told.message == (
        "Volcano queue a: insufficient nvidia.com/gpu within its capability, 4 asked, 2 of 2 free"
    )
    assert told.remedy == "ask at most 2 nvidia.com/gpu"
