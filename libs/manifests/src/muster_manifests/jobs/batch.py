"""batch/v1: Job and CronJob."""

from dataclasses import dataclass, replace

from muster_domain.workload import ELASTIC_JOB, Owner, RestartPolicy
from muster_manifests.jobs.job_metadata import (
    JobSpec,
    keep_finished_ms,
    make_submission,
    seconds_ms,
)
from muster_manifests.manifest import Manifest
from muster_manifests.metadata import Metadata
from muster_manifests.pods import PodTemplate, read_pod_template
from muster_manifests.reader import ObjectReader, count_of
from muster_manifests.submission import JobSubmission

MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
_MAIN = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """A Job's spec: how many of which pods run at once, and for how long at most."""

    template: PodTemplate
    pods_at_once: int
    max_execution_time_ms: int | None
    keep_finished_ms: int | None


def read_batch_spec(spec: ObjectReader) -> BatchSpec:
    """Read the spec of a Job, also as JobSets embed it."""
    spec.accept(
        "suspend", "completionMode", "selector", "manualSelector",
        "managedBy", "podReplacementPolicy",
    )  # fmt: skip
    spec.not_acted_on(
        "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "podFailurePolicy",
        "successPolicy",
    )  # fmt: skip
    parallelism = spec.integer("parallelism", 1, low=0)
    completions = spec.optional_integer("completions", low=0)
    if completions is not None and completions > parallelism:
        spec.warn(
            "completions",
            f"{parallelism} pods run at once; the other {completions - parallelism} are not "
            "started later",
            "write parallelism as high as completions",
        )
    return BatchSpec(
        template=read_pod_template(spec.object("template"), RestartPolicy.NEVER),
        pods_at_once=parallelism if completions is None else min(parallelism, completions),
        max_execution_time_ms=seconds_ms(spec, "activeDeadlineSeconds"),
        keep_finished_ms=keep_finished_ms(spec),
    )


def read_job(manifest: Manifest) -> JobSubmission:
    """Read a Job; `job-min-parallelism` allows a smaller gang (partial admission)."""
    batch = read_batch_spec(manifest.body.object("spec"))
    pod_set = batch.template.pod_set(
        _MAIN, batch.pods_at_once, min_count=_min_parallelism(manifest, batch.pods_at_once)
    )
    return make_submission(
        manifest,
        (batch.template,),
        (pod_set,),
        JobSpec(
            max_execution_time_ms=batch.max_execution_time_ms,
            keep_finished_ms=batch.keep_finished_ms,
        ),
    )


def read_cron_job(manifest: Manifest) -> JobSubmission:
    """Read a CronJob's template as one job of the CronJob's name."""
    spec = manifest.body.object("spec")
    spec.accept(
        "suspend", "concurrencyPolicy", "startingDeadlineSeconds", "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit", "timeZone",
    )  # fmt: skip
    spec.not_acted_on("schedule", why="not acted upon: the job is submitted once")
    template = spec.object("jobTemplate")
    metadata = template.object("metadata")
    metadata.accept("name", "creationTimestamp")
    inner = Manifest(
        api_version=manifest.api_version,
        kind="Job",
        metadata=Metadata(
            name=manifest.metadata.name,
            namespace=manifest.metadata.namespace,
            labels={**manifest.metadata.labels, **metadata.text_map("labels")},
            annotations={**manifest.metadata.annotations, **metadata.text_map("annotations")},
        ),
        body=template,
    )
    owner = Owner(api_version=manifest.api_version, kind=manifest.kind, name=manifest.metadata.name)
    return replace(read_job(inner), owner=owner)


def _min_parallelism(manifest: Manifest, parallelism: int) -> int | None:
    annotations = manifest.body.object("metadata").object("annotations")
    written = annotations.text(MIN_PARALLELISM)
    if not written:
        return None
    if annotations.text(ELASTIC_JOB) == "true":
        annotations.problem(
            MIN_PARALLELISM,
            "an elastic job starts with all its pods, or none",
            f"leave it out, or leave {ELASTIC_JOB} out",
        )
        return None
    count = count_of(written)
    if count is None or not 0 < count < parallelism:
        annotations.problem(
            MIN_PARALLELISM,
            f"{written[:20]!r} is not between 0 and the {parallelism} pods of the job",
            f'write a number from "1" to "{max(1, parallelism - 1)}"',
        )
        return None
    return count
