"""Who gives way to whom: preempt within a queue, reclaim across queues."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from muster_domain.queues import QueueState, VolcanoQueue
from muster_domain.volcano import Pod, PodGroup
from muster_scheduling.volcano import NodeShard, Plan, run_session

from .builders import configure, evicted, gang, node, pod, queue, snapshot

PREEMPT = configure("preempt", "conformance gang priority proportion predicates")
RECLAIM = configure("reclaim", "conformance gang priority proportion predicates")
CAPACITY = configure("reclaim", "gang capacity predicates")
PRIORITIES = {"high": 100000, "mid": 50, "low": 10}
SPARED = {"labels": {"volcano.sh/preemptable": "false"}}

Gang = tuple[PodGroup, tuple[Pod, ...]]


def low(*members: Pod, least: int = 0, **fields: object) -> Gang:
    return gang("low", least, members, priority_class="low", **fields)


def high(*asks: str, least: int = 1, **fields: object) -> Gang:
    members = [pod("high", f"high-{n}", ask) for n, ask in enumerate(asks)]
    return gang("high", least, members, priority_class="high", **fields)


def decide(
    nodes: Sequence[tuple[str, str]], gangs: Sequence[Gang], *queues: VolcanoQueue, how: object
) -> Plan:
    cluster = snapshot(
        [node(name, offer) for name, offer in nodes],
        gangs,
        queues=queues or (queue("q"),),
        priorities=PRIORITIES,
    )
    return run_session(cluster, how)  # pyright: ignore[reportArgumentType]


def test_only_who_may_go_goes_and_only_as_many_as_are_needed() -> None:
    victims = low(pod("low", "a", on="n"), pod("low", "b", on="n", **SPARED))
    plan = decide([("n", "cpu=2")], [victims, high("cpu=1", "cpu=1")], how=PREEMPT)
    assert evicted(plan) == ["a"]


def test_a_gang_that_has_its_minimum_takes_nothing() -> None:
    growing = gang(
        "high",
        1,
        [pod("high", "high-0", on="n"), pod("high", "high-1")],
        priority_class="high",
    )
    plan = decide([("n", "cpu=2")], [low(pod("low", "a", on="n")), growing], how=PREEMPT)
    assert evicted(plan) == []


@pytest.mark.parametrize(
    ("capability", "victims"), [("cpu=4", ["a"]), ("cpu=6", [])], ids=["full", "room"]
)
def test_a_queue_that_is_full_makes_room_where_nodes_have_some(
    capability: str, victims: list[str]
) -> None:
    plan = decide(
        [("n", "cpu=12")],
        [low(pod("low", "a", "cpu=3", on="n")), high("cpu=3")],
        queue("q", capability=capability),
        how=configure("allocate preempt", "conformance gang priority capacity predicates"),
    )
    assert evicted(plan) == victims


def test_nobody_goes_for_what_a_queue_can_never_hold() -> None:
    plan = decide(
        [("n", "cpu=10")],
        [low(pod("low", "a", on="n"), pod("low", "b", on="n")), high("cpu=4")],
        queue("q", capability="cpu=3"),
        how=PREEMPT,
    )
    assert plan.evictions == ()


def test_an_eviction_that_does_not_bring_the_queue_under_its_ceiling_is_taken_back() -> None:
    plan = decide(
        [("n1", "cpu=3"), ("n2", "cpu=4")],
        [
            low(pod("low", "small", "cpu=1", on="n1"), pod("low", "large", "cpu=4", on="n2")),
            high("cpu=3"),
        ],
        queue("q", capability="cpu=6"),
        how=configure("preempt", "conformance gang priority capacity predicates"),
    )
    assert evicted(plan) == ["large"]


@pytest.mark.parametrize("asks", ["cpu=3", ""], ids=["asking", "best-effort"])
def test_a_full_count_of_pods_is_relieved(asks: str) -> None:
    plan = decide(
        [("n", "cpu=12 pods=1")], [low(pod("low", "a", "", on="n")), high(asks)], how=PREEMPT
    )
    assert evicted(plan) == ["a"]


def test_who_never_preempts_does_not() -> None:
    polite = gang("high", 1, [pod("high", "high-0", may_preempt=False)], priority_class="high")
    plan = decide([("n", "cpu=1")], [low(pod("low", "a", on="n")), polite], how=PREEMPT)
    assert evicted(plan) == []


def test_the_least_important_pod_goes_first() -> None:
    victims = low(pod("low", "a", on="n", priority=9), pod("low", "b", on="n", priority=1))
    plan = decide([("n", "cpu=2")], [victims, high("cpu=1")], how=PREEMPT)
    assert evicted(plan) == ["b"]


def held(name: str, on_queue: str, *members: Pod, kind: str = "low", least: int = 0) -> Gang:
    return gang(name, least, members, queue=on_queue, priority_class=kind)


def test_the_queue_of_lowest_priority_gives_first() -> None:
    plan = decide(
        [("n", "cpu=4")],
        [
            held("x", "a", pod("x", "xa", on="n"), pod("x", "xb", on="n", **SPARED)),
            held("y", "b", pod("y", "ya", on="n"), pod("y", "yb", on="n", **SPARED)),
            high("cpu=1", queue="c"),
        ],
        queue("a", priority=5),
        queue("b", priority=10),
        queue("c", priority=1),
        how=RECLAIM,
    )
    assert evicted(plan) == ["xa"]


def test_idle_cpu_and_one_victims_memory_are_enough_together() -> None:
    plan = decide(
        [("n", "cpu=10 memory=2Gi")],
        [
            held("x", "a", pod("x", "xa", "cpu=1 memory=1G", on="n")),
            held("y", "b", pod("y", "ya", "cpu=1 memory=1G", on="n")),
            high("cpu=2 memory=1G", queue="c"),
        ],
        queue("a", priority=1),
        queue("b", priority=2),
        queue("c", weight=3),
        how=RECLAIM,
    )
    assert evicted(plan) == ["xa"]


def test_who_may_not_preempt_does_not_hold_back_its_brother() -> None:
    two = gang(
        "high",
        2,
        [
            pod("high", "high-0", on="n2"),
            pod("high", "high-1", may_preempt=False),
            pod("high", "high-2"),
        ],
        queue="b",
        priority_class="high",
    )
    plan = decide(
        [("n", "cpu=2"), ("n2", "cpu=1")],
        [held("x", "a", pod("x", "xa", on="n"), pod("x", "xb", on="n", **SPARED)), two],
        queue("a"),
        queue("b", weight=3),
        how=RECLAIM,
    )
    assert evicted(plan) == ["xa"]


def test_what_is_idle_is_used_before_anybody_goes() -> None:
    plan = decide(
        [("n", "cpu=10")],
        [held("x", "a", pod("x", "xa", "cpu=2", on="n")), high("cpu=3", queue="b")],
        queue("a", weight=1),
        queue("b", weight=9),
        how=RECLAIM,
    )
    assert evicted(plan) == []


@pytest.mark.parametrize("how", [RECLAIM, CAPACITY], ids=["proportion", "capacity"])
def test_a_closed_queue_takes_nothing_back(how: object) -> None:
    plan = decide(
        [("n", "cpu=1")],
        [held("x", "a", pod("x", "xa", on="n")), high("cpu=1", queue="b")],
        queue("a", deserved="cpu=1"),
        queue("b", deserved="cpu=1", state=QueueState.CLOSED),
        how=how,
    )
    assert evicted(plan) == []


@pytest.mark.parametrize(
    ("theirs", "victims"),
    [
        pytest.param("gpu=1", [], id="within-its-only-due"),
        pytest.param("cpu=2 memory=2Gi", ["gpu"], id="the-one-that-frees-a-gpu"),
    ],
)
def test_capacity_takes_only_what_frees_what_is_asked(theirs: str, victims: list[str]) -> None:
    plan = decide(
        [("n", "cpu=4 memory=8Gi gpu=1")],
        [
            held(
                "x",
                "a",
                pod("x", "memory", "memory=4Gi", on="n"),
                pod("x", "cpu", "cpu=1", on="n"),
                pod("x", "gpu", "gpu=1", on="n"),
            ),
            high("cpu=1 gpu=1", queue="b"),
        ],
        queue("a", deserved=theirs),
        queue("b", deserved="cpu=2 memory=4Gi gpu=1"),
        how=CAPACITY,
    )
    assert evicted(plan) == victims


def test_an_elastic_gang_gives_back_down_to_its_minimum() -> None:
    elastic = held("x", "a", *(pod("x", f"x-{n}", on="n") for n in range(10)), least=5, kind="high")
    plan = decide(
        [("n", "cpu=10")],
        [elastic, high(*["cpu=1"] * 5, least=5, queue="b")],
        queue("a"),
        queue("b"),
        how=RECLAIM,
    )
    assert evicted(plan) == [f"x-{n}" for n in range(5, 10)]


def test_a_gang_at_its_minimum_is_left_alone() -> None:
    whole = held("x", "a", pod("x", "xa", on="n"), pod("x", "xb", on="n"), least=2)
    plan = decide(
        [("n", "cpu=2")], [whole, high("cpu=1", queue="b")], queue("a"), queue("b"), how=RECLAIM
    )
    assert evicted(plan) == []


def test_a_queue_that_is_not_reclaimable_gives_nothing_back() -> None:
    plan = decide(
        [("n", "cpu=2")],
        [
            held("x", "a", pod("x", "xa", on="n"), pod("x", "xb", on="n")),
            high("cpu=1", queue="b"),
        ],
        queue("a", reclaimable=False),
        queue("b"),
        how=RECLAIM,
    )
    assert evicted(plan) == []


def test_a_queue_within_what_it_deserves_gives_nothing_back() -> None:
    plan = decide(
        [("n", "cpu=2")],
        [
            held("x", "a", pod("x", "xa", on="n")),
            held("y", "b", pod("y", "ya", on="n")),
            gang("z", 2, [pod("z", "z-0"), pod("z", "z-1")], queue="b", priority_class="high"),
        ],
        queue("a"),
        queue("b"),
        how=RECLAIM,
    )
    assert evicted(plan) == []


def test_a_guarantee_is_never_taken() -> None:
    plan = decide(
        [("n", "cpu=2")],
        [
            held("x", "a", pod("x", "xa", on="n"), pod("x", "xb", on="n")),
            high("cpu=1", "cpu=1", least=2, queue="b"),
        ],
        queue("a", guarantee="cpu=1"),
        queue("b", deserved="cpu=2"),
        how=CAPACITY,
    )
    assert evicted(plan) == []


def test_nobody_goes_where_the_node_would_still_refuse_the_pod() -> None:
    """The port that it needs is another's, who stays."""
    asked = pod("high", "high-0", host_ports=("tcp/80",))
    wanted = gang("high", 1, [asked], queue="b", priority_class="high")
    stays = held("y", "b", pod("y", "ya", on="n", host_ports=("tcp/80",)))
    goes = held("x", "a", pod("x", "xa", on="n"))
    for free, victims in ((False, []), (True, ["xa"])):
        gangs = [goes, wanted] if free else [goes, stays, wanted]
        nodes = [("n", "cpu=1" if free else "cpu=2")]
        due = queue("b", deserved="cpu=2")
        assert evicted(decide(nodes, gangs, queue("a"), due, how=CAPACITY)) == victims


@pytest.mark.parametrize("how", [PREEMPT, RECLAIM], ids=["preempt", "reclaim"])
@pytest.mark.parametrize(("mine", "hard"), [("n1", False), ("n2", False), ("n2", True)])
def test_the_nodes_of_the_shard_make_room_first(how: object, mine: str, hard: bool) -> None:  # noqa: FBT001
    theirs = "q" if how is PREEMPT else "a"
    victims = held("x", theirs, pod("x", "n1", on="n1"), pod("x", "n2", on="n2"))
    cluster = snapshot(
        [node(name, "cpu=1") for name in ("n1", "n2")],
        [victims, high("cpu=1")],
        queues=[queue("q"), queue("a")],
        priorities=PRIORITIES,
    )
    shard = NodeShard(nodes=frozenset({mine}), hard=hard)
    assert evicted(run_session(replace(cluster, shard=shard), how)) == [mine]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("actions", ["allocate preempt backfill", "allocate reclaim backfill"])
def test_a_pod_that_asks_for_nothing_is_bound_where_nobody_has_to_go(actions: str) -> None:
    """It is not promised a place that it could have at once."""
    cluster = snapshot([node("n")], [gang("x", 1, [pod("x", "x-0", "")])])
    plan = run_session(cluster, configure(actions, "gang priority predicates"))
    assert [bind.pod for bind in plan.binds] == ["ns/x-0"]


def test_of_its_own_pods_a_gang_takes_only_who_has_to_go() -> None:
    """The gang lacks a pod more than fits, so it is left to wait; nothing is kept for its part."""
    own = gang("high", 3, [pod("high", f"high-{n}", "cpu=2") for n in range(3)])
    cluster = snapshot([node("n", "cpu=4")], [own])
    plan = run_session(cluster, configure("preempt", "gang priority predicates"))
    assert (plan.evictions, plan.pipelines) == ((), ())


def test_of_equal_nodes_the_one_whose_pod_matters_least_makes_room() -> None:
    plan = decide(
        [("n1", "cpu=1"), ("n2", "cpu=1"), ("n3", "cpu=1")],
        [
            gang("mid", 0, [pod("mid", "mid-0", on="n1")], priority_class="mid"),
            low(pod("low", "low-0", on="n2"), pod("low", "low-1", on="n3")),
            high("cpu=1"),
        ],
        how=PREEMPT,
    )
    assert evicted(plan) == ["low-1"]


NOW = 1_000_000


@pytest.mark.parametrize(
    ("left", "right", "victims"),
    [
        ([("cpu=2", 3, 1)], [("cpu=2", 5, 9)], ["left-0"]),
        ([("cpu=1", 3, 1), ("cpu=1", 3, 1)], [("cpu=1", 3, 9), ("cpu=1", 2, 9)], ["right-*"]),
        ([("cpu=1", 3, 1), ("cpu=1", 0, 1)], [("cpu=2", 3, 9)], ["right-0"]),
        ([("cpu=2", 3, 1)], [("cpu=2", 3, 9)], ["right-0"]),
        ([("cpu=2", 3, 9)], [("cpu=2", 3, 9)], ["left-0"]),
        ([("cpu=2", 3, 1), ("cpu=1", 4, 1)], [("cpu=3", 5, 9)], ["left-0"]),
    ],
    ids=[
        "the least of the highest priorities",
        "then the least sum of them",
        "then the fewest",
        "then the latest start",
        "then the first name",
        "whom the pod can bear stays, best first",
    ],
)
def test_the_node_where_eviction_costs_least(
    left: list[tuple[str, int, int]], right: list[tuple[str, int, int]], victims: list[str]
) -> None:
    """Of each victim: what it holds, its priority, when it started."""
    members = [
        pod("low", f"{side}-{n}", ask, on=side, priority=priority, scheduled_at_ms=NOW + start)
        for side, rows in (("left", left), ("right", right))
        for n, (ask, priority, start) in enumerate(rows)
    ]
    size = {
        side: sum(int(ask.removeprefix("cpu=")) for ask, _, _ in rows)
        for side, rows in (("left", left), ("right", right))
    }
    how = replace(
        configure("preempt", "conformance gang priority predicates"),
        action_arguments={"preempt": {"enableTopologyAwarePreemption": "true"}},
    )
    plan = decide(
        [(side, f"cpu={cores}") for side, cores in size.items()],
        [low(*members), high("cpu=2")],
        how=how,
    )
    assert {name.split("-")[0] for name in evicted(plan)} == {victims[0].split("-")[0]}
    assert victims[0].endswith("*") or evicted(plan) == victims


def test_a_gang_that_would_stay_incomplete_evicts_nobody() -> None:
    victims = low(pod("low", "a", on="n"), pod("low", "b", on="n", **SPARED))
    plan = decide([("n", "cpu=2")], [victims, high("cpu=1", "cpu=1", least=2)], how=PREEMPT)
    assert evicted(plan) == []
