"""A session over placement's nodes keeps to NUMA zones and to slices of divided cards."""

from collections.abc import Iterable
from dataclasses import replace

from muster_domain.mig import MIG_CARD, MIG_PREFIX, known_profiles, offered
from muster_domain.nodes import Device, MigInstance, Node, NumaZone
from muster_domain.queues import VolcanoQueue
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration, Switch
from muster_domain.workload import Owner, PodSet, VolcanoQueueRef, Workload
from muster_scheduling.placement.checks import violations
from muster_scheduling.placement.outcome import Placed, Unplaceable
from muster_scheduling.placement.request import GangRequest, PodSetRequest, numa_policy
from muster_scheduling.placement.table import NodeTable
from muster_scheduling.volcano.floor import Answer, Standing, VolcanoRules, seat

GPU = "nvidia.com/gpu"
A100 = known_profiles("A100-SXM4-80GB", 80 * 2**30)
SINGLE = {"volcano.sh/numa-topology-policy": "single-numa-node"}
PREEMPTING = SchedulerConfiguration(
    actions=("allocate", "preempt"),
    tiers=(
        (
            PluginOption(name="priority"),
            PluginOption(name="gang", enabled=frozenset(Switch) - {Switch.PREEMPTABLE}),
        ),
        (PluginOption(name="predicates"), PluginOption(name="binpack")),
    ),
)


def divided_node(name: str, cards: int = 1) -> Node:
    devices = tuple(Device(index=index, resource=MIG_CARD, profiles=A100) for index in range(cards))
    allocatable = {"cpu": 64_000, "pods": 110_000, **offered(devices)}
    return Node(name=name, allocatable=allocatable, devices=devices)


def zoned_node(name: str) -> Node:
    """Two zones of 8 processors, with two cards each."""
    return Node(
        name=name,
        allocatable={"cpu": 16_000, GPU: 4000, "pods": 110_000},
        devices=tuple(Device(index=i, resource=GPU, numa_node=i // 2) for i in range(4)),
        zones=tuple(
            NumaZone(number=n, cpus=tuple(range(8 * n, 8 * n + 8))) for n in range(2)
        ),
    )  # fmt: skip


def table_of(*nodes: Node) -> NodeTable:
    table = NodeTable()
    for node in nodes:
        table.put_node(node)
    return table


def job(
    identity: str,
    *pod_sets: tuple[int, dict[str, int]],
    priority: int = 0,
    annotations: dict[str, str] | None = None,
) -> Workload:
    return Workload(
        id=identity,
        namespace="lab",
        name=identity,
        queue=VolcanoQueueRef(name="q"),
        pod_sets=tuple(
            PodSet(name=f"s{n}", count=count, requests=asked, annotations=annotations or {})
            for n, (count, asked) in enumerate(pod_sets)
        ),
        owner=Owner(api_version="batch.volcano.sh/v1alpha1", kind="Job", name=identity),
        created_at_ms=0,
        priority=priority,
    )


def ask(table: NodeTable, workload: Workload, standing: Iterable[Standing] = ()) -> Answer:
    request = GangRequest(
        workload=workload.id,
        pod_sets=tuple(
            PodSetRequest(
                name=each.name,
                count=each.count,
                requests=each.requests,
                numa=numa_policy(each.annotations),
            )
            for each in workload.pod_sets
        ),
    )
    rules = VolcanoRules(queues=(VolcanoQueue(name="q"),), scheduler=PREEMPTING)
    return seat(table, standing, workload, request, rules, 1_000)


def sits(table: NodeTable, workload: Workload, standing: list[Standing]) -> Standing:
    outcome = ask(table, workload, standing).outcome
    assert isinstance(outcome, Placed), outcome
    table.bind(outcome.gang)
    assert not violations(table)
    found = Standing(workload=workload, gang=outcome.gang, started=True)
    standing.append(found)
    return found


def mig(**profiles: int) -> dict[str, int]:
    names = dict(zip(("g1", "d1", "g2", "g3", "g4", "g7"), (p.name for p in A100), strict=True))
    return {MIG_PREFIX + names[key]: 1000 * number for key, number in profiles.items()}


def places(standing: Standing) -> list[tuple[MigInstance, ...]]:
    return [pod.instances for pod in standing.gang.placement.pods]


def instance(profile: str, start: int, card: int = 0) -> MigInstance:
    return MigInstance(card=card, profile=profile, start=start)


def test_pods_get_slices_that_no_other_holds() -> None:
    table, standing = table_of(divided_node("a")), list[Standing]()
    assert places(sits(table, job("w1", (1, mig(g3=1))), standing)) == [(instance("3g.40gb", 4),)]
    assert places(sits(table, job("w2", (2, mig(g2=1))), standing)) == [
        (instance("2g.20gb", 0),),
        (instance("2g.20gb", 2),),
    ]
    refused = ask(table, job("w3", (1, mig(g1=1))), standing).outcome
    assert isinstance(refused, Unplaceable)


def test_a_gang_of_unequal_instances_is_divided_as_a_whole() -> None:
    table, standing = table_of(divided_node("a")), list[Standing]()
    sits(table, job("w", (3, mig(g1=1)), (1, mig(g4=1))), standing)


def test_instances_of_one_pod_fit_together_or_not_at_all() -> None:
    table, standing = table_of(divided_node("a")), list[Standing]()
    assert isinstance(ask(table, job("w", (1, mig(g1=1, g3=2))), standing).outcome, Unplaceable)
    sits(table, job("w", (1, mig(g1=3, g3=1))), standing)


def test_a_victim_gives_its_slices_to_the_other_profile() -> None:
    table, standing = table_of(divided_node("a")), list[Standing]()
    sits(table, job("low", (1, mig(g7=1))), standing)
    answer = ask(table, job("high", (4, mig(g1=1)), priority=9), standing)
    assert answer.room is not None
    assert set(answer.room.victims) == {"low"}


def test_nobody_sits_on_slices_before_their_holder_has_left() -> None:
    table, standing = table_of(divided_node("a")), list[Standing]()
    leaving = replace(sits(table, job("low", (1, mig(g7=1))), standing), leaving=True)
    answer = ask(table, job("high", (1, mig(g1=1)), priority=9), [leaving])
    assert isinstance(answer.outcome, Unplaceable)
    assert answer.room is not None
    assert answer.room.victims == {}
    table.release("low")
    sits(table, job("high", (1, mig(g1=1))), [])


def test_a_strict_pod_has_the_zone_that_placement_records() -> None:
    table, standing = table_of(zoned_node("a"), zoned_node("b")), list[Standing]()
    asked = {"cpu": 5000, GPU: 2000}
    seated = sits(table, job("w", (3, asked), annotations=SINGLE), standing)
    found = [(pod.node, pod.zones, pod.devices[GPU]) for pod in seated.gang.placement.pods]
    assert sorted(found) == [("a", (0,), (0, 1)), ("a", (1,), (2, 3)), ("b", (0,), (0, 1))]
    another = sits(table, job("v", (1, asked), annotations=SINGLE), standing)
    assert [(p.node, p.zones) for p in another.gang.placement.pods] == [("b", (1,))]
    refused = ask(table, job("u", (1, asked), annotations=SINGLE), standing).outcome
    assert isinstance(refused, Unplaceable)


def test_a_strict_pod_waits_where_no_zone_has_what_the_node_has() -> None:
    table, standing = table_of(zoned_node("a")), list[Standing]()
    sits(table, job("w", (2, {"cpu": 5000}), annotations=SINGLE), standing)
    refused = ask(table, job("v", (1, {"cpu": 5000}), annotations=SINGLE), standing).outcome
    assert isinstance(refused, Unplaceable)
    assert "NUMA zone" in refused.explanation.message


def test_nobody_sits_in_a_zone_before_its_holder_has_left() -> None:
    table, standing = table_of(zoned_node("a")), list[Standing]()
    both = sits(table, job("low", (2, {"cpu": 5000}), annotations=SINGLE), standing)
    leaving = replace(both, leaving=True)
    answer = ask(table, job("high", (1, {"cpu": 5000}), annotations=SINGLE), [leaving])
    assert isinstance(answer.outcome, Unplaceable)
    assert answer.room is None or not answer.room.victims
    table.release("low")
    sits(table, job("high", (1, {"cpu": 5000}), annotations=SINGLE), [])


def test_a_whole_card_is_nobodys_to_share() -> None:
    table, standing = table_of(zoned_node("a")), list[Standing]()
    half = {"volcano.sh/vgpu-number": 1000, "volcano.sh/vgpu-cores": 50_000}
    sits(table, job("whole", (1, {GPU: 3000})), standing)
    shared = sits(table, job("half", (1, half)), standing)
    assert shared.gang.placement.pods[0].devices == {GPU: (3,)}
    refused = ask(table, job("more", (1, half), (1, half)), standing).outcome
    assert isinstance(refused, Unplaceable)
    victims = ask(table, job("high", (2, {GPU: 1000}), priority=9), standing).room
    assert victims is not None
    assert set(victims.victims) == {"whole"}
