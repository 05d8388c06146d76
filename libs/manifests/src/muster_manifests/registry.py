"""Which kinds are read, by whom, and in which versions."""

from collections.abc import Callable
from dataclasses import dataclass

from muster_manifests.document import Content
from muster_manifests.kubernetes import read_namespace, read_node, read_priority_class
from muster_manifests.kueue.flavors import (
    read_admission_check,
    read_resource_flavor,
    read_topology,
    read_workload_priority_class,
)
from muster_manifests.kueue.queues import read_cluster_queue, read_cohort, read_local_queue
from muster_manifests.kueue.workload import read_workload
from muster_manifests.manifest import Manifest

Parser = Callable[[Manifest], Content]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindEntry:
    """How one kind is read: its versions, newest last, and whether it lives in a namespace."""

    versions: tuple[str, ...]
    parser: Parser
    namespaced: bool = True


_KUEUE = "kueue.x-k8s.io"
_KUEUE_VERSIONS = ("v1beta1", "v1beta2")
_COHORT_VERSIONS = ("v1alpha1", *_KUEUE_VERSIONS)

KINDS: dict[tuple[str, str], KindEntry] = {
    (_KUEUE, "ResourceFlavor"): KindEntry(
        versions=_KUEUE_VERSIONS, parser=read_resource_flavor, namespaced=False
    ),
    (_KUEUE, "Topology"): KindEntry(
        versions=_COHORT_VERSIONS, parser=read_topology, namespaced=False
    ),
    (_KUEUE, "AdmissionCheck"): KindEntry(
        versions=_KUEUE_VERSIONS, parser=read_admission_check, namespaced=False
    ),
    (_KUEUE, "WorkloadPriorityClass"): KindEntry(
        versions=_KUEUE_VERSIONS, parser=read_workload_priority_class, namespaced=False
    ),
    (_KUEUE, "ClusterQueue"): KindEntry(
        versions=_KUEUE_VERSIONS, parser=read_cluster_queue, namespaced=False
    ),
    (_KUEUE, "Cohort"): KindEntry(versions=_COHORT_VERSIONS, parser=read_cohort, namespaced=False),
    (_KUEUE, "LocalQueue"): KindEntry(versions=_KUEUE_VERSIONS, parser=read_local_queue),
    (_KUEUE, "Workload"): KindEntry(versions=_KUEUE_VERSIONS, parser=read_workload),
    ("", "Namespace"): KindEntry(versions=("v1",), parser=read_namespace, namespaced=False),
    ("", "Node"): KindEntry(versions=("v1",), parser=read_node, namespaced=False),
    ("scheduling.k8s.io", "PriorityClass"): KindEntry(
        versions=("v1",), parser=read_priority_class, namespaced=False
    ),
}
"""Parsers by (API group, kind)."""
