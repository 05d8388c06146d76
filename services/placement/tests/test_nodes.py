"""Nodes that fall silent, come back, break, and are emptied by people."""

import pytest

from muster_contracts import codec, events
from muster_contracts.queries import NodePage
from muster_domain.errors import InvalidValue
from muster_domain.nodes import NodeCondition
from muster_placement.queries import nodes as answer_nodes
from muster_placement.record import GangPhase, PodPhase
from muster_placement.settings import PlacementSettings
from muster_scheduling.placement.checks import ViolationKind
from muster_testing.builders import node, workload

from .house import House, two_nodes

SETTINGS = PlacementSettings(
    node_suspect_ms=10_000, node_lease_ms=20_000, node_fence_margin_ms=5_000
)
FENCE_MS = 25_000
PAIR = workload(gpus=4, pods=2)


@pytest.fixture
def house() -> House:
    return two_nodes(SETTINGS)


def pass_time(house: House, total_ms: int, *heard: str) -> None:
    """Let time pass; some nodes are heard of every second."""
    for _ in range(total_ms // 1_000):
        house.cycle(1_000)
        house.beat(*heard)


def test_a_new_node_is_ready_and_said_to_be(house: House) -> None:
    house.register(node("n3"))
    changed = house.last(events.NodeConditionChanged)
    assert isinstance(changed, events.NodeConditionChanged)
    assert (changed.node, changed.condition) == ("n3", NodeCondition.READY)


def test_the_same_report_again_changes_nothing(house: House) -> None:
    version = house.version
    house.register(node("n1", 4), node("n2", 4))
    assert house.version == version


def test_silence_makes_a_node_suspect_then_fenced(house: House) -> None:
    pass_time(house, 9_000, "n2")
    assert house.condition("n1") is NodeCondition.READY
    pass_time(house, 1_000, "n2")
    assert house.condition("n1") is NodeCondition.SUSPECT
    pass_time(house, 14_000, "n2")
    assert house.condition("n1") is NodeCondition.SUSPECT
    pass_time(house, 1_000, "n2")
    assert house.condition("n1") is NodeCondition.FENCED
    assert house.condition("n2") is NodeCondition.READY


def test_placement_wakes_when_a_node_may_have_been_silent_for_too_long(house: House) -> None:
    assert house.machine.wake_at_ms() == house.now_ms + 10_000
    house.cycle(4_000)
    house.beat("n1", "n2")
    assert house.machine.wake_at_ms() == house.now_ms + 10_000
    house.cycle(10_000)
    assert house.machine.wake_at_ms() == house.now_ms + 15_000
    house.cycle(15_000)
    assert house.machine.wake_at_ms() is None


def test_a_suspect_node_takes_no_new_pods_and_keeps_its_own(house: House) -> None:
    house.run(workload("old", gpus=1))
    pass_time(house, 10_000, "n2")
    house.reserve(workload("new", gpus=4))
    gang = house.gang("new")
    assert gang is not None
    assert gang.gang.placement.nodes == ("n2",)
    assert house.count(events.GangLost) == 0
    assert house.phase("old") is GangPhase.RUNNING


def test_a_node_that_is_heard_of_again_is_ready_again(house: House) -> None:
    pass_time(house, 10_000, "n2")
    house.reserve(workload("waits", gpus=4, pods=2))
    assert house.count(events.GangUnplaceable) == 1
    house.beat("n1")
    house.cycle()
    assert house.condition("n1") is NodeCondition.READY
    assert house.count(events.CapacityChanged) == 1


def test_the_gangs_of_a_fenced_node_are_lost_whole(house: House) -> None:
    house.run(PAIR)
    pass_time(house, FENCE_MS, "n2")
    fact = house.last(events.GangLost)
    assert isinstance(fact, events.GangLost)
    assert (fact.workload_id, fact.node) == ("w1", "n1")
    assert house.count(events.GangLost) == 1
    assert house.pods() == [PodPhase.GONE, PodPhase.STARTED]
    house.evict()
    assert house.stops() == ["w1-1-0", "w1-1-1"], "the fenced node too, should it come back"
    assert house.count(events.GangReleased) == 0, "a member still runs on the other node"
    house.pod_ended(1, code=143, stopped=True)
    assert house.count(events.GangReleased) == 1


def test_a_node_whose_pods_have_succeeded_is_not_missed(house: House) -> None:
    house.run(PAIR)
    house.pod_ended(0, code=0)
    pass_time(house, FENCE_MS, "n2")
    assert house.condition("n1") is NodeCondition.FENCED
    assert house.count(events.GangLost) == 0
    house.pod_ended(1, code=0)
    assert house.count(events.GangFinished) == 1


def test_a_fenced_node_takes_nothing_until_it_is_heard_of(house: House) -> None:
    pass_time(house, FENCE_MS, "n2")
    house.reserve(workload("new", gpus=4, pods=2))
    assert house.count(events.GangUnplaceable) == 1
    house.beat("n1")
    house.cycle()
    assert house.condition("n1") is NodeCondition.READY


@pytest.mark.parametrize("silence_ms", [10_000, FENCE_MS])
def test_a_new_owner_does_not_bring_a_silent_node_back(house: House, silence_ms: int) -> None:
    """Who took over has not heard of the node either; only the node itself can say it lives."""
    pass_time(house, silence_ms, "n2")
    before = house.condition("n1")
    house.restart()
    house.cycle()
    assert house.condition("n1") is before
    house.reserve(workload("new", gpus=4, pods=2))
    assert house.gang("new") is None
    house.beat("n1")
    house.cycle()
    assert house.condition("n1") is NodeCondition.READY


def test_a_new_owner_gives_every_node_a_whole_lease(house: House) -> None:
    """Its agent may have been in touch while nobody listened."""
    house.run(PAIR)
    pass_time(house, 20_000, "n2")
    house.restart()
    pass_time(house, 24_000, "n2")
    assert house.condition("n1") is NodeCondition.SUSPECT
    pass_time(house, 1_000, "n2")
    assert house.condition("n1") is NodeCondition.FENCED


def test_a_node_that_registers_again_is_heard_of(house: House) -> None:
    pass_time(house, FENCE_MS, "n2")
    house.register(node("n1", 4), incarnation=2)
    assert house.condition("n1") is NodeCondition.READY
    house.restart()
    house.cycle()
    assert house.condition("n1") is NodeCondition.READY


def test_a_broken_device_loses_the_gang_that_has_it(house: House) -> None:
    house.run(workload("one", gpus=2))
    house.run(workload("two", gpus=2))
    house.excused = frozenset({ViolationKind.NODE_OVERSUBSCRIBED, ViolationKind.DEVICE_MISSING})
    house.register(node("n1", 4, failed=frozenset({0})))
    assert house.count(events.GangLost) == 1
    fact = house.last(events.GangLost)
    assert isinstance(fact, events.GangLost)
    assert fact.workload_id == "one"
    assert "device of n1" in fact.message


def test_draining_loses_what_sits_there_and_lets_nobody_in(house: House) -> None:
    house.run(PAIR)
    house.hear_node(events.DrainRequested(node="n1", drained=True, by="ann"), "n1")
    assert house.condition("n1") is NodeCondition.CORDONED
    fact = house.last(events.GangLost)
    assert isinstance(fact, events.GangLost)
    assert fact.message == "n1 is drained by ann"
    house.evict()
    for rank in (0, 1):
        house.pod_ended(rank, code=143, stopped=True)
    house.reserve(PAIR, attempt=2)
    assert house.gang() is None


def test_a_drained_node_stays_so_whatever_happens(house: House) -> None:
    drain = events.DrainRequested(node="n1", drained=True)
    house.hear_node(drain, "n1")
    assert not house.hear_node(drain, "n1")
    house.register(node("n1", 4), incarnation=2)
    assert house.condition("n1") is NodeCondition.CORDONED
    pass_time(house, FENCE_MS, "n2")
    assert house.condition("n1") is NodeCondition.FENCED
    house.beat("n1")
    house.cycle()
    assert house.condition("n1") is NodeCondition.CORDONED
    house.restart()
    house.cycle()
    assert house.condition("n1") is NodeCondition.CORDONED


def test_a_node_that_is_used_again_takes_pods_again(house: House) -> None:
    house.hear_node(events.DrainRequested(node="n1", drained=True), "n1")
    house.reserve(PAIR)
    assert house.gang() is None
    house.hear_node(events.DrainRequested(node="n1", drained=False), "n1")
    assert house.condition("n1") is NodeCondition.READY
    assert house.count(events.CapacityChanged) == 1
    house.reserve(PAIR, attempt=2)
    assert house.gang() is not None


def test_a_silent_node_does_not_come_back_by_a_persons_wish(house: House) -> None:
    house.hear_node(events.DrainRequested(node="n1", drained=True), "n1")
    pass_time(house, FENCE_MS, "n2")
    house.restart()
    house.hear_node(events.DrainRequested(node="n1", drained=False), "n1")
    assert house.condition("n1") is NodeCondition.FENCED
    house.beat("n1")
    house.cycle()
    assert house.condition("n1") is NodeCondition.READY


def test_what_nobody_registered_cannot_be_drained(house: House) -> None:
    assert not house.hear_node(events.DrainRequested(node="n9", drained=True), "n9")


def test_heartbeats_of_strangers_mean_nothing(house: House) -> None:
    house.beat("n9")
    assert not house.cycle()


def test_nodes_say_who_holds_which_device(house: House) -> None:
    house.run(workload("one", gpus=3))
    page = codec.decode(NodePage, answer_nodes(house.machine, {}))
    assert [row.name for row in page.nodes] == ["n1", "n2"]
    assert [device.holder for device in page.nodes[0].devices] == ["team-a/job-one"] * 3 + [""]
    assert page.nodes[0].free_milli["nvidia.com/gpu"] == 1_000
    assert (page.total, page.largest_gang_of_one_gpu) == (2, 5)


def test_nodes_come_in_pages(house: House) -> None:
    house.register(*(node(f"m{number}") for number in range(5)))
    pages = [
        codec.decode(NodePage, answer_nodes(house.machine, {"limit": 3, "offset": offset}))
        for offset in (0, 3, 6)
    ]
    names = [row.name for page in pages for row in page.nodes]
    assert names == sorted(names)
    assert len(names) == 7
    named = codec.decode(NodePage, answer_nodes(house.machine, {"names": ["m3", "n1", "none"]}))
    assert ([row.name for row in named.nodes], named.total) == (["m3", "n1"], 2)
    with pytest.raises(InvalidValue):
        answer_nodes(house.machine, {"limit": 0})
