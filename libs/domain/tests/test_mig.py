"""Every slice of a divided card counts once in the books."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from muster_domain.mig import MIG_CARD, MIG_PREFIX, counted_once, known_profiles, offered
from muster_domain.nodes import Device, DeviceHealth, MigInstance

A100 = known_profiles("A100-SXM4-80GB", 80 * 2**30)


def card(*instances: tuple[str, int]) -> Device:
    return Device(
        index=0,
        resource=MIG_CARD,
        profiles=A100,
        instances=tuple(MigInstance(card=0, profile=name, start=at) for name, at in instances),
    )


def counted(device: Device, fixed: int = 0) -> dict[str, int]:
    offer: dict[str, int] = {"cpu": 5000, **offered([device])}
    small = f"{MIG_PREFIX}1g.10gb"
    offer[small] = offer.get(small, 0) + 1000 * fixed
    found = counted_once(offer, [device])
    assert found.pop("cpu") == 5000
    return {name.removeprefix(MIG_PREFIX): n // 1000 for name, n in found.items() if n}


@pytest.mark.parametrize(
    ("instances", "counts"),
    [
        ((), {"1g.10gb": 7}),
        ((("7g.80gb", 0),), {"7g.80gb": 1}),
        ((("3g.40gb", 4),), {"3g.40gb": 1, "1g.10gb": 4}),
        ((("3g.40gb", 0), ("3g.40gb", 4)), {"3g.40gb": 2}),
        ((("1g.20gb", 6), ("1g.10gb", 0)), {"1g.20gb": 1, "1g.10gb": 6}),
    ],
)
def test_a_card_is_what_exists_and_the_rest_in_the_smallest(
    instances: tuple[tuple[str, int], ...], counts: Mapping[str, int]
) -> None:
    assert counted(card(*instances)) == counts


def test_fixed_instances_of_other_cards_count_beside() -> None:
    assert counted(card(("4g.40gb", 0)), fixed=2) == {"4g.40gb": 1, "1g.10gb": 5}


def test_a_failed_card_counts_for_nothing() -> None:
    assert counted(replace(card(("4g.40gb", 0)), health=DeviceHealth.FAILED)) == {}


def test_what_others_compute_on_is_nobodys_capacity() -> None:
    others = MigInstance(card=0, profile="1g.10gb", start=0, health=DeviceHealth.HELD_BY_OTHERS)
    device = replace(card(), instances=(others,))
    assert counted(device) == {"1g.10gb": 6}
