"""From what was read on a machine to the node that is reported. Pure."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto

from muster_agent.nvml import GpuReading, InstanceReading
from muster_contracts.pod_environment import ADDRESS_LABEL, GPU_RESOURCE
from muster_domain.mig import MIG_CARD, MIG_PREFIX, offered
from muster_domain.nodes import Device, DeviceHealth, MigInstance, Node, NumaZone
from muster_domain.selectors import Labels, Taint
from muster_domain.time_slicing import REPLICAS, SHARED_GPU, STRATEGY, TIME_SLICING

_MIB = 1024 * 1024


class ProcessOwner(Enum):
    """Whose a process on a GPU is. UNSEEN: the agent may not look, or cannot see it."""

    OURS = auto()
    FOREIGN = auto()
    UNSEEN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReading:
    """What the operating system says; `cpu_milli` in thousandths of a processor."""

    cpu_milli: int
    memory_bytes: int
    disk_bytes: int
    architecture: str
    system: str
    zones: tuple[NumaZone, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """What a person says about the node. `replicas` pods take turns on each whole card."""

    name: str
    labels: Labels
    taints: tuple[Taint, ...] = ()
    address: str = ""
    replicas: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """Who uses devices: owners of processes by id, and (resource, index) of those given out."""

    owners: Mapping[int, ProcessOwner]
    given_out: AbstractSet[tuple[str, int]]


def node_of(
    identity: NodeIdentity, machine: MachineReading, gpus: tuple[GpuReading, ...], use: DeviceUse
) -> Node:
    """The node as it is reported. Only healthy devices are allocatable."""
    devices = _devices(gpus, use, identity.replicas)
    allocatable = {
        "cpu": machine.cpu_milli,
        "memory": machine.memory_bytes * 1000,
        "ephemeral-storage": machine.disk_bytes * 1000,
        **{device.resource: 0 for device in devices if not device.profiles},
    }
    for device in devices:
        if device.health is DeviceHealth.HEALTHY and not device.profiles:
            allocatable[device.resource] += 1000
    for resource, most in offered(devices).items():
        allocatable[resource] = allocatable.get(resource, 0) + most
    return Node(
        name=identity.name,
        allocatable=allocatable,
        labels=_labels(identity, machine, gpus),
        taints=identity.taints,
        devices=devices,
        zones=machine.zones,
    )


def identifiers(gpus: tuple[GpuReading, ...], replicas: int = 1) -> dict[tuple[str, int], str]:
    """The UUID of each device by (resource, index)."""
    return {(resource, index): uuid for resource, index, uuid, *_ in _numbered(gpus, replicas)}


def slot_of(card: int, start: int) -> tuple[str, int]:
    """How an instance of a divided card is told from others among what is given out."""
    return f"{MIG_CARD}/{card}", start


def _devices(gpus: tuple[GpuReading, ...], use: DeviceUse, replicas: int) -> tuple[Device, ...]:
    return (*_numbered_devices(gpus, use, replicas), *_divided_cards(gpus, use))


def _divided_cards(gpus: tuple[GpuReading, ...], use: DeviceUse) -> list[Device]:
    return [
        Device(
            index=gpu.index,
            resource=MIG_CARD,
            model=gpu.name,
            memory_bytes=gpu.memory_bytes,
            numa_node=gpu.numa_node,
            health=DeviceHealth.FAILED if gpu.fault else DeviceHealth.HEALTHY,
            pci_bus=gpu.pci_bus,
            profiles=gpu.profiles,
            instances=tuple(
                found for one in gpu.instances if (found := _instance(gpu, one, use)) is not None
            ),
        )
        for gpu in gpus
        if gpu.profiles
    ]


def _instance(gpu: GpuReading, one: InstanceReading, use: DeviceUse) -> MigInstance | None:
    """An instance as it is reported. One of a profile that Muster does not make is others'."""
    fitting = [p for p in gpu.profiles if p.slices == one.slices and one.start in p.starts]
    same = [profile for profile in fitting if profile.name == one.profile]
    chosen = same or fitting
    if not chosen:
        return None
    health = _health("", one.processes, use, slot_of(gpu.index, one.start))
    return MigInstance(
        card=gpu.index,
        profile=chosen[0].name,
        start=one.start,
        health=health if same or not one.profile else DeviceHealth.HELD_BY_OTHERS,
    )


def _numbered_devices(
    gpus: tuple[GpuReading, ...], use: DeviceUse, replicas: int
) -> tuple[Device, ...]:
    return tuple(
        Device(
            index=index,
            resource=resource,
            model=gpu.name,
            memory_bytes=memory_bytes,
            numa_node=gpu.numa_node,
            health=_health(gpu.fault, processes, use, (resource, index)),
            pci_bus=gpu.pci_bus,
            links=gpu.links if resource == GPU_RESOURCE else (),
        )
        for resource, index, _, gpu, memory_bytes, processes in _numbered(gpus, replicas)
    )


_Numbered = tuple[str, int, str, GpuReading, int, tuple[int, ...]]


def _numbered(gpus: tuple[GpuReading, ...], replicas: int) -> list[_Numbered]:
    """Every device with its resource and the index that counts within that resource."""
    found: list[_Numbered] = []
    instances: dict[str, int] = {}
    for gpu in gpus:
        resource = GPU_RESOURCE if replicas == 1 else SHARED_GPU
        for turn in range(0 if gpu.partitioned else replicas):
            index = gpu.index * replicas + turn
            found.append((resource, index, gpu.uuid, gpu, gpu.memory_bytes, gpu.processes))
        for one in gpu.instances if not gpu.profiles else ():
            resource = MIG_PREFIX + one.profile
            index = instances.get(resource, 0)
            instances[resource] = index + 1
            found.append((resource, index, one.uuid, gpu, one.memory_bytes, one.processes))
    return found


def _health(
    fault: str, processes: tuple[int, ...], use: DeviceUse, device: tuple[str, int]
) -> DeviceHealth:
    if fault:
        return DeviceHealth.FAILED
    for process in processes:
        owner = use.owners.get(process, ProcessOwner.UNSEEN)
        unseen = owner is ProcessOwner.UNSEEN and device not in use.given_out
        if owner is ProcessOwner.FOREIGN or unseen:
            return DeviceHealth.HELD_BY_OTHERS
    return DeviceHealth.HEALTHY


def _labels(
    identity: NodeIdentity, machine: MachineReading, gpus: tuple[GpuReading, ...]
) -> dict[str, str]:
    labels = {
        "kubernetes.io/hostname": identity.name,
        "kubernetes.io/arch": machine.architecture,
        "kubernetes.io/os": machine.system,
    }
    if gpus:
        labels |= {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.count": str(len(gpus)),
            "nvidia.com/gpu.product": gpus[0].name.replace(" ", "-"),
            "nvidia.com/gpu.memory": str(gpus[0].memory_bytes // _MIB),
        }
    if gpus and identity.replicas > 1:
        labels |= {REPLICAS: str(identity.replicas), STRATEGY: TIME_SLICING}
    if identity.address:
        labels[ADDRESS_LABEL] = identity.address
    return labels | dict(identity.labels)
