"""One start at a time: nobody is let in before the pods of everybody who is in run (R-105).

It holds for the queues of one partition: partitions are decided apart from each other.
"""

from muster_admission.book import Book
from muster_contracts.stored import Record
from muster_domain.checks import all_ready
from muster_domain.conditions import Explanation, PendingReason
from muster_domain.states import Admitted, Reserved


def held_up(book: Book) -> dict[str, Explanation] | None:
    """Why the first of each queue waits, where somebody's start holds everybody up; else None.

    Who waits for admission checks of others holds nobody up.
    """
    if not book.lifecycle.block_admission:
        return None
    starting = _starting(book)
    if starting is None:
        return None
    why = Explanation(
        reason=PendingReason.WAITING_FOR_PODS_READY,
        message=f"waits until all pods of {starting.workload.key} run (blockAdmission)",
        blocked_by=(starting.workload.id,),
    )
    heads = (queue.head() for _, queue in sorted(book.view.queues.items()))
    return {head.id: why for head in heads if head is not None}


def _starting(book: Book) -> Record | None:
    for identity in sorted(book.view.holders):
        record = book.records[identity]
        match record.state:
            case Reserved(checks=checks) if all_ready(checks):
                return record
            case Admitted() as state if (
                state.ready_at_ms is None or state.unready_since_ms is not None
            ):
                return record
            case _:
                pass
    return None
