"""Where MIG instances go, against every division there is."""

from collections.abc import Iterable, Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.mig import known_profiles, slots_of
from muster_domain.nodes import Device, DeviceHealth, MigInstance, MigProfile
from muster_scheduling.placement.geometry import Ask, Card, Divisible, card_of, rules_of

GIB = 2**30
A100 = known_profiles("NVIDIA A100-SXM4-80GB", 80 * GIB)
A30 = known_profiles("NVIDIA A30", 24 * GIB)
SEVENTHS = {profile.name: profile for profile in A100}

Division = frozenset[tuple[str, int]]


@cache
def divisions(profiles: tuple[MigProfile, ...]) -> tuple[Division, ...]:
    """Every set of instances that do not overlap, in no particular way of finding them."""
    places = [(p, start) for p in profiles for start in p.starts]

    def extend(number: int, used: int, chosen: Division) -> Iterator[Division]:
        if number == len(places):
            yield chosen
            return
        yield from extend(number + 1, used, chosen)
        profile, start = places[number]
        slots = slots_of(profile, start)
        if not slots & used:
            yield from extend(number + 1, used | slots, chosen | {(profile.name, start)})

    return tuple(extend(0, 0, frozenset()))


def counts_of(instances: Iterable[str]) -> Ask:
    found: dict[str, int] = {}
    for profile in instances:
        found[profile] = found.get(profile, 0) + 1
    return tuple(sorted(found.items()))


@cache
def served_beside(profiles: tuple[MigProfile, ...], held: Division) -> frozenset[Ask]:
    """Every ask that some division serves which keeps what is held."""
    kept = [whole for whole in divisions(profiles) if held <= whole]
    return frozenset(counts_of(name for name, _ in whole - held) for whole in kept)


def device(
    instances: Iterable[tuple[str, int]] = (),
    index: int = 0,
    profiles: tuple[MigProfile, ...] = A100,
) -> Device:
    return Device(
        index=index,
        resource="nvidia.com/mig",
        profiles=profiles,
        instances=tuple(
            MigInstance(card=index, profile=profile, start=start)
            for profile, start in sorted(instances)
        ),
    )


def card(held: Iterable[tuple[str, int]], profiles: tuple[MigProfile, ...] = A100) -> Card:
    found = [MigInstance(card=0, profile=name, start=start) for name, start in held]
    return card_of(device(profiles=profiles), found)


def places(given: tuple[MigInstance, ...]) -> list[tuple[int, str, int]]:
    return [(one.card, one.profile, one.start) for one in given]


@pytest.mark.parametrize("profiles", [A100, A30])
def test_an_ask_fails_only_where_no_division_serves_it(profiles: tuple[MigProfile, ...]) -> None:
    everything = served_beside(profiles, frozenset())
    for held in divisions(profiles):
        possible = served_beside(profiles, held)
        node = Divisible({}, (card(held, profiles),))
        for ask in everything:
            assert (node.give(ask) is not None) == (ask in possible), (sorted(held), ask)


@given(st.data(), st.sampled_from([A100, A30]))
def test_nor_on_two_cards(data: st.DataObject, profiles: tuple[MigProfile, ...]) -> None:
    held = [data.draw(st.sampled_from(divisions(profiles))) for _ in range(2)]
    first, second = (served_beside(profiles, of) for of in held)
    ask = counts_of(data.draw(st.lists(st.sampled_from([p.name for p in profiles]), max_size=10)))
    possible = any(
        all(part >= 0 for part in left.values()) and counts_of_left(left) in second
        for one in first
        for left in (minus(ask, one),)
    )
    cards = tuple(
        card_of(
            device(index=number, profiles=profiles),
            [MigInstance(card=number, profile=name, start=start) for name, start in sorted(of)],
        )
        for number, of in enumerate(held)
    )
    assert (Divisible({}, cards).give(ask) is not None) == possible


def minus(ask: Ask, other: Ask) -> dict[str, int]:
    left = dict(ask)
    for profile, count in other:
        left[profile] = left.get(profile, 0) - count
    return left


def counts_of_left(left: dict[str, int]) -> Ask:
    return tuple(sorted((profile, count) for profile, count in left.items() if count))


asks = st.lists(st.sampled_from([*SEVENTHS]), max_size=4).map(counts_of)


@given(st.lists(asks, max_size=8), st.sampled_from(divisions(A100)))
def test_nobody_gets_a_slice_twice(line: list[Ask], idle: Division) -> None:
    node = Divisible({}, (card_of(device(idle), ()), card_of(device(index=1), ())))
    used: dict[int, int] = {0: 0, 1: 0}
    for ask in line:
        answer = node.give(ask)
        if answer is None:
            continue
        node, instances = answer
        assert counts_of(one.profile for one in instances) == ask
        for one in instances:
            profile = SEVENTHS[one.profile]
            slots = slots_of(profile, one.start)
            assert one.start in profile.starts
            assert not slots & used[one.card]
            used[one.card] |= slots
    for each in node.cards:
        assert each.held == used[each.index]
        assert each.held.bit_count() <= 8
        assert all(not slots_of(SEVENTHS[name], start) & each.held for name, start in each.idle)


@given(st.sampled_from(divisions(A100)))
def test_compute_slices_never_exceed_seven(held: Division) -> None:
    assert sum(int(name.partition("g")[0]) for name, _ in held) <= 7


@pytest.mark.parametrize(
    ("held", "asked", "start"),
    [
        ([], "1g.10gb", 6),
        ([], "1g.20gb", 6),
        ([], "2g.20gb", 4),
        ([], "3g.40gb", 4),
        ([], "4g.40gb", 0),
        ([("1g.10gb", 6)], "1g.10gb", 4),
        ([("3g.40gb", 4)], "2g.20gb", 0),
        ([("1g.10gb", 0)], "3g.40gb", 4),
    ],
)
def test_the_largest_profiles_stay_possible(
    held: list[tuple[str, int]], asked: str, start: int
) -> None:
    answer = Divisible({}, (card(held),)).give(((asked, 1),))
    assert answer is not None
    assert places(answer[1]) == [(0, asked, start)]


def test_a_begun_card_is_used_before_a_whole_one() -> None:
    begun = card_of(device(index=1), [MigInstance(card=1, profile="1g.10gb", start=6)])
    answer = Divisible({}, (card_of(device(), ()), begun)).give((("2g.20gb", 1),))
    assert answer is not None
    assert places(answer[1]) == [(1, "2g.20gb", 4)]


def test_of_equal_places_the_one_where_least_is_removed() -> None:
    halves = card_of(device([("3g.40gb", 0), ("3g.40gb", 4)]), ())
    sevenths = card_of(device([("1g.10gb", start) for start in range(7)], index=1), ())
    answer = Divisible({}, (halves, sevenths)).give((("1g.10gb", 1),))
    assert answer is not None
    assert places(answer[1]) == [(1, "1g.10gb", 6)]
    answer = Divisible({}, (halves, sevenths)).give((("3g.40gb", 1),))
    assert answer is not None
    left, instances = answer
    assert places(instances) == [(0, "3g.40gb", 4)]
    assert left.cards[0].idle == {("3g.40gb", 0)}


def test_nothing_is_removed_where_there_is_as_good_a_place_without() -> None:
    cards = (card_of(device([("1g.20gb", 6)]), ()), card_of(device(index=1), ()))
    answer = Divisible({}, cards).give((("1g.10gb", 1),))
    assert answer is not None
    assert places(answer[1]) == [(1, "1g.10gb", 6)]


def test_idle_instances_in_the_way_are_removed_and_no_others() -> None:
    sevenths = card_of(device([("1g.10gb", start) for start in range(7)]), ())
    answer = Divisible({}, (sevenths,)).give((("3g.40gb", 1),))
    assert answer is not None
    assert answer[0].cards[0].idle == {("1g.10gb", start) for start in range(4)}


def test_what_others_compute_on_is_held() -> None:
    foreign = MigInstance(card=0, profile="1g.10gb", start=2, health=DeviceHealth.HELD_BY_OTHERS)
    found = card_of(
        Device(index=0, resource="nvidia.com/mig", profiles=A100, instances=(foreign,)), ()
    )
    assert Divisible({}, (found,)).room("4g.40gb") == 0
    assert Divisible({}, (found,)).room("3g.40gb") == 1


def test_a_card_that_became_another_has_nothing_left() -> None:
    found = card_of(device(profiles=A30), [MigInstance(card=0, profile="1g.10gb", start=0)])
    assert [found.room(profile.name) for profile in A30] == [0, 0, 0]


def test_fixed_devices_go_first() -> None:
    node = Divisible({"1g.10gb": 2}, (card([]),))
    assert node.room("1g.10gb") == 9
    answer = node.give((("1g.10gb", 3),))
    assert answer is not None
    left, instances = answer
    assert (left.fixed["1g.10gb"], places(instances)) == (0, [(0, "1g.10gb", 6)])


@pytest.mark.parametrize(
    ("ask", "pods"),
    [
        ((("1g.10gb", 1),), 14),
        ((("1g.10gb", 2),), 7),
        ((("1g.10gb", 1), ("3g.40gb", 1)), 3),
        ((("1g.10gb", 1), ("2g.20gb", 1)), 4),
        ((("3g.40gb", 1), ("4g.40gb", 1)), 2),
        ((("3g.40gb", 1), ("7g.80gb", 1)), 1),
    ],
)
def test_pods_that_fit_on_two_cards(ask: Ask, pods: int) -> None:
    cards = (card_of(device(), ()), card_of(device(index=1), ()))
    assert Divisible({}, cards).fitting(ask, 100) == pods


def test_equal_rules_are_one_object() -> None:
    assert rules_of(A100) is rules_of(known_profiles("NVIDIA A100-SXM4-80GB", 80 * GIB))


@pytest.mark.parametrize(
    ("model", "gib", "names"),
    [
        ("NVIDIA A30", 24, "1g.6gb 2g.12gb 4g.24gb"),
        ("NVIDIA A100-PCIE-40GB", 40, "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
        ("NVIDIA H100 80GB HBM3", 79, "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
        ("NVIDIA H200", 140, "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"),
        ("NVIDIA B200", 179, "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb"),
        ("Tesla T4", 15, ""),
    ],
)
def test_profiles_of_known_models(model: str, gib: int, names: str) -> None:
    assert [profile.name for profile in known_profiles(model, gib * GIB)] == names.split()
