"""What a workload asks for, and the quota with which it could seek seats."""

from dataclasses import replace

import pytest

from muster_admission.queries import ANSWERS
from muster_admission.ways import ways_of
from muster_contracts import codec
from muster_contracts.fit import Asked
from muster_contracts.queries import Query
from muster_domain.errors import NotFound
from muster_domain.queues import FlavorQuotas, ResourceFlavor, ResourceGroup, ResourceQuota
from muster_domain.workload import PodSet
from muster_testing.builders import GPU, cluster_queue, configuration, workload

from .house import House


@pytest.fixture
def house() -> House:
    """A queue whose cards come in two flavors and whose cpu comes in one of its own."""
    plenty = ResourceQuota(nominal_milli=8000)
    none = ResourceQuota(nominal_milli=0)
    groups = (
        ResourceGroup(
            covered_resources=("cpu",),
            flavors=(FlavorQuotas(flavor="any", resources={"cpu": plenty}),),
        ),
        ResourceGroup(
            covered_resources=(GPU,),
            flavors=(
                FlavorQuotas(flavor="new", resources={GPU: none}),
                FlavorQuotas(flavor="old", resources={GPU: plenty}),
            ),
        ),
    )
    declared = configuration(replace(cluster_queue(), resource_groups=groups))
    flavors = {name: ResourceFlavor(name=name) for name in ("any", "new", "old")}
    return House(replace(declared, flavors=flavors))


def asked(house: House, identity: str) -> Asked:
    return codec.decode(Asked, ANSWERS[Query.ASKED](house.machine, {"id": identity}))


def test_who_waits_could_seek_seats_in_each_flavor_of_the_cards(house: House) -> None:
    house.submit(workload("hog", gpus=8))
    leader = PodSet(name="leader", count=1, requests={"cpu": 1000})
    wanted = workload("big", gpus=4, pods=2)
    worker = replace(wanted.pod_sets[0], requests={GPU: 4000, "cpu": 1000})
    house.submit(replace(wanted, pod_sets=(leader, worker)))
    found = asked(house, "big")
    assert found.workload.id == "big"
    assert [
        [(each.name, each.count, dict(each.flavors)) for each in admission.pod_sets]
        for admission in found.admissions
    ] == [
        [("leader", 1, {"cpu": "any"}), (worker.name, 2, {GPU: "new", "cpu": "any"})],
        [("leader", 1, {"cpu": "any"}), (worker.name, 2, {GPU: "old", "cpu": "any"})],
    ]


def test_in_a_queue_that_limits_nothing_of_it_there_is_one_way(house: House) -> None:
    wanted = workload("w1")
    unlimited = replace(wanted, pod_sets=(replace(wanted.pod_sets[0], requests={"memory": 1}),))
    entry = house.machine.book.view.catalog.queues["cq"]
    (admission,) = ways_of(unlimited, entry)
    assert [(each.count, dict(each.flavors)) for each in admission.pod_sets] == [(1, {})]


def test_who_holds_quota_seeks_seats_with_that(house: House) -> None:
    house.submit(workload("small", gpus=2))
    (admission,) = asked(house, "small").admissions
    assert dict(admission.pod_sets[0].flavors) == {GPU: "old"}


def test_who_runs_or_has_ended_seeks_none(house: House) -> None:
    house.run(workload("small", gpus=2))
    assert asked(house, "small").admissions == ()
    house.finish("small")
    assert asked(house, "small").admissions == ()


def test_who_is_not_known_is_not_found(house: House) -> None:
    with pytest.raises(NotFound):
        asked(house, "nobody")
