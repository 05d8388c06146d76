"""A Workload's status as Muster's own workload state."""

from muster_domain.conditions import (
    EvictionReason,
    Explanation,
    Outcome,
    PendingReason,
    PreemptionReason,
    UnderlyingCause,
)
from muster_domain.nodes import Placement, PodAssignment
from muster_domain.states import (
    Admission,
    Admitted,
    End,
    Evicting,
    Finished,
    Pending,
    PodSetAdmission,
    Requeue,
    Reserved,
    WorkloadState,
)
from muster_domain.workload import PodSet
from muster_manifests.kueue.status import AdmissionStatus, PodSetAssignment, WorkloadStatus
from muster_manifests.kueue.workload import WorkloadRecord

_HOSTNAME = "kubernetes.io/hostname"
_OUTCOMES = {"Succeeded": Outcome.SUCCEEDED, "Failed": Outcome.FAILED}
_QUEUED_ANEW_AFTER = (EvictionReason.PODS_READY_TIMEOUT, EvictionReason.ADMISSION_CHECK)


def workload_state(record: WorkloadRecord) -> WorkloadState:
    """Return the state that a Workload's status describes.

    Finished wins, then eviction under way, admission and reservation; everything else is pending.
    Evicted workloads count one attempt more than they were evicted. An eviction whose reason
    Muster does not have counts as `Preempted`.
    """
    status = record.status
    if status.holds("Finished"):
        return _finished(status)
    if status.admission is None or not status.holds("QuotaReserved"):
        return _pending(status)
    admission = make_admission(status.admission, record.submission.pod_sets)
    if status.holds("Evicted"):
        return _evicting(status, admission)
    reserved_at_ms = _time_of(status, "QuotaReserved")
    if status.holds("Admitted"):
        return Admitted(
            admission=admission,
            placement=_placement(status.admission),
            reserved_at_ms=reserved_at_ms,
            admitted_at_ms=_time_of(status, "Admitted"),
            attempt=_evictions(status) + 1,
            queued_at_ms=_queued_at_ms(status),
            ready_at_ms=_time_of(status, "PodsReady") if status.holds("PodsReady") else None,
            requeue_count=_requeue_count(status),
            past_execution_ms=status.past_execution_ms,
        )
    return Reserved(
        admission=admission,
        reserved_at_ms=reserved_at_ms,
        attempt=_evictions(status) + 1,
        queued_at_ms=_queued_at_ms(status),
        requeue_count=_requeue_count(status),
        past_execution_ms=status.past_execution_ms,
    )


def make_admission(status: AdmissionStatus, pod_sets: tuple[PodSet, ...]) -> Admission:
    """Return the admission of a status; a count that is not written is that of the pod set."""
    counts = {pod_set.name: pod_set.count for pod_set in pod_sets}
    return Admission(
        cluster_queue=status.cluster_queue,
        pod_sets=tuple(
            PodSetAdmission(
                name=granted.name,
                count=counts.get(granted.name, 0) if granted.count is None else granted.count,
                flavors=granted.flavors,
                usage={
                    resource: milli
                    for resource, milli in granted.usage.items()
                    if resource in granted.flavors
                },
            )
            for granted in status.pod_sets
        ),
    )


def _pending(status: WorkloadStatus) -> Pending:
    quota = status.condition("QuotaReserved")
    evicted = status.holds("Evicted")
    return Pending(
        explanation=Explanation(
            reason=quota.reason if quota else PendingReason.PENDING_EVALUATION,
            message=quota.message if quota else "",
        ),
        queued_at_ms=_queued_at_ms(status),
        attempt=_evictions(status),
        requeue_count=_requeue_count(status),
        requeue_at_ms=status.requeue_state.requeue_at_ms if status.requeue_state else None,
        last_eviction=_eviction_reason(status) if evicted else None,
        past_execution_ms=status.past_execution_ms,
    )


def _evicting(status: WorkloadStatus, admission: Admission) -> Evicting:
    evicted = status.condition("Evicted")
    reason = _eviction_reason(status)
    preempted = status.condition("Preempted")
    return Evicting(
        admission=admission,
        reason=reason,
        then=End(outcome=Outcome.DEACTIVATED) if not status.active else Requeue(),
        since_ms=_time_of(status, "Evicted"),
        attempt=max(1, _evictions(status)),
        queued_at_ms=_queued_at_ms(status),
        message=evicted.message if evicted else "",
        preemption_reason=_preemption_reason(preempted.reason if preempted else ""),
        cause=_cause(evicted.reason if evicted else ""),
        requeue_count=_requeue_count(status),
        past_execution_ms=status.past_execution_ms,
    )


def _finished(status: WorkloadStatus) -> Finished:
    condition = status.condition("Finished")
    return Finished(
        outcome=_OUTCOMES.get(condition.reason if condition else "", Outcome.CANCELLED),
        finished_at_ms=_time_of(status, "Finished"),
        attempt=_evictions(status) + 1,
        message=condition.message if condition else "",
    )


def _placement(admission: AdmissionStatus) -> Placement:
    pods: list[PodAssignment] = []
    for pod_set in admission.pod_sets:
        for index, node in enumerate(_nodes(pod_set)):
            pods.append(PodAssignment(pod_set=pod_set.name, index=index, rank=len(pods), node=node))
    return Placement(pods=tuple(pods))


def _nodes(pod_set: PodSetAssignment) -> list[str]:
    """Return the node of each pod, where the lowest level of the assignment is the node."""
    topology = pod_set.topology
    if topology is None or not topology.levels or topology.levels[-1] != _HOSTNAME:
        return []
    return [domain.values[-1] for domain in topology.domains for _ in range(domain.count)]


def _queued_at_ms(status: WorkloadStatus) -> int:
    """Return the time that orders the queue: creation, or the eviction that sends it to the end."""
    if status.holds("Evicted") and _eviction_reason(status) in _QUEUED_ANEW_AFTER:
        return _time_of(status, "Evicted")
    return status.created_at_ms or 0


def _eviction_reason(status: WorkloadStatus) -> EvictionReason:
    condition = status.condition("Evicted")
    written = condition.reason if condition else ""
    for reason in EvictionReason:
        if written == reason.value or written.startswith(f"{reason.value}DueTo"):
            return reason
    return EvictionReason.PREEMPTED


def _cause(written: str) -> UnderlyingCause:
    for cause in UnderlyingCause:
        if cause.value and written.endswith(f"DueTo{cause.value}"):
            return cause
    return UnderlyingCause.NONE


def _preemption_reason(written: str) -> PreemptionReason | None:
    return next((reason for reason in PreemptionReason if reason.value == written), None)


def _time_of(status: WorkloadStatus, condition_type: str) -> int:
    condition = status.condition(condition_type)
    return (condition.last_transition_ms if condition else None) or 0


def _evictions(status: WorkloadStatus) -> int:
    return sum(eviction.count for eviction in status.evictions)


def _requeue_count(status: WorkloadStatus) -> int:
    return status.requeue_state.count if status.requeue_state else 0
