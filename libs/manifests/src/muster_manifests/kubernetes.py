"""Kubernetes objects that describe where jobs run and who may go first."""

from dataclasses import dataclass

from muster_domain.nodes import Node, NodeCondition
from muster_domain.pod_defaults import LimitRange, RuntimeClass
from muster_domain.queues import Namespace, PriorityClass
from muster_domain.selectors import Taint, TaintEffect
from muster_manifests.manifest import Manifest
from muster_manifests.reader import ObjectReader
from muster_manifests.terms import read_taints

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect=TaintEffect.NO_SCHEDULE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeObject:
    """A node and whether it takes pods."""

    node: Node
    condition: NodeCondition


def read_namespace(manifest: Manifest) -> Namespace:
    """Read a Namespace; it carries its own name as a label, as an API server gives it."""
    manifest.body.accept("spec", "status")
    name = manifest.metadata.name
    return Namespace(name=name, labels={**manifest.metadata.labels, NAMESPACE_NAME_LABEL: name})


def read_priority_class(manifest: Manifest) -> PriorityClass:
    """Read the priority class of pods."""
    body = manifest.body
    if "value" not in body:
        body.rule("value", "missing", "write value: 1000 (higher goes first)")
    if body.text("preemptionPolicy", "PreemptLowerPriority") != "PreemptLowerPriority":
        body.warn("preemptionPolicy", "not acted upon; a queue's preemption policy decides")
    return PriorityClass(
        name=manifest.metadata.name,
        value=body.integer("value"),
        of_pods=True,
        is_default=body.flag("globalDefault"),
        description=body.text("description"),
    )


def read_limit_range(manifest: Manifest) -> LimitRange:
    """Read a LimitRange: what it says of containers."""
    merged: dict[str, dict[str, int]] = {"min": {}, "max": {}, "default": {}, "defaultRequest": {}}
    for item in manifest.body.object("spec").objects("limits"):
        item.not_acted_on("maxLimitRequestRatio")
        kind = item.text("type")
        for key in merged:
            found = item.quantities(key)
            if kind == "Container":
                merged[key] |= found
        if kind != "Container":
            item.warn("type", f"{kind or 'nothing'} is not acted upon", "write type: Container")
    return LimitRange(
        namespace=manifest.metadata.namespace,
        name=manifest.metadata.name,
        least=merged["min"],
        most=merged["max"],
        limits=merged["default"],
        requests=merged["defaultRequest"],
    )


def read_runtime_class(manifest: Manifest) -> RuntimeClass:
    """Read a RuntimeClass: its overhead for each pod."""
    manifest.body.accept("handler", "scheduling")
    overhead = manifest.body.object("overhead").quantities("podFixed")
    return RuntimeClass(name=manifest.metadata.name, overhead=overhead)


def read_node(manifest: Manifest) -> NodeObject:
    """Read a Node: what it can give, its labels and taints, and whether it takes pods."""
    spec, status = manifest.body.object("spec"), manifest.body.object("status")
    spec.accept("podCIDR", "podCIDRs", "providerID", "externalID")
    status.accept(
        "addresses", "daemonEndpoints", "nodeInfo", "images", "volumesInUse", "volumesAttached",
        "phase", "config", "runtimeHandlers", "features",
    )  # fmt: skip
    capacity = status.quantities("capacity")
    cordoned = spec.flag("unschedulable")
    taints = read_taints(spec, "taints")
    if cordoned and UNSCHEDULABLE.key not in {taint.key for taint in taints}:
        taints = (*taints, UNSCHEDULABLE)
    node = Node(
        name=manifest.metadata.name,
        allocatable=status.quantities("allocatable") or capacity,
        labels=manifest.metadata.labels,
        taints=taints,
    )
    if not node.allocatable and spec.options.admission_rules:
        status.warn("allocatable", "a node that gives nothing", "write status.allocatable")
    return NodeObject(node=node, condition=_condition(status, cordoned=cordoned))


def _condition(status: ObjectReader, *, cordoned: bool) -> NodeCondition:
    ready = True
    for item in status.objects("conditions"):
        item.accept("lastHeartbeatTime", "lastTransitionTime", "reason", "message")
        if item.text("type") == "Ready":
            ready = item.text("status") == "True"
    if not ready:
        return NodeCondition.SUSPECT
    return NodeCondition.CORDONED if cordoned else NodeCondition.READY
