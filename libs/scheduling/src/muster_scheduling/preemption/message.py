"""What an evicted workload is told."""

from muster_domain.conditions import PreemptionReason
from muster_scheduling.snapshot.catalog import QueueEntry
from muster_scheduling.snapshot.remembered import Victim
from muster_scheduling.snapshot.workloads import PendingWorkload

_BY_RIGHT = {
    PreemptionReason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    PreemptionReason.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    PreemptionReason.IN_COHORT_FAIR_SHARING: "fair sharing within the cohort",
    PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING: (
        "reclamation within the cohort while borrowing"
    ),
}


def preemption_message(preemptor: PendingWorkload, entry: QueueEntry, victim: Victim) -> str:
    """One sentence: for whom, and by what right."""
    return (
        f"Preempted to accommodate workload {preemptor.key} of ClusterQueue {entry.name} "
        f"due to {_BY_RIGHT[victim.reason]}"
    )
