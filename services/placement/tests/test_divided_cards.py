"""Cards that are divided into MIG instances: what agents are told, and what people see."""

from dataclasses import replace

from muster_contracts import codec
from muster_contracts.commands import RunPod
from muster_contracts.queries import CardShare, InstanceRow, NodePage
from muster_domain.mig import MIG_CARD, known_profiles, offered
from muster_domain.nodes import Device, DeviceHealth, MigInstance, Node
from muster_domain.workload import Workload
from muster_placement.queries import nodes as answer_nodes
from muster_testing.builders import workload

from .house import House

A100 = known_profiles("A100-SXM4-80GB", 80 * 2**30)


def machine(*instances: MigInstance) -> Node:
    devices = (Device(index=0, resource=MIG_CARD, profiles=A100, instances=instances),)
    return Node(name="n", allocatable={"cpu": 64_000, **offered(devices)}, devices=devices)


def asking(identity: str, profile: str) -> Workload:
    made = workload(identity)
    requests = {f"nvidia.com/mig-{profile}": 1000}
    return replace(made, pod_sets=(replace(made.pod_sets[0], requests=requests),))


def instance(profile: str, start: int, health: DeviceHealth = DeviceHealth.HEALTHY) -> MigInstance:
    return MigInstance(card=0, profile=profile, start=start, health=health)


def test_agents_are_told_the_instances_and_people_see_the_geometry() -> None:
    house = House()
    foreign = instance("1g.10gb", 0, DeviceHealth.HELD_BY_OTHERS)
    house.register(machine(foreign, instance("1g.10gb", 1), instance("2g.20gb", 4)))
    house.run(asking("x", "3g.40gb"))
    seated = house.gang("x")
    assert seated is not None
    (seat,) = seated.gang.placement.pods
    assert seat.instances == (instance("3g.40gb", 4),)
    page = codec.decode(NodePage, answer_nodes(house.machine, {}))
    (card,) = page.nodes[0].devices
    assert card.instances == (
        InstanceRow(profile="1g.10gb", start=0, slices=1, health="held_by_others"),
        InstanceRow(profile="1g.10gb", start=1, slices=1),
        InstanceRow(profile="3g.40gb", start=4, slices=4, holder="team-a/job-x"),
    )
    assert card.shares == (CardShare(holder="team-a/job-x", milli=500),)
    assert (card.slices, card.left_milli) == (8, 375)


def test_a_failed_card_has_nothing_left() -> None:
    house = House()
    node = machine()
    house.register(replace(node, devices=(replace(node.devices[0], health=DeviceHealth.FAILED),)))
    page = codec.decode(NodePage, answer_nodes(house.machine, {}))
    assert (page.nodes[0].devices[0].left_milli, page.nodes[0].devices[0].health) == (0, "failed")


def test_the_command_to_run_carries_the_instances() -> None:
    house = House()
    house.register(machine())
    house.run(asking("x", "1g.10gb"))
    runs = [command for _, command in house.commands if isinstance(command, RunPod)]
    assert [run.instances for run in runs] == [(instance("1g.10gb", 6),)]
