"""Gangs start whole, grow one by one, and say why they do not start."""

from muster_domain.volcano import PodGroupPhase
from muster_scheduling.volcano import PhaseChange, Refusal, Verdict, run_session

from .builders import binds, configure, gang, node, pod, pods, snapshot

ALLOCATE = configure("allocate", "priority gang")


def test_a_gang_that_does_not_fit_gets_nothing_and_blocks_nobody() -> None:
    plan = run_session(
        snapshot(
            [node("a", "cpu=4")],
            [gang("big", 3, pods("big", 3, "cpu=2")), gang("small", 2, pods("small", 2, "cpu=2"))],
        ),
        ALLOCATE,
    )
    assert binds(plan) == {"small-0": "a", "small-1": "a"}
    big = plan.outcomes["ns/big"]
    assert big.verdict is Verdict.NOT_ENOUGH_RESOURCES
    assert big.message.startswith("3/3 tasks in gang unschedulable")


def test_minimums_are_served_before_growth_and_growth_is_one_by_one() -> None:
    plan = run_session(
        snapshot([node("a", "cpu=10")], [gang("x", 5, pods("x", 10)), gang("y", 5, pods("y", 10))]),
        ALLOCATE,
    )
    names = sorted(binds(plan))
    assert names == sorted([f"{job}-{number}" for job in "xy" for number in range(5)])


def test_a_refused_pod_says_which_nodes_lack_what() -> None:
    plan = run_session(
        snapshot(
            [node("a", "cpu=1"), node("b", "cpu=2")], [gang("x", 1, [pod("x", "x-0", "cpu=3")])]
        ),
        ALLOCATE,
    )
    assert plan.outcomes["ns/x"].refusals == (Refusal(reason="Insufficient cpu", nodes=2),)


def test_too_few_pods_are_no_gang() -> None:
    plan = run_session(snapshot([node("a")], [gang("x", 2, pods("x", 1))]), ALLOCATE)
    assert plan.outcomes["ns/x"].verdict is Verdict.NOT_ENOUGH_PODS
    assert plan.outcomes["ns/x"].message == "1 pods of 2"


def test_a_pending_gang_runs_where_nothing_enqueues() -> None:
    plan = run_session(
        snapshot([node("a")], [gang("x", 1, pods("x", 1), phase=PodGroupPhase.PENDING)]), ALLOCATE
    )
    assert plan.phases == (
        PhaseChange(job="ns/x", before=PodGroupPhase.PENDING, after=PodGroupPhase.RUNNING),
    )


def test_the_same_snapshot_gives_the_same_plan_in_any_order() -> None:
    nodes = [node(name) for name in "abcd"]
    gangs = [gang("x", 2, pods("x", 4)), gang("y", 1, pods("y", 3))]
    there = run_session(snapshot(nodes, gangs), ALLOCATE)
    back = run_session(snapshot(nodes[::-1], gangs[::-1]), ALLOCATE)
    assert there == back
