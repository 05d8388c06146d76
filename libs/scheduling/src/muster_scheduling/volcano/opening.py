"""From a snapshot to a session: jobs of gangs and pods, nodes with what sits on them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from muster_domain.queues import PriorityClass, VolcanoQueue
from muster_domain.selectors import Labels
from muster_domain.volcano import Pod, PodGroup, SubGroupPolicy
from muster_domain.volcano_scheduler import SchedulerConfiguration
from muster_domain.workload import NetworkTopology, NetworkTopologyMode
from muster_scheduling.volcano.job import ALLOCATED, FINISHED, Job, Limit, SubJob, Task
from muster_scheduling.volcano.nodes import NodeLedger
from muster_scheduling.volcano.plan import TaskStatus, Verdict
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.snapshot import SessionSnapshot
from muster_scheduling.volcano.tree import ROOT, HyperNodeTree

_OFF_NODE = FINISHED | {TaskStatus.PENDING}
DEFAULT_QUEUE = "default"


def open_session(snapshot: SessionSnapshot, configuration: SchedulerConfiguration) -> Session:
    """Make the session of a snapshot; no plugin has been asked yet."""
    resources = {name for pod in snapshot.pods for name in (*pod.requests, *pod.init_requests)}
    ledger = NodeLedger(snapshot.nodes, snapshot.conditions, sorted(resources), snapshot.columns)
    tree = HyperNodeTree(
        snapshot.hyper_nodes, {name: ledger.node(name).labels for name in ledger.names}
    )
    jobs = {group.key: _job(group, snapshot.priority_classes) for group in snapshot.pod_groups}
    tasks = [Task(pod) for pod in snapshot.pods]
    for task in tasks:
        job = jobs.get(f"{task.pod.namespace}/{task.pod.pod_group}")
        if job is not None and task.pod.pod_group:
            job.add(task)
        if task.node in ledger.row and task.status not in _OFF_NODE:
            ledger.add(task)
    queues = {queue.name: queue for queue in sorted(snapshot.queues, key=lambda q: q.name)}
    jobs = {key: jobs[key] for key in sorted(jobs)}
    session = Session(snapshot, configuration, ledger, queues, jobs, tree)
    for job in jobs.values():
        _split(job)
        _limit(session, job)
        _block_unknown_queue(session, job, queues)
    locate(session, jobs.values())
    return session


def locate(session: Session, jobs: Iterable[Job]) -> None:
    """Note in which HyperNode each job and sub-job sits."""
    for job in jobs:
        if job.limit is None and not job.has_sub_groups:
            continue
        job.hyper_node = _around(session, job.tasks)
        for sub_job in job.sub_jobs.values():
            locate_sub_job(session, sub_job)


def locate_sub_job(session: Session, sub_job: SubJob) -> None:
    """Note in which HyperNode a sub-job sits now."""
    sub_job.hyper_node = _around(session, sub_job.tasks)


def _around(session: Session, tasks: Mapping[str, Task]) -> str:
    rows = (
        session.nodes.row[task.node]
        for task in tasks.values()
        if (task.status in ALLOCATED or task.status is TaskStatus.PIPELINED)
        and task.node in session.nodes.row
    )
    return session.tree.around(rows)


def _job(group: PodGroup, classes: Sequence[PriorityClass]) -> Job:
    if not group.queue:
        group = replace(group, queue=DEFAULT_QUEUE)
    return Job(group=group, priority=_priority(group, classes), phase=group.phase)


def _priority(group: PodGroup, classes: Sequence[PriorityClass]) -> int:
    """The value of the class that the gang names, else of the global default, else 0 (C3)."""
    of_pods = sorted((found for found in classes if found.of_pods), key=lambda found: found.name)
    named = [found.value for found in of_pods if found.name == group.priority_class]
    default = [found.value for found in of_pods if found.is_default]
    return next(iter((*named, *default)), 0)


def _split(job: Job) -> None:
    """Put every task into its sub-job: that of the first policy that takes it, else the job's."""
    groups: dict[tuple[str, tuple[str, ...]], SubJob] = {}
    ordered = sorted(job.tasks.values(), key=lambda task: (task.number, task.key))
    for task in ordered:
        policy, values = _policy_of(job, task.pod)
        name = policy.name if policy is not None else ""
        sub_job = groups.get((name, values))
        if sub_job is None:
            sub_job = _sub_job(job, policy, values, len(groups))
            groups[name, values] = sub_job
            job.sub_jobs[sub_job.key] = sub_job
        task.sub_job = sub_job
        sub_job.tasks[task.key] = task
        sub_job.counts[task.status] = sub_job.counts.get(task.status, 0) + 1


def _policy_of(job: Job, pod: Pod) -> tuple[SubGroupPolicy | None, tuple[str, ...]]:
    for policy in job.group.sub_groups:
        values = _values(policy, pod.labels)
        if values is not None:
            return policy, values
    return None, ()


def _values(policy: SubGroupPolicy, labels: Labels) -> tuple[str, ...] | None:
    if policy.selector is not None and not policy.selector.matches(labels):
        return None
    if any(not labels.get(key) for key in policy.match_label_keys):
        return None
    return tuple(labels[key] for key in policy.match_label_keys)


def _sub_job(
    job: Job, policy: SubGroupPolicy | None, values: tuple[str, ...], index: int
) -> SubJob:
    if policy is None:
        least = 0 if job.has_sub_groups else job.min_member
        return SubJob(key=job.key, job=job, policy="", min_member=least, match_index=index)
    return SubJob(
        key="/".join((job.key, policy.name, *values)),
        job=job,
        policy=policy.name,
        min_member=policy.size,
        match_index=index,
    )


def _limit(session: Session, job: Job) -> None:
    job.limit = _tier_limit(session, job, job.group.network_topology)
    policies = {policy.name: policy for policy in job.group.sub_groups}
    for sub_job in job.sub_jobs.values():
        policy = policies.get(sub_job.policy)
        wanted = policy.network_topology if policy is not None else None
        sub_job.limit = _tier_limit(session, job, wanted)
        if sub_job.limit is not None and job.limit is not None and not sub_job.limit.hard:
            sub_job.limit = Limit(hard=False, tier=job.limit.tier)
    if session.tree.problem and (job.limit is not None or job.has_sub_groups):
        session.block(job, Verdict.INVALID_TOPOLOGY, session.tree.problem)


def _tier_limit(session: Session, job: Job, wanted: NetworkTopology | None) -> Limit | None:
    """The highest tier that may be spanned; a soft wish may span all (C4)."""
    if wanted is None:
        return None
    top = session.tree.tier(ROOT)
    if wanted.mode is NetworkTopologyMode.SOFT:
        return Limit(hard=False, tier=top)
    if wanted.highest_tier_name:
        tier = session.tree.tier_of_name.get(wanted.highest_tier_name)
        if tier is None:
            session.warnings.append(
                f"{job.key}: no HyperNode has the tier name {wanted.highest_tier_name!r}, "
                "so its topology is not bounded"
            )
            return None
        return Limit(hard=True, tier=tier)
    return Limit(hard=True, tier=top if wanted.highest_tier is None else wanted.highest_tier)


def _block_unknown_queue(session: Session, job: Job, queues: Mapping[str, VolcanoQueue]) -> None:
    if job.queue not in queues:
        session.block(job, Verdict.UNKNOWN_QUEUE, f"no queue is named {job.queue!r}")
