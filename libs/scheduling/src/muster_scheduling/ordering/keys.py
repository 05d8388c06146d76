"""The total orders: who is tried first, who is taken first. Every one ends in the id."""

import re

from muster_domain.conditions import EvictionReason, PreemptionReason
from muster_domain.policy import Policy, RequeueTimestamp
from muster_domain.workload import Workload

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")
PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"

OrderKey = tuple[int, int, str]
"""(minus priority, queue timestamp, id): smaller goes first (R-41)."""


def order_key(priority: int, queued_at_ms: int, workload_id: str) -> OrderKey:
    """Place in a ClusterQueue: higher priority first, then who waits longer."""
    return (-priority, queued_at_ms, workload_id)


def effective_priority(workload: Workload, policy: Policy) -> int:
    """The priority, plus the boost annotation where the policy honours it.

    A boost that is not a whole number counts as none, as in Kueue.
    """
    if not policy.priority_boost:
        return workload.priority
    written = workload.annotations.get(PRIORITY_BOOST, "")
    return workload.priority + (int(written) if _WHOLE_NUMBER.fullmatch(written) else 0)


def queue_timestamp_ms(
    created_at_ms: int,
    eviction: EvictionReason | None,
    evicted_at_ms: int,
    preemption: PreemptionReason | None,
    policy: Policy,
) -> int:
    """The time by which a pending workload is ordered (R-41).

    `eviction` is the eviction that is still in force, `None` when there is none.
    """
    if eviction is EvictionReason.PODS_READY_TIMEOUT:
        by_eviction = policy.requeue_timestamp is RequeueTimestamp.EVICTION
        return evicted_at_ms if by_eviction else created_at_ms
    if eviction is EvictionReason.ADMISSION_CHECK:
        return evicted_at_ms
    if (
        not policy.priority_sorting_within_cohort
        and preemption is PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING
    ):
        return evicted_at_ms + 1
    return created_at_ms


def backoff_expired(requeue_at_ms: int | None, now_ms: int, *, held_back: bool = False) -> bool:
    """Whether a workload may be tried again; `held_back` while somebody says it may not (R-104)."""
    return not held_back and (requeue_at_ms is None or requeue_at_ms <= now_ms)
