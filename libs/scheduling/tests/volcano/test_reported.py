"""What Volcano's users reported, with what should have happened."""

from dataclasses import replace

from muster_domain.nodes import NodeCondition
from muster_domain.queues import DequeueStrategy, HyperNode
from muster_domain.volcano import PodGroupPhase
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration, Switch
from muster_domain.workload import NetworkTopology, NetworkTopologyMode
from muster_scheduling.volcano import Verdict, run_session

from .builders import amounts, binds, configure, evicted, gang, node, pod, pods, queue, snapshot

DEFAULT = configure("enqueue allocate backfill", "priority gang conformance", "drf predicates")
PRIORITIES = {"high": 100, "low": 1}


def test_3373_of_two_gangs_that_need_everything_one_gets_it() -> None:
    plan = run_session(
        snapshot(
            [node(f"n{number:02}", "cpu=1") for number in range(20)],
            [gang("a", 20, pods("a", 20)), gang("b", 20, pods("b", 20))],
        ),
        DEFAULT,
    )
    assert {bind.job for bind in plan.binds} == {"ns/a"}
    assert len(plan.binds) == 20


def test_268_a_gang_that_cannot_fit_holds_nothing() -> None:
    plan = run_session(
        snapshot(
            [node(f"n{number}", "cpu=20") for number in range(5)],
            [gang("a", 4, pods("a", 4, "cpu=30")), gang("b", 4, pods("b", 4, "cpu=20"))],
        ),
        DEFAULT,
    )
    assert {bind.job for bind in plan.binds} == {"ns/b"}


def test_1297_pods_of_unequal_size_find_the_one_way_to_sit() -> None:
    plan = run_session(
        snapshot(
            [node("a", "cpu=53"), node("b", "cpu=31")],
            [gang("x", 2, [pod("x", "x-0", "cpu=30"), pod("x", "x-1", "cpu=50")])],
        ),
        DEFAULT,
    )
    assert binds(plan) == {"x-0": "b", "x-1": "a"}


def test_1086_an_impossible_job_does_not_stop_those_behind_it() -> None:
    gangs = [
        gang(name, 1, [pod(name, f"{name}-0", f"cpu={cpu}")])
        for name, cpu in (("j1", 1), ("j2", 99), ("j3", 1))
    ]
    plan = run_session(snapshot([node("a", "cpu=2")], gangs), DEFAULT)
    assert sorted(binds(plan)) == ["j1-0", "j3-0"]


def test_2364_a_guarantee_above_the_cluster_is_no_crash() -> None:
    queues = [queue("q", guarantee="cpu=120"), queue("other")]
    plan = run_session(
        snapshot([node("a", "cpu=100")], [gang("x", 1, pods("x", 1))], queues=queues),
        configure("enqueue allocate", "gang proportion"),
    )
    assert sorted(binds(plan)) == ["x-0"]


def test_4118_a_parents_ceiling_holds_for_both_children() -> None:
    queues = [
        queue("root"),
        queue("parent", parent="root", capability="cpu=2"),
        queue("a", parent="parent"),
        queue("b", parent="parent"),
    ]
    gangs = [
        gang(
            name,
            1,
            pods(name, 2),
            queue=name,
            phase=PodGroupPhase.PENDING,
            min_resources=amounts("cpu=2"),
        )
        for name in "ab"
    ]
    plan = run_session(
        snapshot([node("n", "cpu=8")], gangs, queues=queues), hierarchical("enqueue")
    )
    assert [change.job for change in plan.phases] == ["ns/a"]
    assert plan.outcomes["ns/b"].verdict is Verdict.NOT_ENQUEUED


def hierarchical(actions: str) -> SchedulerConfiguration:
    capacity = PluginOption(name="capacity", enabled=frozenset(Switch))
    return SchedulerConfiguration(
        actions=tuple(actions.split()), tiers=((PluginOption(name="gang"), capacity),)
    )


def test_4349_one_bad_queue_leaves_the_others_alone() -> None:
    queues = [queue("root"), queue("good", parent="root"), queue("bad", parent="nowhere")]
    gangs = [gang(name, 1, pods(name, 1), queue=name) for name in ("good", "bad")]
    plan = run_session(
        snapshot([node("n")], gangs, queues=queues), hierarchical("enqueue allocate")
    )
    assert sorted(binds(plan)) == ["good-0"]
    assert plan.warnings == ("queue bad is shut: no queue is named nowhere",)


def test_5048_no_reclaim_beyond_the_ceiling() -> None:
    queues = [
        queue("mine", deserved="cpu=8", capability="cpu=8"),
        queue("theirs", deserved="cpu=1"),
    ]
    gangs = [
        gang("old", 1, [pod("old", "old-0", "cpu=7", on="a")], queue="mine"),
        gang("taken", 1, [pod("taken", "taken-0", "cpu=2", on="b")], queue="theirs"),
        gang("new", 1, pods("new", 1, "cpu=2"), queue="mine"),
    ]
    plan = run_session(
        snapshot([node("a", "cpu=8"), node("b", "cpu=2")], gangs, queues=queues),
        configure("reclaim", "gang capacity predicates"),
    )
    assert plan.evictions == ()


def test_3869_who_is_not_starving_takes_nothing_back() -> None:
    queues = [queue("a"), queue("b")]
    gangs = [
        gang(
            name,
            1,
            [*(pod(name, f"{name}-{n}", on="n") for n in range(2)), pod(name, f"{name}-9")],
            queue=name,
        )
        for name in "ab"
    ]
    plan = run_session(
        snapshot([node("n", "cpu=4")], gangs, queues=queues),
        configure("reclaim", "gang proportion predicates"),
    )
    assert plan.evictions == ()


def test_2052_a_first_come_first_served_queue_lets_nobody_pass() -> None:
    queues = [queue("q", capability="cpu=4", dequeue_strategy=DequeueStrategy.FIFO)]
    gangs = [
        gang(
            name,
            1,
            pods(name, 1, f"cpu={cpu}"),
            phase=PodGroupPhase.PENDING,
            min_resources=amounts(f"cpu={cpu}"),
            created_at_ms=age,
        )
        for age, (name, cpu) in enumerate((("big", 8), ("small", 1)))
    ]
    cluster = snapshot([node("n", "cpu=4")], gangs, queues=queues)
    assert run_session(cluster, configure("enqueue", "gang proportion")).phases == ()


def test_4343_pods_stay_in_the_leaves_that_their_gang_uses() -> None:
    leaves = [
        HyperNode(name="s0", tier=1, node_members=("n1", "n2")),
        HyperNode(name="s1", tier=1, node_members=("n3", "n4")),
        HyperNode(name="s2", tier=1, node_members=("n5",)),
        HyperNode(name="s3", tier=2, hyper_node_members=("s0", "s1", "s2")),
    ]
    near = NetworkTopology(mode=NetworkTopologyMode.SOFT)
    plan = run_session(
        snapshot(
            [node(f"n{number}", "cpu=1") for number in range(1, 6)],
            [gang("w", 4, pods("w", 4), network_topology=near)],
            hyper_nodes=leaves,
        ),
        configure("allocate", "gang predicates network-topology-aware"),
    )
    assert set(binds(plan).values()) == {"n1", "n2", "n3", "n4"}


def test_5189_two_pods_that_need_one_leaf_do_not_share_two() -> None:
    leaves = [
        HyperNode(name=f"s{n}", tier=1, tier_name="host", node_members=(f"n{n}",)) for n in range(3)
    ]
    one = NetworkTopology(highest_tier_name="host")
    plan = run_session(
        snapshot(
            [node(f"n{number}", "cpu=2") for number in range(3)],
            [gang("w", 2, pods("w", 2, "cpu=2"), network_topology=one)],
            hyper_nodes=leaves,
        ),
        configure("allocate", "gang predicates network-topology-aware"),
    )
    assert plan.binds == ()


def test_4370_a_cordoned_node_is_no_capacity() -> None:
    gangs = [
        gang("x", 1, pods("x", 1), phase=PodGroupPhase.PENDING, min_resources=amounts("cpu=6"))
    ]
    cluster = snapshot([node("a", "cpu=4"), node("b", "cpu=4")], gangs)
    configuration = configure("enqueue", "gang overcommit")
    assert len(run_session(cluster, configuration).phases) == 1
    cordoned = replace(cluster, conditions={"b": NodeCondition.CORDONED})
    assert run_session(cordoned, configuration).phases == ()


def test_3979_equal_priorities_take_nothing_from_each_other() -> None:
    plan = run_session(
        snapshot(
            [node("n", "cpu=2")],
            [
                gang("old", 1, [pod("old", f"old-{n}", on="n") for n in range(2)]),
                gang("new", 1, pods("new", 1)),
            ],
        ),
        configure("preempt", "priority gang predicates"),
    )
    assert evicted(plan) == []
