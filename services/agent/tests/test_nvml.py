# ruff: noqa: N802 - the names are those of NVML
"""The adapter against a library with NVML's documented answers, and against none at all."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

from muster_agent.nvml import GpuReading, Gpus, InstanceReading

GIB = 2**30


@dataclass
class RecordedGpu:
    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    bus_id: str = "00000000:18:00.0"
    lost: bool = False
    rows_failed: bool = False
    processes: tuple[int, ...] = ()
    instances: dict[int, "RecordedGpu"] = field(default_factory=dict[int, "RecordedGpu"])
    mig: bool | None = None
    linked: tuple[str, ...] = ()
    busy_percent: int = 0


@dataclass
class RecordedLibrary:
    """Answers as `pynvml` does, from data."""

    gpus: list[RecordedGpu]
    down: bool = False

    def nvmlInit(self) -> None:
        if self.down:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)

    def nvmlDeviceGetCount(self) -> int:
        self.nvmlInit()
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> RecordedGpu:
        if self.gpus[index].lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, handle: RecordedGpu) -> str:
        return handle.uuid

    def nvmlDeviceGetName(self, handle: RecordedGpu) -> str:
        return handle.name

    def nvmlDeviceGetMemoryInfo(self, handle: RecordedGpu) -> SimpleNamespace:
        return SimpleNamespace(total=10 * GIB if "MIG" in handle.name else 80 * GIB)

    def nvmlDeviceGetPciInfo(self, handle: RecordedGpu) -> SimpleNamespace:
        return SimpleNamespace(busId=handle.bus_id.encode())

    def nvmlDeviceGetP2PStatus(self, one: RecordedGpu, other: RecordedGpu, index: int) -> int:
        if one.lost or other.lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        assert index == pynvml.NVML_P2P_CAPS_INDEX_NVLINK
        return 0 if other.uuid in one.linked else pynvml.NVML_P2P_STATUS_NOT_SUPPORTED

    def nvmlDeviceGetRemappedRows(self, handle: RecordedGpu) -> list[int]:
        if "H100" not in handle.name:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [0, 0, 0, int(handle.rows_failed)]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: RecordedGpu) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid) for pid in handle.processes]

    def nvmlDeviceGetUtilizationRates(self, handle: RecordedGpu) -> SimpleNamespace:
        if handle.mig:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(gpu=handle.busy_percent, memory=3)

    def nvmlDeviceGetMigMode(self, handle: RecordedGpu) -> list[int]:
        if handle.mig is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(handle.mig), int(handle.mig)]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: RecordedGpu) -> int:
        return 7 if handle.mig else 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: RecordedGpu, index: int) -> RecordedGpu:
        if index not in handle.instances:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return handle.instances[index]


@pytest.fixture
def pci(tmp_path: Path) -> Path:
    device = tmp_path / "0000:18:00.0"
    device.mkdir()
    (device / "numa_node").write_text("1\n")
    return tmp_path


def test_a_gpu_is_read_whole(pci: Path) -> None:
    library = RecordedLibrary([RecordedGpu("GPU-a", processes=(7, 5, 7))])
    assert Gpus(library, pci_devices=pci).read() == (
        GpuReading(
            index=0,
            uuid="GPU-a",
            name="NVIDIA H100 80GB HBM3",
            memory_bytes=80 * GIB,
            numa_node=1,
            processes=(5, 7),
            pci_bus="00000000:18:00.0",
        ),
    )


def test_gpus_know_whom_nvlink_connects_them_to(pci: Path) -> None:
    pair = [RecordedGpu("a", linked=("b",)), RecordedGpu("b", linked=("a",)), RecordedGpu("c")]
    library = RecordedLibrary(pair)
    gpus = Gpus(library, pci_devices=pci)
    assert [gpu.links for gpu in gpus.read()] == [(1,), (0,), ()]
    library.gpus[1].lost = True
    assert gpus.read()[0].links == ()


def test_numa_is_0_where_nothing_is_known(pci: Path) -> None:
    (pci / "0000:18:00.0" / "numa_node").write_text("-1\n")
    library = RecordedLibrary([RecordedGpu("a"), RecordedGpu("b", bus_id="00000000:19:00.0")])
    assert [gpu.numa_node for gpu in Gpus(library, pci_devices=pci).read()] == [0, 0]


def test_a_gpu_that_is_lost_is_still_known(pci: Path) -> None:
    library = RecordedLibrary([RecordedGpu("a", processes=(5,)), RecordedGpu("b")])
    gpus = Gpus(library, pci_devices=pci)
    before = gpus.read()
    library.gpus[0].lost = True
    first, second = gpus.read()
    assert (first.uuid, first.name, first.processes) == ("a", before[0].name, ())
    assert "lost" in first.fault.lower()
    assert second == before[1]
    library.gpus[0].lost = False
    assert gpus.read() == before


def test_a_driver_that_goes_away_leaves_its_gpus_faulty(pci: Path) -> None:
    library = RecordedLibrary([RecordedGpu("a")])
    gpus = Gpus(library, pci_devices=pci)
    gpus.read()
    library.down = True
    (found,) = gpus.read()
    assert (found.uuid, found.fault.startswith("the driver does not answer")) == ("a", True)
    library.down = False
    assert gpus.read()[0].fault == ""


def test_a_gpu_that_is_gone_is_faulty(pci: Path) -> None:
    library = RecordedLibrary([RecordedGpu("a"), RecordedGpu("b")])
    gpus = Gpus(library, pci_devices=pci)
    gpus.read()
    library.gpus.pop()
    assert [gpu.fault for gpu in gpus.read()] == ["", "it is gone from the bus"]


def test_memory_that_cannot_be_repaired_is_a_fault(pci: Path) -> None:
    library = RecordedLibrary([RecordedGpu("a", rows_failed=True), RecordedGpu("b", name="T4")])
    faults = [gpu.fault for gpu in Gpus(library, pci_devices=pci).read()]
    assert faults == ["a faulty memory row could not be replaced", ""]


def test_a_partitioned_gpu_has_instances_and_no_processes_of_its_own(pci: Path) -> None:
    instances = {
        number: RecordedGpu(
            f"MIG-{number}", name="NVIDIA H100 80GB HBM3 MIG 1g.10gb", processes=(9,)
        )
        for number in (0, 3)
    }
    gpu = RecordedGpu("a", processes=(9,), mig=True, instances=instances)
    (found,) = Gpus(RecordedLibrary([gpu]), pci_devices=pci).read()
    assert (found.partitioned, found.processes) == (True, ())
    assert found.instances == tuple(
        InstanceReading(
            uuid=f"MIG-{number}", profile="1g.10gb", memory_bytes=10 * GIB, processes=(9,)
        )
        for number in (0, 3)
    )


def test_a_machine_without_a_driver_has_no_gpus() -> None:
    library = RecordedLibrary([], down=True)
    assert Gpus(library).read() == ()


def test_gpus_say_how_busy_they_are_and_those_that_do_not_are_left_out(pci: Path) -> None:
    library = RecordedLibrary(
        [
            RecordedGpu("a", busy_percent=87),
            RecordedGpu("b", mig=True),
            RecordedGpu("c", lost=True),
            RecordedGpu("d"),
        ]
    )
    gpus = Gpus(library, pci_devices=pci)
    assert gpus.busy_percents() == {}, "nothing is known before the first look"
    gpus.read()
    assert gpus.busy_percents() == {0: 87, 3: 0}
