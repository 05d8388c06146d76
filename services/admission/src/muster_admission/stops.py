"""What a stopped queue takes back (R-101)."""

from muster_admission.book import Book, door_of
from muster_admission.ending import evict
from muster_contracts.stored import Record
from muster_domain.conditions import EvictionReason
from muster_domain.queues import StopPolicy
from muster_domain.states import Admitted, Requeue, Reserved


def enforce_stops(book: Book, now_ms: int) -> None:
    """Hold takes back what is reserved, HoldAndDrain also what is admitted."""
    configuration = book.view.catalog.configuration
    queues = {
        name: queue.stop_policy
        for name, queue in configuration.cluster_queues.items()
        if queue.stop_policy is not StopPolicy.NONE
    }
    doors = {
        door.key: door.stop_policy
        for door in configuration.local_queues.values()
        if door.stop_policy is not StopPolicy.NONE
    }
    if not queues and not doors:
        return
    for workload_id in sorted(book.view.holders):
        record = book.records[workload_id]
        stopped = queues.get(record.cluster_queue)
        if stopped is not None:
            _take_back(book, record, stopped, EvictionReason.CLUSTER_QUEUE_STOPPED, now_ms)
        elif door_of(record) in doors:
            policy = doors[door_of(record)]
            _take_back(book, record, policy, EvictionReason.LOCAL_QUEUE_STOPPED, now_ms)


def _take_back(
    book: Book, record: Record, policy: StopPolicy, reason: EvictionReason, now_ms: int
) -> None:
    drains = policy is StopPolicy.HOLD_AND_DRAIN
    if isinstance(record.state, Reserved) or (drains and isinstance(record.state, Admitted)):
        evict(book, record, reason, Requeue(), now_ms, message=f"its queue is stopped ({policy})")
