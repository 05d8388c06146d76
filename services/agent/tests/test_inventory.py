"""Machines as they would be read, and the nodes they make.

The inventories under `inventories/` are written by hand in the shape of `GpuReading`.
"""

from pathlib import Path

import pytest
from pydantic import TypeAdapter

from muster_agent.inventory import (
    DeviceUse,
    MachineReading,
    NodeIdentity,
    ProcessOwner,
    identifiers,
    node_of,
)
from muster_agent.nvml import GpuReading
from muster_domain.nodes import Device, DeviceHealth, Node
from muster_domain.selectors import Taint, TaintEffect

INVENTORIES = Path(__file__).parent / "inventories"
GIB = 2**30
MACHINE = MachineReading(
    cpu_milli=8000,
    memory_bytes=64 * GIB,
    disk_bytes=100 * GIB,
    architecture="amd64",
    system="linux",
)
NOBODY = DeviceUse(owners={}, given_out=frozenset())


def recorded(name: str) -> tuple[GpuReading, ...]:
    body = (INVENTORIES / f"{name}.json").read_bytes()
    return TypeAdapter(tuple[GpuReading, ...]).validate_json(body)


def node(name: str, use: DeviceUse = NOBODY) -> Node:
    return node_of(NodeIdentity(name="n1", labels={"zone": "a"}), MACHINE, recorded(name), use)


def healths(found: Node) -> list[DeviceHealth]:
    return [device.health for device in found.devices]


def test_a_machine_without_gpus() -> None:
    taint = Taint(key="k", effect=TaintEffect.NO_SCHEDULE)
    identity = NodeIdentity(name="n1", labels={}, taints=(taint,), address="10.0.0.7")
    assert node_of(identity, MACHINE, (), NOBODY) == Node(
        name="n1",
        allocatable={
            "cpu": 8000,
            "memory": 64 * GIB * 1000,
            "ephemeral-storage": 100 * GIB * 1000,
        },
        labels={
            "kubernetes.io/hostname": "n1",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "muster.dev/address": "10.0.0.7",
        },
        taints=(taint,),
    )


def test_gpus_are_devices_and_labels() -> None:
    found = node("four_a100")
    assert found.allocatable["nvidia.com/gpu"] == 4000
    assert found.devices[2] == Device(
        index=2,
        resource="nvidia.com/gpu",
        model="NVIDIA A100-SXM4-80GB",
        memory_bytes=80 * GIB,
        numa_node=1,
    )
    assert {key: value for key, value in found.labels.items() if "gpu" in key} == {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": "4",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.memory": "81920",
    }


def test_labels_that_a_person_gave_win() -> None:
    identity = NodeIdentity(name="n1", labels={"nvidia.com/gpu.product": "A100"})
    labels = node_of(identity, MACHINE, recorded("four_a100"), NOBODY).labels
    assert labels["nvidia.com/gpu.product"] == "A100"


def test_a_faulty_gpu_is_reported_and_not_allocatable() -> None:
    found = node("one_of_two_lost")
    assert healths(found) == [DeviceHealth.HEALTHY, DeviceHealth.FAILED]
    assert found.allocatable["nvidia.com/gpu"] == 1000


@pytest.mark.parametrize(
    ("owner", "given_out", "health"),
    [
        pytest.param(ProcessOwner.FOREIGN, False, DeviceHealth.HELD_BY_OTHERS, id="foreign"),
        pytest.param(ProcessOwner.FOREIGN, True, DeviceHealth.HELD_BY_OTHERS, id="intruder"),
        pytest.param(ProcessOwner.OURS, True, DeviceHealth.HEALTHY, id="ours"),
        pytest.param(ProcessOwner.UNSEEN, True, DeviceHealth.HEALTHY, id="unseen on ours"),
        pytest.param(ProcessOwner.UNSEEN, False, DeviceHealth.HELD_BY_OTHERS, id="unseen"),
        pytest.param(None, False, DeviceHealth.HELD_BY_OTHERS, id="nobody looked"),
    ],
)
def test_a_gpu_used_by_others_is_not_free(
    owner: ProcessOwner | None, *, given_out: bool, health: DeviceHealth
) -> None:
    use = DeviceUse(
        owners={} if owner is None else {4242: owner},
        given_out={("nvidia.com/gpu", 1)} if given_out else frozenset(),
    )
    found = node("two_with_a_process_on_the_second", use)
    assert healths(found) == [DeviceHealth.HEALTHY, health]
    healthy = sum(one is DeviceHealth.HEALTHY for one in healths(found))
    assert found.allocatable["nvidia.com/gpu"] == healthy * 1000


def test_mig_instances_are_counted_by_profile_over_all_gpus() -> None:
    gpus = recorded("one_whole_and_two_partitioned")
    found = node("one_whole_and_two_partitioned")
    assert {k: v for k, v in found.allocatable.items() if k.startswith("nvidia")} == {
        "nvidia.com/gpu": 1000,
        "nvidia.com/mig-1g.10gb": 3000,
        "nvidia.com/mig-3g.40gb": 1000,
    }
    assert [(device.resource, device.index) for device in found.devices] == [
        ("nvidia.com/gpu", 0),
        ("nvidia.com/mig-3g.40gb", 0),
        ("nvidia.com/mig-1g.10gb", 0),
        ("nvidia.com/mig-1g.10gb", 1),
        ("nvidia.com/mig-1g.10gb", 2),
    ]
    assert identifiers(gpus)["nvidia.com/mig-1g.10gb", 2] == "MIG-2b"
    assert identifiers(gpus)["nvidia.com/gpu", 0] == "GPU-0"


def test_cards_that_take_turns_count_as_replicas_under_a_name_of_their_own() -> None:
    gpus = tuple(
        GpuReading(index=n, uuid=f"GPU-{n}", name="A10", memory_bytes=GIB, pci_bus=f"{n}")
        for n in range(2)
    )
    identity = NodeIdentity(name="a", labels={}, replicas=3)
    use = DeviceUse(owners={}, given_out=frozenset())
    machine = MachineReading(
        cpu_milli=1000, memory_bytes=1, disk_bytes=1, architecture="amd64", system="linux"
    )
    node = node_of(identity, machine, gpus, use)
    shared = "nvidia.com/gpu.shared"
    assert node.allocatable[shared] == 6000
    assert "nvidia.com/gpu" not in node.allocatable
    assert [(d.resource, d.index, d.pci_bus) for d in node.devices] == [
        (shared, index, str(index // 3)) for index in range(6)
    ]
    assert node.labels["nvidia.com/gpu.replicas"] == "3"
    assert node.labels["nvidia.com/gpu.sharing-strategy"] == "time-slicing"
    assert identifiers(gpus, 3)[shared, 4] == "GPU-1"
