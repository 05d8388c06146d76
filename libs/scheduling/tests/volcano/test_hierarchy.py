"""Hierarchical DRF: weights along paths, and blocked children that do not block their brothers."""

from collections import Counter

from muster_domain.queues import VolcanoQueue
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration, Switch
from muster_scheduling.volcano import Plan, run_session

from .builders import gang, node, pod, pods, snapshot

HIERARCHICAL = SchedulerConfiguration(
    actions=("allocate",),
    tiers=((PluginOption(name="drf", enabled=frozenset(Switch)), PluginOption(name="gang")),),
)


def leaf(name: str, path: str, weights: str) -> VolcanoQueue:
    return VolcanoQueue(name=name, hierarchy=path, hierarchy_weights=weights)


def given(plan: Plan) -> Counter[str]:
    return Counter(bind.job.removeprefix("ns/") for bind in plan.binds)


def test_two_halves_and_what_is_inside_one_of_them() -> None:
    queues = [
        leaf("sci", "root/sci", "100/50"),
        leaf("dev", "root/eng/dev", "100/50/50"),
        leaf("prod", "root/eng/prod", "100/50/50"),
    ]
    gangs = [
        gang("sci", 1, pods("sci", 10, "cpu=1 memory=1G"), queue="sci"),
        gang("dev", 1, pods("dev", 10, "cpu=1"), queue="dev"),
        gang("prod", 1, pods("prod", 10, "memory=1G"), queue="prod"),
    ]
    plan = run_session(
        snapshot([node("n", "cpu=10 memory=10G")], gangs, queues=queues), HIERARCHICAL
    )
    assert given(plan) == {"sci": 5, "dev": 5, "prod": 5}


def test_a_child_that_can_use_no_more_does_not_hold_back_its_brother() -> None:
    queues = [
        leaf("pg1", "root/pg1", "100/25"),
        leaf("pg2", "root/pg2", "100/25"),
        leaf("pg31", "root/pg3/pg31", "100/25/50"),
        leaf("pg32", "root/pg3/pg32", "100/25/50"),
        leaf("pg4", "root/pg4", "100/25"),
    ]
    asks = {
        "pg1": "cpu=1",
        "pg2": "cpu=1",
        "pg31": "cpu=1",
        "pg32": "memory=1G",
        "pg4": "memory=1G",
    }
    gangs = [gang(name, 1, pods(name, 30, ask), queue=name) for name, ask in asks.items()]
    plan = run_session(
        snapshot([node("n", "cpu=30 memory=30G")], gangs, queues=queues), HIERARCHICAL
    )
    assert given(plan) == {"pg1": 10, "pg2": 10, "pg31": 10, "pg32": 15, "pg4": 15}


def test_who_has_all_it_asks_of_something_goes_after_who_has_not() -> None:
    """Though it has the smaller share; both want the last core."""
    queues = [leaf("sated", "root/sated", "100/50"), leaf("open", "root/open", "100/50")]
    sated = [pod("sated", "sated-9", "memory=1G", on="n"), *pods("sated", 1)]
    wanting = [pod("open", f"open-{number}", on="n") for number in range(7, 10)]
    gangs = [
        gang("sated", 1, sated, queue="sated"),
        gang("open", 1, [*wanting, *pods("open", 1)], queue="open"),
    ]
    plan = run_session(snapshot([node("n", "cpu=4 memory=4G")], gangs, queues=queues), HIERARCHICAL)
    assert given(plan) == {"open": 1}
