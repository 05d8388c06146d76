"""Volcano's own cases: objects through the manifest loader, one session, what it decided.

Translates only. A case lists its HyperNodes once as objects and once as the index that the case was
made with; the index is the truth about who is where, so HyperNode manifests are written from it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from volcano_plugins import CUSTOM_PLUGINS

from muster_domain.nodes import NodeCondition
from muster_domain.queues import HyperNode, PriorityClass, VolcanoQueue
from muster_domain.volcano import (
    DeviceClaim,
    DeviceClass,
    DeviceSlice,
    DisruptionBudget,
    NamespaceQuota,
    Pod,
    PodGroup,
)
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration, Switch
from muster_manifests import (
    LoadOptions,
    NodeObject,
    load_object,
    load_session_objects,
)
from muster_scheduling.volcano import NodeShard, Plan, SessionSnapshot, TaskStatus, run_session
from muster_scheduling.volcano.plugins.registry import PLUGINS

OPTIONS = LoadOptions(default_namespace="default", admission_rules=False)
NOW_MS = 1_800_000_000_000
KINDS = {
    "nodes": ("v1", "Node"),
    "queues": ("scheduling.volcano.sh/v1beta1", "Queue"),
    "podgroups": ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "hypernodes": ("topology.volcano.sh/v1alpha1", "HyperNode"),
}
STATE_KINDS = {
    "pods": ("v1", "Pod"),
    "resourceQuotas": ("v1", "ResourceQuota"),
    "pdbs": ("policy/v1", "PodDisruptionBudget"),
    "resourceClaims": ("resource.k8s.io/v1", "ResourceClaim"),
    "deviceClasses": ("resource.k8s.io/v1", "DeviceClass"),
    "resourceSlices": ("resource.k8s.io/v1", "ResourceSlice"),
}


def run(suite: str, case: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - the checker's form
    """Run the case's actions in one session."""
    objects = case["objects"]
    plan = run_session(
        load_snapshot(objects, case["config"].get("shard")),
        configuration_of(case["config"]),
        {**PLUGINS, **CUSTOM_PLUGINS},
    )
    return outcome(plan, objects)


def load_snapshot(objects: Mapping[str, Any], shard: Mapping[str, Any] | None) -> SessionSnapshot:
    """Load a case's objects."""
    written = {**objects, "hypernodes": hyper_nodes(objects)}
    declared = [
        load_object(as_manifest(item, kind), source="case", options=OPTIONS).content
        for key, kind in KINDS.items()
        for item in written.get(key) or []
    ]
    state = load_session_objects(
        [
            as_manifest(item, kind)
            for key, kind in STATE_KINDS.items()
            for item in written.get(key) or []
        ],
        source="case",
        options=OPTIONS,
    )
    nodes = [found for found in declared if isinstance(found, NodeObject)]
    return SessionSnapshot(
        now_ms=NOW_MS,
        nodes=tuple(found.node for found in nodes),
        conditions={found.node.name: NodeCondition(found.condition) for found in nodes},
        queues=tuple(found for found in declared if isinstance(found, VolcanoQueue)),
        pod_groups=tuple(found for found in declared if isinstance(found, PodGroup)),
        priority_classes=tuple(found for found in declared if isinstance(found, PriorityClass)),
        hyper_nodes=tuple(found for found in declared if isinstance(found, HyperNode)),
        pods=tuple(found for found in state if isinstance(found, Pod)),
        disruption_budgets=tuple(f for f in state if isinstance(f, DisruptionBudget)),
        namespace_quotas=tuple(f for f in state if isinstance(f, NamespaceQuota)),
        device_claims=tuple(found for found in state if isinstance(found, DeviceClaim)),
        device_classes=tuple(found for found in state if isinstance(found, DeviceClass)),
        device_slices=tuple(found for found in state if isinstance(found, DeviceSlice)),
        shard=shard_of(shard),
    )


def as_manifest(item: Mapping[str, Any], kind: tuple[str, str]) -> dict[str, Any]:
    """Complete what a table leaves out: kind, version, names of containers."""
    api_version, name = kind
    manifest = {**resolved(item), "apiVersion": api_version, "kind": name}
    if name == "PodGroup":
        manifest["spec"] = {"minMember": 0, **manifest.get("spec", {})}
    return manifest


def resolved(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Times relative to the run, as text."""
    if isinstance(value, dict):
        if "$now_plus_seconds" in value:
            return moment(NOW_MS + int(value["$now_plus_seconds"] * 1000))
        if value.get("$time") == "unix":
            return moment(int(value.get("seconds", 0)) * 1000)
        return {key: resolved(item) for key, item in value.items()}
    return [resolved(item) for item in value] if isinstance(value, list) else value


def moment(at_ms: int) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


def hyper_nodes(objects: Mapping[str, Any]) -> list[dict[str, Any]]:
    """HyperNode manifests that say what the case's index says."""
    index = objects.get("hypernode_index") or {}
    if not index:
        return objects.get("hypernodes") or []
    tiers = {name: int(tier) for tier, names in index["by_tier"].items() for name in names}
    real = {name: set(index["real_nodes"].get(name) or ()) for name in tiers}
    tier_names = {
        item["spec"]["tier"]: item["spec"]["tierName"]
        for item in objects.get("hypernodes") or []
        if item["spec"].get("tierName")
    }
    parents = dict(index.get("parents") or {})
    for name, tier in tiers.items():
        above = [o for o in tiers if tiers[o] > tier and real[name] <= real[o]]
        if name not in parents and above:
            parents[name] = min(above, key=lambda other: (tiers[other], len(real[other]), other))
    return [
        {
            "metadata": {"name": name},
            "spec": {
                "tier": tier,
                **({"tierName": tier_names[tier]} if tier in tier_names else {}),
                "members": [
                    *(member("HyperNode", child) for child in tiers if parents.get(child) == name),
                    *(member("Node", node) for node in sorted(real[name])),
                ],
            },
        }
        for name, tier in tiers.items()
    ]


def member(kind: str, name: str) -> dict[str, Any]:
    """One member of a HyperNode, by name."""
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def shard_of(written: Mapping[str, Any] | None) -> NodeShard | None:
    """The nodes of this scheduler."""
    if not written or written.get("sharding_mode") not in ("hard", "soft"):
        return None
    return NodeShard(
        nodes=frozenset(written["nodes_in_shard"]), hard=written["sharding_mode"] == "hard"
    )


def configuration_of(config: Mapping[str, Any]) -> SchedulerConfiguration:
    """Actions and tiers; a switch that a case does not turn on is off, and so is a plugin."""
    active = config.get("effective_plugins", config.get("registered_plugins"))
    return SchedulerConfiguration(
        actions=tuple(config["actions"]),
        tiers=tuple(
            tuple(plugin_of(item) for item in tier["plugins"] if item["name"] in active)
            for tier in config["tiers"]
        ),
        action_arguments={
            item["name"]: argument(item.get("arguments") or {})
            for item in config.get("configurations") or []
        },
    )


def plugin_of(item: Mapping[str, Any]) -> PluginOption:
    """One plugin of a tier."""
    return PluginOption(
        name=item["name"],
        enabled=frozenset(switch for switch in Switch if item.get(switch)),
        arguments=argument(item.get("arguments") or {}),
    )


def argument(value: Any) -> Any:  # noqa: ANN401 - JSON
    """An argument; numbers with a fraction as text."""
    if isinstance(value, dict):
        return {key: argument(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(argument(item) for item in value)
    return str(value) if isinstance(value, float) else value


def outcome(plan: Plan, objects: Mapping[str, Any]) -> dict[str, Any]:
    """What the checker compares."""
    pipelined: dict[str, list[str]] = {}
    for pipeline in plan.pipelines:
        pipelined.setdefault(pipeline.job, []).append(pipeline.node)
    phases = {
        f"{group['metadata']['namespace']}/{group['metadata']['name']}": group.get(
            "status", {}
        ).get("phase", "")
        for group in objects.get("podgroups") or []
    }
    phases |= {change.job: change.after.value for change in plan.phases}
    binds = {bind.pod: bind.node for bind in plan.binds}
    return {
        "binds": binds,
        "evicted": [eviction.pod for eviction in plan.evictions],
        "pipelined": pipelined,
        "task_status_nums": {
            key: {TaskStatus(status).value: count for status, count in found.tasks.items()}
            for key, found in plan.outcomes.items()
        },
        "podgroup_status": phases,
        "bind_nums_in_hypernode": bind_counts(binds, objects),
    }


def bind_counts(binds: Mapping[str, str], objects: Mapping[str, Any]) -> list[int]:
    """Binds by HyperNode of the lowest tier."""
    index = objects.get("hypernode_index") or {}
    if not index:
        return []
    lowest = min(index["by_tier"], key=int)
    counts = [
        sum(node in set(index["real_nodes"].get(name) or ()) for node in binds.values())
        for name in index["by_tier"][lowest]
    ]
    return sorted(count for count in counts if count)
