"""Seats of Volcano gangs by a session over placement's own nodes and gangs."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from muster_domain.conditions import PreemptionReason, UnplaceableReason
from muster_domain.job_policies import JobPolicies, TaskPolicies
from muster_domain.nodes import Device, DeviceHealth, Node
from muster_domain.queues import HyperNode, VolcanoQueue
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration, Switch
from muster_domain.workload import (
    NetworkTopology,
    NetworkTopologyMode,
    Owner,
    PodSet,
    VolcanoQueueRef,
    Workload,
)
from muster_scheduling.placement.outcome import Gang, Placed, Unplaceable
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.table import NodeTable
from muster_scheduling.volcano.floor import Answer, Standing, VolcanoRules, seat

GPU = "nvidia.com/gpu"
NOW_MS = 1_000
PREEMPTING = SchedulerConfiguration(
    actions=("enqueue", "allocate", "preempt"),
    tiers=(
        (
            PluginOption(name="priority"),
            PluginOption(name="gang", enabled=frozenset(Switch) - {Switch.PREEMPTABLE}),
            PluginOption(name="conformance"),
        ),
        (PluginOption(name="predicates"), PluginOption(name="binpack")),
    ),
)
RACKS = (
    HyperNode(name="r0", tier=1, tier_name="block", node_members=("n0", "n1")),
    HyperNode(name="r1", tier=1, tier_name="block", node_members=("n2", "n3")),
    HyperNode(name="top", tier=2, hyper_node_members=("r0", "r1")),
)


def table(nodes: int = 4, gpus: int = 4, failed: int = 0) -> NodeTable:
    made = NodeTable()
    for number in range(nodes):
        devices = tuple(
            Device(
                index=index,
                resource=GPU,
                health=DeviceHealth.FAILED if index < failed else DeviceHealth.HEALTHY,
            )
            for index in range(gpus)
        )
        allocatable = {"cpu": 64_000, GPU: gpus * 1000, "pods": 110_000}
        made.put_node(Node(name=f"n{number}", allocatable=allocatable, devices=devices))
    return made


def job(
    identity: str,
    pods: int,
    gpus: int = 4,
    *,
    priority: int = 0,
    least: int | None = None,
    topology: NetworkTopology | None = None,
) -> Workload:
    pod_set = PodSet(name="main", count=pods, min_count=least, requests={GPU: gpus * 1000})
    return Workload(
        id=identity,
        namespace="lab",
        name=identity,
        queue=VolcanoQueueRef(name="q"),
        pod_sets=(pod_set,),
        owner=Owner(api_version="batch.volcano.sh/v1alpha1", kind="Job", name=identity),
        created_at_ms=0,
        priority=priority,
        network_topology=topology,
    )


def ask(
    floor: NodeTable,
    asked: Workload,
    standing: Iterable[Standing] = (),
    rules: VolcanoRules | None = None,
    excluded: frozenset[str] = frozenset(),
) -> Answer:
    request = GangRequest(
        workload=asked.id,
        pod_sets=tuple(
            PodSetRequest(
                name=pod_set.name,
                count=pod_set.count,
                requests=pod_set.requests,
                min_count=pod_set.min_count,
            )
            for pod_set in asked.pod_sets
        ),
        excluded=excluded,
    )
    known = rules or VolcanoRules(scheduler=PREEMPTING)
    known = replace(known, queues=(VolcanoQueue(name="q"),))
    return seat(floor, standing, asked, request, known, NOW_MS)


def gang_of(answer: Answer) -> Gang:
    assert isinstance(answer.outcome, Placed), answer
    return answer.outcome.gang


def sits(
    floor: NodeTable, asked: Workload, beside: Iterable[Standing] = (), *, started: bool = True
) -> Standing:
    gang = gang_of(ask(floor, asked, beside))
    floor.bind(gang)
    return Standing(workload=asked, gang=gang, started=started)


def test_a_gang_gets_seats_and_devices_that_can_be_bound() -> None:
    floor = table()
    gang = gang_of(ask(floor, job("a", 3, gpus=2)))
    floor.bind(gang)
    assert [pod.rank for pod in gang.placement.pods] == [0, 1, 2]
    assert (
        len({(pod.node, device) for pod in gang.placement.pods for device in pod.devices[GPU]}) == 6
    )


def test_a_gang_sits_whole_or_not_at_all() -> None:
    answer = ask(table(nodes=2), job("a", 3))
    assert isinstance(answer.outcome, Unplaceable)
    assert answer.outcome.reason is UnplaceableReason.INSUFFICIENT_RESOURCES
    assert answer.room is None


def test_an_elastic_gang_takes_what_there_is() -> None:
    gang = gang_of(ask(table(nodes=2), job("a", 3, least=1)))
    assert [(pod_set.count, pod_set.min_count) for pod_set in gang.pod_sets] == [(2, 1)]
    assert [(pod.index, pod.rank) for pod in gang.placement.pods] == [(0, 0), (1, 1)]


def test_failed_devices_are_nobodys() -> None:
    assert isinstance(ask(table(failed=1), job("a", 1)).outcome, Unplaceable)
    assert isinstance(ask(table(failed=1), job("a", 1, gpus=3)).outcome, Placed)


def test_excluded_nodes_take_nobody() -> None:
    answer = ask(table(), job("a", 2), excluded=frozenset({"n0", "n1", "n2"}))
    assert isinstance(answer.outcome, Unplaceable)


@pytest.mark.parametrize(
    ("wanted", "pods", "domains"),
    [
        (NetworkTopology(highest_tier=1), 2, 1),
        (NetworkTopology(highest_tier_name="block"), 2, 1),
        (NetworkTopology(highest_tier=2), 3, 2),
        (NetworkTopology(highest_tier=1), 3, 0),
        (NetworkTopology(mode=NetworkTopologyMode.SOFT), 3, 2),
    ],
)
def test_a_gang_spans_no_higher_tier_than_it_may(
    wanted: NetworkTopology, pods: int, domains: int
) -> None:
    rules = VolcanoRules(hyper_nodes=RACKS)
    asked = job("a", pods, topology=wanted)
    assert rules.decide(asked)
    answer = ask(table(), asked, rules=rules)
    if not domains:
        assert isinstance(answer.outcome, Unplaceable)
        assert answer.outcome.reason is UnplaceableReason.TOPOLOGY
        return
    racks = {pod.node in {"n0", "n1"} for pod in gang_of(answer).placement.pods}
    assert len(racks) == domains


def test_a_tier_that_nobody_has_is_said() -> None:
    wanted = NetworkTopology(highest_tier_name="pod")
    answer = ask(table(), job("a", 1, topology=wanted), rules=VolcanoRules(hyper_nodes=RACKS))
    assert isinstance(answer.outcome, Unplaceable)
    assert "pod" in answer.outcome.explanation.message


def test_who_has_to_go_is_named_with_the_nodes_that_come_free() -> None:
    floor = table(nodes=2)
    low = [sits(floor, job(name, 1)) for name in ("a", "b")]
    answer = ask(floor, job("high", 1, priority=9), low)
    assert isinstance(answer.outcome, Unplaceable)
    assert answer.room is not None
    (victim,) = answer.room.victims
    assert answer.room.victims[victim] is PreemptionReason.IN_CLUSTER_QUEUE
    assert answer.room.nodes == frozenset(
        pod.node for each in low if each.workload.id == victim for pod in each.gang.placement.pods
    )
    assert len(floor.gangs()) == 2


def test_nobody_goes_for_an_equal_or_without_an_action_for_it() -> None:
    floor = table(nodes=1)
    low = [sits(floor, job("a", 1))]
    assert ask(floor, job("equal", 1), low).room is None
    packing = replace(PREEMPTING, actions=("allocate",))
    high = job("high", 1, priority=9)
    assert ask(floor, high, low, rules=VolcanoRules(scheduler=packing)).room is None


def test_room_that_is_being_made_needs_no_more_victims() -> None:
    floor = table(nodes=2)
    standing = [sits(floor, job(name, 1)) for name in ("a", "b")]
    leaving = [replace(standing[0], leaving=True), standing[1]]
    answer = ask(floor, job("high", 1, priority=9), leaving)
    assert answer.room is not None
    assert answer.room.victims == {}
    assert answer.room.nodes == {standing[0].gang.placement.pods[0].node}
    assert isinstance(answer.outcome, Unplaceable)
    (node_left,) = answer.room.nodes
    assert answer.outcome.explanation.message == f"waits for 1 gang to leave {node_left}"


def test_who_gets_seats_once_others_have_left_is_told_how_many_and_where() -> None:
    floor = table(nodes=9)
    standing: list[Standing] = []
    for number in range(8):
        standing.append(sits(floor, job(f"low-{number}", 1), standing))
    answer = ask(floor, job("high", 9, priority=9), standing)
    assert answer.room is not None
    assert len(answer.room.victims) == 8
    assert isinstance(answer.outcome, Unplaceable)
    explanation = answer.outcome.explanation
    assert explanation.message == ("waits for 8 gangs to leave n0, n1, n2, n3, n4, n5 and 2 more")
    assert (explanation.counts["gangs_leaving"], explanation.counts["nodes_awaited"]) == (8, 8)


def of_tasks(identity: str, *depends: tuple[str, str], **tasks: tuple[int, int]) -> Workload:
    """An elastic job: pods and the least of them by task; who depends on whom."""
    pod_sets = tuple(
        PodSet(name=name, count=count, min_count=least, requests={GPU: 4000})
        for name, (count, least) in tasks.items()
    )
    policies = JobPolicies(
        min_available=sum(least for _, least in tasks.values()),
        tasks=tuple(
            TaskPolicies(
                name=name,
                min_available=least,
                depends_on=tuple(on for other, on in depends if other == name),
            )
            for name, (_, least) in tasks.items()
        ),
    )
    return replace(job(identity, 1), pod_sets=pod_sets, job_policies=policies)


GANGS_GIVE_SURPLUS = replace(
    PREEMPTING,
    tiers=((*PREEMPTING.tiers[0][::2], PluginOption(name="gang")), PREEMPTING.tiers[1]),
)
WAITING = (("worker", "ps"),)


@pytest.mark.parametrize("scheduler", [PREEMPTING, GANGS_GIVE_SURPLUS], ids=["installed", "gang"])
@pytest.mark.parametrize(
    ("standing", "pods", "surplus"),
    [
        (job("e", 4, least=1), 1, (3,)),
        (job("e", 4, least=1), 2, (2, 3)),
        (job("e", 4, least=1), 3, (1, 2, 3)),
        (of_tasks("e", ps=(2, 1), worker=(2, 1)), 1, (3,)),
        (of_tasks("e", ps=(2, 1), worker=(2, 1)), 2, (1, 3)),
        (of_tasks("e", ps=(2, 1), worker=(2, 2)), 1, (1,)),
        (of_tasks("e", *WAITING, ps=(2, 1), worker=(2, 1)), 1, (3,)),
        (of_tasks("e", ("main", "ps"), main=(2, 1), ps=(2, 1)), 1, (1,)),
    ],
    ids=[
        "the highest index",
        "the two highest",
        "all but who leads",
        "of the last task",
        "no task below its minimum",
        "not of a task at its minimum",
        "who waits goes before who is waited for",
        "who is waited for does not go though it comes last",
    ],
)
def test_surplus_goes_from_the_end_and_never_who_leads(
    scheduler: SchedulerConfiguration, standing: Workload, pods: int, surplus: tuple[int, ...]
) -> None:
    floor = table()
    seated = sits(floor, standing)
    high = job("high", pods, priority=9)
    answer = ask(floor, high, [seated], rules=VolcanoRules(scheduler=scheduler))
    assert answer.room is not None
    assert answer.room.surplus == {"e": surplus}


def test_a_gang_goes_whole_where_only_who_leads_it_or_its_minimum_would_do() -> None:
    for standing, pods in ((job("e", 4, least=1), 4), (of_tasks("e", ps=(2, 1), worker=(2, 1)), 3)):
        floor = table()
        seated = sits(floor, standing)
        answer = ask(floor, job("high", pods, priority=9), [seated])
        assert answer.room is not None
        assert (set(answer.room.victims), answer.room.surplus) == ({"e"}, {})
