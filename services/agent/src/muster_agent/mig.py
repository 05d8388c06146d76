"""Divides cards in MIG mode through NVML: makes the instances that a pod was given.

What stands in the way is removed if no pod has it and nothing computes on it. An instance stays
when its pod is over, for the next that asks for the same. All of this needs a privileged user.
"""

import asyncio
import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import pynvml

from muster_contracts.commands import RunPod
from muster_domain.errors import Conflict
from muster_domain.nodes import MigInstance, MigProfile

_ABSENT = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
)
_SHARED = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED


class _Profile(Protocol):
    id: int
    sliceCount: int  # noqa: N815 - NVML's names here and below
    instanceCount: int  # noqa: N815
    name: bytes


class _Placement(Protocol):
    start: int
    size: int


class _Instance(Protocol):
    id: int
    profileId: int  # noqa: N815
    placement: _Placement


class _Process(Protocol):
    pid: int


class MigLibrary(Protocol):
    """The part of `pynvml` that divides cards. Every call may raise `pynvml.NVMLError`."""

    def nvmlDeviceGetHandleByIndex(self, index: int) -> object: ...  # noqa: N802, D102
    def nvmlDeviceGetGpuInstanceProfileInfo(  # noqa: N802, D102
        self, device: object, profile: int
    ) -> _Profile: ...
    def nvmlDeviceGetGpuInstancePossiblePlacements(  # noqa: N802, D102
        self, device: object, profile: int, places: object, count: object
    ) -> object: ...
    def nvmlDeviceGetGpuInstances(  # noqa: N802, D102
        self, device: object, profile: int, instances: object, count: object
    ) -> object: ...
    def nvmlGpuInstanceGetInfo(self, instance: object) -> _Instance: ...  # noqa: N802, D102
    def nvmlDeviceCreateGpuInstanceWithPlacement(  # noqa: N802, D102
        self, device: object, profile: int, placement: object
    ) -> object: ...
    def nvmlGpuInstanceDestroy(self, instance: object) -> object: ...  # noqa: N802, D102
    def nvmlGpuInstanceGetComputeInstanceProfileInfo(  # noqa: N802, D102
        self, instance: object, profile: int, engines: int
    ) -> _Profile: ...
    def nvmlGpuInstanceGetComputeInstances(  # noqa: N802, D102
        self, instance: object, profile: int, instances: object, count: object
    ) -> object: ...
    def nvmlGpuInstanceCreateComputeInstance(  # noqa: N802, D102
        self, instance: object, profile: int
    ) -> object: ...
    def nvmlComputeInstanceDestroy(self, instance: object) -> object: ...  # noqa: N802, D102
    def nvmlDeviceGetMaxMigDeviceCount(self, device: object) -> int: ...  # noqa: N802, D102
    def nvmlDeviceGetMigDeviceHandleByIndex(  # noqa: N802, D102
        self, device: object, index: int
    ) -> object: ...
    def nvmlDeviceGetGpuInstanceId(self, device: object) -> int: ...  # noqa: N802, D102
    def nvmlDeviceGetUUID(self, device: object) -> str: ...  # noqa: N802, D102
    def nvmlDeviceGetComputeRunningProcesses(  # noqa: N802, D102
        self, device: object
    ) -> Sequence[_Process]: ...


@dataclass(frozen=True, slots=True)
class Offer:
    """A profile as one card offers it, with NVML's number for it."""

    number: int
    most: int
    profile: MigProfile


@dataclass(frozen=True, slots=True)
class Made:
    """An instance that exists: NVML's handle and number, its profile's number and its slices."""

    handle: object
    number: int
    profile: int
    start: int
    slices: int

    def overlaps(self, start: int, slices: int) -> bool:
        """Whether it has one of these slices."""
        return self.start < start + slices and start < self.start + self.slices


class Divider:
    """Makes instances, one pod after another. `active` are the pods that are not over."""

    def __init__(
        self, active: Callable[[], Mapping[str, RunPod]], library: MigLibrary | None = None
    ) -> None:
        self._nvml = library or cast("MigLibrary", pynvml)
        self._active = active
        self._turn = asyncio.Lock()

    async def divide(self, pod: RunPod) -> tuple[str, ...]:
        """The UUIDs of a pod's instances, which exist from now on. Raises `Conflict`.

        Idempotent by place and profile.
        """
        if not pod.instances:
            return ()
        async with self._turn:
            held = {
                (one.card, one.start)
                for uid, other in self._active().items()
                if uid != pod.pod_uid
                for one in other.instances
            }
            try:
                return await asyncio.to_thread(self._divide, pod.instances, held)
            except pynvml.NVMLError as error:
                raise Conflict(f"cards cannot be divided: {error}") from error

    def _divide(
        self, wanted: tuple[MigInstance, ...], held: set[tuple[int, int]]
    ) -> tuple[str, ...]:
        uuids: list[str] = []
        for one in wanted:
            card = self._nvml.nvmlDeviceGetHandleByIndex(one.card)
            offer = next(
                (o for o in offers(self._nvml, card) if o.profile.name == one.profile), None
            )
            if offer is None:
                raise Conflict(f"card {one.card} has no profile {one.profile}")
            self._make(card, one, offer, held)
            uuids.append(self._uuid(card, one))
        return tuple(uuids)

    def _make(
        self, card: object, one: MigInstance, offer: Offer, held: set[tuple[int, int]]
    ) -> None:
        slices = offer.profile.slices
        for found in made(self._nvml, card):
            if (found.profile, found.start) == (offer.number, one.start):
                if not self._compute_instances(found.handle):
                    self._fill(found.handle, offer)
                return
            if found.overlaps(one.start, slices):
                self._remove(card, one.card, found, held)
        place = pynvml.c_nvmlGpuInstancePlacement_t(one.start, slices)
        instance = self._nvml.nvmlDeviceCreateGpuInstanceWithPlacement(
            card, offer.number, ctypes.byref(place)
        )
        self._fill(instance, offer)

    def _fill(self, instance: object, offer: Offer) -> None:
        """One compute instance with all that the instance has, as a pod sees one device."""
        largest = self._compute_profiles(instance)
        if not largest:
            raise Conflict(f"an instance of {offer.profile.name} takes no compute instance")
        whole = max(largest, key=lambda profile: profile.sliceCount)
        self._nvml.nvmlGpuInstanceCreateComputeInstance(instance, whole.id)

    def _remove(self, card: object, index: int, found: Made, held: set[tuple[int, int]]) -> None:
        where = f"the instance at slice {found.start} of card {index}"
        if (index, found.start) in held:
            raise Conflict(f"{where} is another pod's")
        for device in self._devices(card, found.number):
            if self._nvml.nvmlDeviceGetComputeRunningProcesses(device):
                raise Conflict(f"something still computes on {where}")
        for compute in self._compute_instances(found.handle):
            self._nvml.nvmlComputeInstanceDestroy(compute)
        self._nvml.nvmlGpuInstanceDestroy(found.handle)

    def _uuid(self, card: object, one: MigInstance) -> str:
        for found in made(self._nvml, card):
            if found.start == one.start:
                for device in self._devices(card, found.number):
                    return self._nvml.nvmlDeviceGetUUID(device)
        raise Conflict(f"{one.profile} at slice {one.start} of card {one.card} is not there")

    def _devices(self, card: object, number: int) -> list[object]:
        """The MIG devices in an instance."""
        return [
            device
            for device in mig_devices(self._nvml, card)
            if self._nvml.nvmlDeviceGetGpuInstanceId(device) == number
        ]

    def _compute_profiles(self, instance: object) -> list[_Profile]:
        found: list[_Profile] = []
        for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            try:
                found.append(
                    self._nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(
                        instance, number, _SHARED
                    )
                )
            except pynvml.NVMLError as error:
                must_be_absent(error)
        return found

    def _compute_instances(self, instance: object) -> list[object]:
        found: list[object] = []
        for profile in self._compute_profiles(instance):
            array = (pynvml.c_nvmlComputeInstance_t * profile.instanceCount)()
            count = ctypes.c_uint(profile.instanceCount)
            self._nvml.nvmlGpuInstanceGetComputeInstances(
                instance, profile.id, array, ctypes.byref(count)
            )
            found += list(array)[: count.value]
        return found


def _profiles_of(nvml: MigLibrary, card: object) -> Iterator[_Profile]:
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            yield nvml.nvmlDeviceGetGpuInstanceProfileInfo(card, number)
        except pynvml.NVMLError as error:
            must_be_absent(error)


def offers(nvml: MigLibrary, card: object) -> list[Offer]:
    """The profiles of a card and where they may be, without those of special engines."""
    found: list[Offer] = []
    for told in _profiles_of(nvml, card):
        name = told.name.decode().rpartition("MIG ")[2]
        count = ctypes.c_uint(0)
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements(card, told.id, None, ctypes.byref(count))
        places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements(card, told.id, places, ctypes.byref(count))
        at = [(int(place.start), int(place.size)) for place in list(places)[: count.value]]
        if at and not set(name) & set("+-"):
            profile = MigProfile(
                name=name, slices=at[0][1], starts=tuple(sorted(start for start, _ in at))
            )
            found.append(Offer(told.id, told.instanceCount, profile))
    return found


def made(nvml: MigLibrary, card: object) -> list[Made]:
    """All instances of a card, of every profile."""
    found: list[Made] = []
    for told in _profiles_of(nvml, card):
        array = (pynvml.c_nvmlGpuInstance_t * told.instanceCount)()
        count = ctypes.c_uint(told.instanceCount)
        nvml.nvmlDeviceGetGpuInstances(card, told.id, array, ctypes.byref(count))
        for handle in list(array)[: count.value]:
            about = nvml.nvmlGpuInstanceGetInfo(handle)
            place = about.placement
            found.append(Made(handle, about.id, about.profileId, place.start, place.size))
    return found


def mig_devices(nvml: MigLibrary, card: object) -> list[object]:
    """What a card shows as devices of its instances."""
    found: list[object] = []
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card)):
        try:
            found.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, number))
        except pynvml.NVMLError as error:
            must_be_absent(error)
    return found


def must_be_absent(error: pynvml.NVMLError) -> None:
    """Raise the error again unless it says that there is no such thing on this GPU."""
    if getattr(error, "value", None) not in _ABSENT:
        raise error
