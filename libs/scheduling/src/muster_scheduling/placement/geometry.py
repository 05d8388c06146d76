"""Where on a card a MIG instance goes: the geometry of cards that are divided as pods need it.

A card's slices are the bits of a number. Instances that pods hold are never moved; any other may
be removed to make room. A new one goes where the largest profiles can still be made afterwards,
then where fewest idle instances have to be removed, then where it exists already.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from muster_domain.mig import MIG_PREFIX, profile_of, slots_of
from muster_domain.nodes import Device, DeviceHealth, MigInstance, MigProfile
from muster_domain.quantity import Resources

MILLI = 1000
_ALL = -1
Ask = tuple[tuple[str, int], ...]
"""How many instances of which profiles, sorted by name."""

Places = tuple[tuple[int, int], ...]
"""Where an instance of a profile may be: its start and its slices as bits."""

Cost = tuple[tuple[int, ...], int, bool, int, int]
"""What can be made no more, idle instances to remove, whether it is to be made; card and start."""


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """The profiles of a model, the largest first; of equal ones the one with fewer starts."""

    places: dict[str, Places]
    profiles: dict[str, MigProfile]


@cache
def rules_of(profiles: tuple[MigProfile, ...]) -> Rules:
    """The rules of cards with these profiles; equal ones are one object."""
    ordered = sorted(profiles, key=lambda p: (-p.slices, len(p.starts), p.name))
    return Rules(
        {p.name: tuple((start, slots_of(p, start)) for start in sorted(p.starts)) for p in ordered},
        {p.name: p for p in ordered},
    )


@cache
def room(rules: Rules, held: int) -> tuple[int, ...]:
    """How many instances of each profile, and of no other, could be made beside what is held."""
    return tuple(_count(places, held) for places in rules.places.values())


def _count(places: Places, held: int) -> int:
    made = 0
    for _, slots in places:
        if not slots & held:
            held |= slots
            made += 1
    return made


@dataclass(frozen=True, slots=True)
class Card:
    """One card: the slices that are held, and the idle instances on the others."""

    index: int
    rules: Rules
    held: int
    idle: frozenset[tuple[str, int]] = frozenset()

    def room(self, profile: str) -> int:
        """How many instances of a profile could be made here."""
        return _count(self.rules.places.get(profile, ()), self.held)

    @property
    def slices(self) -> int:
        """How many slices the card has."""
        return max(profile.slices for profile in self.rules.profiles.values())

    @property
    def slices_held(self) -> int:
        """How many of them are held."""
        return (self.held & ((1 << self.slices) - 1)).bit_count()

    def takes(self, profile: str, start: int) -> bool:
        """Whether an instance may be here and nobody holds a slice of it."""
        places = self.rules.places.get(profile, ())
        return any(at == start and not slots & self.held for at, slots in places)

    def give(self, profile: str, start: int) -> "Card":
        """The card once an instance is held; idle ones in its way are gone."""
        slots = slots_of(self.rules.profiles[profile], start)
        idle = frozenset(one for one in self.idle if not self._slots(one) & slots)
        return replace(self, held=self.held | slots, idle=idle)

    def offers(self, profile: str, *, tight: bool) -> Iterator[Cost]:
        """What an instance would cost at each of its starts, less being better.

        First in the largest profiles, or `tight`: in the smallest.
        """
        before = room(self.rules, self.held)
        for start, slots in self.rules.places.get(profile, ()):
            if slots & self.held:
                continue
            after = room(self.rules, self.held | slots)
            loss = tuple(one - other for one, other in zip(before, after, strict=True))
            exists = (profile, start) in self.idle
            removed = sum(bool(self._slots(one) & slots) for one in self.idle) - exists
            yield loss[::-1] if tight else loss, removed, not exists, self.index, start

    def _slots(self, instance: tuple[str, int]) -> int:
        return slots_of(self.rules.profiles[instance[0]], instance[1])


@dataclass(frozen=True, slots=True)
class Divisible:
    """What a node has for pods that ask for MIG instances.

    `fixed` are free devices by profile that nobody divides, and which are given out first.
    """

    fixed: Mapping[str, int]
    cards: tuple[Card, ...]

    def room(self, profile: str) -> int:
        """How many instances of one profile there are or could be."""
        return self.fixed.get(profile, 0) + sum(card.room(profile) for card in self.cards)

    def give(self, ask: Ask) -> "Given | None":
        """What is left when an ask is served, and the new instances; none if it cannot be.

        The largest profiles are served first. Where keeping room for large ones leaves none for the
        last of the ask, its instances go where they waste least; then it fails only where no
        division of the cards serves it.
        """
        return self._give(ask, tight=False) or self._give(ask, tight=True)

    def _give(self, ask: Ask, *, tight: bool) -> "Given | None":
        fixed, cards = dict(self.fixed), {card.index: card for card in self.cards}
        given: list[MigInstance] = []
        for profile, count in sorted(ask, key=self._largest_first):
            taken = min(count, fixed.get(profile, 0))
            fixed[profile] = fixed.get(profile, 0) - taken
            for _ in range(count - taken):
                offers = (c for card in cards.values() for c in card.offers(profile, tight=tight))
                best = min(offers, default=None)
                if best is None:
                    return None
                *_, index, start = best
                cards[index] = cards[index].give(profile, start)
                given.append(MigInstance(card=index, profile=profile, start=start))
        return Divisible(fixed, tuple(cards.values())), tuple(given)

    def fitting(self, ask: Ask, most: int) -> int:
        """How many pods with such an ask have room, at most so many."""
        if len(ask) == 1:
            return min(most, self.room(ask[0][0]) // ask[0][1])
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if self.give(times(ask, middle)) is None:
                high = middle - 1
            else:
                low = middle
        return low

    def _largest_first(self, part: tuple[str, int]) -> tuple[int, int, str]:
        for card in self.cards:
            profile = card.rules.profiles.get(part[0])
            if profile is not None:
                return -profile.slices, len(profile.starts), part[0]
        return 0, 0, part[0]


Given = tuple[Divisible, tuple[MigInstance, ...]]


def ask_of(requests: Resources) -> Ask:
    """The MIG instances that a pod asks for in milli-units."""
    return tuple(
        (profile_of(resource), quantity // MILLI)
        for resource, quantity in sorted(requests.items())
        if resource.startswith(MIG_PREFIX) and quantity >= MILLI
    )


def times(ask: Ask, pods: int) -> Ask:
    """What so many pods ask for together."""
    return tuple((profile, count * pods) for profile, count in ask)


def card_of(device: Device, held: Sequence[MigInstance]) -> Card:
    """A card with what pods hold of it; what others hold of it is held, too.

    A card that does not know the profile of what is held has nothing left.
    """
    rules = rules_of(device.profiles)
    foreign = [one for one in device.instances if one.health is not DeviceHealth.HEALTHY]
    slots = 0
    for instance in (*held, *foreign):
        known = rules.profiles.get(instance.profile)
        slots |= _ALL if known is None else slots_of(known, instance.start)
    return Card(
        index=device.index,
        rules=rules,
        held=slots,
        idle=frozenset(
            (one.profile, one.start)
            for one in device.instances
            if not slots_of(rules.profiles[one.profile], one.start) & slots
        ),
    )
