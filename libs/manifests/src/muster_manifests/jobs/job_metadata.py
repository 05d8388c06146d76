"""What labels and annotations say of a job, whatever its kind."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster_domain.workload import NetworkTopology, Owner, PodSet
from muster_manifests.gang import with_min_member
from muster_manifests.manifest import Manifest
from muster_manifests.pods import PodTemplate
from muster_manifests.reader import ObjectReader, count_of
from muster_manifests.submission import JobSubmission
from muster_manifests.topology_requests import TOPOLOGY_ANNOTATIONS

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MAX_EXECUTION_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"
VOLCANO_QUEUE_NAMES = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
GROUP_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
_NOT_ACTED_ON = ("kueue.x-k8s.io/prebuilt-workload-name",)
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
    keep_finished_ms: int | None = None
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
    _warn_without_effect(manifest)
    submission = JobSubmission(
        owner=Owner(api_version=manifest.api_version, kind=manifest.kind, name=metadata.name),
        namespace=metadata.namespace,
        name=metadata.name,
        pod_sets=pod_sets,
        queue=both.get(QUEUE_NAME, ""),
        volcano_queue=spec.volcano_queue or _first_of(VOLCANO_QUEUE_NAMES, both, templates),
        workload_priority_class=metadata.labels.get(PRIORITY_CLASS, ""),
        priority_class=spec.priority_class or _priority_class(templates),
        max_execution_time_ms=_max_execution_time_ms(manifest.body, spec),
        keep_finished_ms=spec.keep_finished_ms,
        network_topology=spec.network_topology,
        pod_group=_first_of(POD_GROUP_NAMES, both, templates),
        labels=metadata.labels,
        annotations=metadata.annotations,
    )
    return _with_group_min_member(submission, manifest.body, both, templates)


def seconds_ms(reader: ObjectReader, key: str, *, low: int = 1) -> int | None:
    """Read a number of seconds as milliseconds, or None where none is written."""
    seconds = reader.optional_integer(key, low=low)
    return None if seconds is None else seconds * 1000


def keep_finished_ms(reader: ObjectReader) -> int | None:
    """Read how long a job stays listed after its end."""
    return seconds_ms(reader, "ttlSecondsAfterFinished", low=0)


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
    seconds = count_of(written)
    if not seconds:
        labels.problem(
            MAX_EXECUTION_SECONDS,
            f"{written[:20]!r} is not a number of seconds",
            f'write {MAX_EXECUTION_SECONDS}: "3600"',
        )
        return None
    return seconds * 1000


def _with_group_min_member(
    submission: JobSubmission,
    body: ObjectReader,
    of_job: Mapping[str, str],
    templates: tuple[PodTemplate, ...],
) -> JobSubmission:
    """Take the minimum that Volcano reads for jobs which bring no PodGroup."""
    written = _first_of((GROUP_MIN_MEMBER,), of_job, templates)
    minimum = count_of(written)
    if not written or any(pod_set.min_count is not None for pod_set in submission.pod_sets):
        return submission
    if minimum is None:
        body.problem("metadata", f"{GROUP_MIN_MEMBER} is not a number", 'write "2"')
        return submission
    result = with_min_member(submission, minimum)
    for finding in result.findings:
        body.warn("metadata", f"{GROUP_MIN_MEMBER}: {finding.problem}", finding.fix)
    return result.submission


def _warn_without_effect(manifest: Manifest) -> None:
    metadata = manifest.body.object("metadata")
    labels, annotations = metadata.object("labels"), metadata.object("annotations")
    labels.not_acted_on(*_NOT_ACTED_ON)
    annotations.not_acted_on(*_NOT_ACTED_ON)
    if manifest.kind == "Pod":
        return
    for key in TOPOLOGY_ANNOTATIONS:
        if key in annotations:
            annotations.warn(
                key, "annotation ignored here", "move it to the pod template's metadata.annotations"
            )
