from dataclasses import replace

import pytest

from muster_contracts.pod_environment import (
    ADDRESS_LABEL,
    MASTER_PORTS,
    command_line,
    container_environment,
    device_variables,
    expand,
    node_address,
    pod_environment,
)
from muster_domain.nodes import Node, Placement, PodAssignment
from muster_domain.workload import (
    Container,
    EnvironmentVariable,
    LocalQueueRef,
    Owner,
    PodSet,
    Workload,
)


def workload(api_version: str = "kubeflow.org/v1", kind: str = "PyTorchJob") -> Workload:
    return Workload(
        id="w-1",
        namespace="vision",
        name="resnet",
        queue=LocalQueueRef(name="main"),
        pod_sets=(PodSet(name="master", count=1), PodSet(name="big-worker", count=2)),
        owner=Owner(api_version=api_version, kind=kind, name="resnet"),
        created_at_ms=0,
    )


def seats(*nodes: str) -> Placement:
    first, *others = (
        PodAssignment(
            pod_set="big-worker" if rank else "master",
            index=max(0, rank - 1),
            rank=rank,
            node=node,
            devices={"nvidia.com/gpu": (2 * rank, 2 * rank + 1)},
        )
        for rank, node in enumerate(nodes)
    )
    return Placement(pods=(first, *others))


def test_a_seat_knows_its_rank_its_peers_and_its_devices() -> None:
    placement = seats("n1", "n2", "n2")
    found = pod_environment(workload(), placement, placement.pods[2], 3, {"n1": "10.0.0.1"})
    assert found.pop("MASTER_PORT").isdecimal()
    assert found == {
        "MUSTER_WORKLOAD": "vision/resnet",
        "MUSTER_WORKLOAD_ID": "w-1",
        "MUSTER_NAMESPACE": "vision",
        "MUSTER_ATTEMPT": "3",
        "MUSTER_POD_SET": "big-worker",
        "MUSTER_POD_INDEX": "1",
        "MUSTER_NODE": "n2",
        "RANK": "2",
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "10.0.0.1",
        "NVIDIA_VISIBLE_DEVICES": "4,5",
        "CUDA_VISIBLE_DEVICES": "4,5",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def test_all_seats_agree_on_the_meeting_point_and_attempts_differ() -> None:
    placement = seats("n1", "n2", "n3")
    meeting = {
        (found["MASTER_ADDR"], found["MASTER_PORT"])
        for found in (pod_environment(workload(), placement, seat, 1) for seat in placement.pods)
    }
    assert len(meeting) == 1
    (address, port), *_ = meeting
    assert address == "n1"
    assert int(port) in MASTER_PORTS
    assert pod_environment(workload(), placement, placement.pods[0], 2)["MASTER_PORT"] != port


def test_a_gang_on_one_node_meets_on_loopback() -> None:
    placement = seats("n1", "n1")
    found = pod_environment(workload(), placement, placement.pods[1], 1, {"n1": "10.0.0.1"})
    assert found["MASTER_ADDR"] == "127.0.0.1"


def test_a_seat_without_gpus_sees_none() -> None:
    assert device_variables(()) == {
        "NVIDIA_VISIBLE_DEVICES": "void",
        "CUDA_VISIBLE_DEVICES": "",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def test_volcano_tasks_find_each_other() -> None:
    placement = seats("n1", "n2", "n3")
    job = workload("batch.volcano.sh/v1alpha1", "Job")
    found = pod_environment(job, placement, placement.pods[2], 1, {"n3": "10.0.0.3"})
    assert {name: value for name, value in found.items() if name[:3] in ("VC_", "VK_")} == {
        "VC_TASK_INDEX": "1",
        "VK_TASK_INDEX": "1",
        "VC_MASTER_NUM": "1",
        "VC_MASTER_HOSTS": "n1",
        "VC_BIG_WORKER_NUM": "2",
        "VC_BIG_WORKER_HOSTS": "n2,10.0.0.3",
    }


def test_indexed_jobs_find_their_index() -> None:
    placement = seats("n1", "n2", "n3")
    found = pod_environment(workload("batch/v1", "Job"), placement, placement.pods[2], 1)
    assert found["JOB_COMPLETION_INDEX"] == "1"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param("--rank=$(RANK)", "--rank=7", id="known"),
        pytest.param("$(NOBODY)", "$(NOBODY)", id="unknown"),
        pytest.param("$$(RANK)", "$(RANK)", id="escaped"),
        pytest.param("$$$(RANK)", "$7", id="dollar before reference"),
        pytest.param("$RANK ${RANK} $(RANK", "$RANK ${RANK} $(RANK", id="not references"),
        pytest.param("$()", "$()", id="no name"),
        pytest.param("$(RANK)$(RANK)", "77", id="twice"),
    ],
)
def test_references_are_kubernetes_references(written: str, read: str) -> None:
    assert expand(written, {"RANK": "7"}) == read


def test_container_variables_win_but_not_over_devices() -> None:
    container = Container(
        name="main",
        command=("train",),
        args=("--name", "$(NAME)"),
        environment=(
            EnvironmentVariable(name="MASTER_ADDR", value="other"),
            EnvironmentVariable(name="NAME", value="r$(RANK)-$(LATER)"),
            EnvironmentVariable(name="LATER", value="x"),
            EnvironmentVariable(name="CUDA_VISIBLE_DEVICES", value="0,1,2,3"),
            EnvironmentVariable(name="MUSTER_POD_UID", value="somebody else"),
            EnvironmentVariable(name="MUSTER_TOKEN", value="secret"),
        ),
    )
    given = {"RANK": "1", "MASTER_ADDR": "n1", "MUSTER_POD_UID": "p", "CUDA_VISIBLE_DEVICES": "3"}
    variables = container_environment(given, container)
    own = {"MASTER_ADDR": "other", "NAME": "r1-$(LATER)", "LATER": "x", "MUSTER_TOKEN": "secret"}
    assert variables == {**given, **own}
    assert command_line(container, variables) == ("train", "--name", "r1-$(LATER)")


def test_a_label_gives_the_address_of_a_node() -> None:
    assert node_address(Node(name="n1", allocatable={})) == "n1"
    labelled = Node(name="n1", allocatable={}, labels={ADDRESS_LABEL: "10.1.1.1"})
    assert node_address(labelled) == "10.1.1.1"


def test_a_pod_that_wants_to_be_near_knows_its_zones() -> None:
    seat = replace(seats("n1").pods[0], zones=(1,))
    found = pod_environment(workload(), Placement(pods=(seat,)), seat, 1)
    assert found["MUSTER_NUMA_NODES"] == "1"


def test_a_pod_that_shares_cards_knows_its_share() -> None:
    asked = {
        "volcano.sh/vgpu-number": 2000,
        "volcano.sh/vgpu-cores": 30_000,
        "volcano.sh/vgpu-memory": 4_096_000,
    }
    pods = replace(workload(), pod_sets=(PodSet(name="master", count=1, requests=asked),))
    placement = seats("n1")
    found = pod_environment(pods, placement, placement.pods[0], 1)
    assert found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "30"
    assert found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=4096M,1=4096M"
    assert found["NVIDIA_VISIBLE_DEVICES"] == "0,1"
