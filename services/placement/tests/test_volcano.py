"""Volcano gangs: seated by a session where one is configured, with nodes kept for claimants."""

import json
from dataclasses import replace

import pytest

from muster_contracts import codec, events
from muster_contracts.queries import Seats, SeatsQuestion
from muster_domain.conditions import PreemptionReason, UnplaceableReason
from muster_domain.queues import HyperNode, ResourceFlavor, VolcanoQueue
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration, Switch
from muster_domain.workload import NetworkTopology, VolcanoQueueRef, Workload
from muster_placement.floor import CLAIM_MS
from muster_placement.queries import seats as answer_seats
from muster_placement.settings import PlacementSettings
from muster_scheduling.volcano.floor import VolcanoRules
from muster_testing.builders import FLAVOR, GPU, node, workload

from .house import House, admission

PREEMPTING = SchedulerConfiguration(
    actions=("allocate", "preempt"),
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
)
SETTINGS = PlacementSettings(node_lease_ms=10 * CLAIM_MS, node_suspect_ms=9 * CLAIM_MS)


def of_queue(asked: Workload, topology: NetworkTopology | None = None) -> Workload:
    return replace(asked, queue=VolcanoQueueRef(name="q"), network_topology=topology)


def house_of(nodes: int, rules: VolcanoRules) -> House:
    house = House(SETTINGS)
    house.register(*(node(f"n{number}", 4) for number in range(nodes)))
    configure(house, rules)
    return house


def configure(house: House, rules: VolcanoRules) -> None:
    rules = replace(rules, queues=(VolcanoQueue(name="q"),))
    house.machine.configure({FLAVOR: ResourceFlavor(name=FLAVOR)}, {}, None, rules)


@pytest.fixture
def crowded() -> House:
    """Both nodes are taken, and somebody more important found no seats."""
    house = house_of(2, VolcanoRules(scheduler=PREEMPTING))
    for identity in ("a", "b"):
        house.run(of_queue(workload(identity, gpus=4)))
    house.said.clear()
    house.reserve(of_queue(workload("high", gpus=4, priority=9)))
    return house


def refusal(house: House) -> events.GangUnplaceable:
    fact = house.last(events.GangUnplaceable)
    assert isinstance(fact, events.GangUnplaceable)
    return fact


@pytest.mark.parametrize(("pods", "placed"), [(2, True), (3, False)])
def test_a_bound_on_hyper_nodes_is_kept(pods: int, *, placed: bool) -> None:
    house = house_of(4, VolcanoRules(hyper_nodes=RACKS))
    block = NetworkTopology(highest_tier_name="block")
    house.reserve(of_queue(workload(gpus=4, pods=pods), block))
    if not placed:
        assert refusal(house).explanation.reason == UnplaceableReason.TOPOLOGY
        assert house.gang() is None
        return
    gang = house.gang()
    assert gang is not None
    assert set(gang.gang.placement.nodes) in ({"n0", "n1"}, {"n2", "n3"})


@pytest.mark.parametrize(
    ("priority", "victims", "nodes"), [(9, [("w1", 4000)], ("n0",)), (0, [], ())]
)
def test_who_would_give_way_is_said_to_who_asks(
    priority: int, victims: list[tuple[str, int]], nodes: tuple[str, ...]
) -> None:
    house = house_of(1, VolcanoRules(scheduler=PREEMPTING))
    house.run(of_queue(workload(gpus=4)))
    wanted = of_queue(workload("wanted", gpus=4, priority=priority))
    question = SeatsQuestion(workload=wanted, admission=admission(wanted))
    body = answer_seats(house.machine, json.loads(codec.encode(question)))
    answer = codec.decode(Seats, body)
    assert [(found.id, found.requests_milli[GPU]) for found in answer.victims] == victims
    assert answer.nodes == nodes
    assert answer.explanation is not None
    assert house.machine.floor.claims == {}


def test_who_has_to_go_is_proposed_and_their_nodes_are_kept(crowded: House) -> None:
    (victim,) = refusal(crowded).victims
    assert (victim.attempt, victim.reason) == (1, PreemptionReason.IN_CLUSTER_QUEUE)
    seated = crowded.gang(victim.workload_id)
    assert seated is not None
    kept = seated.gang.placement.nodes
    assert crowded.machine.floor.claims["high"].nodes == kept
    crowded.evict(victim.workload_id)
    crowded.pod_ended(0, code=143, identity=victim.workload_id, stopped=True)
    crowded.restart()
    configure(crowded, VolcanoRules(scheduler=PREEMPTING))
    crowded.reserve(of_queue(workload("thief", gpus=4)))
    assert crowded.gang("thief") is None
    crowded.reserve(of_queue(workload("high", gpus=4, priority=9)), attempt=2)
    claimant = crowded.gang("high")
    assert claimant is not None
    assert claimant.gang.placement.nodes == kept
    assert crowded.machine.floor.claims == {}


def test_a_claim_ends_with_its_time_and_with_its_claimant(crowded: House) -> None:
    wake = crowded.machine.wake_at_ms()
    assert wake is not None
    crowded.beat("n0", "n1")
    crowded.cycle(after_ms=CLAIM_MS)
    assert crowded.machine.floor.claims == {}
    assert crowded.count(events.CapacityChanged) == 1
    crowded.reserve(of_queue(workload("high", gpus=4, priority=9)), attempt=2)
    assert set(crowded.machine.floor.claims) == {"high"}
    crowded.end("high", attempt=2)
    assert crowded.machine.floor.claims == {}


def test_nobody_is_proposed_twice_while_room_is_being_made(crowded: House) -> None:
    (victim,) = refusal(crowded).victims
    crowded.evict(victim.workload_id)
    crowded.reserve(of_queue(workload("high", gpus=4, priority=9)), attempt=2)
    assert refusal(crowded).victims == ()
    assert set(crowded.machine.floor.claims) == {"high"}
