"""Gangs on cards that are divided into MIG instances as pods need them."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_domain.errors import Conflict
from muster_domain.mig import MIG_CARD, MIG_PREFIX, known_profiles, offered
from muster_domain.nodes import Device, DeviceHealth, MigInstance, Node
from muster_scheduling.placement.checks import ViolationKind, violations
from muster_scheduling.placement.failures import gangs_on_lost_devices
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed, Unplaceable
from muster_scheduling.placement.request import PodSetRequest
from muster_scheduling.placement.table import NodeTable

from .builders import gang, node, pod_set, seat, table_of

A100 = known_profiles("A100-SXM4-80GB", 80 * 2**30)
NAMES = [profile.name for profile in A100]


def divided(
    name: str, cards: int = 1, *, instances: tuple[tuple[str, int], ...] = (), fixed: int = 0
) -> Node:
    """A node with cards to divide, the first of which is divided so, and fixed 1g.10gb ones."""
    devices = tuple(
        Device(
            index=index,
            resource=MIG_CARD,
            profiles=A100,
            instances=tuple(
                MigInstance(card=0, profile=profile, start=start) for profile, start in instances
            )
            if index == 0
            else (),
        )
        for index in range(cards)
    )
    static = tuple(Device(index=i, resource=f"{MIG_PREFIX}1g.10gb") for i in range(fixed))
    offer = offered(devices)
    offer[f"{MIG_PREFIX}1g.10gb"] += fixed * 1000
    return replace(node(name, cpu=64, extra=offer), devices=devices + static)


def mig(count: int = 1, *, name: str = "main", **profiles: int) -> PodSetRequest:
    """Pods of so many instances of profiles, written like `g3=1`."""
    of_slices = {"g1": NAMES[0], "d1": NAMES[1], "g2": NAMES[2], "g3": NAMES[3], "g4": NAMES[4]}
    extra = {MIG_PREFIX + of_slices[key]: 1000 * number for key, number in profiles.items()}
    return pod_set(count, name=name, extra=extra)


def places(outcome: Placed) -> list[list[tuple[int, str, int]]]:
    return [
        [(one.card, one.profile, one.start) for one in pod.instances]
        for pod in outcome.placement.pods
    ]


def free(table: NodeTable, name: str) -> dict[str, int]:
    return {
        resource.removeprefix(MIG_PREFIX): quantity // 1000
        for resource, quantity in table.free(name).items()
        if resource.startswith(MIG_PREFIX)
    }


def test_what_is_free_follows_what_is_held() -> None:
    table = table_of(divided("a"))
    assert free(table, "a") == dict(zip(NAMES, (7, 4, 3, 2, 1, 1), strict=True))
    first = seat(table, gang(mig(g3=1), workload="w1"))
    assert places(first) == [[(0, "3g.40gb", 4)]]
    assert free(table, "a") == dict(zip(NAMES, (4, 2, 2, 1, 1, 0), strict=True))
    second = seat(table, gang(mig(g1=2), workload="w2"))
    assert places(second) == [[(0, "1g.10gb", 0), (0, "1g.10gb", 1)]]
    assert free(table, "a") == dict(zip(NAMES, (2, 1, 1, 0, 0, 0), strict=True))
    table.release("w1")
    table.release("w2")
    assert free(table, "a") == dict(zip(NAMES, (7, 4, 3, 2, 1, 1), strict=True))
    assert not violations(table)


def test_idle_instances_give_way_to_a_larger_one() -> None:
    table = table_of(divided("a", instances=tuple(("1g.10gb", start) for start in range(7))))
    assert places(seat(table, gang(mig(g4=1)))) == [[(0, "4g.40gb", 0)]]


def test_a_gang_of_unequal_instances_sits_on_one_card() -> None:
    table = table_of(divided("a"))
    outcome = seat(table, gang(mig(3, name="small", g1=1), mig(name="large", g4=1)))
    assert sorted(places(outcome)) == [
        [(0, "1g.10gb", 4)],
        [(0, "1g.10gb", 5)],
        [(0, "1g.10gb", 6)],
        [(0, "4g.40gb", 0)],
    ]
    assert not violations(table)


def test_a_pod_of_several_profiles_is_counted_as_a_whole() -> None:
    table = table_of(divided("a", 2))
    assert isinstance(place(table, gang(mig(3, g1=1, g3=1))), Placed)
    refused = place(table, gang(mig(4, g1=1, g3=1)))
    assert isinstance(refused, Unplaceable)
    assert refused.members_seated == 3


def test_a_refusal_says_how_many_slices_are_free() -> None:
    table = table_of(divided("a"))
    seat(table, gang(mig(g2=1), workload="w1"))
    seat(table, gang(mig(g1=3), workload="w2"))
    refused = place(table, gang(mig(g4=1)))
    assert isinstance(refused, Unplaceable)
    assert refused.explanation.message == (
        "0 of 1 members can be seated; main: 0/1 nodes fit: 1 insufficient "
        "nvidia.com/mig-4g.40gb on 1 divided cards with at most 3 of 8 slices free "
        "(largest free 0 of 1 asked)"
    )


def test_a_refusal_says_that_the_parts_do_not_go_together() -> None:
    refused = place(table_of(divided("a")), gang(mig(g1=1, g3=2)))
    assert isinstance(refused, Unplaceable)
    assert refused.explanation.message == (
        "0 of 1 members can be seated; main: 0/1 nodes fit: 1 insufficient slices of cards for "
        "1 x 1g.10gb and 2 x 3g.40gb (largest free 8 of 9 asked)"
    )


def test_fixed_instances_go_first() -> None:
    table = table_of(divided("a", fixed=1))
    outcome = seat(table, gang(mig(g1=2)))
    assert outcome.placement.pods[0].devices == {"nvidia.com/mig-1g.10gb": (0,)}
    assert places(outcome) == [[(0, "1g.10gb", 6)]]
    assert not violations(table)


def test_a_slice_is_not_bound_twice() -> None:
    table = table_of(divided("a"))
    one = place(table, gang(mig(g3=1), workload="w1"))
    other = place(table, gang(mig(g4=1), workload="w2"))
    third = place(table, gang(mig(g2=1), workload="w3"))
    assert isinstance(one, Placed)
    assert isinstance(other, Placed)
    assert isinstance(third, Placed)
    table.bind(one.gang)
    table.bind(other.gang)
    with pytest.raises(Conflict, match=r"nvidia\.com/mig-2g\.20gb"):
        table.bind(third.gang)


def test_what_overlaps_is_a_violation() -> None:
    table = table_of(divided("a"))
    one = seat(table, gang(mig(g3=1), workload="w1"))
    pod = replace(
        one.placement.pods[0], instances=(MigInstance(card=0, profile="2g.20gb", start=4),)
    )
    pod_sets = (replace(one.gang.pod_sets[0], requests={f"{MIG_PREFIX}2g.20gb": 1000}),)
    placement = replace(one.placement, pods=(pod,))
    table.restore(replace(one.gang, workload="w2", pod_sets=pod_sets, placement=placement))
    assert {found.kind for found in violations(table)} == {ViolationKind.DEVICE_GIVEN_TWICE}
    table.release("w1")
    wrong = replace(pod, instances=(MigInstance(card=0, profile="2g.20gb", start=6),))
    table.release("w2")
    placement = replace(one.placement, pods=(wrong,))
    table.restore(replace(one.gang, workload="w2", pod_sets=pod_sets, placement=placement))
    assert {found.kind for found in violations(table)} == {ViolationKind.DEVICE_MISSING}


def test_a_gang_on_a_failed_card_is_lost() -> None:
    table = table_of(divided("a", 2))
    seat(table, gang(mig(2, g3=1), workload="w1"))
    before = table.node("a")
    broken = replace(before.devices[0], health=DeviceHealth.FAILED)
    table.put_node(replace(before, devices=(broken, before.devices[1])))
    assert [lost.members_lost for lost in gangs_on_lost_devices(table, "a")] == [2]
    assert free(table, "a") == dict(zip(NAMES, (7, 4, 3, 2, 1, 1), strict=True))


asked_for = st.dictionaries(
    st.sampled_from(["g1", "d1", "g2", "g3", "g4"]), st.integers(1, 2), min_size=1, max_size=2
)
sets = st.lists(st.tuples(st.integers(1, 3), asked_for), min_size=1, max_size=3)


@settings(max_examples=60)
@given(st.lists(sets, min_size=1, max_size=6), st.data())
def test_whatever_sits_sits_on_slices_of_its_own(
    line: list[list[tuple[int, dict[str, int]]]], data: st.DataObject
) -> None:
    table = table_of(divided("a", 2, fixed=1), divided("b", instances=(("3g.40gb", 0),)))
    seated: list[str] = []
    for number, written in enumerate(line):
        request = gang(
            *(mig(count, name=f"s{i}", **asked) for i, (count, asked) in enumerate(written)),
            workload=f"w{number}",
        )
        outcome = place(table, request)
        if isinstance(outcome, Placed):
            table.bind(outcome.gang)
            seated.append(request.workload)
            for pod, asked in zip(
                outcome.placement.pods,
                [asked for count, asked in written for _ in range(count)],
                strict=True,
            ):
                devices = sum(len(indices) for indices in pod.devices.values())
                assert devices + len(pod.instances) == sum(asked.values())
        assert not violations(table)
        if seated and data.draw(st.booleans()):
            table.release(seated.pop(data.draw(st.integers(0, len(seated) - 1))))
