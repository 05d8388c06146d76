"""What the operating system says about this machine and its processes."""

import os
import platform
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path

import psutil

from muster_agent.inventory import MachineReading, ProcessOwner

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def read_machine(data_folder: Path) -> MachineReading:
    """Size of the machine: the processors this process may use, all memory, the data disk."""
    machine = platform.machine().lower()
    return MachineReading(
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        disk_bytes=psutil.disk_usage(str(data_folder)).total,
        architecture=_ARCHITECTURES.get(machine, machine),
        system=platform.system().lower(),
    )


def owners_of(processes: Iterable[int], pods: AbstractSet[str]) -> dict[int, ProcessOwner]:
    """Whose each process is, by the pod that its environment names."""
    return {process: _owner_of(process, pods) for process in processes}


def _owner_of(process: int, pods: AbstractSet[str]) -> ProcessOwner:
    try:
        uid = psutil.Process(process).environ().get("MUSTER_POD_UID")
    except psutil.Error:
        return ProcessOwner.UNSEEN
    return ProcessOwner.OURS if uid in pods else ProcessOwner.FOREIGN
