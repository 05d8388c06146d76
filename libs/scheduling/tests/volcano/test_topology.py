"""Gangs in the tree of HyperNodes: limits by tier and name, sub-groups, and what runs already."""

import pytest

from muster_domain.queues import HyperNode
from muster_domain.selectors import Requirement, Selector, SelectorOperator
from muster_domain.volcano import Pod, SubGroupPolicy
from muster_domain.workload import NetworkTopology, NetworkTopologyMode
from muster_scheduling.volcano import Plan, Verdict, run_session

from .builders import binds, configure, gang, node, pod, pods, snapshot

ALLOCATE = configure("allocate", "gang predicates network-topology-aware")
SOFT = NetworkTopology(mode=NetworkTopologyMode.SOFT)
ROLE = "volcano.sh/task-spec"


def hard(tier: int | str) -> NetworkTopology:
    if isinstance(tier, str):
        return NetworkTopology(highest_tier_name=tier)
    return NetworkTopology(highest_tier=tier)


def tree(leaves: dict[str, str], *above: tuple[str, int, str]) -> list[HyperNode]:
    return [
        *(
            HyperNode(name=name, tier=1, tier_name="rack", node_members=tuple(nodes.split()))
            for name, nodes in leaves.items()
        ),
        *(
            HyperNode(
                name=name, tier=tier, tier_name=f"t{tier}", hyper_node_members=tuple(below.split())
            )
            for name, tier, below in above
        ),
    ]


TWO_RACKS = tree({"s0": "n1 n2", "s1": "n3 n4"}, ("s2", 2, "s0 s1"))
FOUR_RACKS = tree(
    {"s3": "a1 a2", "s4": "b1 b2", "s5": "c1 c2", "s6": "d1 d2"},
    ("s1", 2, "s3 s4"),
    ("s2", 2, "s5 s6"),
    ("s0", 3, "s1 s2"),
)


def on(hyper_nodes: list[HyperNode], least: int, members: list[Pod], **fields: object) -> Plan:
    names = sorted({name for found in hyper_nodes for name in found.node_members})
    return run_session(
        snapshot(
            [node(name, "cpu=2") for name in names],
            [gang("x", least, members, **fields)],
            hyper_nodes=hyper_nodes,
        ),
        ALLOCATE,
    )


def running(*nodes: str) -> list[Pod]:
    return [pod("x", f"r-{number}", "cpu=2", on=name) for number, name in enumerate(nodes)]


def waiting(count: int) -> list[Pod]:
    return pods("x", count, "cpu=2")


@pytest.mark.parametrize(
    ("limit", "least", "count", "bound"),
    [
        (SOFT, 3, 3, 3),
        (SOFT, 1, 2, 2),
        (hard(1), 3, 3, 0),
        (hard(2), 3, 3, 3),
        (hard(1), 2, 2, 2),
        (hard(1), 1, 2, 2),
        (hard("rack"), 3, 3, 0),
        (hard("t2"), 3, 3, 3),
    ],
)
def test_a_gang_stays_within_its_tier(
    limit: NetworkTopology, least: int, count: int, bound: int
) -> None:
    plan = on(TWO_RACKS, least, waiting(count), network_topology=limit)
    assert len(plan.binds) == bound
    if limit == hard(1) and bound:
        assert set(binds(plan).values()) in ({"n1", "n2"}, {"n3", "n4"})


@pytest.mark.parametrize(
    ("hyper_nodes", "held", "limit", "usable"),
    [
        pytest.param(TWO_RACKS, ("n1", "n2"), hard(1), set(), id="leaf-full"),
        pytest.param(TWO_RACKS, ("n1", "n2"), hard(2), {"n3", "n4"}, id="next-leaf"),
        pytest.param(TWO_RACKS, ("n1", "n2"), SOFT, {"n3", "n4"}, id="soft"),
        pytest.param(FOUR_RACKS, ("a1", "a2"), hard(1), set(), id="three-tiers"),
        pytest.param(FOUR_RACKS, ("a1", "a2"), hard(2), {"b1", "b2"}, id="its-own-block"),
        pytest.param(FOUR_RACKS, ("a1", "a2"), SOFT, {"b1", "b2"}, id="near-first"),
        pytest.param(FOUR_RACKS, ("a1", "a2"), hard("rack"), set(), id="by-name"),
    ],
)
def test_a_pod_that_comes_later_keeps_the_gang_together(
    hyper_nodes: list[HyperNode], held: tuple[str, ...], limit: NetworkTopology, usable: set[str]
) -> None:
    plan = on(hyper_nodes, 2, [*running(*held), *waiting(1)], network_topology=limit)
    found = set(binds(plan).values())
    assert found <= usable
    assert bool(found) == bool(usable)


@pytest.mark.parametrize(
    ("limit", "members", "told"),
    [
        (
            hard(1),
            waiting(3),
            "none of 2 HyperNodes up to tier 1 has room for 3 pods, s0 has room for 2",
        ),
        (SOFT, waiting(5), "all nodes together have room for 4 of 5 pods"),
        (
            hard(1),
            [*running("n1"), *waiting(2)],
            "none of 1 HyperNodes up to tier 1 has room for 2 pods, s0 has room for 1",
        ),
        (
            hard(1),
            [*running("n1", "n3"), *waiting(1)],
            "its pods in s2 span more than tier 1",
        ),
    ],
    ids=["in none of the racks", "nowhere", "not where the others are", "nowhere any more"],
)
def test_what_a_gang_lacks_is_told_with_how_many_would_sit(
    limit: NetworkTopology, members: list[Pod], told: str
) -> None:
    plan = on(TWO_RACKS, len(members), members, network_topology=limit)
    assert plan.binds == ()
    assert plan.outcomes["ns/x"].message.endswith(told)


def test_an_unknown_tier_bounds_nothing_and_is_told() -> None:
    plan = on(TWO_RACKS, 2, [*running("n1", "n2"), *waiting(1)], network_topology=hard("row"))
    assert len(plan.binds) == 1
    assert plan.warnings == (
        "ns/x: no HyperNode has the tier name 'row', so its topology is not bounded",
    )


def test_the_fuller_rack_is_filled_first() -> None:
    other = gang("old", 1, [pod("old", "old-0", "cpu=2", on="n1")])
    names = ("n1", "n2", "n3", "n4")
    plan = run_session(
        snapshot(
            [node(name, "cpu=4") for name in names],
            [other, gang("x", 2, waiting(2), network_topology=hard(1))],
            hyper_nodes=TWO_RACKS,
        ),
        ALLOCATE,
    )
    assert set(binds(plan).values()) <= {"n1", "n2"}


def test_a_node_in_two_racks_is_no_tree() -> None:
    twice = [*TWO_RACKS, HyperNode(name="s9", tier=2, hyper_node_members=("s0",))]
    plan = on(twice, 1, waiting(1), network_topology=hard(1))
    assert plan.outcomes["ns/x"].verdict is Verdict.INVALID_TOPOLOGY


def by_role(size: int, least: int = 0, *, name: str = "g", tier: int = 1) -> SubGroupPolicy:
    return SubGroupPolicy(
        name=name,
        match_label_keys=(ROLE,),
        size=size,
        min_groups=least,
        network_topology=hard(tier),
    )


def of_roles(*roles: str) -> list[Pod]:
    return [
        pod("x", f"x-{number}", "cpu=2", labels={ROLE: role}) for number, role in enumerate(roles)
    ]


@pytest.mark.parametrize(
    ("of_job", "of_group", "bound"),
    [
        (None, None, 4),
        (SOFT, None, 4),
        (hard(2), SOFT, 4),
        (hard(1), SOFT, 0),
        (SOFT, SOFT, 4),
        (SOFT, hard(1), 0),
        (SOFT, hard(2), 4),
        (None, hard(1), 0),
        (hard(1), hard(2), 0),
        (hard(2), hard("rack"), 0),
    ],
)
def test_a_group_is_bounded_by_its_own_wish_and_its_jobs(
    of_job: NetworkTopology | None, of_group: NetworkTopology | None, bound: int
) -> None:
    """Four pods that fill two racks of one hall."""
    policy = SubGroupPolicy(name="g", match_label_keys=(ROLE,), size=4, network_topology=of_group)
    plan = on(
        TWO_RACKS,
        4,
        of_roles("w", "w", "w", "w"),
        network_topology=of_job,
        sub_groups=(policy,),
    )
    assert len(plan.binds) == bound


APP = Selector(
    requirements=(Requirement(key="app", operator=SelectorOperator.IN, values=("train", "serve")),)
)


@pytest.mark.parametrize(
    ("selector", "keys", "labels", "together"),
    [
        (APP, ("part",), {"app": "train", "part": "1"}, True),
        (None, ("part",), {"part": "1"}, True),
        (APP, (), {"app": "serve"}, True),
        (Selector(), ("part",), {"part": "1"}, True),
        (APP, ("part",), {"app": "other", "part": "1"}, False),
        (None, ("part",), {"app": "train"}, False),
        (None, ("part", "zone"), {"part": "1", "zone": ""}, False),
        (None, ("part",), {}, False),
    ],
    ids=[
        "selected, with its value",
        "with its value",
        "selected, without keys",
        "everybody is selected",
        "not selected",
        "without the label",
        "one of the labels is empty",
        "without labels",
    ],
)
def test_which_pods_make_up_a_group(
    selector: Selector | None, keys: tuple[str, ...], labels: dict[str, str], *, together: bool
) -> None:
    """Three pods of one group do not fit into any rack; on their own they go anywhere."""
    members = [pod("x", f"x-{number}", "cpu=2", labels=labels) for number in range(3)]
    policy = SubGroupPolicy(
        name="g", selector=selector, match_label_keys=keys, size=3, network_topology=hard(1)
    )
    plan = on(TWO_RACKS, 3, members, sub_groups=(policy,))
    assert len(plan.binds) == (0 if together else 3)


def test_a_pair_and_a_single_pod_find_the_one_way_to_sit() -> None:
    uneven = tree({"s0": "n1 n2", "s1": "n3"}, ("s2", 2, "s0 s1"))
    plan = on(
        uneven,
        3,
        of_roles("worker", "worker", "master"),
        network_topology=SOFT,
        sub_groups=(by_role(1),),
    )
    seats = binds(plan)
    assert {seats["x-0"], seats["x-1"]} == {"n1", "n2"}
    assert seats["x-2"] == "n3"


def test_a_group_that_no_rack_holds_whole_keeps_its_job_waiting() -> None:
    plan = on(
        TWO_RACKS,
        3,
        of_roles("master", "worker", "worker", "worker"),
        network_topology=SOFT,
        sub_groups=(by_role(1),),
    )
    assert plan.binds == ()


def test_a_groups_new_pod_joins_its_rack() -> None:
    members = [
        pod("x", "x-0", "cpu=2", on="n1", labels={ROLE: "a"}),
        pod("x", "x-1", "cpu=2", on="n3", labels={ROLE: "b"}),
        pod("x", "x-2", "cpu=2", labels={ROLE: "b"}),
    ]
    plan = on(TWO_RACKS, 2, members, network_topology=SOFT, sub_groups=(by_role(1),))
    assert binds(plan) == {"x-2": "n4"}


def test_the_fewest_groups_that_are_needed_are_seated_before_others() -> None:
    singles = [pod("x", f"x-{n}", "cpu=2", labels={ROLE: f"single-{n}"}) for n in range(4)]
    pairs = [pod("x", f"y-{n}", "cpu=2", labels={"pair": str(n // 2)}) for n in range(4)]
    of_pairs = SubGroupPolicy(
        name="pairs", match_label_keys=("pair",), size=2, min_groups=1, network_topology=hard(1)
    )
    plan = on(
        TWO_RACKS,
        3,
        [*singles, *pairs],
        network_topology=hard(2),
        sub_groups=(by_role(1, 2), of_pairs),
    )
    assert sorted(binds(plan)) == ["x-0", "x-1", "y-0", "y-1"]


def test_too_few_whole_groups_start_nothing() -> None:
    pairs = [pod("x", f"y-{n}", "cpu=2", labels={"pair": str(n // 2)}) for n in range(4)]
    of_pairs = SubGroupPolicy(
        name="pairs", match_label_keys=("pair",), size=2, min_groups=2, network_topology=hard(1)
    )
    members = [*of_roles("single"), *pairs]
    plan = on(TWO_RACKS, 3, members, network_topology=hard(2), sub_groups=(by_role(1, 1), of_pairs))
    assert plan.binds == ()


def test_a_hundred_groups_of_ten_on_a_thousand_nodes() -> None:
    racks = tree({f"s{r}": " ".join(f"n{r:02}{n}" for n in range(10)) for r in range(100)})
    plan = on(
        [*racks, HyperNode(name="top", tier=2, hyper_node_members=tuple(h.name for h in racks))],
        1000,
        of_roles(*(f"g{number // 10:02}" for number in range(1000))),
        network_topology=hard(2),
        sub_groups=(by_role(10, 100),),
    )
    assert len(plan.binds) == 1000
