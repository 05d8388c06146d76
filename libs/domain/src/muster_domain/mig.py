"""How NVIDIA's cards may be divided into MIG instances: known models, and names.

A card in MIG mode has slices of memory, numbered from 0. An instance of a profile takes so many of
them next to each other, from one of the starts that its profile allows. Profiles with media
extensions (`+me`), of which a card holds one only, are not known here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from muster_domain.nodes import Device, DeviceHealth, MigProfile
from muster_domain.quantity import Resources

MIG_PREFIX = "nvidia.com/mig-"
"""Of the resource that instances of a profile count as: `nvidia.com/mig-1g.10gb`."""

MIG_CARD = "nvidia.com/mig"
"""What a card counts as that is given out in instances only, made as they are needed."""

_SEVENTHS = ((1, (0, 1, 2, 3, 4, 5, 6)), (2, (0, 2, 4, 6)), (2, (0, 2, 4)), (4, (0, 4)), (4, (0,)))
_QUARTERS = ((1, (0, 1, 2, 3)), (2, (0, 2)), (4, (0,)))
_WHOLE = (8, (0,))
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class _Model:
    word: str
    memory_gib: int
    profiles: tuple[str, ...]


_MODELS = (
    _Model("A30", 24, ("1g.6gb", "2g.12gb", "4g.24gb")),
    _Model("A100", 40, ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")),
    _Model("A100", 80, ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")),
    _Model("H100", 80, ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")),
    _Model("H100", 94, ("1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb")),
    _Model("H200", 141, ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb")),
    _Model("B200", 180, ("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb")),
)


def known_profiles(model: str, memory_bytes: int) -> tuple[MigProfile, ...]:
    """The profiles of a model by its name and memory; none for one that is not known.

    For cards on paper: a real one says its own.
    """
    found = [known for known in _MODELS if known.word in model]
    if not found:
        return ()
    nearest = min(found, key=lambda known: abs(known.memory_gib * _GIB - memory_bytes))
    rules = _QUARTERS if nearest.word == "A30" else (*_SEVENTHS, _WHOLE)
    return tuple(
        MigProfile(name=name, slices=slices, starts=starts)
        for name, (slices, starts) in zip(nearest.profiles, rules, strict=True)
    )


def profile_of(resource: str) -> str:
    """The MIG profile that a resource stands for; empty for any other resource."""
    return resource.removeprefix(MIG_PREFIX) if resource.startswith(MIG_PREFIX) else ""


def slots_of(profile: MigProfile, start: int) -> int:
    """The slices of an instance as bits."""
    return ((1 << profile.slices) - 1) << start


def offered(devices: Iterable[Device]) -> dict[str, int]:
    """The most instances of each profile that healthy cards could be divided into, in milli-units.

    By resource, each as if all were of that profile: they are alternatives, not a sum.
    """
    most: dict[str, int] = {}
    for device in devices:
        for profile in device.profiles:
            count = _most(profile) if device.health is DeviceHealth.HEALTHY else 0
            resource = MIG_PREFIX + profile.name
            most[resource] = most.get(resource, 0) + 1000 * count
    return most


def _most(profile: MigProfile) -> int:
    count = free_from = 0
    for start in sorted(profile.starts):
        if start >= free_from:
            count, free_from = count + 1, start + profile.slices
    return count


def counted_once(allocatable: Resources, devices: Iterable[Device]) -> dict[str, int]:
    """What a node offers, each slice of its divided cards in one resource only: for the books.

    A card counts as the instances that exist, and what is left of it as the smallest that could.
    """
    cards = [device for device in devices if device.profiles]
    counted = dict(allocatable)
    for resource, most in offered(cards).items():
        counted[resource] = counted.get(resource, 0) - most
    for card in cards:
        for profile, count in _instances_by_profile(card).items():
            counted[MIG_PREFIX + profile] = counted.get(MIG_PREFIX + profile, 0) + 1000 * count
    return counted


def _instances_by_profile(device: Device) -> dict[str, int]:
    if device.health is not DeviceHealth.HEALTHY:
        return {}
    profiles = {profile.name: profile for profile in device.profiles}
    counts: dict[str, int] = {}
    used = 0
    for instance in device.instances:
        used |= slots_of(profiles[instance.profile], instance.start)
        if instance.health is DeviceHealth.HEALTHY:
            counts[instance.profile] = counts.get(instance.profile, 0) + 1
    smallest = min(device.profiles, key=lambda profile: (profile.slices, profile.name))
    left = sum(not slots_of(smallest, start) & used for start in smallest.starts)
    if left:
        counts[smallest.name] = counts.get(smallest.name, 0) + left
    return counts
