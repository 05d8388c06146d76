"""Where a waiting gang would find seats now, domain by domain, and the largest of its shape."""

import json
from dataclasses import replace

import pytest

from muster_contracts import codec, events
from muster_contracts.fit import WAYS_MAX, DomainFit, FitPage, FitQuestion
from muster_domain.errors import InvalidValue
from muster_domain.queues import HyperNode, ResourceFlavor, Topology
from muster_domain.workload import (
    NetworkTopology,
    NetworkTopologyMode,
    PodSet,
    TopologyMode,
    TopologyRequest,
    Workload,
)
from muster_placement.fit import fit
from muster_scheduling.volcano.floor import VolcanoRules
from muster_testing.builders import FLAVOR, GPU, node, workload

from .house import House, admission

HOST = "kubernetes.io/hostname"
HALL = Topology(name="dc", levels=("block", "rack", HOST))
SWITCHES = (
    HyperNode(name="s1", tier=1, tier_name="leaf", node_members=("a0", "a1")),
    HyperNode(name="s2", tier=1, tier_name="leaf", node_members=("b0", "b1")),
    HyperNode(name="spine", tier=2, hyper_node_members=("s1", "s2")),
)


@pytest.fixture
def house() -> House:
    """One block: rack r1 with two nodes of 4 cards, r2 with two of 8; and a node elsewhere."""
    made = House()
    flavor = ResourceFlavor(name=FLAVOR, topology_name="dc")
    plain = ResourceFlavor(name="plain")
    rules = VolcanoRules(hyper_nodes=SWITCHES)
    made.machine.configure({FLAVOR: flavor, "plain": plain}, {"dc": HALL}, None, rules)
    for name, rack, gpus in (("a0", "r1", 4), ("a1", "r1", 4), ("b0", "r2", 8), ("b1", "r2", 8)):
        made.register(replace(node(name, gpus), labels={"block": "b", "rack": rack}))
    made.register(node("lonely", 2))
    return made


def asked(pods: int, gpus: int = 1, level: str = "rack", identity: str = "w1") -> Workload:
    made = workload(identity, gpus=gpus, pods=pods)
    request = TopologyRequest(mode=TopologyMode.REQUIRED, node_label=level)
    return replace(made, pod_sets=(replace(made.pod_sets[0], topology=request),))


def answer(house: House, wanted: Workload, **more: int) -> FitPage:
    question = FitQuestion(workload=wanted, admissions=(admission(wanted),), **more)
    return codec.decode(FitPage, fit(house.machine, json.loads(codec.encode(question))))


def domain(page: FitPage, *path: str) -> DomainFit:
    return next(row for row in page.domains if row.path == path)


def pods_in(page: FitPage, *path: str) -> int:
    return domain(page, *path).fits[0][0].pods


def test_every_domain_says_how_many_of_the_pods_it_would_seat(house: House) -> None:
    page = answer(house, asked(20))
    assert [(row.level, row.path, row.fits[0][0].pods) for row in page.domains] == [
        ("", (), 20),
        ("block", ("b",), 20),
        ("rack", ("b", "r1"), 8),
        ("rack", ("b", "r2"), 16),
        ("tier 2", ("spine",), 20),
        ("leaf", ("spine", "s1"), 8),
        ("leaf", ("spine", "s2"), 16),
    ]


def test_the_largest_gang_is_that_of_the_best_domain_it_may_have(house: House) -> None:
    (way,) = answer(house, asked(20)).ways
    assert (way.asked, way.enough, way.largest, way.path) == (20, 20, 16, ("b", "r2"))
    (pods,) = way.pod_sets
    assert (pods.level, pods.required, pods.pods, pods.flavors) == ("rack", True, 20, (FLAVOR,))
    assert "16 of 20" in way.message


def test_it_is_told_as_of_now_and_not_as_of_the_last_try(house: House) -> None:
    house.run(workload("other", gpus=8))
    (before,) = answer(house, asked(20)).ways
    house.end("other")
    house.pod_ended(identity="other")
    (after,) = answer(house, asked(20)).ways
    assert (before.largest, after.largest) == (8, 16)


def test_who_fits_is_told_so_without_a_complaint(house: House) -> None:
    (way,) = answer(house, asked(16)).ways
    assert (way.largest, way.path, way.message) == (16, ("b", "r2"), "")


def test_a_domain_names_who_sits_there_and_counts_ones_own(house: House) -> None:
    house.run(asked(8, identity="other"))
    house.run(asked(2, gpus=8, identity="mine"))
    page = answer(house, asked(2, gpus=8, identity="mine"))
    first, second = domain(page, "b", "r1"), domain(page, "b", "r2")
    assert (first.sitting, first.sitting_total, first.seated) == (("team-a/job-other",), 1, 0)
    assert (second.sitting, second.sitting_total, second.seated) == ((), 0, 2)


def test_cards_that_are_free_and_of_no_use_say_why(house: House) -> None:
    for number in range(2):
        house.run(workload(f"w{number}", gpus=3))
    house.hear_node(events.DrainRequested(node="b0", drained=True), "b0")
    row = domain(answer(house, asked(2, gpus=4)), "b", "r2")
    (found,) = row.fits[0]
    assert (row.ready, found.usable) == (1, 1)
    assert found.refused["not ready: cordoned"] == 1
    row = domain(answer(house, asked(2, gpus=4)), "b", "r1")
    assert row.free_milli[GPU] == 2000
    assert row.fits[0][0].refused == {"insufficient": 2}
    assert row.fits[0][0].largest_free_milli == 1000


def of_two_sets(workers: int) -> Workload:
    made = workload("w1", gpus=4, pods=workers)
    leader = PodSet(name="leader", count=1, requests={GPU: 4000})
    return replace(made, pod_sets=(leader, *made.pod_sets))


@pytest.mark.parametrize(
    ("tier", "largest", "path"), [(1, 4, ("spine", "s2")), (2, 6, ("spine",)), (None, 6, ())]
)
def test_a_gang_of_a_session_is_told_too(
    house: House, tier: int | None, largest: int, path: tuple[str, ...]
) -> None:
    bound = NetworkTopology(mode=NetworkTopologyMode.HARD, highest_tier=tier)
    wanted = replace(of_two_sets(20), network_topology=bound)
    (way,) = answer(house, wanted).ways
    assert (way.asked, way.largest, way.path) == (21, largest, path)
    assert way.message


def test_each_admission_is_a_way_of_its_own(house: House) -> None:
    wanted = workload("w1", gpus=2, pods=20)
    granted = admission(wanted)
    other = replace(
        granted,
        pod_sets=tuple(replace(each, flavors={GPU: "plain"}) for each in granted.pod_sets),
    )
    unknown = replace(
        granted,
        pod_sets=tuple(replace(each, flavors={GPU: "nowhere"}) for each in granted.pod_sets),
    )
    question = FitQuestion(workload=wanted, admissions=(granted, other, unknown))
    page = codec.decode(FitPage, fit(house.machine, json.loads(codec.encode(question))))
    assert [(way.pod_sets[0].flavors, way.largest) for way in page.ways] == [
        ((FLAVOR,), 12),
        (("plain",), 13),
    ]
    assert [each[0].pods for each in page.domains[0].fits] == [12, 13]


def test_domains_come_in_pages(house: House) -> None:
    wanted = asked(20)
    pages = [answer(house, wanted, limit=3, offset=offset) for offset in (0, 3, 6)]
    assert [row for page in pages for row in page.domains] == list(answer(house, wanted).domains)
    assert {page.total for page in pages} == {7}


@pytest.mark.parametrize("more", [{"limit": 0}, {"limit": 201}, {"offset": -1}])
def test_pages_out_of_reach_are_refused(house: House, more: dict[str, int]) -> None:
    with pytest.raises(InvalidValue):
        answer(house, asked(1), **more)


def test_too_many_ways_are_refused(house: House) -> None:
    wanted = asked(1)
    question = FitQuestion(workload=wanted, admissions=(admission(wanted),) * (WAYS_MAX + 1))
    with pytest.raises(InvalidValue):
        fit(house.machine, json.loads(codec.encode(question)))
