"""A workload's state as Kueue's conditions: the same types, values and reasons. Pure."""

from typing import assert_never

from muster_contracts.queries import Condition
from muster_contracts.stored import Record
from muster_domain.checks import all_ready
from muster_domain.conditions import (
    EvictionReason,
    Explanation,
    Outcome,
    PreemptionReason,
    UnadmittedReason,
    UnderlyingCause,
)
from muster_domain.states import Admitted, Evicting, Finished, Pending, Reserved

_FINISHED = {Outcome.LEASE_EXPIRED: "OwnerNotFound"}
"""Kueue's word for a job whose holder is gone; other outcomes are their own words."""


def conditions(record: Record, why: Explanation) -> tuple[Condition, ...]:
    """Everything that is known of the workload, in the order in which it comes about.

    `why` is what a workload without quota waits for. Times are those of the last change.
    """
    match record.state:
        case Pending() as state:
            return _pending(record, state, why)
        case Reserved() as state:
            return (_reserved(state), _unadmitted(state))
        case Admitted() as state:
            return (_reserved(state), _admitted(state), _ready(state))
        case Evicting() as state:
            return _evicting(state)
        case Finished() as state:
            reason = _FINISHED.get(state.outcome, state.outcome.value)
            return (_true("Finished", reason, state.finished_at_ms, state.message),)
        case _:
            assert_never(record.state)


def _pending(record: Record, state: Pending, why: Explanation) -> tuple[Condition, ...]:
    since_ms = state.waiting_since_ms or record.workload.created_at_ms
    found = [
        _false("QuotaReserved", why.reason, since_ms, why.message),
        _false("Admitted", "NoReservation", since_ms, "The workload has no reservation"),
    ]
    if state.last_eviction is not None:
        evictions = [c for c in state.history.evictions if c.reason == state.last_eviction]
        cause = evictions[0].cause if len(evictions) == 1 else ""
        found.append(_true("Evicted", _evicted(state.last_eviction, cause), since_ms))
        if state.requeued is not None:
            found.append(_true("Requeued", state.requeued, since_ms))
        else:
            found.append(_false("Requeued", state.last_eviction, since_ms))
    return tuple(found)


def _reserved(state: Reserved | Admitted) -> Condition:
    where = f"Quota reserved in ClusterQueue {state.admission.cluster_queue}"
    return _true("QuotaReserved", "QuotaReserved", state.reserved_at_ms, where)


def _unadmitted(state: Reserved) -> Condition:
    if state.checks and all_ready(state.checks):
        reason = UnadmittedReason.PENDING_DELAYED_TOPOLOGY_REQUESTS
        since_ms = state.checked_at_ms or state.reserved_at_ms
        return _false("Admitted", reason, since_ms, "placement looks for seats")
    reason = UnadmittedReason.UNSATISFIED_ADMISSION_CHECKS
    waits = ", ".join(check.name for check in state.checks) or "placement"
    return _false("Admitted", reason, state.reserved_at_ms, f"waits for {waits}")


def _admitted(state: Admitted) -> Condition:
    return _true("Admitted", "Admitted", state.admitted_at_ms, "The workload is admitted")


def _ready(state: Admitted) -> Condition:
    if state.ready_at_ms is None:
        return _false("PodsReady", UnderlyingCause.WAIT_FOR_START, state.admitted_at_ms)
    if state.unready_since_ms is not None:
        return _false("PodsReady", UnderlyingCause.WAIT_FOR_RECOVERY, state.unready_since_ms)
    if state.recovered_at_ms is not None:
        return _true("PodsReady", "Recovered", state.recovered_at_ms)
    return _true("PodsReady", "Started", state.ready_at_ms)


def _evicting(state: Evicting) -> tuple[Condition, ...]:
    where = f"Quota reserved in ClusterQueue {state.admission.cluster_queue}"
    found = [_true("QuotaReserved", "QuotaReserved", state.since_ms, where)]
    if state.admitted_at_ms is not None:
        found.append(_true("Admitted", "Admitted", state.admitted_at_ms))
    reason = _evicted(state.reason, state.cause)
    found.append(_true("Evicted", reason, state.since_ms, state.message))
    if state.preemption_reason is not None:
        found.append(_preempted(state.preemption_reason, state))
    return tuple(found)


def _preempted(reason: PreemptionReason, state: Evicting) -> Condition:
    return _true("Preempted", reason, state.since_ms, state.message)


def _evicted(reason: EvictionReason | Outcome, cause: str) -> str:
    """Kueue joins the cause of a deactivation to its reason."""
    if reason is EvictionReason.DEACTIVATED and cause:
        return f"{reason}DueTo{cause}"
    return reason


def _true(kind: str, reason: str, since_ms: int, message: str = "") -> Condition:
    return Condition(type=kind, status="True", reason=reason, message=message, since_ms=since_ms)


def _false(kind: str, reason: str, since_ms: int, message: str = "") -> Condition:
    return Condition(type=kind, status="False", reason=reason, message=message, since_ms=since_ms)
