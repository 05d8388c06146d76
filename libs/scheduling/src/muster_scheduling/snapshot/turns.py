"""Keeping what LocalQueues used lately in step with what their workloads hold (R-71, R-72).

Owns the histories of a view: a penalty for each workload that was let in, folded into the
consumption once when its quota is posted and dropped once when it loses the reservation, and the
decay. Times come in; whoever commits stores what has changed.
"""

from collections.abc import Mapping

from muster_domain.policy import AdmissionFairSharing
from muster_domain.queues import LocalQueue
from muster_scheduling.fairness.history import LocalQueueHistory
from muster_scheduling.quota import Vector
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.workloads import AdmittedWorkload


class Turns:
    """The histories of one view. Idempotent by workload: what it holds is counted as it is now."""

    def __init__(self, view: AdmissionView) -> None:
        self._view = view
        self._counted: dict[str, tuple[str, dict[str, int]]] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._changed: dict[str, dict[str, None]] = {}
        """LocalQueues whose history is another, with the workloads whose penalty may be."""

    def resume(self, histories: Mapping[str, LocalQueueHistory]) -> None:
        """Go on from stored histories, with what is held now; nothing of it is counted anew."""
        self._view.histories.update(histories)
        self._count_all()

    def configure(self, now_ms: int) -> None:
        """Begin histories where LocalQueues take turns now, and drop those of the others."""
        if self._policy is not None:
            self._count_all()
        kept = self._takers()
        for key in [key for key in self._view.histories if key not in kept]:
            history = self._view.histories.pop(key)
            self._change(key).update(dict.fromkeys(history.penalties))
        for key in kept:
            if self._used.get(key):
                self._history(key, now_ms)

    def moved(self, workload_id: str, local_queue: str, now_ms: int) -> None:
        """Take in that the workload got, was posted, or gave back quota, or part of it.

        Nothing is counted while no LocalQueues take turns; all is when they begin to.
        """
        policy = self._view.policy.admission_fair_sharing
        if policy is None:
            return
        holder = self._view.holders.get(workload_id)
        usage = by_resource(holder.usage) if holder is not None and holder.admitted else {}
        history = self._view.histories.get(local_queue)
        if self._takes_turns(local_queue):
            if usage and history is not None:
                used = self._used.get(local_queue, {})
                history.settle(workload_id, used, now_ms, policy.half_life_ms)
            if usage != self._counted.get(workload_id, ("", {}))[1] and policy.half_life_ms > 0:
                self._history(local_queue, now_ms).tick(
                    self._used.get(local_queue, {}), now_ms, policy.half_life_ms
                )
            if not usage and self._lost_reservation(holder):
                self._view.drop_penalty(local_queue, workload_id)
            self._change(local_queue)[workload_id] = None
        self._count(workload_id, local_queue, usage)

    def sample(self, now_ms: int) -> None:
        """Let consumption decay where a sampling interval is over; the order may be another then.

        A history that came to nothing is dropped.
        """
        policy = self._policy
        if policy is None:
            return
        for key, history in list(self._view.histories.items()):
            if now_ms - history.updated_ms < policy.sampling_ms:
                continue
            history.tick(self._used.get(key, {}), now_ms, policy.half_life_ms)
            self._change(key)
            if not (any(history.consumed.values()) or history.penalties or self._used.get(key)):
                del self._view.histories[key]
            self._view.look_at_queue_of(key)

    def next_ms(self) -> int | None:
        """When the next sampling interval is over."""
        policy = self._policy
        if policy is None:
            return None
        begun = [history.updated_ms for history in self._view.histories.values()]
        return min(begun) + policy.sampling_ms if begun else None

    def take_changed(self) -> dict[str, tuple[str, ...]]:
        """LocalQueues whose history is another since the last call, as the view has it or not.

        With each come the workloads whose penalty may have come or gone.
        """
        changed, self._changed = self._changed, {}
        return {key: tuple(workloads) for key, workloads in changed.items()}

    @property
    def _policy(self) -> AdmissionFairSharing | None:
        return self._view.policy.admission_fair_sharing

    def _history(self, local_queue: str, now_ms: int) -> LocalQueueHistory:
        found = self._view.histories.get(local_queue)
        if found is None:
            found = LocalQueueHistory(updated_ms=now_ms)
            self._view.histories[local_queue] = found
            self._change(local_queue)
        return found

    def _change(self, local_queue: str) -> dict[str, None]:
        return self._changed.setdefault(local_queue, {})

    def _takers(self) -> dict[str, LocalQueue]:
        doors = self._view.catalog.configuration.local_queues
        return {key: door for key, door in doors.items() if self._takes_turns(key)}

    def _takes_turns(self, local_queue: str) -> bool:
        door = self._view.catalog.configuration.local_queues.get(local_queue)
        entry = None if door is None else self._view.catalog.queues.get(door.cluster_queue)
        return entry is not None and self._view.shares_turns(entry)

    def _lost_reservation(self, holder: AdmittedWorkload | None) -> bool:
        return holder is None or self._view.is_evicting(holder.id)

    def _count_all(self) -> None:
        self._counted, self._used = {}, {}
        for holder in self._view.holders.values():
            if holder.admitted:
                self._count(holder.id, holder.local_queue, by_resource(holder.usage))

    def _count(self, workload_id: str, local_queue: str, usage: dict[str, int]) -> None:
        _, before = self._counted.pop(workload_id, ("", {}))
        if usage:
            self._counted[workload_id] = (local_queue, usage)
        if usage == before:
            return
        used = self._used.setdefault(local_queue, {})
        for resource in {**before, **usage}:
            left = used.get(resource, 0) + usage.get(resource, 0) - before.get(resource, 0)
            used[resource] = left
            if not left:
                del used[resource]
        if not used:
            del self._used[local_queue]


def by_resource(usage: Vector) -> dict[str, int]:
    """Milli-units by resource, whatever the flavor."""
    total: dict[str, int] = {}
    for (_, resource), amount in usage.items():
        total[resource] = total.get(resource, 0) + amount
    return total
