"""Plugins that guard victims and choose nodes: each one's rule, by small sessions and tables."""

from dataclasses import replace

import pytest

from muster_domain.nodes import Device, Node
from muster_domain.queues import NodeGroups
from muster_domain.selectors import Requirement, Selector, SelectorOperator
from muster_domain.volcano import (
    CpuPlace,
    DeviceClaim,
    DeviceClass,
    DeviceSlice,
    DisruptionBudget,
    NamespaceQuota,
    NodeUsage,
    NumaTopology,
    Pod,
    PodGroupPhase,
)
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration, Switch
from muster_scheduling.volcano import SessionSnapshot, Verdict, run_session
from muster_scheduling.volcano.plugins.numa_aware import (
    BEST_EFFORT,
    RESTRICTED,
    SINGLE,
    Hint,
    cpu_hints,
    merge,
    pick_cpus,
)
from muster_scheduling.volcano.plugins.tdm import open_at

from .builders import (
    NOW_MS,
    amounts,
    binds,
    configure,
    evicted,
    gang,
    node,
    pod,
    pods,
    queue,
    snapshot,
)

PRIORITIES = {"high": 100, "low": 1}
GPU = "nvidia.com/gpu"
GIB = 1 << 30


def with_arguments(actions: str, plugin: str, **arguments: str) -> SchedulerConfiguration:
    found = configure(actions, f"gang predicates {plugin}")
    tier = tuple(
        PluginOption(name=one.name, arguments=arguments if one.name == plugin else {})
        for one in found.tiers[0]
    )
    return replace(found, tiers=(tier,))


def contest(*victims: Pod) -> SessionSnapshot:
    """A full node whose pods may have to make room for a more important one."""
    return snapshot(
        [node("a", f"cpu={len(victims)}")],
        [
            gang("old", 0, victims, priority_class="low"),
            gang("new", 1, pods("new", 1), priority_class="high"),
        ],
        priorities=PRIORITIES,
    )


def preempting(plugin: str) -> SchedulerConfiguration:
    return configure("preempt", f"priority gang predicates {plugin}")


def test_a_pod_that_started_lately_is_spared() -> None:
    cooling = {"annotations": {"volcano.sh/cooldown-time": "10m"}}
    plan = run_session(
        contest(
            pod("old", "fresh", on="a", scheduled_at_ms=NOW_MS - 60_000, **cooling),
            pod("old", "grown", on="a", scheduled_at_ms=NOW_MS - 3_600_000, **cooling),
        ),
        preempting("cdp"),
    )
    assert evicted(plan) == ["grown"]


def test_a_cooldown_that_cannot_be_read_spares_nobody() -> None:
    labels = {"volcano.sh/cooldown-time": "600abc"}
    plan = run_session(
        contest(pod("old", "x", on="a", scheduled_at_ms=NOW_MS, labels=labels)), preempting("cdp")
    )
    assert evicted(plan) == ["x"]


@pytest.mark.parametrize(("allowed", "victims"), [(0, []), (1, ["x"])])
def test_a_disruption_budget_is_kept(allowed: int, victims: list[str]) -> None:
    app = Selector(
        requirements=(Requirement(key="app", operator=SelectorOperator.IN, values=("a",)),)
    )
    budget = DisruptionBudget(namespace="ns", name="b", selector=app, disruptions_allowed=allowed)
    cluster = contest(pod("old", "x", on="a", labels={"app": "a"}))
    plan = run_session(replace(cluster, disruption_budgets=(budget,)), preempting("pdb"))
    assert evicted(plan) == victims


@pytest.mark.parametrize(
    ("groups", "strict", "usable"),
    [
        pytest.param(NodeGroups(required=("g1",)), "true", {"a"}, id="required"),
        pytest.param(NodeGroups(preferred=("g2",)), "true", {"b"}, id="preferred"),
        pytest.param(NodeGroups(anti_required=("g1",)), "true", {"b"}, id="anti"),
        pytest.param(
            NodeGroups(required=("g1",), anti_preferred=("g2",)), "true", {"a", "b"}, id="unwelcome"
        ),
        pytest.param(NodeGroups(required=("g1",)), "false", {"a", "c"}, id="lenient"),
        pytest.param(None, "true", set(), id="none-strict"),
        pytest.param(None, "false", {"c"}, id="none-lenient"),
    ],
)
def test_a_queue_uses_the_node_groups_it_names(
    groups: NodeGroups | None, strict: str, usable: set[str]
) -> None:
    label = "volcano.sh/nodegroup-name"
    nodes = [
        Node(name="a", allocatable=amounts("cpu=1"), labels={label: "g1"}),
        Node(name="b", allocatable=amounts("cpu=1"), labels={label: "g2"}),
        Node(name="c", allocatable=amounts("cpu=1")),
    ]
    cluster = snapshot(nodes, [gang("x", 0, pods("x", 3))], queues=[queue("q", node_groups=groups)])
    plan = run_session(cluster, with_arguments("allocate", "nodegroup", strict=strict))
    assert set(binds(plan).values()) == usable


@pytest.mark.parametrize(
    ("limits", "running", "asks", "bound"),
    [
        ({"g1": "cpu=3"}, [], ["cpu=2"], ["a"]),
        ({"g1": "cpu=3"}, ["cpu=2"], ["cpu=2"], ["b"]),
        ({"g1": "cpu=3"}, ["cpu=2"], ["memory=1Gi"], ["a"]),
        ({"g1": "cpu=3 memory=1Gi"}, ["memory=1Gi"], ["cpu=1 memory=1Mi"], ["b"]),
        ({"g1": "cpu=3"}, [], ["cpu=2", "cpu=2"], ["a", "b"]),
        ({"g1": "cpu=1", "g2": "cpu=2"}, [], ["cpu=2", "cpu=2"], ["b"]),
        ({}, ["cpu=2"], ["cpu=2"], ["a"]),
    ],
    ids=[
        "below",
        "above goes elsewhere",
        "only what is asked",
        "every resource",
        "what the session gave counts",
        "every group",
        "without a limit",
    ],
)
@pytest.mark.parametrize("child", [False, True], ids=["own", "from above"])
def test_a_queue_holds_no_more_of_a_node_group_than_its_limit(
    limits: dict[str, str],
    running: list[str],
    asks: list[str],
    bound: list[str],
    *,
    child: bool,
) -> None:
    label = "volcano.sh/nodegroup-name"
    nodes = [
        Node(name=name, allocatable=amounts("cpu=9 memory=9Gi"), labels={label: group})
        for name, group in (("a", "g1"), ("b", "g2"))
    ]
    groups = NodeGroups(
        required=("g1", "g2"),
        preferred=("g1",),
        limits={group: amounts(most) for group, most in limits.items()},
    )
    queues = [queue("q", node_groups=groups), queue("low", parent="q")]
    held = [pod("old", f"old-{n}", ask, on="a") for n, ask in enumerate(running)]
    wanted = [pod("x", f"x-{n}", ask) for n, ask in enumerate(asks)]
    own = "low" if child else "q"
    cluster = snapshot(
        nodes, [gang("old", 0, held), gang("x", 0, wanted, queue=own)], queues=queues
    )
    how = SchedulerConfiguration(
        actions=("allocate",),
        tiers=((PluginOption(name="nodegroup", enabled=frozenset(Switch)),),),
    )
    assert sorted(binds(run_session(cluster, how)).values()) == bound


def test_a_loaded_node_takes_no_more_and_old_figures_say_nothing() -> None:
    busy = NodeUsage(node="a", cpu_milli=900, memory_milli=100, at_ms=NOW_MS - 1000)
    cluster = snapshot([node("a"), node("b")], [gang("x", 1, pods("x", 1))])
    configuration = configure("allocate", "gang usage")
    assert binds(run_session(replace(cluster, usage=(busy,)), configuration)) == {"x-0": "b"}
    lone = snapshot([node("a")], [gang("x", 1, pods("x", 1))])
    refused = run_session(replace(lone, usage=(busy,)), configuration).outcomes["ns/x"]
    assert [refusal.reason for refusal in refused.refusals] == ["cpu load is above its threshold"]
    stale = replace(busy, at_ms=NOW_MS - 600_000)
    assert binds(run_session(replace(lone, usage=(stale,)), configuration)) == {"x-0": "a"}


@pytest.mark.parametrize(
    ("hours", "minute", "is_open"),
    [
        ("10:00-21:00", 10 * 60, True),
        ("10:00-21:00", 21 * 60, False),
        ("22:00-6:00", 60, True),
        ("22:00-6:00", 12 * 60, False),
        ("0:00-0:00", 720, True),
        ("0:00_1:00", 0, False),
        ("0:00-25:00", 0, False),
    ],
)
def test_the_hours_of_a_revocable_zone(hours: str, minute: int, is_open: bool) -> None:  # noqa: FBT001
    assert open_at(hours, minute) is is_open


def test_a_zone_is_left_when_its_hours_are_over() -> None:
    zoned = Node(name="a", allocatable=amounts("cpu=9"), labels={"volcano.sh/revocable-zone": "rz"})
    members = [
        pod("x", f"x-{n}", on="a", annotations={"volcano.sh/preemptable": str(n < 3).lower()})
        for n in range(5)
    ]
    budget = {"volcano.sh/jdb-max-unavailable": "30%"}
    cluster = snapshot([zoned], [gang("x", 0, members, annotations=budget)])
    hours = {"tdm.revocable-zone.rz": "0:00-0:00"}
    closed = {"tdm.revocable-zone.rz": "0:00-0:00x"}
    assert evicted(run_session(cluster, with_arguments("shuffle", "tdm", **hours))) == []
    leaving = with_arguments("shuffle", "tdm", **closed)
    assert evicted(run_session(cluster, leaving)) == ["x-0", "x-1"]
    just_now = replace(cluster, revoked_at_ms=NOW_MS - 1000)
    assert evicted(run_session(just_now, leaving)) == []


def test_a_namespace_quota_counts_what_was_let_in_before() -> None:
    quota = NamespaceQuota(namespace="ns", name="q", hard=amounts("requests.cpu=3"))
    gangs = [
        gang(name, 1, pods(name, 1), phase=PodGroupPhase.PENDING, min_resources=amounts("cpu=2"))
        for name in ("first", "second")
    ]
    cluster = replace(snapshot([node("a")], gangs), namespace_quotas=(quota,))
    plan = run_session(cluster, configure("enqueue", "gang resourcequota"))
    assert [change.job for change in plan.phases] == ["ns/first"]
    assert plan.outcomes["ns/second"].verdict is Verdict.NOT_ENQUEUED


def test_roles_that_want_to_be_together_share_nodes_and_others_do_not() -> None:
    members = [
        pod("x", f"x-{role}-{number}", role=role) for role in ("ps", "worker") for number in (0, 1)
    ]
    wishes = {
        "volcano.sh/task-topology-affinity": "ps,worker",
        "volcano.sh/task-topology-anti-affinity": "ps;worker",
    }
    plan = run_session(
        snapshot(
            [node("a", "cpu=2"), node("b", "cpu=2")], [gang("x", 4, members, annotations=wishes)]
        ),
        configure("allocate", "gang task-topology"),
    )
    seats = binds(plan)
    assert seats["x-ps-0"] != seats["x-ps-1"]
    assert {seats["x-ps-0"], seats["x-ps-1"]} == {seats["x-worker-0"], seats["x-worker-1"]}


@pytest.mark.parametrize(
    ("wishes", "problem"),
    [
        ({"affinity": "ps,worker"}, ""),
        ({"affinity": "ps,worker;;", "anti-affinity": ";ps,,", "task-order": "worker,,ps,"}, ""),
        ({"anti-affinity": "ps;ps,worker"}, ""),
        ({"affinity": "ps,nobody"}, "task nobody of the task topology does not exist"),
        ({"affinity": "ps", "task-order": "ps,x"}, "task x of the task topology does not exist"),
        (
            {"anti-affinity": "ps,ps"},
            "task ps is named twice in one group of the task topology",
        ),
        (
            {"affinity": "ps", "task-order": "ps,ps"},
            "task ps is named twice in one group of the task topology",
        ),
    ],
    ids=[
        "tasks that exist",
        "commas too many",
        "in two groups",
        "nobody",
        "nobody in the order",
        "twice in a group",
        "twice in the order",
    ],
)
def test_what_a_task_topology_names_is_checked(wishes: dict[str, str], problem: str) -> None:
    annotations = {f"volcano.sh/task-topology-{key}": text for key, text in wishes.items()}
    members = [pod("x", f"x-{role}-0", role=role) for role in ("ps", "worker")]
    plan = run_session(
        snapshot([node("a")], [gang("x", 1, members, annotations=annotations)]),
        configure("allocate", "gang task-topology"),
    )
    assert plan.warnings == ((f"ns/x: {problem}",) if problem else ())


def liked(mask: int | None) -> Hint:
    return Hint(mask, preferred=True)


def possible(mask: int) -> Hint:
    return Hint(mask, preferred=False)


def machine(free: frozenset[int] = frozenset(range(8))) -> NumaTopology:
    """Eight processors: two NUMA nodes of one socket each, two cores each, two threads each."""
    places = tuple(CpuPlace(cpu=n, core=n // 2, socket=n // 4, numa=n // 4) for n in range(8))
    return NumaTopology(
        node="a",
        cpu_manager_policy="static",
        topology_manager_policy=SINGLE,
        cpus=places,
        free_cpus=free,
    )


@pytest.mark.parametrize(
    ("free", "count", "hints"),
    [
        (range(8), 4, [liked(1), liked(2), possible(3)]),
        (range(1, 8), 4, [liked(2), possible(3)]),
        (range(8), 5, [liked(3)]),
        (range(2), 3, []),
    ],
)
def test_where_processors_could_come_from(free: range, count: int, hints: list[Hint]) -> None:
    assert cpu_hints(machine(), frozenset(free), count) == hints


@pytest.mark.parametrize(
    ("policy", "hints", "best"),
    [
        pytest.param(BEST_EFFORT, [[possible(3), liked(1)]] * 2, liked(1), id="both"),
        pytest.param(BEST_EFFORT, [[liked(1)], [liked(2)]], possible(3), id="apart"),
        pytest.param(RESTRICTED, [[liked(1)], [liked(2)]], None, id="restricted"),
        pytest.param(SINGLE, [[liked(3)]], None, id="single"),
        pytest.param(SINGLE, [[liked(2)], [liked(None)]], liked(2), id="do-not-care"),
    ],
)
def test_the_best_common_hint(policy: str, hints: list[list[Hint]], best: Hint | None) -> None:
    assert merge(hints, policy, 3) == best


def test_whole_sockets_and_cores_are_taken_before_single_threads() -> None:
    assert pick_cpus(machine(), frozenset(range(8)), 4, 3) == (0, 1, 2, 3)
    assert pick_cpus(machine(), frozenset(range(1, 8)), 2, 1) == (2, 3)
    assert pick_cpus(machine(), frozenset({1, 4, 6}), 3, 3) == (1, 4, 6)


def test_a_pod_stays_inside_one_numa_node() -> None:
    wish = {"volcano.sh/numa-topology-policy": SINGLE}
    asks = "cpu=3"
    members = [
        pod("x", f"x-{n}", asks, guaranteed=True, containers=(amounts(asks),), annotations=wish)
        for n in range(3)
    ]
    cluster = snapshot([node("a", "cpu=16")], [gang("x", 0, members)])
    plan = run_session(
        replace(cluster, numa=(machine(),)), configure("allocate", "gang numa-aware")
    )
    assert len(binds(plan)) == 2


def card(index: int, memory_bytes: int = 24 * GIB) -> Device:
    return Device(index=index, resource=GPU, memory_bytes=memory_bytes)


def shared(name: str, asks: str) -> Pod:
    return pod("x", name, asks)


def test_cards_are_shared_as_far_as_each_has_room() -> None:
    three = [shared(f"x-{n}", "volcano.sh/gpu-memory=12288") for n in range(3)]
    one_card = Node(name="a", allocatable=amounts("cpu=9"), devices=(card(0),))
    plan = run_session(
        snapshot([one_card], [gang("x", 0, three)]), configure("allocate", "gang deviceshare")
    )
    assert [bind.cards for bind in plan.binds] == [(0,), (0,)]


def test_a_percentage_is_of_each_cards_own_memory() -> None:
    mixed = Node(
        name="a",
        allocatable=amounts("cpu=9"),
        devices=(card(0, 16 * GIB), card(1, 32 * GIB), card(2, 32 * GIB)),
    )
    half = "volcano.sh/vgpu-number=2 volcano.sh/vgpu-memory=20480 volcano.sh/vgpu-cores=50"
    plan = run_session(
        snapshot([mixed], [gang("x", 0, [shared("x-0", half), shared("x-1", half)])]),
        configure("allocate", "gang deviceshare"),
    )
    assert [bind.cards for bind in plan.binds] == [(2, 1)]


def test_the_fullest_card_first_by_binpack_the_emptiest_by_spread() -> None:
    two = Node(name="a", allocatable=amounts("cpu=9"), devices=(card(0), card(1)))
    asks = "volcano.sh/vgpu-number=1 volcano.sh/vgpu-memory=4096"
    cluster = snapshot([two], [gang("x", 0, [shared("x-0", asks), shared("x-1", asks)])])

    def cards(policy: str) -> list[tuple[int, ...]]:
        arguments = {"deviceshare.SchedulePolicy": policy}
        plan = run_session(cluster, with_arguments("allocate", "deviceshare", **arguments))
        return [bind.cards for bind in plan.binds]

    assert cards("binpack") == [(0,), (0,)]
    assert cards("spread") == [(0,), (1,)]


def test_a_capability_bounds_the_devices_that_pods_claim_and_a_shared_claim_counts_once() -> None:
    claims = tuple(DeviceClaim(namespace="ns", name=n, devices={"gpu": 1}) for n in ("one", "two"))
    members = [
        pod("x", f"x-{number}", resource_claims=(claim,))
        for number, claim in enumerate(("one", "one", "two"))
    ]
    cluster = snapshot(
        [node("a")], [gang("x", 0, members)], queues=[queue("q", capability="deviceclass/gpu=1")]
    )
    arguments = {"capacity.DynamicResourceAllocationEnable": "true"}
    plan = run_session(
        replace(cluster, device_claims=claims), with_arguments("allocate", "capacity", **arguments)
    )
    assert sorted(binds(plan)) == ["x-0", "x-1"]


def test_devices_are_claimed_where_their_driver_has_some_left() -> None:
    claims = tuple(DeviceClaim(namespace="ns", name=n, devices={"gpu": 1}) for n in ("one", "two"))
    members = [pod("x", f"x-{n}", resource_claims=(n,)) for n in ("one", "two")]
    cluster = replace(
        snapshot([node("a"), node("b")], [gang("x", 0, members)]),
        device_claims=claims,
        device_classes=(DeviceClass(name="gpu", driver="gpu.example.com"),),
        device_slices=(DeviceSlice(node="b", driver="gpu.example.com", devices=1),),
    )
    arguments = {"predicate.DynamicResourceAllocationEnable": "true"}
    configuration = SchedulerConfiguration(
        actions=("allocate",),
        tiers=((PluginOption(name="gang"), PluginOption(name="predicates", arguments=arguments)),),
    )
    assert binds(run_session(cluster, configuration)) == {"x-one": "b"}
    odd = replace(cluster, device_classes=(DeviceClass(name="gpu", unreadable="device.healthy"),))
    refused = run_session(odd, configuration).outcomes["ns/x"].refusals
    assert [refusal.reason for refusal in refused] == [
        "device class gpu has a selector that is not understood"
    ]


def test_a_budget_counts_its_victims_one_by_one() -> None:
    app = Selector(
        requirements=(Requirement(key="app", operator=SelectorOperator.IN, values=("a",)),)
    )
    budget = DisruptionBudget(namespace="ns", name="b", selector=app, disruptions_allowed=1)
    victims = [pod("old", name, on="a", labels={"app": "a"}) for name in ("x", "y")]
    cluster = snapshot(
        [node("a", "cpu=2")],
        [
            gang("old", 0, victims, priority_class="low"),
            gang("new", 1, [pod("new", "new-0", "cpu=2")], priority_class="high"),
        ],
        priorities=PRIORITIES,
    )
    plan = run_session(replace(cluster, disruption_budgets=(budget,)), preempting("pdb"))
    assert evicted(plan) == []
