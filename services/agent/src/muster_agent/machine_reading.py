"""What the operating system says about this machine and its processes."""

import os
import platform
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path

import psutil

from muster_agent.inventory import MachineReading, ProcessOwner
from muster_domain.nodes import NumaZone

_CGROUP = Path("/sys/fs/cgroup")
_NUMA = Path("/sys/devices/system/node")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def read_machine(
    data_folder: Path, *, cgroup: Path = _CGROUP, numa: Path = _NUMA
) -> MachineReading:
    """Size of the machine, or of the part of it that this process may use, and the data disk."""
    machine = platform.machine().lower()
    usable = os.sched_getaffinity(0)
    cpu_milli = len(usable) * 1000
    memory_bytes = psutil.virtual_memory().total
    return MachineReading(
        cpu_milli=min(cpu_milli, _cpu_limit_milli(cgroup / "cpu.max") or cpu_milli),
        memory_bytes=min(memory_bytes, _limit(cgroup / "memory.max") or memory_bytes),
        disk_bytes=psutil.disk_usage(str(data_folder)).total,
        architecture=_ARCHITECTURES.get(machine, machine),
        system=platform.system().lower(),
        zones=read_zones(numa, usable),
    )


def read_zones(numa: Path, usable: AbstractSet[int]) -> tuple[NumaZone, ...]:
    """NUMA zones with the processors that this process may use; none where the system has none."""
    found: list[NumaZone] = []
    for folder in numa.glob("node[0-9]*"):
        cpus = usable & _listed((folder / "cpulist").read_text())
        if cpus:
            memory_bytes = _zone_memory(folder / "meminfo")
            number = int(folder.name.removeprefix("node"))
            zone = NumaZone(number=number, cpus=tuple(sorted(cpus)), memory_bytes=memory_bytes)
            found.append(zone)
    return tuple(sorted(found, key=lambda zone: zone.number))


def _listed(written: str) -> set[int]:
    """Read a list as Linux writes it: `0-3,8`."""
    numbers: set[int] = set()
    for part in filter(None, written.strip().split(",")):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _zone_memory(path: Path) -> int:
    """Read the line `Node 0 MemTotal: 65536 kB`; 0 where there is none."""
    for line in path.read_text().splitlines() if path.exists() else ():
        words = line.split()
        if "MemTotal:" in words:
            return int(words[-2]) * 1024
    return 0


def _limit(path: Path) -> int | None:
    """Read a control group's limit; None where there is none."""
    written = path.read_text().strip() if path.exists() else ""
    return int(written) if written.isdecimal() else None


def _cpu_limit_milli(path: Path) -> int | None:
    written = path.read_text().split() if path.exists() else []
    match written:
        case [quota, period] if quota.isdecimal():
            return int(quota) * 1000 // int(period)
        case _:
            return None


def owners_of(processes: Iterable[int], pods: AbstractSet[str]) -> dict[int, ProcessOwner]:
    """Whose each process is, by the pod that its environment names."""
    return {process: _owner_of(process, pods) for process in processes}


def _owner_of(process: int, pods: AbstractSet[str]) -> ProcessOwner:
    try:
        uid = psutil.Process(process).environ().get("MUSTER_POD_UID")
    except psutil.Error:
        return ProcessOwner.UNSEEN
    return ProcessOwner.OURS if uid in pods else ProcessOwner.FOREIGN
