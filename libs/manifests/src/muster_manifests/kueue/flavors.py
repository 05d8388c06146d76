"""ResourceFlavor, Topology, AdmissionCheck and its configuration, WorkloadPriorityClass."""

from muster_domain.checks import CapacityRetry, PodSetMergePolicy, ProvisioningRequestConfig
from muster_domain.queues import (
    AdmissionCheck,
    PlacementPolicy,
    PriorityClass,
    ResourceFlavor,
    Topology,
)
from muster_domain.time_slicing import SHARED_GPU, replicas_on
from muster_manifests.manifest import Manifest
from muster_manifests.terms import read_taints, read_tolerations

_TERMS_MAX = 8
_LEVELS_MAX = 16
_HOSTNAME = "kubernetes.io/hostname"

PLACEMENT_POLICY = "muster.dev/placement-policy"
"""Annotation of a flavor: how pods are seated on its nodes."""


def read_resource_flavor(manifest: Manifest) -> ResourceFlavor:
    """Read a ResourceFlavor."""
    spec = manifest.body.object("spec")
    flavor = ResourceFlavor(
        name=manifest.metadata.name,
        node_labels=spec.text_map("nodeLabels"),
        node_taints=read_taints(spec, "nodeTaints"),
        tolerations=read_tolerations(spec, "tolerations"),
        topology_name=spec.text("topologyName"),
        placement_policy=_placement_policy(manifest),
    )
    for key, count in (
        ("nodeLabels", len(flavor.node_labels)),
        ("nodeTaints", len(flavor.node_taints)),
        ("tolerations", len(flavor.tolerations)),
    ):
        if count > _TERMS_MAX:
            spec.rule(key, f"{count} entries", f"write at most {_TERMS_MAX}")
    turns = replicas_on(flavor.node_labels)
    if turns > 1:
        spec.warn(
            "nodeLabels",
            f"{turns} pods take turns on each card, with nothing between their memory",
            f"count quota of {SHARED_GPU} in replicas, {turns} a card",
        )
    if flavor.topology_name and not flavor.node_labels:
        spec.rule("topologyName", "a topology needs node labels", "write nodeLabels as well")
    return flavor


def _placement_policy(manifest: Manifest) -> PlacementPolicy | None:
    annotations = manifest.body.object("metadata").object("annotations")
    written = annotations.text(PLACEMENT_POLICY)
    if not written:
        return None
    if written not in list(PlacementPolicy):
        annotations.problem(
            PLACEMENT_POLICY, f"unknown: {written}", f"write one of {', '.join(PlacementPolicy)}"
        )
        return None
    return PlacementPolicy(written)


def read_topology(manifest: Manifest) -> Topology:
    """Read a Topology: levels from the widest to the narrowest."""
    spec = manifest.body.object("spec")
    levels = tuple(level.required_text("nodeLabel") for level in spec.objects("levels"))
    if not 1 <= len(levels) <= _LEVELS_MAX:
        spec.rule("levels", f"{len(levels)} levels", f"write 1 to {_LEVELS_MAX} levels")
    if len(set(levels)) < len(levels):
        spec.rule("levels", "a label stands twice", "write each label once")
    if _HOSTNAME in levels[:-1]:
        spec.rule("levels", f"{_HOSTNAME} is not the lowest level", "write it last")
    return Topology(name=manifest.metadata.name, levels=levels)


def read_admission_check(manifest: Manifest) -> AdmissionCheck:
    """Read an AdmissionCheck."""
    spec = manifest.body.object("spec")
    spec.accept("retryDelayMinutes")
    return AdmissionCheck(
        name=manifest.metadata.name,
        controller=spec.required_text("controllerName"),
        parameters=spec.text_map("parameters"),
    )


def read_provisioning_request_config(manifest: Manifest) -> ProvisioningRequestConfig:
    """Read how often capacity is asked for, for which pods, and what its details do to them."""
    spec = manifest.body.object("spec")
    spec.accept("provisioningClassName", "parameters")
    details = spec.object("podSetUpdates").objects("nodeSelector")
    if len(details) > _TERMS_MAX:
        spec.rule("podSetUpdates", f"{len(details)} entries", f"write at most {_TERMS_MAX}")
    merge = spec.text("podSetMergePolicy")
    if merge and merge not in list(PodSetMergePolicy):
        words = " or ".join(PodSetMergePolicy)
        spec.problem("podSetMergePolicy", f"{merge!r} is none of its values", f"write {words}")
        merge = ""
    strategy = spec.object("retryStrategy")
    default = CapacityRetry()
    return ProvisioningRequestConfig(
        name=manifest.metadata.name,
        managed_resources=spec.texts("managedResources"),
        retry=CapacityRetry(
            limit=strategy.integer("backoffLimitCount", default.limit, low=0),
            base_ms=strategy.integer("backoffBaseSeconds", default.base_ms // 1000, low=0) * 1000,
            max_ms=strategy.integer("backoffMaxSeconds", default.max_ms // 1000, low=0) * 1000,
        ),
        node_selector_details={
            item.required_text("key"): item.required_text("valueFromProvisioningClassDetail")
            for item in details
        },
        merge_policy=PodSetMergePolicy(merge) if merge else None,
    )


def read_workload_priority_class(manifest: Manifest) -> PriorityClass:
    """Read Kueue's own priority class."""
    body = manifest.body
    if "value" not in body:
        body.rule("value", "missing", "write value: 1000 (higher goes first)")
    return PriorityClass(
        name=manifest.metadata.name,
        value=body.integer("value"),
        description=body.text("description"),
    )
