"""What labels and annotations say of a job, whatever its kind."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster_domain.workload import NetworkTopology, Owner, PodSet
from muster_manifests.manifest import Manifest
from muster_manifests.pods import PodTemplate
from muster_manifests.reader import ObjectReader
from muster_manifests.submission import JobSubmission
from muster_manifests.topology_requests import TOPOLOGY_ANNOTATIONS

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MAX_EXECUTION_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"
VOLCANO_QUEUE_NAMES = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
POD_GROUP_NAMES = (
    "scheduling.volcano.sh/pod-group-name",
    "scheduling.k8s.io/group-name",
    "scheduling.x-k8s.io/pod-group",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a kind's own fields say, beside its pod sets; they win over labels and annotations."""

    priority_class: str = ""
    volcano_queue: str = ""
    max_execution_time_ms: int | None = None
    network_topology: NetworkTopology | None = None


_NOTHING = JobSpec()


def make_submission(
    manifest: Manifest,
    templates: tuple[PodTemplate, ...],
    pod_sets: tuple[PodSet, ...],
    spec: JobSpec = _NOTHING,
) -> JobSubmission:
    """Make the submission of a job out of its pod sets and what its metadata says."""
    metadata = manifest.metadata
    both = {**metadata.annotations, **metadata.labels}
    if manifest.kind != "Pod":
        _warn_misplaced_topology(manifest)
    return JobSubmission(
        owner=Owner(api_version=manifest.api_version, kind=manifest.kind, name=metadata.name),
        namespace=metadata.namespace,
        name=metadata.name,
        pod_sets=pod_sets,
        queue=both.get(QUEUE_NAME, ""),
        volcano_queue=spec.volcano_queue or _first_of(VOLCANO_QUEUE_NAMES, both, templates),
        workload_priority_class=metadata.labels.get(PRIORITY_CLASS, ""),
        priority_class=spec.priority_class or _priority_class(templates),
        max_execution_time_ms=_max_execution_time_ms(manifest.body, spec),
        network_topology=spec.network_topology,
        pod_group=_first_of(POD_GROUP_NAMES, both, templates),
        labels=metadata.labels,
        annotations=metadata.annotations,
    )


def seconds_ms(reader: ObjectReader, key: str) -> int | None:
    """Read a number of seconds as milliseconds, or None where none is written."""
    seconds = reader.optional_integer(key, low=1)
    return None if seconds is None else seconds * 1000


def _priority_class(templates: tuple[PodTemplate, ...]) -> str:
    return next((found.priority_class for found in templates if found.priority_class), "")


def _first_of(
    keys: tuple[str, ...], of_job: Mapping[str, str], templates: tuple[PodTemplate, ...]
) -> str:
    of_pods = [found for template in templates for found in (template.annotations, template.labels)]
    for marks in (of_job, *of_pods):
        for key in keys:
            if marks.get(key):
                return marks[key]
    return ""


def _max_execution_time_ms(body: ObjectReader, spec: JobSpec) -> int | None:
    labels = body.object("metadata").object("labels")
    written = labels.text(MAX_EXECUTION_SECONDS)
    if not written:
        return spec.max_execution_time_ms
    if not (written.isascii() and written.isdecimal()) or not 0 < int(written) < 2**31:
        labels.problem(
            MAX_EXECUTION_SECONDS,
            f"{written!r} is not a number of seconds",
            f'write {MAX_EXECUTION_SECONDS}: "3600"',
        )
        return None
    return int(written) * 1000


def _warn_misplaced_topology(manifest: Manifest) -> None:
    for key in TOPOLOGY_ANNOTATIONS:
        if key in manifest.metadata.annotations:
            manifest.body.object("metadata").object("annotations").warn(
                key,
                "annotation ignored here",
                "move it to the pod template's metadata.annotations",
            )
