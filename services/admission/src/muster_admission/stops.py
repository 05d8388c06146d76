"""What a stopped queue takes back (R-101)."""

from dataclasses import replace

from muster_admission.book import Book, door_of
from muster_admission.ending import evict
from muster_contracts.stored import Record
from muster_domain.conditions import EvictionReason, RequeuedReason
from muster_domain.queues import StopPolicy
from muster_domain.states import Admitted, Pending, Requeue, Reserved


def enforce_stops(book: Book, now_ms: int) -> None:
    """Hold takes back what is reserved, HoldAndDrain also what is admitted.

    Who was evicted by a stop that is over waits as requeued from now on.
    """
    configuration = book.view.catalog.configuration
    queues = {
        name: entry.queue.stop_policy
        for name, entry in book.view.catalog.queues.items()
        if entry.queue.stop_policy is not StopPolicy.NONE
    }
    doors = {
        door.key: door.stop_policy
        for door in configuration.local_queues.values()
        if door.stop_policy is not StopPolicy.NONE
    }
    _note_restarts(book, queues, doors, now_ms)
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


def _note_restarts(
    book: Book, queues: dict[str, StopPolicy], doors: dict[str, StopPolicy], now_ms: int
) -> None:
    for record in list(book.records.values()):
        state = record.state
        if not isinstance(state, Pending) or state.requeued is not None:
            continue
        restarted = None
        if state.last_eviction is EvictionReason.CLUSTER_QUEUE_STOPPED:
            restarted = RequeuedReason.CLUSTER_QUEUE_RESTARTED
        elif state.last_eviction is EvictionReason.LOCAL_QUEUE_STOPPED:
            restarted = RequeuedReason.LOCAL_QUEUE_RESTARTED
        if restarted and record.cluster_queue not in queues and door_of(record) not in doors:
            after = replace(state, requeued=restarted, waiting_since_ms=now_ms)
            book.become(record, after, now_ms)


def _take_back(
    book: Book, record: Record, policy: StopPolicy, reason: EvictionReason, now_ms: int
) -> None:
    drains = policy is StopPolicy.HOLD_AND_DRAIN
    if isinstance(record.state, Reserved) or (drains and isinstance(record.state, Admitted)):
        evict(book, record, reason, Requeue(), now_ms, message=f"its queue is stopped ({policy})")
