from collections.abc import Callable
from typing import Any

from muster_domain.nodes import Node, NodeCondition
from muster_domain.queues import Namespace, PriorityClass
from muster_domain.selectors import Taint, TaintEffect
from muster_manifests import NodeObject

LoadContent = Callable[[str], Any]
Warned = Callable[[str], list[tuple[str, str]]]

NODE = """
apiVersion: v1
kind: Node
metadata: {{name: n1, labels: {{rack: r1}}}}
spec: {{{spec}}}
status:
  capacity: {{cpu: 8, memory: 16Gi}}
  {status}
"""


def test_a_namespace_carries_its_own_name_as_a_label(load_content: LoadContent) -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: vision, labels: {tier: gold}}\n"
    assert load_content(text) == Namespace(
        name="vision", labels={"tier": "gold", "kubernetes.io/metadata.name": "vision"}
    )


def test_a_priority_class_of_pods(load_content: LoadContent, warned: Warned) -> None:
    text = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\n"
    text += "value: 1000\nglobalDefault: true\npreemptionPolicy: Never\n"
    assert load_content(text) == PriorityClass(
        name="high", value=1000, of_pods=True, is_default=True
    )
    assert [field for field, _ in warned(text)] == ["preemptionPolicy"]


def test_a_node_gives_what_is_allocatable(load_content: LoadContent) -> None:
    status = "allocatable: {cpu: 7500m, nvidia.com/gpu: 4}"
    spec = "taints: [{key: gpu, effect: NoExecute}]"
    assert load_content(NODE.format(spec=spec, status=status)) == NodeObject(
        node=Node(
            name="n1",
            allocatable={"cpu": 7500, "nvidia.com/gpu": 4000},
            labels={"rack": "r1"},
            taints=(Taint(key="gpu", effect=TaintEffect.NO_EXECUTE),),
        ),
        condition=NodeCondition.READY,
    )


def test_a_node_without_allocatable_gives_its_capacity(load_content: LoadContent) -> None:
    content = load_content(NODE.format(spec="", status=""))
    assert content.node.allocatable == {"cpu": 8000, "memory": 16 * 2**30 * 1000}


def test_an_unschedulable_node_is_cordoned_and_tainted(load_content: LoadContent) -> None:
    content = load_content(NODE.format(spec="unschedulable: true", status=""))
    assert content.condition is NodeCondition.CORDONED
    assert content.node.taints == (
        Taint(key="node.kubernetes.io/unschedulable", effect=TaintEffect.NO_SCHEDULE),
    )


def test_a_node_that_is_not_ready_is_suspect(load_content: LoadContent) -> None:
    for status in ("False", "Unknown"):
        conditions = f'conditions: [{{type: Ready, status: "{status}"}}]'
        content = load_content(NODE.format(spec="unschedulable: true", status=conditions))
        assert content.condition is NodeCondition.SUSPECT


def test_a_node_that_gives_nothing_is_warned_of(warned: Warned) -> None:
    assert warned("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n") == [
        ("status.allocatable", "a node that gives nothing")
    ]
