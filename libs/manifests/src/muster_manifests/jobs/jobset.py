"""JobSet: several Jobs, each repeated, admitted together."""

from muster_manifests.jobs.batch import BatchSpec, read_batch_spec
from muster_manifests.jobs.job_metadata import JobSpec, keep_finished_ms, make_submission
from muster_manifests.manifest import Manifest
from muster_manifests.reader import ObjectReader
from muster_manifests.submission import JobSubmission


def read_job_set(manifest: Manifest) -> JobSubmission:
    """Read a JobSet: one pod set for each replicated job."""
    spec = manifest.body.object("spec")
    spec.accept("suspend", "network", "coordinator", "managedBy")
    spec.not_acted_on("successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies")
    jobs: dict[str, tuple[BatchSpec, int]] = {}
    for reader in spec.objects("replicatedJobs"):
        name = reader.required_text("name")
        if name in jobs:
            reader.problem("name", f"a second replicated job {name!r}", "give it its own name")
        jobs[name] = _read_replicated_job(reader)
    if not jobs:
        spec.problem("replicatedJobs", "missing", "write at least one replicated job")
    deadlines = [
        batch.max_execution_time_ms
        for batch, _ in jobs.values()
        if batch.max_execution_time_ms is not None
    ]
    return make_submission(
        manifest,
        tuple(batch.template for batch, _ in jobs.values()),
        tuple(batch.template.pod_set(name, count) for name, (batch, count) in jobs.items()),
        JobSpec(
            max_execution_time_ms=max(deadlines, default=None),
            keep_finished_ms=keep_finished_ms(spec),
        ),
    )


def _read_replicated_job(reader: ObjectReader) -> tuple[BatchSpec, int]:
    """Return one repetition's spec, and the pods of all repetitions together."""
    reader.accept("groupName")
    reader.not_acted_on("dependsOn")
    job = reader.object("template")
    job.accept("metadata")
    batch = read_batch_spec(job.object("spec"))
    return batch, batch.pods_at_once * reader.integer("replicas", 1, low=0)
