"""Whole gangs give way to whole gangs, as few as possible, in one domain (K1 to K9)."""

import pytest

from muster_domain.queues import HyperNode
from muster_domain.volcano import Pod, PodGroup
from muster_domain.volcano_scheduler import SchedulerConfiguration
from muster_domain.workload import NetworkTopology
from muster_scheduling.volcano import Plan, run_session

from .builders import configure, evicted, gang, node, pod, pods, queue, snapshot

PREEMPT = configure("gangpreempt", "priority gang conformance network-topology-aware predicates")
RECLAIM = configure("gangreclaim", "priority gang conformance capacity predicates")
PRIORITIES = {"high": 100, "mid": 50, "low": 1}


Gang = tuple[PodGroup, tuple[Pod, ...]]


def places(plan: Plan) -> dict[str, str]:
    return {found.pod.removeprefix("ns/"): found.node for found in plan.pipelines}


def running(name: str, least: int, *nodes: str, **fields: object) -> Gang:
    members = [pod(name, f"{name}-{number}", on=on) for number, on in enumerate(nodes)]
    return gang(name, least, members, **{"priority_class": "low", **fields})


def test_surplus_goes_before_any_whole_gang() -> None:
    plan = run_session(
        snapshot(
            [node(name, "cpu=1") for name in "abcdef"],
            [
                running("elastic", 1, "a", "b", "c"),
                running("rigid", 3, "d", "e", "f"),
                gang("new", 2, pods("new", 2), priority_class="high"),
            ],
            priorities=PRIORITIES,
        ),
        PREEMPT,
    )
    assert evicted(plan) == ["elastic-1", "elastic-2"]
    assert sorted(places(plan).values()) == ["b", "c"]


def test_one_whole_gang_goes_rather_than_one_pod_of_each() -> None:
    gangs = [running(name, 2, f"{name}1", f"{name}2") for name in "xyz"]
    plan = run_session(
        snapshot(
            [node(f"{name}{number}", "cpu=1") for name in "xyz" for number in (1, 2)],
            [*gangs, gang("new", 2, pods("new", 2), priority_class="high")],
            priorities=PRIORITIES,
        ),
        PREEMPT,
    )
    assert evicted(plan) == ["z-0", "z-1"]


def test_no_more_goes_than_is_needed() -> None:
    plan = run_session(
        snapshot(
            [node(f"n{number}", "cpu=1") for number in range(10)],
            [
                running("wide", 0, *(f"n{number}" for number in range(10))),
                gang("new", 1, pods("new", 1), priority_class="high"),
            ],
            priorities=PRIORITIES,
        ),
        PREEMPT,
    )
    assert len(evicted(plan)) == 1


def test_nobody_goes_where_the_gang_would_still_not_be_whole() -> None:
    plan = run_session(
        snapshot(
            [node("a", "cpu=1"), node("b", "cpu=1")],
            [running("low", 2, "a", "b"), gang("new", 3, pods("new", 3), priority_class="high")],
            priorities=PRIORITIES,
        ),
        PREEMPT,
    )
    assert plan.evictions == ()
    assert plan.pipelines == ()


def test_room_is_made_inside_one_hyper_node() -> None:
    leaves = [
        HyperNode(name="s0", tier=1, node_members=("n0", "n1")),
        HyperNode(name="s1", tier=1, node_members=("n2", "n3")),
    ]
    one_leaf = NetworkTopology(highest_tier=1)
    plan = run_session(
        snapshot(
            [node(f"n{number}", "cpu=1") for number in range(4)],
            [
                running("x", 1, "n1"),
                running("y", 1, "n2"),
                gang("new", 2, pods("new", 2), priority_class="high", network_topology=one_leaf),
            ],
            priorities=PRIORITIES,
            hyper_nodes=leaves,
        ),
        PREEMPT,
    )
    assert len(evicted(plan)) == 1
    assert set(places(plan).values()) in ({"n0", "n1"}, {"n2", "n3"})


@pytest.mark.parametrize(
    ("first", "second", "victims"),
    [
        (running("x", 2, "n0", "n1"), running("y", 1, "n2", "n3"), ["y-1"]),
        (running("x", 1, "n0", "n1"), running("y", 2, "n2", "n3"), ["x-1"]),
        (
            running("x", 2, "n0", "n1", priority_class="mid"),
            running("y", 2, "n2", "n3"),
            ["y-0", "y-1"],
        ),
        (running("x", 2, "n0", "n1"), running("y", 1, "n2"), []),
    ],
    ids=["surplus elsewhere", "surplus here", "the less important", "nobody where there is room"],
)
def test_room_is_made_where_it_costs_least(first: Gang, second: Gang, victims: list[str]) -> None:
    leaves = [
        HyperNode(name="s0", tier=1, node_members=("n0", "n1")),
        HyperNode(name="s1", tier=1, node_members=("n2", "n3")),
    ]
    wanted = gang(
        "new",
        1,
        pods("new", 1),
        priority_class="high",
        network_topology=NetworkTopology(highest_tier=1),
    )
    plan = run_session(
        snapshot(
            [node(f"n{number}", "cpu=1") for number in range(4)],
            [first, second, wanted],
            priorities=PRIORITIES,
            hyper_nodes=leaves,
        ),
        PREEMPT,
    )
    assert evicted(plan) == victims
    assert len(places(plan)) == 1


@pytest.mark.parametrize("how", [PREEMPT, RECLAIM], ids=["preempt", "reclaim"])
@pytest.mark.parametrize(
    ("of_gang", "of_pod", "goes"),
    [
        (None, None, True),
        ("true", None, True),
        ("false", None, False),
        ("false", "true", False),
        (None, "false", False),
        ("true", "false", False),
    ],
)
def test_a_gang_that_says_no_is_spared_whatever_its_pods_say(
    how: SchedulerConfiguration, of_gang: str | None, of_pod: str | None, *, goes: bool
) -> None:
    said, own = (
        {} if word is None else {"volcano.sh/preemptable": word} for word in (of_gang, of_pod)
    )
    theirs = "mine" if how is PREEMPT else "theirs"
    victim = gang(
        "x",
        1,
        [pod("x", "x-0", on="n", annotations=own)],
        queue=theirs,
        priority_class="low",
        annotations=said,
    )
    wanted = gang("new", 1, pods("new", 1), queue="mine", priority_class="high")
    plan = run_session(
        snapshot(
            [node("n", "cpu=1")],
            [victim, wanted],
            queues=[queue("mine", deserved="cpu=1"), queue("theirs")],
            priorities=PRIORITIES,
        ),
        how,
    )
    assert evicted(plan) == (["x-0"] if goes else [])


def test_a_queue_takes_back_whole_gangs_and_only_what_it_is_due() -> None:
    queues = [queue("mine", deserved="cpu=2"), queue("theirs", deserved="cpu=2")]
    theirs = [running(name, 2, f"{name}1", f"{name}2", queue="theirs") for name in "xy"]
    plan = run_session(
        snapshot(
            [node(f"{name}{number}", "cpu=1") for name in "xy" for number in (1, 2)],
            [*theirs, gang("new", 2, pods("new", 2), queue="mine")],
            queues=queues,
            priorities=PRIORITIES,
        ),
        RECLAIM,
    )
    assert evicted(plan) == ["y-0", "y-1"]


def test_a_bundle_that_turned_out_not_to_be_needed_is_returned() -> None:
    """The small one goes first and is not enough; with the large one gone it may stay."""
    plan = run_session(
        snapshot(
            [node("a", "cpu=1"), node("b", "cpu=4")],
            [
                running("small", 0, "a"),
                gang("large", 0, [pod("large", "large-0", "cpu=4", on="b")], priority_class="mid"),
                gang("new", 1, [pod("new", "new-0", "cpu=4")], priority_class="high"),
            ],
            priorities={**PRIORITIES, "mid": 50},
        ),
        PREEMPT,
    )
    assert evicted(plan) == ["large-0"]


def test_two_small_bundles_are_not_returned_where_both_are_needed() -> None:
    plan = run_session(
        snapshot(
            [node("a", "cpu=2")],
            [
                running("x", 0, "a"),
                running("y", 0, "a"),
                gang("new", 1, [pod("new", "new-0", "cpu=2")], priority_class="high"),
            ],
            priorities=PRIORITIES,
        ),
        PREEMPT,
    )
    assert evicted(plan) == ["x-0", "y-0"]
