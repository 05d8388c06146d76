# ruff: noqa: N802 - the names are those of NVML
"""Cards are divided through a library that has NVML's calls, a card's rules, and their errors."""

import ctypes
from dataclasses import dataclass, field
from types import SimpleNamespace

import pynvml
import pytest

from muster_agent.inventory import DeviceUse, MachineReading, NodeIdentity, ProcessOwner, node_of
from muster_agent.mig import Divider, made, offers
from muster_agent.nvml import GpuReading, InstanceReading
from muster_contracts.commands import RunPod
from muster_domain.errors import Conflict
from muster_domain.mig import MIG_CARD, known_profiles
from muster_domain.nodes import DeviceHealth, MigInstance

from .builders import run_pod

GIB = 2**30
A100 = known_profiles("A100-SXM4-80GB", 80 * GIB)
NUMBERS = {0: "1g.10gb", 1: "2g.20gb", 2: "3g.40gb", 3: "4g.40gb", 4: "7g.80gb", 9: "1g.20gb"}
IDS = {19: "1g.10gb", 15: "1g.20gb", 14: "2g.20gb", 9: "3g.40gb", 5: "4g.40gb", 0: "7g.80gb"}
MEDIA = 7
MEDIA_ID = 20


@dataclass
class FakeInstance:
    profile: int
    start: int
    slices: int
    filled: bool = False
    processes: int = 0


@dataclass
class FakeCard:
    """One A100. Handles are numbers behind opaque pointers, as NVML's are."""

    instances: dict[int, FakeInstance] = field(default_factory=dict[int, FakeInstance])
    last: int = 0
    destroyed: list[int] = field(default_factory=list[int])
    permitted: bool = True

    def has(self, name: str, start: int, *, filled: bool = True, processes: int = 0) -> int:
        """Make an instance as somebody else would have."""
        ident = next(number for number, known in IDS.items() if known == name)
        slices = next(profile.slices for profile in A100 if profile.name == name)
        self.last += 1
        self.instances[self.last] = FakeInstance(ident, start, slices, filled, processes)
        return self.last

    @property
    def layout(self) -> list[tuple[str, int]]:
        made = [(IDS[one.profile], one.start) for one in self.instances.values()]
        return sorted(made, key=lambda one: one[1])

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        assert index == 0
        return index

    def nvmlDeviceGetGpuInstanceProfileInfo(self, _device: int, number: int) -> SimpleNamespace:
        if number == MEDIA:
            return SimpleNamespace(
                id=MEDIA_ID, sliceCount=1, instanceCount=1, name=b"MIG 1g.10gb+me"
            )
        if number not in NUMBERS:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        name = NUMBERS[number]
        ident = next(one for one, known in IDS.items() if known == name)
        return SimpleNamespace(
            id=ident, sliceCount=int(name[0]), instanceCount=7, name=f"MIG {name}".encode()
        )

    def nvmlDeviceGetGpuInstancePossiblePlacements(
        self, _device: int, ident: int, places: object, count: object
    ) -> None:
        if not self.permitted:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
        name = "1g.10gb" if ident == MEDIA_ID else IDS[ident]
        profile = next(profile for profile in A100 if profile.name == name)
        count._obj.value = len(profile.starts)
        for number, start in enumerate(profile.starts if places is not None else ()):
            places[number].start, places[number].size = start, profile.slices

    def nvmlDeviceGetGpuInstances(
        self, _device: int, ident: int, array: object, count: object
    ) -> None:
        found = [number for number, one in self.instances.items() if one.profile == ident]
        count._obj.value = len(found)
        for place, number in enumerate(found):
            array[place] = ctypes.cast(ctypes.c_void_p(number), pynvml.c_nvmlGpuInstance_t)

    def nvmlGpuInstanceGetInfo(self, handle: object) -> SimpleNamespace:
        number = _number(handle)
        one = self.instances[number]
        place = SimpleNamespace(start=one.start, size=one.slices)
        return SimpleNamespace(id=number, profileId=one.profile, placement=place)

    def nvmlDeviceCreateGpuInstanceWithPlacement(
        self, _device: int, ident: int, placement: object
    ) -> object:
        place = placement._obj
        slots = range(place.start, place.start + place.size)
        for one in self.instances.values():
            if set(slots) & set(range(one.start, one.start + one.slices)):
                raise pynvml.NVMLError(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
        self.last += 1
        self.instances[self.last] = FakeInstance(ident, place.start, place.size)
        return ctypes.cast(ctypes.c_void_p(self.last), pynvml.c_nvmlGpuInstance_t)

    def nvmlGpuInstanceDestroy(self, handle: object) -> None:
        if self.instances[_number(handle)].filled:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_IN_USE)
        del self.instances[_number(handle)]
        self.destroyed.append(_number(handle))

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(
        self, handle: object, number: int, _engines: int
    ) -> SimpleNamespace:
        whole = int(IDS[self.instances[_number(handle)].profile][0])
        if number > 1 or number + 1 > whole:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        slices = (1, whole)[number]
        return SimpleNamespace(id=number, sliceCount=slices, instanceCount=1)

    def nvmlGpuInstanceGetComputeInstances(
        self, handle: object, ident: int, array: object, count: object
    ) -> None:
        one = self.instances[_number(handle)]
        largest = 1 if int(IDS[one.profile][0]) > 1 else 0
        count._obj.value = int(one.filled and ident == largest)
        if count._obj.value:
            address = ctypes.c_void_p(_number(handle))
            array[0] = ctypes.cast(address, pynvml.c_nvmlComputeInstance_t)

    def nvmlGpuInstanceCreateComputeInstance(self, handle: object, ident: int) -> None:
        one = self.instances[_number(handle)]
        assert ident == (1 if int(IDS[one.profile][0]) > 1 else 0), "all of the instance"
        one.filled = True

    def nvmlComputeInstanceDestroy(self, handle: object) -> None:
        self.instances[_number(handle)].filled = False

    def nvmlDeviceGetMaxMigDeviceCount(self, _device: int) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, _device: int, index: int) -> str:
        shown = [number for number, one in sorted(self.instances.items()) if one.filled]
        if index >= len(shown):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return f"MIG-{shown[index]}"

    def nvmlDeviceGetGpuInstanceId(self, device: str) -> int:
        return int(device.removeprefix("MIG-"))

    def nvmlDeviceGetUUID(self, device: str) -> str:
        return device

    def nvmlDeviceGetComputeRunningProcesses(self, device: str) -> list[SimpleNamespace]:
        one = self.instances[self.nvmlDeviceGetGpuInstanceId(device)]
        return [SimpleNamespace(pid=pid) for pid in range(one.processes)]


def _number(handle: object) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def asks(*places: tuple[str, int], uid: str = "w1-1-0") -> RunPod:
    instances = tuple(
        MigInstance(card=0, profile=profile, start=start) for profile, start in places
    )
    return run_pod(uid, instances=instances)


def divider(card: FakeCard, *others: RunPod) -> Divider:
    return Divider(lambda: {pod.pod_uid: pod for pod in others}, card)


def test_a_card_says_its_own_rules() -> None:
    told = [offer.profile for offer in offers(FakeCard(), 0)]
    assert sorted(told, key=lambda p: p.name) == sorted(A100, key=lambda p: p.name)


async def test_instances_are_made_where_the_seat_says() -> None:
    card = FakeCard()
    uuids = await divider(card).divide(asks(("3g.40gb", 4), ("1g.10gb", 0)))
    assert card.layout == [("1g.10gb", 0), ("3g.40gb", 4)]
    assert uuids == ("MIG-1", "MIG-2")
    assert all(one.filled for one in card.instances.values())


async def test_what_exists_is_used_again() -> None:
    card = FakeCard()
    number = card.has("3g.40gb", 4)
    assert await divider(card).divide(asks(("3g.40gb", 4))) == (f"MIG-{number}",)
    assert await divider(card).divide(asks(("3g.40gb", 4))) == (f"MIG-{number}",)
    assert (card.destroyed, card.last) == ([], number)


async def test_an_instance_that_was_left_empty_is_filled() -> None:
    card = FakeCard()
    number = card.has("2g.20gb", 2, filled=False)
    assert await divider(card).divide(asks(("2g.20gb", 2))) == (f"MIG-{number}",)


async def test_idle_instances_in_the_way_are_removed_and_no_others() -> None:
    card = FakeCard()
    removed = [card.has("1g.10gb", start) for start in range(4)]
    kept = [card.has("1g.10gb", start) for start in (4, 5)]
    card.instances[kept[0]].processes = 1
    await divider(card, asks(("1g.10gb", 5), uid="w2-1-0")).divide(asks(("4g.40gb", 0)))
    assert card.destroyed == removed
    assert card.layout == [("4g.40gb", 0), ("1g.10gb", 4), ("1g.10gb", 5)]


async def test_what_another_pod_has_is_never_removed() -> None:
    card = FakeCard()
    card.has("1g.10gb", 6)
    other = asks(("1g.10gb", 6), uid="w2-1-0")
    with pytest.raises(Conflict, match="slice 6 of card 0 is another pod's"):
        await divider(card, other).divide(asks(("3g.40gb", 4)))
    assert card.layout == [("1g.10gb", 6)]


async def test_what_is_computed_on_is_never_removed() -> None:
    card = FakeCard()
    card.has("1g.10gb", 6, processes=1)
    with pytest.raises(Conflict, match="something still computes on the instance at slice 6"):
        await divider(card).divide(asks(("3g.40gb", 4)))
    assert card.layout == [("1g.10gb", 6)]


async def test_an_agent_that_may_not_divide_says_so() -> None:
    with pytest.raises(Conflict, match="cards cannot be divided: Insufficient Permissions"):
        await divider(FakeCard(permitted=False)).divide(asks(("1g.10gb", 0)))


async def test_a_profile_that_the_card_lacks_is_refused() -> None:
    with pytest.raises(Conflict, match=r"card 0 has no profile 1g\.5gb"):
        await divider(FakeCard()).divide(asks(("1g.5gb", 0)))


async def test_a_pod_without_instances_touches_no_card() -> None:
    assert await divider(FakeCard(permitted=False)).divide(run_pod()) == ()


def test_every_instance_is_known_with_its_slices() -> None:
    card = FakeCard()
    card.has("2g.20gb", 2)
    card.has("1g.10gb", 6, filled=False)
    found = [(IDS[one.profile], one.start, one.slices) for one in made(card, 0)]
    assert sorted(found) == [("1g.10gb", 6, 1), ("2g.20gb", 2, 2)]


def test_a_divided_card_is_reported_with_what_others_compute_on() -> None:
    gpu = GpuReading(
        index=3,
        uuid="GPU-3",
        name="NVIDIA A100-SXM4-80GB",
        memory_bytes=80 * GIB,
        partitioned=True,
        profiles=A100,
        instances=(
            InstanceReading(
                uuid="MIG-a", profile="3g.40gb", memory_bytes=1, processes=(5,), start=4, slices=4
            ),
            InstanceReading(uuid="MIG-b", profile="2g.20gb", memory_bytes=1, start=2, slices=2),
            InstanceReading(uuid="MIG-c", profile="1g.10gb+me", memory_bytes=1, start=1, slices=1),
            InstanceReading(uuid="", profile="", memory_bytes=0, start=0, slices=1),
        ),
    )
    machine = MachineReading(
        cpu_milli=1000, memory_bytes=1, disk_bytes=1, architecture="amd64", system="linux"
    )
    use = DeviceUse(owners={5: ProcessOwner.FOREIGN}, given_out=frozenset())
    node = node_of(NodeIdentity(name="a", labels={}), machine, (gpu,), use)
    (device,) = node.devices
    others, healthy = DeviceHealth.HELD_BY_OTHERS, DeviceHealth.HEALTHY
    assert (device.resource, device.index, device.profiles) == (MIG_CARD, 3, A100)
    assert device.instances == tuple(
        MigInstance(card=3, profile=profile, start=start, health=health)
        for profile, start, health in (
            ("3g.40gb", 4, others),
            ("2g.20gb", 2, healthy),
            ("1g.10gb", 1, others),
            ("1g.10gb", 0, healthy),
        )
    )
    assert node.allocatable["nvidia.com/mig-1g.10gb"] == 7000
    assert node.allocatable["nvidia.com/mig-3g.40gb"] == 2000
    assert MIG_CARD not in node.allocatable
