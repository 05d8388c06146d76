"""One path for every job, whichever door it came through: load, resolve, check, say."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

from muster_contracts.jobs import Decision
from muster_domain.errors import Conflict, InvalidValue
from muster_gateway.bodies import Body
from muster_gateway.decisions import ENDED, DecisionFeed
from muster_gateway.resolution import Resolved, Sender, resolve
from muster_manifests import (
    Document,
    JobSubmission,
    LoadOptions,
    LoadResult,
    WorkloadRecord,
    join_pod_group,
    load,
    load_objects,
)
from muster_manifests.catalogue import ObjectCatalogue

JOBS_MAX = 500
"""Jobs in one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that can be taken. `decided` is what was decided about it when it was sent before."""

    document: Document
    resolved: Resolved
    decided: Decision | None = None
    warnings: tuple[str, ...] = ()


async def load_body(
    body: Body, catalogue: ObjectCatalogue, *, namespace: str, seed: str, source: str
) -> LoadResult:
    """Load what was sent; reading YAML does not hold up anybody else.

    `namespace` is given to what names none; `seed` makes generated names repeatable. Pods are
    completed and bounded by what is declared. Raises `ManifestError`.
    """
    options = LoadOptions(
        default_namespace=namespace,
        name_seed=seed,
        limit_ranges=tuple(catalogue.limit_ranges.values()),
        runtime_classes=dict(catalogue.runtime_classes),
    )
    if body.manifest is not None:
        return load_objects((body.manifest,), source=source, options=options)
    return await asyncio.to_thread(load, body.text, source=source, options=options)


def job_of(document: Document) -> JobSubmission | None:
    """The job in a document, or None where it is an object that stands by itself."""
    match document.content:
        case JobSubmission() as submission:
            return submission
        case WorkloadRecord(submission=submission):
            return submission
        case _:
            return None


def resolve_jobs(
    documents: Iterable[Document], sender: Sender, catalogue: ObjectCatalogue
) -> list[Job]:
    """Make the workloads of a file's jobs; of two jobs of one name the later counts.

    Raises `InvalidValue`.
    """
    jobs: dict[str, Job] = {}
    for document in documents:
        submission = job_of(document)
        if submission is None:
            continue
        joined, warnings = _join_declared_group(submission, catalogue)
        resolved = resolve(joined, sender, catalogue)
        jobs[resolved.workload.id] = Job(
            document=document, resolved=resolved, warnings=(*warnings, *resolved.warnings)
        )
    if len(jobs) > JOBS_MAX:
        raise InvalidValue(f"{len(jobs)} jobs in one file", fix=f"send at most {JOBS_MAX}")
    return list(jobs.values())


def _join_declared_group(
    submission: JobSubmission, catalogue: ObjectCatalogue
) -> tuple[JobSubmission, tuple[str, ...]]:
    """Give a job what a PodGroup says that was applied before it."""
    group = catalogue.pod_groups.get(f"{submission.namespace}/{submission.pod_group}")
    if group is None:
        return submission, ()
    result = join_pod_group(submission, group)
    for finding in result.findings:
        if finding.refused:
            raise InvalidValue(finding.problem, field="metadata.annotations", fix=finding.fix)
    return result.submission, tuple(finding.problem for finding in result.findings)


async def check_names(jobs: Iterable[Job], decisions: DecisionFeed) -> list[Job]:
    """See that no other live workload has a job's name. Raises `Conflict`, `Transient`."""
    checks = [_check_name(job, decisions) for job in jobs]
    if len(checks) == 1:
        return [await checks[0]]
    return list(await asyncio.gather(*checks))


async def _check_name(job: Job, decisions: DecisionFeed) -> Job:
    workload = job.resolved.workload
    last = await decisions.last(workload.namespace, workload.name)
    if last is None:
        return job
    if last.id == workload.id:
        return replace(job, decided=last)
    if last.decision in ENDED:
        return job
    raise Conflict(
        f"{workload.key} is already there as {last.id} and is {last.decision}; wait for it, cancel "
        f"it (muster cancel {last.id}) or give this one another name"
    )
