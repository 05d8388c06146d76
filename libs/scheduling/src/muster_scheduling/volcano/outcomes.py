"""Why a job stands where it stands when a session ends (G8)."""

from muster_scheduling.volcano.job import Job
from muster_scheduling.volcano.plan import JobOutcome, TaskStatus, Verdict
from muster_scheduling.volcano.session import Session


def outcome_of(session: Session, job: Job) -> JobOutcome:
    """One word, and the numbers behind it."""
    verdict, message = _verdict(session, job)
    return JobOutcome(
        job=job.key,
        verdict=verdict,
        message=message,
        tasks={status: job.counts[status] for status in TaskStatus if status in job.counts},
        refusals=job.refusals if job.pending else (),
        hyper_node=job.hyper_node,
    )


def _verdict(session: Session, job: Job) -> tuple[Verdict, str]:
    invalid = session.job_invalid(job)
    if invalid is not None:
        return invalid.verdict, invalid.message
    if job.kept_out:
        return Verdict.NOT_ENQUEUED, job.kept_out
    if session.job_ready(job):
        return Verdict.SCHEDULED, _counts(job)
    if session.job_pipelined(job):
        return Verdict.PIPELINED, _counts(job)
    return Verdict.NOT_ENOUGH_RESOURCES, _shortage(job)


def _shortage(job: Job) -> str:
    lacking = len(job.tasks) - job.ready_count
    parts = [f"{lacking}/{len(job.tasks)} tasks in gang unschedulable: {_counts(job)}"]
    parts += [f"{refusal.nodes} node(s): {refusal.reason}" for refusal in job.refusals]
    if job.held_back:
        parts.append(job.held_back)
    return "; ".join(parts)


def _counts(job: Job) -> str:
    counted = [
        f"{job.counts[status]} {status.value}" for status in TaskStatus if status in job.counts
    ]
    return ", ".join([*counted, f"{job.min_member} minAvailable"])
