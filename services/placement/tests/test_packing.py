"""How pods are packed: the policy of a flavor, what is learned, and what is said about it."""

from dataclasses import replace

import pytest

from muster_contracts import events
from muster_domain.nodes import Node
from muster_domain.queues import PlacementPolicy, ResourceFlavor
from muster_placement.packing import PACKING_FIELD
from muster_placement.settings import PlacementSettings
from muster_testing.builders import FLAVOR, GPU, node, workload

from .house import House

BINPACK, SPREAD, FRAGMENTATION = PlacementPolicy


def house_of(policy: PlacementPolicy | None, *nodes: Node) -> House:
    """A house whose flavor has this policy, and its nodes."""
    made = House(settings=PlacementSettings(placement_policy=BINPACK))
    flavors = {FLAVOR: ResourceFlavor(name=FLAVOR, placement_policy=policy)}
    made.machine.configure(flavors, {})
    made.register(*nodes)
    return made


def said(house: House) -> list[events.GangPlaced]:
    return [fact for fact in house.said if isinstance(fact, events.GangPlaced)]


@pytest.mark.parametrize(("policy", "seat"), [(None, "n1"), (BINPACK, "n1"), (SPREAD, "n0")])
def test_a_flavors_policy_goes_before_the_installations(
    policy: PlacementPolicy | None, seat: str
) -> None:
    house = house_of(policy, node("n0", 8), node("n1", 2))
    house.reserve(workload("w1", gpus=1))
    assert said(house)[-1].placement.nodes == (seat,)


def test_what_a_gang_leaves_on_its_nodes_is_said() -> None:
    house = house_of(None, node("n0", 8))
    house.reserve(workload("w1", gpus=4))
    assert said(house)[-1].message == f"binpack: n0: leaves 4 whole {GPU}"


def test_prices_are_stored_and_a_new_owner_places_by_them() -> None:
    small, large = node("n0", 1), node("n1", 8)
    wide = replace(small, allocatable={**small.allocatable, "cpu": 512_000})
    house = house_of(FRAGMENTATION, wide, large)
    for number in range(16):
        house.reserve(workload(f"w{number}", gpus=1))
        house.evict(f"w{number}")
    assert PACKING_FIELD in house.stored
    learned = house.machine.floor.table.prices
    assert learned
    house.restart()
    assert house.machine.floor.table.prices == learned


def test_one_gang_is_learned_once_however_often_it_is_seated() -> None:
    house = house_of(FRAGMENTATION, node("n0", 8))
    for attempt in range(1, 17):
        house.reserve(workload("w1", gpus=1), attempt)
        house.evict("w1", attempt)
    assert PACKING_FIELD not in house.stored


def test_nothing_is_learned_where_nobody_packs_by_it() -> None:
    house = house_of(BINPACK, node("n0", 8))
    for number in range(17):
        house.reserve(workload(f"w{number}", gpus=1))
        house.evict(f"w{number}")
    assert PACKING_FIELD not in house.stored
