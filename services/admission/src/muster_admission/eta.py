"""By when those who wait can start, as far as time limits of what runs say it. Pure."""

from collections.abc import Iterator

from muster_admission.book import Book
from muster_domain.states import Admitted
from muster_scheduling.snapshot.catalog import QueueEntry
from muster_scheduling.snapshot.workloads import PendingWorkload


def latest_starts(book: Book) -> dict[str, int]:
    """For those who wait: when enough of their own queue must have ended for all up to them.

    Counts only what is free and what the queue's own workloads give back, at the latest moment that
    their time limits allow. Has no entry where it cannot be known: something without a limit would
    have to end first, a resource could come from several flavors, or what is asked is never free.
    """
    found: dict[str, int] = {}
    for name in sorted(book.view.queues):
        entry = book.view.catalog.queues[name]
        if entry.active:
            found.update(_of_queue(book, entry))
    return found


def _of_queue(book: Book, entry: QueueEntry) -> Iterator[tuple[str, int]]:
    flavor_of = {
        resource: group.flavors[0]
        for group in entry.groups
        for resource in group.resources
        if len(group.flavors) == 1
    }
    free = {
        (flavor, resource): book.view.tree.free(entry.node, (flavor, resource))
        for resource, flavor in flavor_of.items()
    }
    ends = _ends(book, entry)
    at_ms = 0
    for waiting in book.view.queues[entry.name].in_order():
        asked = _asked(waiting, flavor_of)
        if asked is None:
            return
        for pair, amount in asked.items():
            free[pair] -= amount
        while any(free[pair] < 0 for pair in asked):
            released = next(ends, None)
            if released is None:
                return
            at_ms = max(at_ms, released[0])
            for pair, amount in released[1].items():
                if pair in free:
                    free[pair] += amount
        if at_ms:
            yield waiting.id, at_ms


def _asked(
    waiting: PendingWorkload, flavor_of: dict[str, str]
) -> dict[tuple[str, str], int] | None:
    asks = {resource: amount for resource, amount in waiting.asks().items() if amount}
    if not flavor_of.keys() >= asks.keys():
        return None
    return {(flavor_of[resource], resource): amount for resource, amount in asks.items()}


def _ends(book: Book, entry: QueueEntry) -> Iterator[tuple[int, dict[tuple[str, str], int]]]:
    """When each holder with a time limit must have ended, and what it gives back; in that order."""
    found: list[tuple[int, str, dict[tuple[str, str], int]]] = []
    for identity in book.view.admitted.get(entry.name, {}):
        record = book.records[identity]
        limit_ms, state = record.workload.max_execution_time_ms, record.state
        if isinstance(state, Admitted) and limit_ms is not None:
            end_ms = state.admitted_at_ms + max(0, limit_ms - state.past_execution_ms)
            found.append((end_ms, identity, state.admission.usage))
    for end_ms, _, usage in sorted(found, key=lambda end: end[:2]):
        yield end_ms, usage
