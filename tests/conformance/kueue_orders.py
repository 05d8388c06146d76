"""Suites about who goes first."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from kueue_world import (
    holder_of,
    load_record,
    load_world,
    make_view,
    milliseconds,
    pending_of,
    policy_of,
)

from muster_domain.queues import ClusterQueue, LocalQueue, QueueingStrategy
from muster_domain.selectors import Selector
from muster_scheduling import AdmissionView, Configuration, backoff_expired
from muster_scheduling.admission import Assignment, Entry, entry_key
from muster_scheduling.preemption import candidate_key


def strict_fifo(case: dict[str, Any]) -> dict[str, Any]:
    """The head of one ClusterQueue."""
    world = load_world(case)
    policy = policy_of(case)
    queue = ClusterQueue(
        name="cq",
        namespace_selector=Selector(),
        queueing_strategy=QueueingStrategy(case["config"]["queueingStrategy"]),
    )
    local = LocalQueue(namespace="", name="", cluster_queue="cq")
    view = AdmissionView(
        Configuration(cluster_queues={"cq": queue}, local_queues={local.key: local}, policy=policy)
    )
    for place, record in enumerate(world.records):
        view.add_pending(pending_of(record, policy, place), 0)
    head = view.queues["cq"].head()
    return {"head": head.key.removeprefix("/") if head else ""}


def heads(case: dict[str, Any]) -> dict[str, Any]:
    """The heads of all active ClusterQueues."""
    view = make_view(case, load_world(case))
    inactive = case["incoming"]["inactiveClusterQueues"]
    found = [queue.head() for name, queue in view.queues.items() if name not in inactive]
    return {"heads": sorted(head.key.removeprefix("/") for head in found if head)}


def backoff(case: dict[str, Any]) -> dict[str, Any]:
    """Whether a workload may be tried again."""
    (record,) = load_world(case).records
    workload = pending_of(record, policy_of(case))
    return {
        "backoffExpired": backoff_expired(
            workload.requeue_at_ms,
            milliseconds(case["config"]["clock"]),
            held_back=workload.held_back,
        )
    }


def head_by_turns(case: dict[str, Any]) -> dict[str, Any]:
    """The head of one ClusterQueue whose LocalQueues, all of them its own, may take turns."""
    world = load_world(case)
    world.local_queues = {
        key: replace(local, cluster_queue="cq") for key, local in world.local_queues.items()
    }
    view = make_view(case, world)
    head = view.queues["cq"].head()
    return {"head": head.key if head else ""}


def entries(case: dict[str, Any]) -> dict[str, Any]:
    """The order of a cycle's entries."""
    policy = policy_of(case)
    queue = ClusterQueue(name="cq", namespace_selector=Selector())
    view = AdmissionView(Configuration(cluster_queues={"cq": queue}, policy=policy))
    found = [
        Entry(
            pending_of(load_record(row["workload"]), policy, place),
            view.catalog.queues["cq"],
            Assignment(borrowing=row["borrowing"]),
            sticky=row["isPreemptor"],
        )
        for place, row in enumerate(case["incoming"]["entries"])
    ]
    found.sort(key=lambda entry: entry_key(entry, policy))
    return {"order": [entry.workload.key.removeprefix("/") for entry in found]}


def candidates(case: dict[str, Any]) -> dict[str, Any]:
    """Who is preempted first."""
    policy = policy_of(case)
    now_ms = milliseconds(case["config"]["clock"])
    own = case["incoming"]["clusterQueue"]
    rows = []
    for place, row in enumerate(case["incoming"]["candidates"]):
        holder = holder_of(load_record(row["workload"]), policy, now_ms, place)
        holder.cluster_queue = row["clusterQueue"]
        rows.append(holder)
    usage = {
        holder.id: (False, Fraction(str(row.get("localQueueFSUsage") or 0)))
        for holder, row in zip(rows, case["incoming"]["candidates"], strict=True)
    }
    rows.sort(
        key=lambda holder: candidate_key(
            holder,
            own,
            evicting=holder.evicting,
            usage=usage[holder.id] if case["config"]["afsEnabled"] else None,
        )
    )
    return {"order": [holder.key.removeprefix("/") for holder in rows]}


SUITES = {
    "queue_afs_ordering": head_by_turns,
    "queue_strict_fifo": strict_fifo,
    "queue_heads": heads,
    "queue_backoff": backoff,
    "entry_ordering": entries,
    "preemption_candidates_ordering": candidates,
}
