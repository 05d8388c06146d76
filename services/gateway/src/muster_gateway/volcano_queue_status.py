"""Whether Volcano Queues are open, as Volcano writes it into their status."""

from collections.abc import Mapping
from dataclasses import replace

from muster_contracts.api import ObjectView
from muster_contracts.queries import QueueRow, QuotaPage
from muster_domain.queues import QueueState, VolcanoQueue
from muster_scheduling.snapshot.volcano import derived_queue_name, shut_by


def with_state(
    views: tuple[ObjectView, ...], queues: Mapping[str, VolcanoQueue], page: QuotaPage
) -> tuple[ObjectView, ...]:
    """Queues with `status.state`, beside the text as it was written.

    One that was closed, or is under one that was, is Closing for as long as its owner does not say
    that nothing is left in it.
    """
    rows = {row.name: row for row in page.queues}
    return tuple(
        replace(view, document={**view.document, "status": {"state": str(state)}})
        for view in views
        for state in [_state(view.name, queues, rows.get(derived_queue_name(view.name)))]
    )


def _state(name: str, queues: Mapping[str, VolcanoQueue], row: QueueRow | None) -> QueueState:
    if not shut_by(name, queues):
        return QueueState.OPEN
    empty = row is not None and not (row.pending or row.reserving or row.admitted)
    return QueueState.CLOSED if empty else QueueState.CLOSING
