"""A session from its snapshot to its plan."""

from collections.abc import Mapping

from muster_domain.errors import InvalidValue
from muster_domain.volcano import PodGroupPhase
from muster_domain.volcano_scheduler import SchedulerConfiguration
from muster_scheduling.volcano.actions.registry import ACTIONS
from muster_scheduling.volcano.job import Job
from muster_scheduling.volcano.opening import locate, open_session
from muster_scheduling.volcano.outcomes import outcome_of
from muster_scheduling.volcano.plan import PhaseChange, Pipeline, Plan, TaskStatus
from muster_scheduling.volcano.plugins.registry import PLUGINS, Plugin
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.snapshot import SessionSnapshot

_SCHEDULED = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)
_FINISHED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


def run_session(
    snapshot: SessionSnapshot,
    configuration: SchedulerConfiguration,
    plugins: Mapping[str, Plugin] = PLUGINS,
) -> Plan:
    """Decide once over a snapshot: every action in order, once, in one session.

    Pure and total over snapshots: the same snapshot and configuration give the same plan. Raises
    `InvalidValue` for an action or a plugin that does not exist.
    """
    session = open_session(snapshot, configuration)
    for option in session.options:
        if option.name not in plugins:
            raise InvalidValue(
                f"no plugin is named {option.name!r}", fix=f"write one of {', '.join(plugins)}"
            )
        plugins[option.name](session, option)
    session.points.arrange(configuration.tiers)
    for name in configuration.actions:
        if name not in ACTIONS:
            raise InvalidValue(
                f"no action is named {name!r}", fix=f"write one of {', '.join(ACTIONS)}"
            )
        ACTIONS[name](session)
    return _close(session)


def _close(session: Session) -> Plan:
    locate(session, session.jobs.values())
    outcomes = {key: outcome_of(session, job) for key, job in session.jobs.items()}
    phases = [
        PhaseChange(job=key, before=job.group.phase, after=after)
        for key, job in session.jobs.items()
        if (after := _phase(session, job)) is not job.group.phase
    ]
    return Plan(
        evictions=tuple(session.evictions),
        binds=tuple(session.binds),
        pipelines=tuple(_pipelines(session)),
        phases=tuple(phases),
        outcomes=outcomes,
        warnings=tuple(session.warnings),
    )


def _pipelines(session: Session) -> list[Pipeline]:
    return [
        Pipeline(
            pod=task.key,
            job=job.key,
            node=task.node,
            hyper_node=task.sub_job.nominated if task.sub_job is not None else "",
        )
        for job in session.jobs.values()
        for task in sorted(job.in_status(TaskStatus.PIPELINED), key=lambda task: task.key)
    ]


def _phase(session: Session, job: Job) -> PodGroupPhase:
    """A PodGroup's phase after the session (C7).

    Pods that were told to stop count until they are gone: a gang whose pods only end is no gang
    that lost some, unless others wait to take their place.
    """
    ending = sum(bool(task.node) for task in job.in_status(TaskStatus.RELEASING))
    scheduled = job.count(_SCHEDULED) + ending
    finished = job.count(_FINISHED)
    enough = bool(scheduled + finished) and scheduled + finished >= job.min_member
    waiting = job.count((TaskStatus.PENDING, TaskStatus.PIPELINED))
    only_ends = enough and ending > 0 and not waiting
    lacking = session.job_invalid(job) is not None or not session.job_ready(job)
    if job.phase is PodGroupPhase.RUNNING and lacking and not only_ends:
        return PodGroupPhase.UNKNOWN
    if enough:
        return PodGroupPhase.RUNNING if scheduled else PodGroupPhase.COMPLETED
    return PodGroupPhase.INQUEUE if job.phase is PodGroupPhase.INQUEUE else PodGroupPhase.PENDING
