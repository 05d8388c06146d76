"""From a job as written to a workload that admission can take. Pure, over the catalogue."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from muster_contracts.envelope import workload_id
from muster_contracts.partitions import partition_of
from muster_domain.errors import InvalidValue
from muster_domain.workload import (
    External,
    LocalQueueRef,
    Managed,
    QueueRef,
    VolcanoQueueRef,
    Workload,
)
from muster_manifests.catalogue import DEFAULT_VOLCANO_QUEUE, ObjectCatalogue
from muster_manifests.submission import (
    JobSubmission,
    SubmissionContext,
    make_workload,
    resolve_priority,
)
from muster_scheduling.snapshot.volcano import derived_queue_name, shut_by

DEFAULT_LOCAL_QUEUE = "default"
_VOLCANO_GROUP = ".volcano.sh/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who sent a job, when, and what came with it. `key` makes a repetition the same submission."""

    key: str
    received_ms: int
    user: str = ""
    external_lease_ms: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A workload, where it is charged, and who decides."""

    workload: Workload
    cluster_queue: str
    partition: str
    warnings: tuple[str, ...] = ()


def resolve(submission: JobSubmission, sender: Sender, catalogue: ObjectCatalogue) -> Resolved:
    """Make the workload of a job. Raises `InvalidValue` when no queue would take it."""
    lease_ms = sender.external_lease_ms
    context = SubmissionContext(
        id=workload_id(submission.namespace, submission.owner.kind, submission.name, sender.key),
        created_at_ms=sender.received_ms,
        user=sender.user,
        priority_classes=catalogue.priority_classes,
        default_queue=_default_queue(submission, catalogue),
        execution=Managed() if lease_ms is None else External(lease_ms=lease_ms),
    )
    workload = make_workload(submission, context)
    if sender.labels:
        workload = replace(workload, labels={**workload.labels, **sender.labels})
    cluster_queue = _cluster_queue(workload, catalogue)
    return Resolved(
        workload=workload,
        cluster_queue=cluster_queue,
        partition=partition_of(catalogue.root_of(cluster_queue)),
        warnings=tuple(
            filter(None, (resolve_priority(submission, catalogue.priority_classes).missing,))
        ),
    )


def _default_queue(submission: JobSubmission, catalogue: ObjectCatalogue) -> QueueRef | None:
    if submission.queue or submission.volcano_queue:
        return None
    if f"{submission.namespace}/{DEFAULT_LOCAL_QUEUE}" in catalogue.local_queues:
        return LocalQueueRef(name=DEFAULT_LOCAL_QUEUE)
    if _VOLCANO_GROUP in submission.owner.api_version:
        return VolcanoQueueRef(name=DEFAULT_VOLCANO_QUEUE)
    raise InvalidValue(
        f"the job names no queue and the namespace {submission.namespace!r} has no LocalQueue "
        f"named {DEFAULT_LOCAL_QUEUE!r}",
        field='metadata.labels["kueue.x-k8s.io/queue-name"]',
        fix=f"write one of {_named_local_queues(submission.namespace, catalogue)}",
    )


def _cluster_queue(workload: Workload, catalogue: ObjectCatalogue) -> str:
    if workload.volcano_queue:
        _check_volcano_queue(workload.volcano_queue, catalogue)
    match workload.queue:
        case VolcanoQueueRef(name=name):
            _check_volcano_queue(name, catalogue)
            return derived_queue_name(name)
        case LocalQueueRef(name=name):
            return _behind_local_queue(workload.namespace, name, catalogue)


def _behind_local_queue(namespace: str, name: str, catalogue: ObjectCatalogue) -> str:
    local = catalogue.local_queues.get(f"{namespace}/{name}")
    if local is None:
        raise InvalidValue(
            f"the namespace {namespace!r} has no LocalQueue named {name!r}",
            field='metadata.labels["kueue.x-k8s.io/queue-name"]',
            fix=f"write one of {_named_local_queues(namespace, catalogue)}",
        )
    if local.cluster_queue not in catalogue.cluster_queues:
        raise InvalidValue(
            f"LocalQueue {local.key} leads to the ClusterQueue {local.cluster_queue!r}, which "
            "does not exist",
            field='metadata.labels["kueue.x-k8s.io/queue-name"]',
            fix=f"apply the ClusterQueue {local.cluster_queue!r} first",
        )
    return local.cluster_queue


def _check_volcano_queue(name: str, catalogue: ObjectCatalogue) -> None:
    if name not in catalogue.volcano_queues:
        known = ", ".join(sorted(catalogue.volcano_queues))
        raise InvalidValue(
            f"there is no Volcano queue named {name!r}",
            field="spec.queue",
            fix=f"write one of {known}, or apply the Queue first",
        )
    shut = shut_by(name, catalogue.volcano_queues)
    if shut:
        above = "" if shut == name else f", as the queue {shut!r} above it is"
        raise InvalidValue(
            f"the Volcano queue {name!r} is closed and takes no jobs{above}",
            field="spec.queue",
            fix=f"write another queue, or open this one: muster resume queue {shut}",
        )


def _named_local_queues(namespace: str, catalogue: ObjectCatalogue) -> str:
    names = sorted(
        queue.name for queue in catalogue.local_queues.values() if queue.namespace == namespace
    )
    return ", ".join(names) if names else f"(none yet: apply a LocalQueue in {namespace!r})"
