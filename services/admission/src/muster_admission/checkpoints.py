"""What a job has saved of its work, and what an eviction costs it."""

from dataclasses import replace

from muster_admission.book import Book
from muster_contracts import events
from muster_domain.states import Admitted, Evicting, Reserved


def checkpointed(book: Book, fact: events.CheckpointReported, now_ms: int) -> None:
    """A job says that its work is saved. Idempotent by (workload id, attempt, time of the report).

    A report from before the attempt was admitted is about another one.
    """
    record = book.records.get(fact.workload_id)
    if record is None or not isinstance(record.state, Admitted | Evicting):
        return
    held = record.state
    since_ms = held.checkpointed_at_ms or held.admitted_at_ms
    if fact.attempt not in (0, held.attempt) or since_ms is None or fact.at_ms <= since_ms:
        return
    state = replace(held, checkpointed_at_ms=fact.at_ms)
    if isinstance(state, Evicting):
        state = replace(state, lost_work_ms=max(0, state.since_ms - fact.at_ms))
    after = book.become(record, state, now_ms)
    saved = events.WorkloadCheckpointed(
        workload_id=after.workload.id, version=book.announcer.version, state=state
    )
    book.announcer.event(after, saved, now_ms)


def lost_work_ms(held: Reserved | Admitted, now_ms: int) -> int | None:
    """How long the attempt has worked since its last checkpoint; None if it was never admitted."""
    if isinstance(held, Reserved):
        return None
    return max(0, now_ms - held.unsaved_since_ms)
