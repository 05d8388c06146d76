"""A job as submitted, and the workload it becomes once the caller adds what a file cannot know."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster_domain.errors import InvalidValue
from muster_domain.job_policies import JobPolicies
from muster_domain.queues import PriorityClass
from muster_domain.workload import (
    Execution,
    LocalQueueRef,
    Managed,
    NetworkTopology,
    Owner,
    PodSet,
    QueueRef,
    VolcanoQueueRef,
    Workload,
)

_DEFAULT_CLASS = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmission:
    """What a manifest says of a job.

    `queue` is a LocalQueue of the job's namespace, `volcano_queue` a Volcano Queue; both may be
    empty. `workload_priority_class` is Kueue's (the label), `priority_class` that of the pods;
    `priority` is set only where the manifest gives the number itself. `pod_group` names the Volcano
    PodGroup the job belongs to. `misconfigured` says why no pod of it could be made, where that was
    not refused when it was read.
    """

    owner: Owner
    namespace: str
    name: str
    pod_sets: tuple[PodSet, ...]
    queue: str = ""
    volcano_queue: str = ""
    workload_priority_class: str = ""
    priority_class: str = ""
    priority: int | None = None
    max_execution_time_ms: int | None = None
    keep_finished_ms: int | None = None
    active: bool = True
    network_topology: NetworkTopology | None = None
    pod_group: str = ""
    job_policies: JobPolicies | None = None
    misconfigured: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionContext:
    """What the caller knows of a submission.

    `id` is unique for ever. `default_queue` takes jobs that name no queue; without one such a job
    is refused.
    """

    id: str
    created_at_ms: int
    user: str = ""
    priority_classes: tuple[PriorityClass, ...] = ()
    default_queue: QueueRef | None = None
    execution: Execution = Managed()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPriority:
    """A priority and the class it comes from, empty where it comes from none.

    `missing` says what is named and does not exist; such a job has the priority 0, as on Kueue and
    Volcano.
    """

    value: int
    class_name: str = ""
    missing: str = ""


def make_workload(submission: JobSubmission, context: SubmissionContext) -> Workload:
    """Make the workload of a submission.

    Raises `InvalidValue` when it names no queue and there is no default.
    """
    priority = resolve_priority(submission, context.priority_classes)
    return Workload(
        id=context.id,
        namespace=submission.namespace,
        name=submission.name,
        queue=_queue(submission, context.default_queue),
        pod_sets=submission.pod_sets,
        owner=submission.owner,
        created_at_ms=context.created_at_ms,
        priority=priority.value,
        priority_class=priority.class_name,
        execution=context.execution,
        max_execution_time_ms=submission.max_execution_time_ms,
        keep_finished_ms=submission.keep_finished_ms,
        active=submission.active,
        volcano_queue=submission.volcano_queue if submission.queue else "",
        network_topology=submission.network_topology,
        job_policies=submission.job_policies,
        user=context.user,
        labels=submission.labels,
        annotations=submission.annotations,
    )


def resolve_priority(
    submission: JobSubmission, classes: Iterable[PriorityClass]
) -> ResolvedPriority:
    """Find the priority of a submission among the known classes.

    The number in the manifest wins, then Kueue's class of the label, then Kueue's class named
    `default` (only for jobs that Kueue's queues take), then the class of the pods, then the global
    default of pods, then 0. A class that is named and does not exist counts as 0, and is told.
    """
    known = tuple(classes)
    named = submission.workload_priority_class or submission.priority_class
    if submission.priority is not None:
        return ResolvedPriority(value=submission.priority, class_name=named)
    if submission.workload_priority_class:
        return _named(submission.workload_priority_class, known, of_pods=False)
    by_kueue = bool(submission.queue) or not submission.volcano_queue
    for candidate in known:
        if by_kueue and not candidate.of_pods and candidate.name == _DEFAULT_CLASS:
            return ResolvedPriority(value=candidate.value, class_name=candidate.name)
    if submission.priority_class:
        return _named(submission.priority_class, known, of_pods=True)
    for candidate in sorted(known, key=lambda found: (found.value, found.name)):
        if candidate.of_pods and candidate.is_default:
            return ResolvedPriority(value=candidate.value, class_name=candidate.name)
    return ResolvedPriority(value=0)


def _named(name: str, known: tuple[PriorityClass, ...], *, of_pods: bool) -> ResolvedPriority:
    kind = "PriorityClass" if of_pods else "WorkloadPriorityClass"
    names = sorted(candidate.name for candidate in known if candidate.of_pods is of_pods)
    for candidate in known:
        if candidate.name == name and candidate.of_pods is of_pods:
            return ResolvedPriority(value=candidate.value, class_name=name)
    known_names = f"; known are {', '.join(names)}" if names else ""
    missing = f"no {kind} is named {name!r}, so the priority is 0{known_names}"
    return ResolvedPriority(value=0, class_name=name, missing=missing)


def _queue(submission: JobSubmission, default: QueueRef | None) -> QueueRef:
    if submission.queue:
        return LocalQueueRef(name=submission.queue)
    if submission.volcano_queue:
        return VolcanoQueueRef(name=submission.volcano_queue)
    if default is not None:
        return default
    raise InvalidValue(
        "the job names no queue",
        field="metadata.labels",
        fix="write the label kueue.x-k8s.io/queue-name: <LocalQueue>",
    )
