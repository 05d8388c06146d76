from pathlib import Path

import pytest

from muster_agent.simulation import simulated_nodes
from muster_domain.errors import InvalidValue
from muster_domain.nodes import Node
from muster_domain.selectors import Taint, TaintEffect

GIB = 2**30


def own_labels(node: Node) -> dict[str, str]:
    return {key: value for key, value in node.labels.items() if "/" not in key}


def test_the_shorthand_makes_equal_nodes() -> None:
    nodes = simulated_nodes("16x4gpu")
    assert [node.name for node in nodes[:2]] == ["sim-00", "sim-01"]
    assert len(nodes) == 16
    assert nodes[0].simulated
    assert nodes[0].allocatable["nvidia.com/gpu"] == 4000
    assert [device.numa_node for device in nodes[0].devices] == [0, 0, 1, 1]


def test_labels_may_depend_on_the_number_of_the_node() -> None:
    nodes = simulated_nodes("16x4gpu:zone=a,rack=r{n/4},slot={n%4},id={n:3}")
    assert [own_labels(node) for node in (nodes[0], nodes[7], nodes[15])] == [
        {"zone": "a", "rack": "r0", "slot": "0", "id": "000"},
        {"zone": "a", "rack": "r1", "slot": "3", "id": "007"},
        {"zone": "a", "rack": "r3", "slot": "3", "id": "015"},
    ]


def test_groups_are_numbered_through() -> None:
    nodes = simulated_nodes("2x8gpu,cpu=128,memory=1Ti,gpu_model=H100:kind=a; 1x0gpu:kind=b")
    assert [(node.name, own_labels(node)["kind"]) for node in nodes] == [
        ("sim-00", "a"),
        ("sim-01", "a"),
        ("sim-02", "b"),
    ]
    assert nodes[0].allocatable["cpu"] == 128_000
    assert nodes[0].allocatable["memory"] == 1024 * GIB * 1000
    assert nodes[0].devices[0].model == "H100"
    assert nodes[2].devices == ()


YAML_GROUPS = """
- count: 2
  name: big-{n}
  gpus: 2
  gpu_memory: 16Gi
  labels: {zone: a}
  taints: ["dedicated=ml:NoSchedule"]
  resources: {example.com/fpga: 2}
- name: small
"""


@pytest.mark.parametrize(
    "in_file", [pytest.param(True, id="file"), pytest.param(False, id="inline")]
)
def test_groups_are_written_in_yaml(tmp_path: Path, *, in_file: bool) -> None:
    text = YAML_GROUPS
    if in_file:
        (tmp_path / "nodes.yaml").write_text(text)
        text = f"@{tmp_path / 'nodes.yaml'}"
    nodes = simulated_nodes(text)
    assert [node.name for node in nodes] == ["big-0", "big-1", "small"]
    assert nodes[0].devices[0].memory_bytes == 16 * GIB
    assert nodes[0].taints == (Taint(key="dedicated", value="ml", effect=TaintEffect.NO_SCHEDULE),)
    assert nodes[0].allocatable["example.com/fpga"] == 2000


def test_json_is_yaml() -> None:
    assert len(simulated_nodes('[{"count": 3, "gpus": 1}]')) == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("16x4", "describes no nodes", id="no unit"),
        pytest.param("16x4gpu:zone", "not a label", id="no label"),
        pytest.param("0x4gpu", "greater than or equal to 1", id="none"),
        pytest.param("[]", "0 nodes", id="empty"),
        pytest.param("[{gpu: 4}]", "Extra inputs", id="unknown field"),
        pytest.param("[{name: a, count: 2}]", "two nodes are called 'a'", id="same name"),
        pytest.param("[{cpu: many}]", "not a quantity", id="no quantity"),
        pytest.param("[{", "not YAML", id="no yaml"),
        pytest.param("@/no/such/file", "cannot read", id="no file"),
        pytest.param("4x4gpu,colour=red", "Extra inputs", id="unknown option"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, problem: str) -> None:
    with pytest.raises(InvalidValue, match=problem):
        simulated_nodes(text)
