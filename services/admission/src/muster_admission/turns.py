"""What LocalQueues used lately, from the stored form and back.

Stored in the commit that changed it, so that a restart goes on from there: nothing is counted twice
and nothing is lost.
"""

from collections.abc import Mapping

from muster_contracts import codec
from muster_contracts.stored import USE_FIELD, LocalQueueUse, penalty_field, uses_of
from muster_contracts.turns import TurnRow
from muster_scheduling.fairness import LocalQueueHistory
from muster_scheduling.fairness.history import FINE
from muster_scheduling.snapshot.turns import Turns
from muster_scheduling.snapshot.view import AdmissionView


class StoredUses:
    """The fields that hold the histories of a view."""

    def __init__(self, view: AdmissionView, turns: Turns, fields: Mapping[str, bytes]) -> None:
        self._view = view
        self._turns = turns
        self._stored = {name for name in fields if name.startswith(USE_FIELD)}
        turns.resume({key: _history(use) for key, use in uses_of(fields).items()})

    def take_changes(self) -> dict[str, bytes | None]:
        """Fields to store since the last call, `None` for those to delete."""
        changes: dict[str, bytes | None] = {}
        for key, workloads in self._turns.take_changed().items():
            history = self._view.histories.get(key)
            self._put(changes, USE_FIELD + key, None if history is None else _use(history))
            for workload_id in workloads:
                penalty = None if history is None else history.penalties.get(workload_id)
                use = None if penalty is None else _penalty(workload_id, penalty)
                self._put(changes, penalty_field(key, workload_id), use)
        return changes

    def _put(self, changes: dict[str, bytes | None], name: str, use: LocalQueueUse | None) -> None:
        if use is not None:
            self._stored.add(name)
            changes[name] = codec.encode(use)
        elif name in self._stored:
            self._stored.remove(name)
            changes[name] = None


def used_lately(view: AdmissionView, cluster_queue: str) -> dict[str, dict[str, str]]:
    """What the LocalQueues of a ClusterQueue count, as text; empty where they take no turns."""
    return {
        key: texts(history.total)
        for key, history in sorted(_histories(view, cluster_queue).items())
    }


def turn_rows(view: AdmissionView, cluster_queue: str) -> tuple[TurnRow, ...]:
    """The LocalQueues of a ClusterQueue in the order of their turns; none where they take none."""
    entry = view.catalog.queues.get(cluster_queue)
    if entry is None or not view.shares_turns(entry):
        return ()
    doors = view.catalog.configuration.local_queues
    mine = [key for key, door in doors.items() if door.cluster_queue == cluster_queue]
    ordered = sorted(mine, key=lambda key: (view.usage_key(key), key))
    histories = _histories(view, cluster_queue)
    return tuple(
        _row(place, key, doors[key].fair_weight_milli, histories.get(key))
        for place, key in enumerate(ordered)
    )


def _row(
    place: int, local_queue: str, weight_milli: int, history: LocalQueueHistory | None
) -> TurnRow:
    known = history or LocalQueueHistory()
    return TurnRow(
        local_queue=local_queue,
        place=place,
        weight_milli=weight_milli,
        consumed_milli=_milli(known.consumed),
        penalty_milli=_milli(known.penalty),
        updated_ms=known.updated_ms,
    )


def _histories(view: AdmissionView, cluster_queue: str) -> dict[str, LocalQueueHistory]:
    doors = view.catalog.configuration.local_queues
    return {
        key: history
        for key, history in view.histories.items()
        if key in doors and doors[key].cluster_queue == cluster_queue
    }


def _milli(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amounts[name] // FINE for name in sorted(amounts)}


def texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as decimal text, sorted by resource."""
    return {name: str(amounts[name]) for name in sorted(amounts)}


def _use(history: LocalQueueHistory) -> LocalQueueUse:
    return LocalQueueUse(
        updated_ms=history.updated_ms,
        consumed=texts(history.consumed),
        penalties={},
    )


def _penalty(workload_id: str, amounts: Mapping[str, int]) -> LocalQueueUse:
    return LocalQueueUse(updated_ms=0, consumed={}, penalties={workload_id: texts(amounts)})


def _history(use: LocalQueueUse) -> LocalQueueHistory:
    return LocalQueueHistory(
        updated_ms=use.updated_ms,
        consumed=_numbers(use.consumed),
        penalties={name: _numbers(amounts) for name, amounts in use.penalties.items()},
    )


def _numbers(amounts: Mapping[str, str]) -> dict[str, int]:
    return {name: int(text) for name, text in amounts.items()}
