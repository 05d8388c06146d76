"""Gangs that grow and shrink while they run: the others keep their seats, ranks and pods."""

from dataclasses import replace

import pytest

from muster_contracts import events
from muster_contracts.commands import RunPod
from muster_domain.checks import CheckState, CheckStatus, PodSetUpdate
from muster_domain.conditions import Outcome, PreemptionReason
from muster_domain.job_policies import JobPolicies, TaskPolicies
from muster_domain.nodes import Placement
from muster_domain.states import Admitted, Resizing
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration, Switch
from muster_domain.workload import PodSet, VolcanoQueueRef, Workload
from muster_placement.record import GangPhase
from muster_scheduling.volcano.floor import VolcanoRules
from muster_testing.builders import GPU, node, workload

from .house import House, admission, two_nodes
from .test_volcano import configure


@pytest.fixture
def house() -> House:
    found = two_nodes()
    found.run(workload(pods=3))
    found.said.clear()
    found.commands.clear()
    return found


def resize(
    house: House,
    pods: int,
    number: int = 1,
    leaving: tuple[int, ...] = (),
    asked: Workload | None = None,
    checks: tuple[CheckStatus, ...] = (),
) -> None:
    asked = (asked or house.jobs["w1"]).scaled({"main": pods})
    state = Admitted(
        admission=admission(asked),
        placement=replace(placement_of(house), resizes=number - 1),
        reserved_at_ms=0,
        admitted_at_ms=0,
        attempt=1,
        queued_at_ms=0,
        resizes=number,
        resize=Resizing(counts={"main": pods}, leaving=leaving, checks=checks),
    )
    fact = events.WorkloadResized(workload=house.jobs[asked.id], version=4, state=state)
    house.hear(fact, asked.id)


def placement_of(house: House, identity: str = "w1") -> Placement:
    seated = house.gang(identity)
    assert seated is not None
    return seated.gang.placement


def seats(house: House) -> list[tuple[int, int, str]]:
    return [(pod.rank, pod.index, pod.node) for pod in placement_of(house).pods]


def answers(house: House) -> list[tuple[int, int]]:
    """(resizes, pods) of all that was said of seats."""
    return [
        (fact.placement.resizes, len(fact.placement.pods))
        for fact in house.said
        if isinstance(fact, events.GangPlaced)
    ]


def test_more_pods_start_beside_those_that_run(house: House) -> None:
    before = seats(house)
    resize(house, 5)
    assert seats(house)[:3] == before
    assert answers(house) == [(1, 5)]
    assert house.starts() == ["w1-1-3-s1", "w1-1-4-s1"]
    assert house.stops() == []
    worlds = [dict(c.environment) for _, c in house.commands if isinstance(c, RunPod)]
    assert {env["WORLD_SIZE"] for env in worlds} == {"5"}
    assert [env["RANK"] for env in worlds] == ["3", "4"]


def test_more_pods_sit_where_the_checks_want_them_once_all_agree(house: House) -> None:
    house.register(replace(node("n3", 4), labels={"pool": "licensed"}))
    licensed = PodSetUpdate(name="main", node_selector={"pool": "licensed"})
    pending = CheckStatus(name="licences", resize=1)
    resize(house, 5, checks=(pending,))
    assert answers(house) == []
    agreed = replace(pending, state=CheckState.READY, updates=(licensed,))
    resize(house, 5, checks=(agreed,))
    assert answers(house) == [(1, 5)]
    assert [node_name for _, _, node_name in seats(house)[3:]] == ["n3", "n3"]


def test_a_word_that_comes_twice_is_answered_once(house: House) -> None:
    resize(house, 5)
    resize(house, 5)
    house.restart()
    resize(house, 5)
    assert answers(house) == [(1, 5)]
    assert len(house.starts()) == 2


def test_the_gang_is_ready_again_once_its_new_pods_run(house: House) -> None:
    resize(house, 4)
    assert house.names() == ["gang_placed", "gang_stalled"]
    house.pod_started(3)
    assert house.names()[-1] == "gang_started"


def test_without_seats_it_stays_as_it_is(house: House) -> None:
    resize(house, 9)
    (fact,) = house.said
    assert isinstance(fact, events.GangUnplaceable)
    assert fact.resize == 1
    assert (len(seats(house)), house.starts()) == (3, [])
    house.register(node("n3", 4))
    assert house.names()[-1] == "capacity_changed"
    resize(house, 9, 2)
    assert answers(house) == [(2, 9)]


def test_fewer_pods_stop_from_the_highest_index_and_leave_their_seats(house: House) -> None:
    resize(house, 1)
    assert house.stops() == ["w1-1-1", "w1-1-2"]
    assert (house.free("n1") + house.free("n2"), answers(house)) == (5, [])
    house.pod_ended(2, stopped=True)
    assert answers(house) == []
    house.restart()
    house.pod_ended(1, code=143)
    assert answers(house) == [(1, 1)]
    assert house.free("n1") + house.free("n2") == 7
    assert house.phase() is GangPhase.RUNNING
    house.pod_ended(0)
    assert isinstance(house.said[-1], events.GangFinished | events.CapacityChanged)
    assert house.count(events.GangLost) == 0


def test_a_new_pod_after_a_smaller_size_has_another_uid(house: House) -> None:
    resize(house, 2)
    house.pod_ended(2, stopped=True)
    resize(house, 3, 2)
    assert house.starts() == ["w1-1-2-s2"]
    assert [rank for rank, _, _ in seats(house)] == [0, 1, 2]


def test_five_eight_three_quickly(house: House) -> None:
    resize(house, 5, 1)
    resize(house, 2, 2)
    assert answers(house) == [(1, 5)]
    for rank in (4, 3, 2):
        house.pod_ended(rank, stopped=True)
    assert answers(house) == [(1, 5), (2, 2)]
    resize(house, 5, 1)
    assert len(seats(house)) == 2


def test_the_gang_ends_only_when_those_that_leave_are_gone(house: House) -> None:
    resize(house, 2)
    house.pod_ended(0)
    house.pod_ended(1)
    assert house.count(events.GangFinished) == 0
    house.pod_ended(2, stopped=True)
    found = house.last(events.GangFinished)
    assert isinstance(found, events.GangFinished)
    assert found.outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("pods", [2, 5])
def test_an_eviction_on_the_way_stops_all_of_it(house: House, pods: int) -> None:
    resize(house, pods)
    house.evict()
    for rank in range(len(seats(house))):
        house.pod_ended(rank, stopped=True)
    assert house.gang() is None
    assert house.count(events.GangReleased) == 1
    resize_after = house.count(events.GangPlaced)
    assert resize_after == (pods > 3)


def test_a_node_that_is_lost_with_pods_that_leave_takes_nobody_along() -> None:
    house = two_nodes()
    house.register(node("n1", 2), node("n2", 4))
    house.run(workload(gpus=1, pods=5))
    last = placement_of(house).pods[-1].node
    only_last = {p.rank for p in placement_of(house).pods if p.node == last}
    resize(house, 5 - len(only_last), leaving=tuple(sorted(only_last)))
    others = {"n1", "n2"} - {last}
    for _ in range(30):
        house.beat(*others)
        house.cycle(1_000)
    assert house.count(events.GangLost) == 0
    assert answers(house)[-1] == (1, 5 - len(only_last))


def test_a_node_that_is_lost_while_it_grows_takes_the_gang_whole(house: House) -> None:
    resize(house, 5)
    for _ in range(30):
        house.beat("n2")
        house.cycle(1_000)
    assert house.count(events.GangLost) == 1


def of_volcano(pods: int, least: int, identity: str = "w1", priority: int = 0) -> Workload:
    return replace(
        workload(identity, pods=pods, priority=priority),
        queue=VolcanoQueueRef(name="q"),
        pod_sets=(PodSet(name="main", count=pods, min_count=least, requests={GPU: 1000}),),
        job_policies=JobPolicies(
            min_available=least, tasks=(TaskPolicies(name="main", min_available=least),)
        ),
    )


def test_a_volcano_gang_gets_as_many_as_there_is_room_for() -> None:
    house = two_nodes()
    house.run(workload("other", pods=5))
    house.reserve(of_volcano(6, 2))
    house.confirm()
    assert len(seats(house)) == 3
    house.register(node("n3", 2))
    assert house.names()[-1] == "capacity_changed"
    resize(house, 6, asked=of_volcano(6, 2))
    assert answers(house)[-1] == (1, 5)
    resize(house, 6, 2, asked=of_volcano(6, 2))
    last = house.said[-1]
    assert isinstance(last, events.GangUnplaceable)
    assert last.resize == 2


SURPLUS = SchedulerConfiguration(
    actions=("allocate", "preempt"),
    tiers=(
        (
            PluginOption(name="priority"),
            PluginOption(name="gang", enabled=frozenset(Switch)),
            PluginOption(name="conformance"),
        ),
        (PluginOption(name="predicates"), PluginOption(name="binpack")),
    ),
)


def test_only_the_surplus_is_asked_to_leave_and_its_ranks_are_filled_again() -> None:
    house = two_nodes()
    configure(house, VolcanoRules(scheduler=SURPLUS))
    house.run(of_volcano(8, 5))
    house.reserve(of_volcano(2, 2, "high", priority=9))
    refused = house.last(events.GangUnplaceable)
    assert isinstance(refused, events.GangUnplaceable)
    (victim,) = refused.victims
    assert (victim.workload_id, victim.reason) == ("w1", PreemptionReason.IN_CLUSTER_QUEUE)
    assert len(victim.ranks) == 2
    resize(house, 6, leaving=victim.ranks, asked=of_volcano(8, 5))
    assert sorted(house.stops()) == sorted(f"w1-1-{rank}" for rank in victim.ranks)
    for rank in victim.ranks:
        house.pod_ended(rank, stopped=True)
    assert answers(house)[-1] == (1, 6)
    assert not {rank for rank, _, _ in seats(house)} & set(victim.ranks)
    house.reserve(of_volcano(2, 2, "high", priority=9), attempt=2)
    assert house.gang("high") is not None
    house.register(node("n3", 4))
    resize(house, 8, 2, asked=of_volcano(8, 5))
    assert [rank for rank, _, _ in seats(house)] == list(range(8))
    assert {pod.resize for pod in placement_of(house).pods if pod.rank in victim.ranks} == {2}
