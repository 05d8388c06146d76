"""Everything that admission knows about its partition, changed in one place.

`become` moves a workload to its next state and carries that through the quota ledger, the usage and
order that deciding looks at, the deadlines and the fields to store. Nothing else changes them.
"""

import heapq
from collections import deque
from dataclasses import replace

from muster_admission.announce import WorkloadAnnouncer, is_external
from muster_admission.budget_home import BudgetHomes
from muster_admission.budgets import BudgetBook
from muster_admission.claims import Claims
from muster_admission.lifecycle import lifecycle_of
from muster_admission.settings import AdmissionSettings
from muster_admission.standing import lacks_seats, waits
from muster_admission.turns import StoredUses
from muster_contracts import codec
from muster_contracts.stored import (
    TOMBSTONE_FIELD,
    WORKLOAD_FIELD,
    Record,
    Tombstone,
    records_of,
    tombstones_of,
)
from muster_domain.checks import all_ready
from muster_domain.conditions import Explanation, Outcome
from muster_domain.queues import StopPolicy
from muster_domain.states import (
    Admission,
    Admitted,
    Evicting,
    Finished,
    Growing,
    Pending,
    Reserved,
    Resizing,
    WorkloadState,
)
from muster_domain.workload import VolcanoQueueRef
from muster_ledger.holds import Hold, HoldState, hold_id
from muster_ledger.model import Ledger, Result
from muster_ledger.store import Image
from muster_scheduling.snapshot.catalog import Configuration
from muster_scheduling.snapshot.follow import follow
from muster_scheduling.snapshot.turns import Turns
from muster_scheduling.snapshot.view import AdmissionView

WAITS_KEPT = 64
PRUNE_EVERY_MS = 60_000


class Book:
    """Records, ledger, view and deadlines of one partition."""

    def __init__(self, image: Image, settings: AdmissionSettings) -> None:
        self.settings = settings
        self.lifecycle = lifecycle_of(None, settings)
        self.partition = image.shard
        self.announcer = WorkloadAnnouncer(image.shard, image.epoch, image.version + 1)
        self.records: dict[str, Record] = records_of(image.fields)
        self.live_names: dict[str, str] = {}
        self.tombstones: dict[str, Tombstone] = tombstones_of(image.fields)
        self.ledger = Ledger.from_fields(image.fields)
        self.view = AdmissionView(Configuration())
        self.turns = Turns(self.view)
        self.budgets = BudgetBook(image.shard, image.fields, self.records)
        self.homes = BudgetHomes(image.shard, image.fields)
        self.unseated: dict[str, None] = {}
        """Workloads that wait because no seats were found, in the order of being told so."""
        self.aside: dict[str, str] = {}
        """Workloads that wait and stand in no line, with their ClusterQueue: nobody may look at
        them while they are not active, or their door is stopped."""
        self.stopped_doors: frozenset[str] = frozenset()
        """LocalQueues that let nobody in, `namespace/name`."""
        self.steps: list[tuple[Record, Record]] = []
        """What became of whom in this commit, for the metrics."""
        self.explanations: dict[str, Explanation] = {}
        """What the last cycle said to those who wait; not stored."""
        self.waits_ms: dict[str, deque[int]] = {}
        """The last waits from submission to quota, by ClusterQueue."""
        self._finished: deque[str] = deque()
        self._deactivated: deque[str] = deque()
        self._prune_at_ms = 0
        self._deadlines: list[tuple[int, str]] = []
        self._records: dict[str, Record | None] = {}
        self._puts: dict[str, bytes | None] = {}
        self._resume()
        self._uses = StoredUses(self.view, self.turns, image.fields)
        self.claims = Claims(self.view, image.fields)

    def configure(self, configuration: Configuration, sequence: int, now_ms: int) -> None:
        """Take the declared objects; whoever waits is looked at again.

        Who came through a LocalQueue that is stopped does not stand in line while it is.
        """
        self.view.configure(configuration)
        self.turns.configure(now_ms)
        self.budgets.configure(configuration.budgets, configuration.prices, sequence)
        self.homes.configure(configuration.budgets)
        self._take_lifecycle(configuration)
        stopped = frozenset(
            door.key
            for door in configuration.local_queues.values()
            if door.stop_policy is not StopPolicy.NONE
        )
        changed, self.stopped_doors = self.stopped_doors ^ stopped, stopped
        for record in list(self.records.values()) if changed else ():
            state = record.state
            if isinstance(state, Pending) and state.active and door_of(record) in changed:
                if door_of(record) not in stopped:
                    self.aside.pop(record.workload.id, None)
                    follow(self.view, record.workload, None, state, now_ms)
                self._set_aside(record)

    def create(self, record: Record, now_ms: int) -> None:
        """Take in a workload that nobody knew."""
        self.records[record.workload.id] = record
        follow(self.view, record.workload, None, record.state, now_ms)
        self._set_aside(record)
        self._note(record)
        self._store(record)

    def become(
        self, record: Record, state: WorkloadState, now_ms: int, *, in_view: bool = False
    ) -> Record:
        """Move a workload to its next state; returns the new record.

        `in_view` says that the view has made the step already (a decision was applied to it).
        """
        after = replace(record, state=state)
        self.records[record.workload.id] = after
        self.steps.append((record, after))
        self._move_ledger(record, after, now_ms)
        self.budgets.follow(record, after, now_ms)
        if not in_view:
            follow(self.view, record.workload, record.state, state, now_ms)
        self._set_aside(after)
        self.turns.moved(record.workload.id, door_of(record), now_ms)
        if isinstance(state, Reserved):
            waits = self.waits_ms.setdefault(record.cluster_queue, deque(maxlen=WAITS_KEPT))
            waits.append(max(0, now_ms - record.workload.created_at_ms))
        self._note(after)
        self._store(after)
        return after

    def bury(self, workload_id: str, tombstone: Tombstone) -> None:
        """Remember an end that came before its beginning."""
        if workload_id not in self.tombstones:
            self.tombstones[workload_id] = tombstone
            self._puts[TOMBSTONE_FIELD + workload_id] = codec.encode(tombstone)

    def forget_old(self, now_ms: int) -> None:
        """Let go of what ended long ago."""
        kept_ms = self._kept_ms(self.lifecycle.keep_finished_ms)
        before_ms = now_ms - kept_ms
        deactivated_ms = self._kept_ms(self.lifecycle.keep_deactivated_ms, kept_ms)
        self._forget(self._finished, before_ms)
        self._forget(self._deactivated, now_ms - deactivated_ms)
        while self.tombstones:
            workload_id, tombstone = next(iter(self.tombstones.items()))
            if tombstone.at_ms >= before_ms:
                break
            del self.tombstones[workload_id]
            self._puts[TOMBSTONE_FIELD + workload_id] = None
        if now_ms >= self._prune_at_ms:
            self._prune_at_ms = now_ms + PRUNE_EVERY_MS
            self.ledger.prune(before_ms=before_ms, keep_max=self.settings.retention_count)

    def _kept_ms(self, declared_ms: int | None, otherwise_ms: int | None = None) -> int:
        if declared_ms is not None:
            return declared_ms
        return self.settings.retention_ms if otherwise_ms is None else otherwise_ms

    def _forget(self, ended: deque[str], before_ms: int) -> None:
        while ended:
            state = self.records[ended[0]].state
            total = len(self._finished) + len(self._deactivated)
            too_many = total > self.settings.retention_count
            if isinstance(state, Finished) and state.finished_at_ms >= before_ms and not too_many:
                break
            workload_id = ended.popleft()
            del self.records[workload_id]
            self._records[WORKLOAD_FIELD + workload_id] = None

    def due(self, now_ms: int) -> list[Record]:
        """Workloads whose deadline has come, each once, in the order of their deadlines."""
        found: dict[str, Record] = {}
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            at_ms, workload_id = heapq.heappop(self._deadlines)
            record = self.records.get(workload_id)
            if record is not None and self.deadline_ms(record) == at_ms:
                found[workload_id] = record
        return list(found.values())

    def next_deadline_ms(self) -> int | None:
        """The first moment at which something may be due."""
        return self._deadlines[0][0] if self._deadlines else None

    def deadline_ms(self, record: Record) -> int | None:
        """When the workload's present state ends by itself."""
        match record.state:
            case Pending(requeue_at_ms=at_ms):
                return at_ms
            case Reserved(checks=checks) if not all_ready(checks):
                return None
            case Reserved(reserved_at_ms=at_ms, checked_at_ms=checked_at_ms):
                return (checked_at_ms or at_ms) + self.settings.reservation_timeout_ms
            case Admitted() as state:
                return min(self._admitted_deadlines(record, state), default=None)
            case Evicting() | Finished():
                return None

    def put(self, name: str, value: bytes | None) -> None:
        """Store a field that is no record with the next commit, or delete it."""
        self._puts[name] = value

    def take_changes(self, now_ms: int) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """Fields to put and to delete since the last call.

        A record that changed more than once in between is written as it is now, once. What is
        neither a record nor follows from one is said on the log by the same commit.
        """
        kept = {**self._puts, **self.claims.take_changes(), **self._uses.take_changes()}
        changes = {**self._records, **self.ledger.take_changes(), **kept}
        self._puts, self._records = {}, {}
        self.announcer.books(kept, now_ms)
        puts = {
            name: codec.encode(value) if isinstance(value, Record) else value
            for name, value in changes.items()
            if value is not None
        }
        return puts, tuple(name for name, value in changes.items() if value is None)

    def _take_lifecycle(self, configuration: Configuration) -> None:
        lifecycle = lifecycle_of(configuration.lifecycle, self.settings)
        if lifecycle == self.lifecycle:
            return
        self.lifecycle = lifecycle
        for record in self.records.values():
            if isinstance(record.state, Admitted):
                self._await_deadline(record)

    def _await_deadline(self, record: Record) -> None:
        deadline = self.deadline_ms(record)
        if deadline is not None:
            heapq.heappush(self._deadlines, (deadline, record.workload.id))

    def seats_due_ms(self, step: Resizing) -> int | None:
        """By when placement is to have answered about more pods, if it is asked for any."""
        if step.since_ms is None:
            return None
        return step.since_ms + self.settings.reservation_timeout_ms

    def _admitted_deadlines(self, record: Record, state: Admitted) -> list[int]:
        deadlines: list[int] = []
        if state.lease_until_ms is not None:
            deadlines.append(state.lease_until_ms)
        elif not is_external(record.workload):
            since_ms, patience_ms = state.admitted_at_ms, self.lifecycle.ready_ms
            if state.ready_at_ms is not None:
                since_ms = state.unready_since_ms
                patience_ms = self.lifecycle.recovery_ms
            if since_ms is not None and patience_ms is not None:
                deadlines.append(since_ms + patience_ms)
        if isinstance(state.resize, Growing) and state.resize.requeue_at_ms is not None:
            deadlines.append(state.resize.requeue_at_ms)
        if isinstance(state.resize, Resizing):
            due_ms = self.seats_due_ms(state.resize)
            deadlines += [] if due_ms is None else [due_ms]
        limit = record.workload.max_execution_time_ms
        if limit is not None:
            deadlines.append(state.admitted_at_ms + max(0, limit - state.past_execution_ms))
        return deadlines

    def _resume(self) -> None:
        ended: list[tuple[int, str]] = []
        for record in self.records.values():
            follow(self.view, record.workload, None, record.state, 0)
            self._set_aside(record)
            if isinstance(record.state, Evicting) and self._is_posted(record.state, record):
                self.view.mark_admitted(record.workload.id)
            if isinstance(record.state, Finished):
                ended.append((record.state.finished_at_ms, record.workload.id))
            else:
                self._note(record)
        for _, workload_id in sorted(ended):
            self._remember(workload_id)

    def _set_aside(self, record: Record) -> None:
        state, identity = record.state, record.workload.id
        if not isinstance(state, Pending):
            self.aside.pop(identity, None)
        elif not state.active or door_of(record) in self.stopped_doors:
            self.view.remove_pending(identity)
            self.explanations.pop(identity, None)
            self.aside[identity] = record.cluster_queue
        else:
            self.aside.pop(identity, None)

    def _remember(self, workload_id: str) -> None:
        """Keep what has ended, for a time of its own where a rule has deactivated it."""
        state = self.records[workload_id].state
        by_rule = isinstance(state, Finished) and state.outcome is Outcome.DEACTIVATED
        (self._deactivated if by_rule else self._finished).append(workload_id)

    def _store(self, record: Record) -> None:
        self._records[WORKLOAD_FIELD + record.workload.id] = record

    def _note(self, record: Record) -> None:
        workload = record.workload
        if isinstance(record.state, Finished):
            self._remember(workload.id)
            if self.live_names.get(workload.key) == workload.id:
                del self.live_names[workload.key]
        else:
            self.live_names[workload.key] = workload.id
        if lacks_seats(record.state):
            self.unseated[workload.id] = None
        else:
            self.unseated.pop(workload.id, None)
        if not waits(record.state):
            self.explanations.pop(workload.id, None)
        self._await_deadline(record)

    def _move_ledger(self, before: Record, after: Record, now_ms: int) -> None:
        match before.state, after.state:
            case Pending(), Reserved(admission=admission, attempt=attempt):
                identity = hold_id(after.workload.id, attempt)
                queue = admission.cluster_queue
                _expect(self.ledger.reserve(identity, queue, admission.usage, None))
            case Reserved(attempt=attempt) as held, Admitted(admission=left):
                identity = hold_id(after.workload.id, attempt)
                _expect(self.ledger.post(identity))
                if left.usage != held.admission.usage:
                    _expect(self.ledger.shrink(identity, left.usage))
            case Admitted(admission=held), Admitted(admission=left, attempt=attempt):
                if left.usage != held.usage:
                    move = self.ledger.grow if exceeds(left, held) else self.ledger.shrink
                    _expect(move(hold_id(after.workload.id, attempt), left.usage))
            case (Reserved() | Evicting() | Admitted()) as held, (Pending() | Finished()):
                posted = self._is_posted(held, after)
                end = self.ledger.release if posted else self.ledger.void
                _expect(end(hold_id(after.workload.id, held.attempt), now_ms))
            case _:
                pass

    def _is_posted(self, held: Reserved | Admitted | Evicting, record: Record) -> bool:
        """Whether the quota of an attempt was posted: it was admitted once."""
        hold = self.ledger.get(hold_id(record.workload.id, held.attempt))
        return isinstance(hold, Hold) and hold.state is HoldState.POSTED


def exceeds(left: Admission, held: Admission) -> bool:
    """Whether more is held of something than before."""
    before = held.usage
    return any(amount > before.get(pair, 0) for pair, amount in left.usage.items())


def door_of(record: Record) -> str:
    """The LocalQueue that the workload came through, `namespace/name`; else empty."""
    workload = record.workload
    if isinstance(workload.queue, VolcanoQueueRef):
        return ""
    return f"{workload.namespace}/{workload.queue.name}"


def _expect(result: Result) -> None:
    """States and ledger move together, so a refusal of the ledger is a defect."""
    if not result.changed:
        raise AssertionError(f"the ledger answered {result}")
