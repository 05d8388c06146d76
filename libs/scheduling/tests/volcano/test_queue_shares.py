"""What queues may hold, deserve and give back: proportion, capacity and overcommit by tables.

Deserved is seen from outside: in how much a queue gets, and in who has to give.
"""

from collections import Counter
from collections.abc import Sequence

import pytest

from muster_domain.queues import QueueState, VolcanoQueue
from muster_domain.volcano import Pod, PodGroup, PodGroupPhase
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration, Switch
from muster_scheduling.volcano import Plan, Verdict, run_session

from .builders import amounts, binds, configure, evicted, gang, node, pod, pods, queue, snapshot

Gang = tuple[PodGroup, tuple[Pod, ...]]
SPARED = {"labels": {"volcano.sh/preemptable": "false"}}
ALLOCATE = configure("allocate", "gang proportion predicates")


def capacity(actions: str, *, hierarchy: bool = False, **arguments: str) -> SchedulerConfiguration:
    switches = frozenset(Switch) if hierarchy else frozenset(Switch) - {Switch.HIERARCHY}
    plugin = PluginOption(name="capacity", enabled=switches, arguments=arguments)
    others = (PluginOption(name="gang"), PluginOption(name="predicates"))
    return SchedulerConfiguration(actions=tuple(actions.split()), tiers=((*others, plugin),))


def many(name: str, count: int, ask: str = "cpu=1", **fields: object) -> Gang:
    return gang(name, 1, pods(name, count, ask), queue=name, **fields)


def given(plan: Plan) -> dict[str, int]:
    return dict(Counter(bind.job.removeprefix("ns/") for bind in plan.binds))


@pytest.mark.parametrize(
    ("queues", "asks", "expected"),
    [
        ([("a", 1, {}), ("b", 2, {})], {"a": 12, "b": 12}, {"a": 4, "b": 8}),
        ([("a", 1, {}), ("b", 2, {})], {"a": 12, "b": 3}, {"a": 9, "b": 3}),
        (
            [("a", 1, {}), ("b", 2, {}), ("c", 1, {})],
            {"a": 12, "b": 12, "c": 0},
            {"a": 4, "b": 8},
        ),
        ([("a", 1, {"capability": "cpu=3"}), ("b", 1, {})], {"a": 12, "b": 12}, {"a": 3, "b": 9}),
        ([("a", 1, {"guarantee": "cpu=9"}), ("b", 1, {})], {"a": 12, "b": 12}, {"a": 9, "b": 3}),
        ([("a", 1, {}), ("idle", 9, {})], {"a": 12}, {"a": 12}),
        ([("a", 1, {}), ("idle", 9, {"guarantee": "cpu=5"})], {"a": 12}, {"a": 7}),
        ([("a", 1, {"deserved": "cpu=11"}), ("b", 1, {})], {"a": 12, "b": 12}, {"a": 6, "b": 6}),
    ],
    ids=[
        "by weight",
        "what one does not ask is poured to the other",
        "who asks nothing gets nothing",
        "a ceiling",
        "a guarantee",
        "a queue without jobs takes no part",
        "what is guaranteed to it is nobody's all the same",
        "what is written as deserved means nothing here",
    ],
)
def test_proportion_gives_by_weight(
    queues: list[tuple[str, int, dict[str, str]]],
    asks: dict[str, int],
    expected: dict[str, int],
) -> None:
    declared = [queue(name, weight=weight, **fields) for name, weight, fields in queues]
    cluster = snapshot(
        [node("n", "cpu=12")], [many(name, count) for name, count in asks.items()], queues=declared
    )
    assert given(run_session(cluster, ALLOCATE)) == expected


def test_what_is_left_over_is_poured_again_by_weight() -> None:
    """4, 1 of 4, and 8 at first; the three that are left go 1 to 2."""
    queues = [queue("a"), queue("b"), queue("c", weight=2)]
    gangs = [many("a", 16), many("b", 1), many("c", 16)]
    cluster = snapshot([node("n", "cpu=16")], gangs, queues=queues)
    assert given(run_session(cluster, ALLOCATE)) == {"a": 5, "b": 1, "c": 10}


def test_a_guarantee_is_a_floor_however_little_a_queue_weighs() -> None:
    """By weight alone it would deserve less than one core."""
    queues = [queue("a", guarantee="cpu=4"), queue("b", weight=9), queue("c", weight=9)]
    gangs = [many(name, 12) for name in "abc"]
    found = given(run_session(snapshot([node("n", "cpu=12")], gangs, queues=queues), ALLOCATE))
    assert found == {"a": 3, "b": 5, "c": 4}


def test_a_queue_that_has_all_it_deserves_gets_nothing_though_nodes_are_free() -> None:
    """Of what it asks; of what it does not ask it may have too much."""
    cluster = snapshot(
        [node("n", "cpu=10 memory=10Gi")],
        [
            many("a", 9, "cpu=1"),
            gang("b", 1, [pod("b", f"b-{n}", "cpu=1", on="n") for n in range(2)], queue="b"),
            gang("more", 1, pods("more", 9, "cpu=1"), queue="b"),
        ],
        queues=[queue("a"), queue("b")],
    )
    assert given(run_session(cluster, ALLOCATE)) == {"a": 5, "more": 3}


@pytest.mark.parametrize(
    ("held", "expected"),
    [(["cpu=1"] * 6, 3), (["cpu=2"] * 3, 2), (["cpu=4", "cpu=1"], 2), (["cpu=3"], 0)],
    ids=["to the unit", "below by less than one pod", "the large after the small", "within"],
)
def test_proportion_takes_back_what_is_above_deserved(held: list[str], expected: int) -> None:
    """Two equal queues on six: each deserves three, as long as both ask for it."""
    victims = [pod("a", f"held-{n}", ask, on="n") for n, ask in enumerate(held)]
    cluster = snapshot(
        [node("n", "cpu=6")],
        [
            gang("a", 0, [*victims, *pods("a", 6)], queue="a"),
            gang("b", 3, pods("b", 3), queue="b"),
        ],
        queues=[queue("a"), queue("b")],
    )
    plan = run_session(cluster, configure("reclaim", "gang proportion predicates"))
    assert len(evicted(plan)) == expected


def test_a_queue_that_has_what_it_deserves_keeps_it_though_another_has_too_much() -> None:
    """Three equal queues on nine; of the one that has six, nothing may go."""
    cluster = snapshot(
        [node("n", "cpu=9")],
        [
            gang(
                "a", 0, [*(pod("a", f"a-{n}", on="n") for n in range(3)), *pods("a", 6)], queue="a"
            ),
            holding("b", *["cpu=1"] * 6, spared=6),
            wanting("c", "cpu=1", "cpu=1"),
        ],
        queues=[queue("a"), queue("b"), queue("c")],
    )
    plan = run_session(cluster, configure("reclaim", "gang proportion predicates"))
    assert evicted(plan) == []


def holding(name: str, *asks: str, on: str = "n", spared: int = 0, **fields: object) -> Gang:
    """Running pods of the queue of that name; the first `spared` may not go."""
    members = [
        pod(name, f"{name}-{n}", ask, on=on, **(SPARED if n < spared else {}))
        for n, ask in enumerate(asks)
    ]
    return gang(name, 0, members, queue=fields.pop("queue", name), **fields)  # pyright: ignore[reportArgumentType]


def wanting(name: str, *asks: str) -> Gang:
    members = [pod("new", f"new-{n}", ask) for n, ask in enumerate(asks)]
    return gang("new", len(asks), members, queue=name)


CARD = "example.com/card"


@pytest.mark.parametrize(
    ("offers", "queues", "gangs", "victims"),
    [
        (
            "cpu=4 memory=8Gi",
            [queue("a", deserved="cpu=2"), queue("b", deserved="cpu=2")],
            [holding("a", "cpu=2", "cpu=2", spared=1), wanting("b", "cpu=2")],
            ["a-1"],
        ),
        (
            f"cpu=8 {CARD}=4",
            [queue("a", deserved=f"cpu=2 {CARD}=2"), queue("b", deserved=f"cpu=2 {CARD}=2")],
            [
                holding("a", f"{CARD}=2", f"{CARD}=2", "cpu=4", spared=1),
                wanting("b", f"{CARD}=2"),
            ],
            ["a-1"],
        ),
        (
            "cpu=2 memory=4Gi",
            [queue("a", deserved="cpu=2 memory=2Gi"), queue("b")],
            [
                holding("a", "cpu=1 memory=3Gi"),
                holding("b", "cpu=1 memory=1Gi"),
                wanting("a", "cpu=1 memory=1Gi"),
            ],
            ["b-0"],
        ),
        (
            "cpu=2 memory=2Gi",
            [queue("a", deserved="cpu=1 memory=2Gi"), queue("b")],
            [
                holding("a", "cpu=1 memory=1Gi"),
                holding("b", "cpu=1 memory=1Gi"),
                wanting("a", "cpu=1 memory=2Gi"),
            ],
            [],
        ),
        (
            f"cpu=4 {CARD}=1",
            [queue("a", deserved=f"cpu=4 {CARD}=1"), queue("b", deserved="cpu=1")],
            [
                holding("a", "cpu=1"),
                holding("b", "memory=1Gi", "cpu=1", f"{CARD}=1"),
                wanting("a", f"{CARD}=1"),
            ],
            ["b-2"],
        ),
        (
            f"cpu=4 {CARD}=1",
            [queue("a", deserved="cpu=2"), queue("b", deserved=f"{CARD}=1")],
            [holding("b", f"cpu=4 {CARD}=1"), wanting("a", "cpu=1")],
            [],
        ),
        (
            "cpu=8",
            [queue("a", deserved="cpu=8", capability="cpu=8"), queue("b")],
            [holding("a", "cpu=6"), holding("b", "cpu=2"), wanting("a", "cpu=3")],
            [],
        ),
        (
            "cpu=6",
            [queue("a", deserved="cpu=2"), queue("b", deserved="cpu=1", guarantee="cpu=4")],
            [holding("b", *["cpu=1"] * 6), wanting("a", "cpu=2")],
            ["b-4", "b-5"],
        ),
        (
            "cpu=6",
            [queue("a", deserved="cpu=3"), queue("b", deserved="cpu=1", guarantee="cpu=4")],
            [holding("b", *["cpu=1"] * 6), wanting("a", "cpu=1", "cpu=1", "cpu=1")],
            [],
        ),
        (
            "cpu=4 memory=4Gi",
            [queue("a", deserved="cpu=2"), queue("b", deserved="cpu=1", guarantee="memory=2Gi")],
            [holding("b", "cpu=2 memory=1Gi", "cpu=2 memory=1Gi"), wanting("a", "cpu=1")],
            [],
        ),
        (
            "cpu=4",
            [queue("a", deserved="cpu=4", state=QueueState.CLOSED), queue("b")],
            [holding("b", "cpu=4"), wanting("a", "cpu=1")],
            [],
        ),
        (
            "cpu=4",
            [queue("a", deserved="cpu=4"), queue("b", reclaimable=False)],
            [holding("b", "cpu=4"), wanting("a", "cpu=1")],
            [],
        ),
    ],
    ids=[
        "what is above deserved comes back",
        "only who holds what is asked",
        "one dimension below deserved is enough",
        "no asked dimension below deserved",
        "who holds none of it is of no use",
        "a queue within all that it deserves of anything",
        "never beyond the ceiling of the one that asks",
        "down to the guarantee",
        "not below the guarantee",
        "not below what is guaranteed of something else",
        "a closed queue asks for nothing back",
        "a queue that is not reclaimable",
    ],
)
def test_capacity_takes_back_dimension_by_dimension(
    offers: str, queues: list[VolcanoQueue], gangs: Sequence[Gang], victims: list[str]
) -> None:
    plan = run_session(snapshot([node("n", offers)], gangs, queues=queues), capacity("reclaim"))
    assert evicted(plan) == victims


@pytest.mark.parametrize(
    ("queues", "gangs", "bound"),
    [
        ([queue("a", capability="cpu=3")], [holding("a", "cpu=2"), wanting("a", "cpu=2")], False),
        ([queue("a", capability="cpu=4")], [holding("a", "cpu=2"), wanting("a", "cpu=2")], True),
        ([queue("a", capability="memory=1Gi")], [wanting("a", "cpu=8")], True),
        ([queue("a"), queue("b", guarantee="cpu=2")], [wanting("a", "cpu=7")], False),
        ([queue("a"), queue("b", guarantee="cpu=2")], [wanting("a", "cpu=6")], True),
        ([queue("a", deserved="cpu=1")], [wanting("a", "cpu=8")], True),
        ([queue("a", state=QueueState.CLOSING)], [wanting("a", "cpu=1")], False),
    ],
    ids=[
        "above the ceiling",
        "at the ceiling",
        "what the ceiling does not name",
        "what another is guaranteed",
        "beside what another is guaranteed",
        "more than it deserves",
        "a queue that closes",
    ],
)
def test_capacity_lets_a_queue_hold(
    queues: list[VolcanoQueue],
    gangs: Sequence[Gang],
    bound: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    plan = run_session(snapshot([node("n", "cpu=8")], gangs, queues=queues), capacity("allocate"))
    assert ("new-0" in binds(plan)) is bound


def test_the_more_important_queue_is_served_first_then_the_one_with_the_smaller_share() -> None:
    queues = [queue("a", priority=1, deserved="cpu=4"), queue("b", priority=9, deserved="cpu=4")]
    gangs = [many("a", 1, "cpu=3"), many("b", 1, "cpu=3")]
    cluster = snapshot([node("n", "cpu=4")], gangs, queues=queues)
    assert given(run_session(cluster, capacity("allocate"))) == {"b": 1}
    queues = [queue("a", deserved="cpu=3"), queue("b", deserved="cpu=6"), queue("c")]
    gangs = [*(many(name, 4) for name in "abc"), holding("old", "cpu=2", queue="a")]
    cluster = snapshot([node("n", "cpu=6")], gangs, queues=queues)
    assert given(run_session(cluster, capacity("allocate"))) == {"b": 4}


TREE = [
    queue("root"),
    queue("lab", parent="root", capability="cpu=6 memory=8Gi", deserved="cpu=4"),
    queue("x", parent="lab", deserved="cpu=2"),
    queue("y", parent="lab", deserved="cpu=2"),
    queue("far", parent="root", deserved="cpu=4"),
]


@pytest.mark.parametrize(
    ("gangs", "bound"),
    [
        ([wanting("x", "cpu=6")], ["new-0"]),
        ([wanting("x", "cpu=7")], []),
        ([holding("y", "cpu=4"), wanting("x", "cpu=2")], ["new-0"]),
        ([holding("y", "cpu=4"), wanting("x", "cpu=3")], []),
        ([wanting("x", "cpu=1 memory=9Gi")], []),
        ([wanting("far", "cpu=8 memory=9Gi")], ["new-0"]),
        ([wanting("lab", "cpu=1")], []),
    ],
    ids=[
        "a child may hold all of its parent",
        "and no more",
        "beside its brother",
        "not with its brother",
        "what it does not name its parent bounds",
        "another branch is not concerned",
        "a queue with queues under it holds no jobs",
    ],
)
def test_every_queue_above_has_a_say(gangs: Sequence[Gang], bound: list[str]) -> None:
    cluster = snapshot([node("n", "cpu=8 memory=16Gi")], gangs, queues=TREE)
    assert list(binds(run_session(cluster, capacity("allocate", hierarchy=True)))) == bound


def test_a_brother_gives_before_a_cousin() -> None:
    gangs = [
        holding("y", "cpu=2", "cpu=1"),
        holding("far", "cpu=4", "cpu=1"),
        wanting("x", "cpu=1"),
    ]
    cluster = snapshot([node("n", "cpu=8")], gangs, queues=TREE)
    assert evicted(run_session(cluster, capacity("reclaim", hierarchy=True))) == ["y-1"]


@pytest.mark.parametrize(
    ("steps", "victims"), [("0", []), ("1", ["far-0"])], ids=["for itself", "its parent speaks"]
)
def test_how_far_above_others_speak_for_a_queue(steps: str, victims: list[str]) -> None:
    """The queue has what it deserves, the one above it does not."""
    gangs = [holding("x", "cpu=2"), holding("far", "cpu=6"), wanting("x", "cpu=1")]
    cluster = snapshot([node("n", "cpu=8")], gangs, queues=TREE)
    rule = capacity("reclaim", hierarchy=True, ancestorReclaimLevel=steps)
    assert evicted(run_session(cluster, rule)) == victims


@pytest.mark.parametrize(
    ("steps", "victims"), [("0", ["y-0"]), ("1", [])], ids=["its own", "its parent's"]
)
def test_how_far_above_others_shield_a_queue(steps: str, victims: list[str]) -> None:
    """The victim's queue has more than it deserves, the one above it has not."""
    queues = [
        *TREE[:-1],
        queue("far", parent="root"),
        queue("due", parent="root", deserved="cpu=4"),
    ]
    gangs = [holding("y", "cpu=4"), holding("far", "cpu=4", spared=1), wanting("due", "cpu=2")]
    cluster = snapshot([node("n", "cpu=8")], gangs, queues=queues)
    rule = capacity("reclaim", hierarchy=True, ancestorReclaimLevel=steps)
    assert evicted(run_session(cluster, rule)) == victims


def applying(name: str, ask: str, **fields: object) -> Gang:
    return gang(
        name,
        1,
        pods(name, 1, ask),
        phase=PodGroupPhase.PENDING,
        min_resources=amounts(ask),
        **fields,
    )


def let_in(plan: Plan) -> list[str]:
    return [
        change.job.removeprefix("ns/")
        for change in plan.phases
        if change.after is PodGroupPhase.INQUEUE
    ]


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        (["cpu=2"], ["w0"]),
        (["cpu=2.1"], []),
        (["cpu=1", "cpu=1", "cpu=1"], ["w0", "w1"]),
        (["cpu=1 memory=99Gi", "cpu=2"], ["w1"]),
        (["memory=1Gi"], ["w0"]),
    ],
    ids=[
        "a fifth more than there is",
        "and no more",
        "those let in before count",
        "who is refused does not count",
        "of what is not asked nothing is lacking",
    ],
)
def test_overcommit_lets_in_a_fifth_more_than_there_is(
    asks: list[str], expected: list[str]
) -> None:
    """Ten cores, eight of them used and two promised to a gang that was let in before."""
    gangs = [
        holding("used", "cpu=8", queue="q"),
        gang("promised", 1, pods("promised", 1, "cpu=2"), min_resources=amounts("cpu=2")),
        *(applying(f"w{n}", ask, created_at_ms=n) for n, ask in enumerate(asks)),
    ]
    cluster = snapshot([node("n", "cpu=10 memory=8Gi")], gangs)
    assert let_in(run_session(cluster, configure("enqueue", "gang overcommit"))) == expected


@pytest.mark.parametrize(
    ("factor", "expected"), [("1", []), ("1.5", ["w"]), ("0.5", ["w"])], ids=["one", "half", "odd"]
)
def test_the_factor_of_overcommit(factor: str, expected: list[str]) -> None:
    cluster = snapshot([node("n", "cpu=10")], [applying("w", "cpu=11")])
    plugin = PluginOption(name="overcommit", arguments={"overcommit-factor": factor})
    rule = SchedulerConfiguration(actions=("enqueue",), tiers=((plugin,),))
    assert let_in(run_session(cluster, rule)) == expected


@pytest.mark.parametrize(
    ("gangs", "expected"),
    [
        ([applying("w", "cpu=3", queue="a")], ["w"]),
        ([applying("w", "cpu=5", queue="a")], []),
        ([holding("a", "cpu=3"), applying("w", "cpu=2", queue="a")], []),
        ([holding("a", "cpu=1 memory=9Gi"), applying("w", "cpu=2", queue="a")], ["w"]),
        (
            [
                holding("a", "cpu=2", "cpu=2", min_resources=amounts("cpu=2")),
                applying("w", "cpu=2", queue="a"),
            ],
            ["w"],
        ),
        (
            [
                gang("old", 1, pods("old", 1, "cpu=3"), queue="a", min_resources=amounts("cpu=3")),
                applying("w", "cpu=2", queue="a"),
            ],
            [],
        ),
        ([gang("w", 1, pods("w", 9), queue="a", phase=PodGroupPhase.PENDING)], ["w"]),
    ],
    ids=[
        "within the ceiling",
        "above it",
        "with what is held",
        "what is held of something else does not count",
        "what a gang holds beyond its minimum does not count",
        "what was promised counts",
        "a gang that names no minimum is let in",
    ],
)
@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_a_ceiling_at_the_door(plugin: str, gangs: Sequence[Gang], expected: list[str]) -> None:
    queues = [queue("a", capability="cpu=4 memory=8Gi")]
    cluster = snapshot([node("n", "cpu=20 memory=20Gi")], gangs, queues=queues)
    assert let_in(run_session(cluster, configure("enqueue", f"gang {plugin}"))) == expected


def test_who_is_refused_at_the_door_is_told_so_and_keeps_nobody_out() -> None:
    gangs = [
        applying("big", "cpu=5", created_at_ms=1),
        applying("small", "cpu=4", created_at_ms=2),
    ]
    cluster = snapshot([node("n", "cpu=9")], gangs, queues=[queue("q", capability="cpu=4")])
    plan = run_session(cluster, configure("enqueue", "gang capacity overcommit"))
    assert let_in(plan) == ["small"]
    assert plan.outcomes["ns/big"].verdict is Verdict.NOT_ENQUEUED
