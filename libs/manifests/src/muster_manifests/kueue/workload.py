"""Kueue's Workload: a submission that already knows its pod sets, and its status."""

from dataclasses import dataclass, replace

from muster_domain.workload import Owner, PodSet, RestartPolicy
from muster_manifests.kueue.status import WorkloadStatus, read_status
from muster_manifests.manifest import Manifest
from muster_manifests.pods import read_pod_template
from muster_manifests.reader import ObjectReader
from muster_manifests.submission import JobSubmission
from muster_manifests.topology_requests import GROUP_NAME, read_topology_request

_POD_SETS_MAX = 18
_MAIN = "main"
_POD_PRIORITY_SOURCES = ("scheduling.k8s.io", "scheduling.k8s.io/priorityclass")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRecord:
    """A Workload object: what was asked for, and what has become of it.

    `parent` is the uid of the Workload that it is a variant of, empty for one that stands alone.
    """

    submission: JobSubmission
    status: WorkloadStatus
    parent: str = ""


def read_workload(manifest: Manifest) -> WorkloadRecord:
    """Read a Workload with its status."""
    metadata = manifest.metadata
    spec = manifest.body.object("spec")
    workload_class, pod_class = _priority_classes(spec)
    seconds = spec.optional_integer("maximumExecutionTimeSeconds", low=1)
    status = read_status(manifest.body, uid=metadata.uid, created_at_ms=metadata.created_at_ms)
    submission = JobSubmission(
        owner=Owner(api_version=manifest.api_version, kind=manifest.kind, name=metadata.name),
        namespace=metadata.namespace,
        name=metadata.name,
        pod_sets=_pod_sets(spec),
        queue=spec.text("queueName"),
        workload_priority_class=workload_class,
        priority_class=pod_class,
        priority=spec.optional_integer("priority"),
        max_execution_time_ms=None if seconds is None else seconds * 1000,
        active=status.active,
        labels=metadata.labels,
        annotations=metadata.annotations,
    )
    return WorkloadRecord(submission=submission, status=status, parent=_parent(manifest))


def _parent(manifest: Manifest) -> str:
    for owner in manifest.body.object("metadata").objects("ownerReferences"):
        owner.accept_all()
        if (owner.text("apiVersion"), owner.text("kind")) == (manifest.api_version, manifest.kind):
            return owner.text("uid")
    return ""


def _pod_sets(spec: ObjectReader) -> tuple[PodSet, ...]:
    readers = spec.objects("podSets")
    if not 1 <= len(readers) <= _POD_SETS_MAX:
        spec.rule("podSets", f"{len(readers)} pod sets", f"write 1 to {_POD_SETS_MAX}")
    pod_sets: list[PodSet] = []
    for reader in readers:
        pod_set = _pod_set(reader)
        if pod_set.name in {other.name for other in pod_sets}:
            reader.problem("name", f"a second pod set {pod_set.name!r}", "give it its own name")
        pod_sets.append(pod_set)
    partial = [pod_set.name for pod_set in pod_sets if pod_set.min_count is not None]
    if len(partial) > 1:
        spec.rule("podSets", "more than one pod set has a minCount", "keep one minCount")
    return tuple(pod_sets)


def _pod_set(reader: ObjectReader) -> PodSet:
    count = reader.integer("count", 1, low=0)
    min_count = reader.optional_integer("minCount", low=1)
    if min_count is not None and min_count > count:
        reader.rule("minCount", f"more than count {count}", "lower minCount")
    template = read_pod_template(reader.object("template"), RestartPolicy.NEVER)
    pod_set = template.pod_set(
        reader.text("name", _MAIN),
        count,
        min_count=min_count,
        topology=read_topology_request(reader),
    )
    group = reader.object("topologyRequest").text("podSetGroupName")
    if group and pod_set.topology is None:
        return replace(pod_set, annotations={**pod_set.annotations, GROUP_NAME: group})
    return pod_set


def _priority_classes(spec: ObjectReader) -> tuple[str, str]:
    """Return the names of Kueue's class and of the pods' class; at most one is set."""
    reference = spec.object("priorityClassRef")
    group, kind = reference.text("group"), reference.text("kind")
    name = reference.text("name") or spec.text("priorityClassName")
    source = spec.text("priorityClassSource")
    of_pods = (
        kind == "PriorityClass" or group in _POD_PRIORITY_SOURCES or source in _POD_PRIORITY_SOURCES
    )
    return ("", name) if of_pods else (name, "")
