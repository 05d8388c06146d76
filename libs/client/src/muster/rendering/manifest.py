"""A workload in the form of Kueue's Workload: what it asks for, and its status."""

from collections.abc import Mapping
from typing import Any

from muster.rendering.words import utc_time
from muster_contracts.queries import WorkloadDetail
from muster_domain.checks import CheckStatus
from muster_domain.nodes import TopologyAssignment
from muster_domain.quantity import format_quantity
from muster_domain.states import Admission, PodSetAdmission

Json = dict[str, Any]


def workload_manifest(detail: WorkloadDetail) -> Json:
    """The manifest with its status. Pod templates stay with the job that they came from."""
    row = detail.row
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": row.name,
            "namespace": row.namespace,
            "uid": row.id,
            "creationTimestamp": utc_time(row.created_at_ms),
        },
        "spec": {
            "queueName": row.queue,
            "priority": row.priority,
            "active": detail.active,
            "podSets": [
                {"name": name, "count": count} for name, count in detail.pods_by_set.items()
            ],
        },
        "status": _status(detail),
    }


def _status(detail: WorkloadDetail) -> Json:
    status: Json = {
        "conditions": [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "lastTransitionTime": utc_time(condition.since_ms),
            }
            for condition in detail.conditions
        ]
    }
    if detail.admission is not None:
        status["admission"] = _admission(detail.admission, detail.topology)
    if detail.requeue_count:
        state: Json = {"count": detail.requeue_count}
        if detail.requeue_at_ms is not None:
            state["requeueAt"] = utc_time(detail.requeue_at_ms)
        status["requeueState"] = state
    if detail.checks:
        status["admissionChecks"] = [_check(check) for check in detail.checks]
    if detail.reclaimable:
        status["reclaimablePods"] = [
            {"name": name, "count": count} for name, count in sorted(detail.reclaimable.items())
        ]
    if detail.evictions:
        counts = [
            {"reason": found.reason, "underlyingCause": found.cause, "count": found.count}
            for found in detail.evictions
        ]
        status["schedulingStats"] = {"evictions": counts}
    if detail.past_execution_ms:
        status["accumulatedPastExecutionTimeSeconds"] = detail.past_execution_ms // 1000
    return status


def _admission(admission: Admission, topology: Mapping[str, TopologyAssignment]) -> Json:
    return {
        "clusterQueue": admission.cluster_queue,
        "podSetAssignments": [
            _pod_set(granted, topology.get(granted.name)) for granted in admission.pod_sets
        ],
    }


def _pod_set(granted: PodSetAdmission, seated: TopologyAssignment | None) -> Json:
    found: Json = {
        "name": granted.name,
        "count": granted.count,
        "flavors": dict(granted.flavors),
        "resourceUsage": {
            resource: format_quantity(milli) for resource, milli in granted.usage.items()
        },
    }
    if seated is not None:
        found["topologyAssignment"] = _topology(seated)
    return found


def _topology(seated: TopologyAssignment) -> Json:
    """One slice with every domain written out, in the order of the ranks."""
    columns = zip(*(domain.values for domain in seated.domains), strict=True)
    return {
        "levels": list(seated.levels),
        "slices": [
            {
                "domainCount": len(seated.domains),
                "valuesPerLevel": [{"individual": {"roots": list(values)}} for values in columns],
                "podCounts": {"individual": [domain.count for domain in seated.domains]},
            }
        ],
    }


def _check(check: CheckStatus) -> Json:
    found: Json = {
        "name": check.name,
        "state": check.state.value,
        "message": check.message,
        "lastTransitionTime": utc_time(check.since_ms),
    }
    if check.requeue_after_ms is not None:
        found["requeueAfterSeconds"] = check.requeue_after_ms // 1000
    if check.retry_count:
        found["retryCount"] = check.retry_count
    return found
