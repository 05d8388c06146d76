"""gang: all members of a job start together, or none does (G1 to G8).

A job is invalid without enough pods, roles or sub-groups; ready once enough have nodes; starving
while it lacks members that nobody makes room for. Victims never bring a gang, one of its roles or a
policy of its sub-groups below its minimum, and who leads a gang is none. Jobs that are not ready go
before those that only grow.
"""

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.bundles import spare_of
from muster_scheduling.volcano.job import ALLOCATED, Job, SubJob
from muster_scheduling.volcano.plan import TaskStatus, Verdict
from muster_scheduling.volcano.points import Invalid, Vote
from muster_scheduling.volcano.session import Session

_READY = ALLOCATED | {TaskStatus.SUCCEEDED}
_PIPELINED = _READY | {TaskStatus.PIPELINED}
_VALID = _PIPELINED | {TaskStatus.PENDING}


def open_gang(session: Session, option: PluginOption) -> None:
    """Register the rules of gangs."""
    points = session.points
    points.job_valid.add(option, _invalid)
    points.job_ready.add(option, _ready)
    points.job_pipelined.add(option, _pipelined)
    points.job_starving.add(option, lambda job: job.starving)
    points.sub_job_ready.add(option, lambda sub_job: sub_job.ready)
    points.sub_job_pipelined.add(option, _sub_job_pipelined)
    points.sub_job_order.add(option, _sub_job_order)
    points.job_order.add(option, _job_order)
    points.preemptable.add(option, lambda _, candidates: spare_of(candidates))
    points.reclaimable.add(option, lambda _, candidates: spare_of(candidates))


def _invalid(job: Job) -> Invalid | None:
    role = job.role_shortage(_VALID)
    if role is not None:
        name, found, least = role
        message = f"task {name} has {found} pods of {least}"
        return Invalid(verdict=Verdict.NOT_ENOUGH_PODS_OF_TASK, message=message)
    group = job.sub_group_shortage(lambda sub_job: sub_job.valid)
    if group is not None:
        name, found, least = group
        message = f"sub-group policy {name} has {found} whole groups of {least}"
        return Invalid(verdict=Verdict.NOT_ENOUGH_PODS_OF_SUB_GROUP, message=message)
    if job.valid_count < job.min_member:
        message = f"{job.valid_count} pods of {job.min_member}"
        return Invalid(verdict=Verdict.NOT_ENOUGH_PODS, message=message)
    return None


def _ready(job: Job) -> bool:
    return (
        job.ready
        and job.role_shortage(_READY) is None
        and job.sub_group_shortage(lambda sub_job: sub_job.ready) is None
    )


def _pipelined(job: Job) -> Vote:
    complete = (
        job.pipelined
        and job.role_shortage(_PIPELINED) is None
        and job.sub_group_shortage(lambda sub_job: sub_job.pipelined) is None
    )
    return Vote.PERMIT if complete else Vote.REJECT


def _sub_job_pipelined(sub_job: SubJob) -> Vote:
    return Vote.PERMIT if sub_job.pipelined else Vote.REJECT


def _job_order(left: Job, right: Job) -> int:
    return left.ready - right.ready


def _sub_job_order(left: SubJob, right: SubJob) -> int:
    return left.ready - right.ready
