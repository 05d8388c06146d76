"""The decision core: pure functions from a snapshot to a plan.

Admission keeps one `AdmissionView` per partition, alive between decisions:

    view = AdmissionView(Configuration(cluster_queues=..., local_queues=..., policy=...))
    view.charge(hold(workload, admission, policy, reserved_at_ms=..., attempt=...))   # holders
    view.add_pending(prepare(workload, policy), now_ms)                               # waiters
    decision = decide(view.snapshot(now_ms), Budget(), victims_inline=False)
    # commit decision.groups and explanations, then
    view.apply(decision)

`decide` changes nothing; `apply` replays a committed decision. When the commit failed, ask again or
rebuild the view. `release`, `mark_evicting`, `remove_pending`, `configure` tell the view what has
happened since; every one of them costs O(log n) but `configure`. Quantities are integer milli-units
throughout, keyed by (flavor, resource). Rule numbers R-n are Kueue's.
"""

from muster_domain.policy import (
    AdmissionFairSharing,
    FairSharing,
    FairStrategy,
    Improvements,
    Lifecycle,
    Policy,
    RequeueTimestamp,
    StrictScope,
    Transformation,
    TransformationStrategy,
)
from muster_scheduling.ordering.keys import (
    backoff_expired,
    effective_priority,
    order_key,
    queue_timestamp_ms,
)
from muster_scheduling.snapshot.activity import InactiveReason
from muster_scheduling.snapshot.catalog import Catalog, Configuration, QueueEntry
from muster_scheduling.snapshot.status import (
    QueueUsage,
    cluster_queue_usage,
    local_queue_usage,
)
from muster_scheduling.snapshot.view import AdmissionView, Snapshot
from muster_scheduling.snapshot.workloads import (
    AdmittedWorkload,
    PendingWorkload,
    PodSetRequest,
    ScanBookmark,
    charged,
    hold,
    prepare,
)

__all__ = [
    "AdmissionFairSharing",
    "AdmissionView",
    "AdmittedWorkload",
    "Catalog",
    "Configuration",
    "FairSharing",
    "FairStrategy",
    "Improvements",
    "InactiveReason",
    "Lifecycle",
    "PendingWorkload",
    "PodSetRequest",
    "Policy",
    "QueueEntry",
    "QueueUsage",
    "RequeueTimestamp",
    "ScanBookmark",
    "Snapshot",
    "StrictScope",
    "Transformation",
    "TransformationStrategy",
    "backoff_expired",
    "charged",
    "cluster_queue_usage",
    "effective_priority",
    "hold",
    "local_queue_usage",
    "order_key",
    "prepare",
    "queue_timestamp_ms",
]
