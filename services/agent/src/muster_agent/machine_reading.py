"""What the operating system says about this machine and its processes."""

import os
import platform
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path

import psutil

from muster_agent.inventory import MachineReading, ProcessOwner

_CGROUP = Path("/sys/fs/cgroup")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def read_machine(data_folder: Path, *, cgroup: Path = _CGROUP) -> MachineReading:
    """Size of the machine, or of the part of it that this process may use, and the data disk."""
    machine = platform.machine().lower()
    cpu_milli = len(os.sched_getaffinity(0)) * 1000
    memory_bytes = psutil.virtual_memory().total
    return MachineReading(
        cpu_milli=min(cpu_milli, _cpu_limit_milli(cgroup / "cpu.max") or cpu_milli),
        memory_bytes=min(memory_bytes, _limit(cgroup / "memory.max") or memory_bytes),
        disk_bytes=psutil.disk_usage(str(data_folder)).total,
        architecture=_ARCHITECTURES.get(machine, machine),
        system=platform.system().lower(),
    )


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
