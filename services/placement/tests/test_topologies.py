"""Gangs that a declared topology seats: order, refusals, and lost nodes (R-80 to R-90)."""

import json
from dataclasses import replace

import pytest

from muster_contracts import codec, events
from muster_contracts.commands import RunPod
from muster_contracts.queries import Seats, SeatsQuestion
from muster_domain.nodes import DomainCount, NodeCondition, TopologyAssignment
from muster_domain.policy import Policy
from muster_domain.queues import ResourceFlavor, Topology
from muster_domain.workload import TopologyMode, TopologyRequest, Workload
from muster_placement.queries import seats as answer_seats
from muster_placement.record import GangPhase, PodPhase
from muster_placement.settings import PlacementSettings
from muster_scheduling.placement.topology.terms import topology_options
from muster_testing.builders import FLAVOR, GPU, node, workload

from .house import House, admission

HOST = "kubernetes.io/hostname"
SETTINGS = PlacementSettings(
    node_suspect_ms=10_000, node_lease_ms=20_000, node_fence_margin_ms=5_000
)
FENCE_MS = 25_000
RACKED = ResourceFlavor(name=FLAVOR, topology_name="dc")
HALL = Topology(name="dc", levels=("rack", HOST))


@pytest.fixture
def house() -> House:
    """Rack r1 has three nodes of 2 GPUs, rack r2 one of 8."""
    made = House(settings=SETTINGS)
    know_topology(made)
    made.register(*(replace(node(f"a{n}", 2), labels={"rack": "r1"}) for n in range(3)))
    made.register(replace(node("b0", 8), labels={"rack": "r2"}))
    return made


def know_topology(house: House) -> None:
    house.machine.configure({FLAVOR: RACKED}, {"dc": HALL})


def asked(pods: int, label: str = "rack", mode: str = "required", identity: str = "w1") -> Workload:
    made = workload(identity, gpus=1, pods=pods)
    request = TopologyRequest(mode=TopologyMode(mode), node_label=label)
    return replace(made, pod_sets=(replace(made.pod_sets[0], topology=request),))


def fence(house: House, name: str) -> None:
    """Let a node be silent past its lease while the others are heard of."""
    others = [other for other in ("a0", "a1", "a2", "b0") if other != name]
    for _ in range(FENCE_MS // 1_000):
        house.cycle(1_000)
        house.beat(*others)


def placed(house: House) -> list[events.GangPlaced]:
    return [fact for fact in house.said if isinstance(fact, events.GangPlaced)]


def pod_started(house: House, uid: str, where: str) -> None:
    fact = events.PodStarted(pod_uid=uid, workload_id="w1", attempt=1, node=where)
    house.hear_node(fact, where)


def nodes_by_rank(house: House) -> list[str]:
    seated = house.gang()
    assert seated is not None
    return [pod.node for pod in seated.gang.placement.pods]


def test_ranks_follow_the_domains_and_the_fact_says_the_counts(house: House) -> None:
    house.reserve(asked(4))
    fact = placed(house)[0]
    assert [(pod.rank, pod.node, dict(pod.devices)) for pod in fact.placement.pods] == [
        (0, "a0", {GPU: (0,)}),
        (1, "a0", {GPU: (1,)}),
        (2, "a1", {GPU: (0,)}),
        (3, "a1", {GPU: (1,)}),
    ]
    assert fact.placement.topology == {
        "main": TopologyAssignment(
            levels=(HOST,),
            domains=(DomainCount(values=("a0",), count=2), DomainCount(values=("a1",), count=2)),
        )
    }


def test_a_pod_set_without_a_request_is_seated_by_the_topology_too(house: House) -> None:
    house.reserve(workload("w1", gpus=1, pods=3))
    assert placed(house)[0].placement.topology["main"].pods == 3


def test_a_preferred_topology_is_filled_evenly_where_the_policy_says_so(house: House) -> None:
    house.machine.floor.set_condition("b0", NodeCondition.CORDONED, house.now_ms)
    options = topology_options(Policy(balanced_topology=True))
    house.machine.configure({FLAVOR: RACKED}, {"dc": HALL}, options)
    house.register(replace(node("a3", 4), labels={"rack": "r1"}))
    house.reserve(asked(5, mode="preferred"))
    counts = [domain.count for domain in placed(house)[0].placement.topology["main"].domains]
    assert sorted(counts) == [2, 3]


def test_a_refusal_says_how_many_fit_and_why_nodes_are_out(house: House) -> None:
    house.reserve(asked(9))
    refused = house.last(events.GangUnplaceable)
    assert isinstance(refused, events.GangUnplaceable)
    assert "topology dc fits only 8 out of 9 pods in one rack" in refused.explanation.message
    assert refused.explanation.counts["members_seated"] == 8
    house.machine.floor.set_condition("b0", NodeCondition.CORDONED, house.now_ms)
    house.reserve(asked(9, identity="w2"))
    refused = house.last(events.GangUnplaceable)
    assert isinstance(refused, events.GangUnplaceable)
    assert "fits only 6 out of 9 pods in one rack: 1 not ready (cordoned)" in str(refused)


def test_a_request_waits_until_its_topology_is_declared() -> None:
    house = House(settings=SETTINGS)
    house.machine.configure({FLAVOR: RACKED}, {})
    house.register(replace(node("a0", 2), labels={"rack": "r1"}))
    house.reserve(asked(2))
    assert placed(house) == []
    know_topology(house)
    house.cycle()
    assert len(placed(house)) == 1


def test_seats_can_be_asked_for_as_if_others_were_gone(house: House) -> None:
    """Nobody is preempted for a gang that would find no seats all the same."""
    for identity in ("w1", "w2"):
        house.reserve(asked(2, HOST, identity=identity))
    free = {name: house.free(name) for name in ("a0", "a1", "a2", "b0")}
    held = house.machine.floor.table.gangs()
    for gone, nodes in (((), ()), (("w1",), ()), (("w1", "w2"), ("a0", "a1", "a2"))):
        wanted = asked(6, identity="w3")
        house.machine.floor.set_condition("b0", NodeCondition.CORDONED, house.now_ms)
        question = SeatsQuestion(workload=wanted, admission=admission(wanted), without=gone)
        body = answer_seats(house.machine, json.loads(codec.encode(question)))
        assert codec.decode(Seats, body).nodes == nodes
    assert {name: house.free(name) for name in free} == free
    assert house.machine.floor.table.gangs() == held


def test_the_pods_of_a_fenced_node_start_elsewhere_and_the_others_run_on(house: House) -> None:
    house.run(asked(4))
    fence(house, "a1")
    assert house.count(events.GangLost) == 0
    assert nodes_by_rank(house) == ["a0", "a0", "a2", "a2"]
    again = placed(house)[-1]
    assert again.placement.replacements == 1
    assert again.message == "a1 was silent and is fenced; its pods start on a2"
    runs = [(where, c.pod_uid) for where, c in house.commands if isinstance(c, RunPod)][-2:]
    assert runs == [("a2", "w1-1-2-1"), ("a2", "w1-1-3-1")]
    assert house.stops() == ["w1-1-2", "w1-1-3"], "should the lost node come back"
    assert house.phase() is GangPhase.RUNNING


def test_nothing_moves_while_the_pods_may_still_run(house: House) -> None:
    house.run(asked(4))
    for _ in range(24):
        house.cycle(1_000)
        house.beat("a0", "a2", "b0")
    assert house.condition("a1") is NodeCondition.SUSPECT
    assert nodes_by_rank(house) == ["a0", "a0", "a1", "a1"]
    house.beat("a1")
    house.cycle(1_000)
    assert house.condition("a1") is NodeCondition.READY
    assert len(placed(house)) == 1


def test_what_the_lost_node_says_later_changes_nothing(house: House) -> None:
    house.run(asked(4))
    fence(house, "a1")
    before = house.gang()
    for uid in ("w1-1-2", "w1-1-3"):
        late = events.PodFinished(
            pod_uid=uid, workload_id="w1", attempt=1, node="a1", exit_code=143, stopped=True
        )
        house.hear_node(late, "a1")
        house.hear_node(late, "a1")
    assert house.gang() == before
    assert house.count(events.GangLost) == 0


def test_a_new_owner_knows_the_new_seats(house: House) -> None:
    house.run(asked(4))
    fence(house, "a1")
    house.restart()
    know_topology(house)
    assert nodes_by_rank(house) == ["a0", "a0", "a2", "a2"]
    pod_started(house, "w1-1-2-1", "a2")
    pod_started(house, "w1-1-3-1", "a2")
    assert house.pods() == [PodPhase.STARTED] * 4


def test_without_a_place_in_the_domain_the_gang_is_lost_at_once(house: House) -> None:
    house.run(asked(5))
    fence(house, "a1")
    lost = house.last(events.GangLost)
    assert isinstance(lost, events.GangLost)
    assert lost.node == "a1"
    assert len(placed(house)) == 1


def test_a_second_node_lost_while_the_first_is_being_replaced_takes_the_gang_down(
    house: House,
) -> None:
    house.run(asked(4, mode="preferred"))
    assert nodes_by_rank(house) == ["a0", "a0", "a1", "a1"]
    fence(house, "a1")
    moved_to = nodes_by_rank(house)[2]
    fence(house, moved_to)
    assert house.count(events.GangLost) == 1


def test_a_node_lost_after_the_first_was_replaced_is_replaced_again(house: House) -> None:
    house.run(asked(4, mode="preferred"))
    fence(house, "a1")
    for rank in (2, 3):
        pod_started(house, f"w1-1-{rank}-1", "a2")
    house.beat("a1")
    house.cycle()
    fence(house, "a2")
    assert house.count(events.GangLost) == 0
    assert placed(house)[-1].placement.replacements == 2


def test_a_gang_whose_rank_0_is_lost_goes_whole(house: House) -> None:
    """The others know its address; they would wait for it where it is no more."""
    house.run(asked(4))
    fence(house, "a0")
    assert house.count(events.GangLost) == 1
    assert len(placed(house)) == 1


def test_an_external_job_is_not_replaced(house: House) -> None:
    house.reserve(replace(asked(4), execution=workload(lease_ms=60_000).execution))
    house.confirm()
    fence(house, "a1")
    assert house.count(events.GangLost) == 1


def test_replaced_seats_come_free_with_the_gang(house: House) -> None:
    house.run(asked(4))
    fence(house, "a1")
    house.evict()
    assert house.free("a2") == 0, "its pods are not known to be gone"
    for uid, where in (("w1-1-0", "a0"), ("w1-1-1", "a0"), ("w1-1-2-1", "a2"), ("w1-1-3-1", "a2")):
        fact = events.PodFinished(
            pod_uid=uid, workload_id="w1", attempt=1, node=where, exit_code=143, stopped=True
        )
        house.hear_node(fact, where)
    assert house.count(events.GangReleased) == 1
    assert (house.free("a0"), house.free("a2"), house.gang()) == (2, 2, None)
