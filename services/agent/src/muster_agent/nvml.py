"""What NVML says about the GPUs of this machine, as data. The only place that calls it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast

import pynvml

from muster_agent.mig import MigLibrary, made, mig_devices, must_be_absent, offers
from muster_domain.nodes import MigProfile

_SYS_PCI = Path("/sys/bus/pci/devices")
_DOMAIN_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReading:
    """One MIG instance. `profile` as in `1g.10gb`; processes by id.

    `start` is its first slice and `slices` their number, where its card is divided as pods need it.
    """

    uuid: str
    profile: str
    memory_bytes: int
    processes: tuple[int, ...] = ()
    start: int = 0
    slices: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU. `fault` says why it is unusable; `processes` compute on it, by id.

    With `partitioned` it is used through its MIG instances only, with `profiles` also through any
    that could be made. `pci_bus` is its bus address,
    `links` are the indices of the GPUs that NVLink connects it to, also through switches.
    """

    index: int
    uuid: str = ""
    name: str = ""
    memory_bytes: int = 0
    numa_node: int = 0
    fault: str = ""
    processes: tuple[int, ...] = ()
    partitioned: bool = False
    instances: tuple[InstanceReading, ...] = ()
    profiles: tuple[MigProfile, ...] = ()
    pci_bus: str = ""
    links: tuple[int, ...] = ()


class _Memory(Protocol):
    total: int


class _Utilization(Protocol):
    gpu: int


class _Pci(Protocol):
    busId: str | bytes  # noqa: N815 - NVML's name


class NvmlLibrary(MigLibrary, Protocol):
    """The part of `pynvml` that is used. Every call may raise `pynvml.NVMLError`."""

    def nvmlInit(self) -> None: ...  # noqa: N802, D102 - NVML's names
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802, D102
    def nvmlDeviceGetName(self, handle: object) -> str: ...  # noqa: N802, D102
    def nvmlDeviceGetMemoryInfo(self, handle: object) -> _Memory: ...  # noqa: N802, D102
    def nvmlDeviceGetPciInfo(self, handle: object) -> _Pci: ...  # noqa: N802, D102
    def nvmlDeviceGetP2PStatus(  # noqa: N802, D102
        self, one: object, other: object, index: int
    ) -> int: ...
    def nvmlDeviceGetRemappedRows(self, handle: object) -> Sequence[int]: ...  # noqa: N802, D102
    def nvmlDeviceGetUtilizationRates(  # noqa: N802, D102
        self, handle: object
    ) -> _Utilization: ...
    def nvmlDeviceGetMigMode(self, handle: object) -> Sequence[int]: ...  # noqa: N802, D102


class Gpus:
    """Reads all GPUs. A GPU that has fallen off the bus is still known by what it was.

    With `divided`, cards in MIG mode may be divided anew, and say how.
    """

    def __init__(
        self,
        library: NvmlLibrary | None = None,
        *,
        pci_devices: Path = _SYS_PCI,
        divided: bool = False,
    ) -> None:
        self._nvml = library or cast("NvmlLibrary", pynvml)
        self._pci_devices = pci_devices
        self._divided = divided
        self._ready = False
        self._known: dict[int, GpuReading] = {}

    def read(self) -> tuple[GpuReading, ...]:
        """All GPUs in NVML's order; none where there is no driver."""
        try:
            if not self._ready:
                self._nvml.nvmlInit()
                self._ready = True
            count = self._nvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self._ready = False
            return tuple(
                replace(known, fault=f"the driver does not answer: {error}", processes=())
                for _, known in sorted(self._known.items())
            )
        readings = [self._read_one(index, count) for index in range(count)]
        readings += [
            replace(known, fault="it is gone from the bus", processes=())
            for index, known in sorted(self._known.items())
            if index >= count
        ]
        return tuple(readings)

    def busy_percents(self) -> dict[int, int]:
        """For how many percent of the time each GPU worked lately; those that do not say lack.

        A GPU that is used through its MIG instances does not.
        """
        nvml = self._nvml
        found: dict[int, int] = {}
        for index in sorted(self._known) if self._ready else ():
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                found[index] = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            except pynvml.NVMLError:
                continue
        return found

    def _read_one(self, index: int, count: int) -> GpuReading:
        try:
            reading = self._read_healthy(index, count)
        except pynvml.NVMLError as error:
            known = self._known.get(index, GpuReading(index=index))
            return replace(known, fault=str(error), processes=())
        self._known[index] = reading
        return reading

    def _read_healthy(self, index: int, count: int) -> GpuReading:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        partitioned, instances = self._partitions(handle)
        profiles: tuple[MigProfile, ...] = ()
        if partitioned and self._divided:
            profiles = tuple(offer.profile for offer in offers(nvml, handle))
            instances = self._places(handle, instances)
        bus = _written(nvml.nvmlDeviceGetPciInfo(handle).busId)
        return GpuReading(
            index=index,
            uuid=nvml.nvmlDeviceGetUUID(handle),
            name=nvml.nvmlDeviceGetName(handle),
            memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            numa_node=self._numa_node(bus),
            pci_bus=bus,
            links=tuple(
                other for other in range(count) if other != index and self._is_linked(handle, other)
            ),
            fault=self._memory_fault(handle),
            processes=() if partitioned else self._processes(handle),
            partitioned=partitioned,
            instances=instances,
            profiles=profiles,
        )

    def _processes(self, handle: object) -> tuple[int, ...]:
        found = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        return tuple(sorted({process.pid for process in found}))

    def _memory_fault(self, handle: object) -> str:
        try:
            *_, failed = self._nvml.nvmlDeviceGetRemappedRows(handle)
        except pynvml.NVMLError as error:
            must_be_absent(error)
            return ""
        return "a faulty memory row could not be replaced" if failed else ""

    def _partitions(self, handle: object) -> tuple[bool, tuple[InstanceReading, ...]]:
        nvml = self._nvml
        try:
            current, _ = nvml.nvmlDeviceGetMigMode(handle)
        except pynvml.NVMLError as error:
            must_be_absent(error)
            return False, ()
        if not current:
            return False, ()
        instances = [
            InstanceReading(
                uuid=nvml.nvmlDeviceGetUUID(instance),
                profile=nvml.nvmlDeviceGetName(instance).rpartition("MIG ")[2],
                memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(instance).total),
                processes=self._processes(instance),
            )
            for instance in mig_devices(nvml, handle)
        ]
        return True, tuple(instances)

    def _places(
        self, handle: object, instances: tuple[InstanceReading, ...]
    ) -> tuple[InstanceReading, ...]:
        """Where on the card each instance is, also of those that no device shows."""
        nvml = self._nvml
        by_uuid = {instance.uuid: instance for instance in instances}
        shown: dict[int, InstanceReading] = {}
        for device in mig_devices(nvml, handle):
            reading = by_uuid.get(nvml.nvmlDeviceGetUUID(device))
            if reading is not None:
                shown[nvml.nvmlDeviceGetGpuInstanceId(device)] = reading
        hidden = InstanceReading(uuid="", profile="", memory_bytes=0)
        return tuple(
            replace(shown.get(one.number, hidden), start=one.start, slices=one.slices)
            for one in made(nvml, handle)
        )

    def _is_linked(self, handle: object, other: int) -> bool:
        """Whether NVLink connects two GPUs; one that does not answer is connected to none."""
        nvml = self._nvml
        try:
            far = nvml.nvmlDeviceGetHandleByIndex(other)
            status = nvml.nvmlDeviceGetP2PStatus(handle, far, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
        except pynvml.NVMLError:
            return False
        return status == pynvml.NVML_P2P_STATUS_OK

    def _numa_node(self, bus: str) -> int:
        """Find the node by bus address; a machine without NUMA says -1, which counts as 0."""
        domain, _, rest = bus.partition(":")
        path = self._pci_devices / f"{domain[-_DOMAIN_DIGITS:]}:{rest}" / "numa_node"
        return max(0, int(path.read_text())) if path.exists() else 0


def _written(bus_id: str | bytes) -> str:
    return (bus_id.decode() if isinstance(bus_id, bytes) else bus_id).lower()
