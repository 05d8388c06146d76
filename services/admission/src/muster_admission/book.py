"""Everything that admission knows about its partition, changed in one place.

`become` moves a workload to its next state and carries that through the quota ledger, the usage and
order that deciding looks at, the deadlines and the fields to store. Nothing else changes them.
"""

import heapq
from collections import deque
from dataclasses import replace

from muster_admission.announce import WorkloadAnnouncer, is_external
from muster_admission.record import (
    TOMBSTONE_FIELD,
    WORKLOAD_FIELD,
    Record,
    Tombstone,
    decode_record,
    encode_record,
)
from muster_admission.settings import AdmissionSettings
from muster_contracts import codec
from muster_domain.states import (
    Admitted,
    Evicting,
    Finished,
    Pending,
    Reserved,
    WorkloadState,
)
from muster_ledger.model import Ledger, hold_id
from muster_ledger.store import Image
from muster_scheduling.policy import Policy
from muster_scheduling.snapshot.catalog import Configuration
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.workloads import hold, prepare

WAITS_KEPT = 64


class Book:
    """Records, ledger, view and deadlines of one partition."""

    def __init__(self, image: Image, settings: AdmissionSettings, policy: Policy) -> None:
        self.settings = settings
        self.policy = policy
        self.partition = image.shard
        self.announcer = WorkloadAnnouncer(image.shard, image.epoch, image.version + 1)
        self.records: dict[str, Record] = {}
        self.live_names: dict[str, str] = {}
        self.tombstones: dict[str, Tombstone] = {}
        self.ledger = Ledger.from_fields(image.fields)
        self.view = AdmissionView(Configuration(), policy)
        self.finished: deque[str] = deque()
        self.waits_ms: dict[str, deque[int]] = {}
        self._deadlines: list[tuple[int, str]] = []
        self._puts: dict[str, bytes | None] = {}
        self._restore(image)

    def configure(self, configuration: Configuration) -> None:
        """Take the declared objects; whoever waits is looked at again."""
        self.view.configure(configuration)

    def create(self, record: Record, now_ms: int) -> None:
        """Take in a workload that nobody knew."""
        self.records[record.workload.id] = record
        self._enter(record, now_ms)
        self._store(record)

    def become(
        self, record: Record, state: WorkloadState, now_ms: int, *, in_view: bool = False
    ) -> Record:
        """Move a workload to its next state; returns the new record.

        `in_view` says that the view has made the step already (a decision was applied to it).
        """
        after = replace(record, state=state)
        self.records[record.workload.id] = after
        self._move_ledger(record, after, now_ms)
        if not in_view:
            self._leave(record, after)
            self._enter(after, now_ms)
        else:
            self._note(after, now_ms)
        self._store(after)
        return after

    def bury(self, workload_id: str, tombstone: Tombstone) -> None:
        """Remember an end that came before its beginning."""
        self.tombstones[workload_id] = tombstone
        self._puts[TOMBSTONE_FIELD + workload_id] = codec.encode(tombstone)

    def forget_old(self, now_ms: int) -> None:
        """Let go of workloads that ended long ago."""
        while self.finished:
            record = self.records[self.finished[0]]
            state = record.state
            if not isinstance(state, Finished):
                self.finished.popleft()
                continue
            old = now_ms - state.finished_at_ms > self.settings.retention_ms
            if not old and len(self.finished) <= self.settings.retention_count:
                break
            self.finished.popleft()
            del self.records[record.workload.id]
            self._puts[WORKLOAD_FIELD + record.workload.id] = None
        before_ms = now_ms - self.settings.retention_ms
        for workload_id, tombstone in list(self.tombstones.items()):
            if tombstone.at_ms >= before_ms:
                break
            del self.tombstones[workload_id]
            self._puts[TOMBSTONE_FIELD + workload_id] = None
        self.ledger.prune(before_ms, self.settings.retention_count)

    def due(self, now_ms: int) -> list[Record]:
        """Workloads whose deadline has come."""
        found: list[Record] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            at_ms, workload_id = heapq.heappop(self._deadlines)
            record = self.records.get(workload_id)
            if record is None:
                continue
            deadline = self.deadline_ms(record)
            if deadline == at_ms:
                found.append(record)
            elif deadline is not None and deadline <= now_ms:
                heapq.heappush(self._deadlines, (deadline, workload_id))
        return found

    def next_deadline_ms(self) -> int | None:
        """The first moment at which something may be due."""
        return self._deadlines[0][0] if self._deadlines else None

    def deadline_ms(self, record: Record) -> int | None:
        """When the workload's present state ends by itself."""
        match record.state:
            case Pending(requeue_at_ms=at_ms):
                return at_ms
            case Reserved(reserved_at_ms=at_ms):
                return at_ms + self.settings.reservation_timeout_ms
            case Admitted() as state:
                return min(self._admitted_deadlines(record, state), default=None)
            case Evicting() | Finished():
                return None

    def _admitted_deadlines(self, record: Record, state: Admitted) -> list[int]:
        deadlines: list[int] = []
        if state.lease_until_ms is not None:
            deadlines.append(state.lease_until_ms)
        elif state.ready_at_ms is None and not is_external(record.workload):
            deadlines.append(state.admitted_at_ms + self.settings.pods_ready_timeout_ms)
        limit = record.workload.max_execution_time_ms
        if limit is not None:
            deadlines.append(state.admitted_at_ms + max(0, limit - state.past_execution_ms))
        return deadlines

    def take_changes(self) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """Fields to put and to delete since the last call."""
        changes, self._puts = {**self._puts, **self.ledger.take_changes()}, {}
        puts = {name: value for name, value in changes.items() if value is not None}
        return puts, tuple(name for name, value in changes.items() if value is None)

    def _restore(self, image: Image) -> None:
        for name, stored in image.fields.items():
            if name.startswith(WORKLOAD_FIELD):
                record = decode_record(stored)
                self.records[record.workload.id] = record
            elif name.startswith(TOMBSTONE_FIELD):
                workload_id = name.removeprefix(TOMBSTONE_FIELD)
                self.tombstones[workload_id] = codec.decode(Tombstone, stored)
        ended: list[tuple[int, str]] = []
        for record in sorted(self.records.values(), key=lambda record: record.workload.id):
            if isinstance(record.state, Finished):
                ended.append((record.state.finished_at_ms, record.workload.id))
            else:
                self._enter(record, 0)
        self.finished.extend(workload_id for _, workload_id in sorted(ended))
        self.tombstones = dict(sorted(self.tombstones.items(), key=lambda item: item[1].at_ms))

    def _store(self, record: Record) -> None:
        self._puts[WORKLOAD_FIELD + record.workload.id] = encode_record(record)

    def _leave(self, before: Record, after: Record) -> None:
        workload_id = before.workload.id
        match before.state, after.state:
            case (Reserved() | Admitted()), Evicting():
                self.view.mark_evicting(workload_id)
            case (Reserved() | Admitted() | Evicting()), (Pending() | Finished()):
                self.view.release(workload_id)
            case Pending(), _:
                self.view.remove_pending(workload_id)
            case _:
                pass

    def _enter(self, record: Record, now_ms: int) -> None:
        workload = record.workload
        match record.state:
            case Pending() as state:
                waiting = prepare(workload, self.policy, queued_at_ms=state.queued_at_ms)
                waiting.requeue_at_ms = state.requeue_at_ms
                waiting.attempt = state.attempt
                self.view.add_pending(waiting, now_ms)
            case (Reserved() | Admitted() | Evicting()) as state:
                if workload.id not in self.view.holders:
                    reserved_at_ms = (
                        state.since_ms if isinstance(state, Evicting) else state.reserved_at_ms
                    )
                    self.view.charge(
                        hold(
                            workload,
                            state.admission,
                            self.policy,
                            reserved_at_ms=reserved_at_ms,
                            attempt=state.attempt,
                            queued_at_ms=state.queued_at_ms,
                            evicting=isinstance(state, Evicting),
                        )
                    )
            case Finished():
                pass
        self._note(record, now_ms)

    def _note(self, record: Record, now_ms: int) -> None:
        workload = record.workload
        if isinstance(record.state, Finished):
            self.finished.append(workload.id)
            if self.live_names.get(workload.key) == workload.id:
                del self.live_names[workload.key]
        else:
            self.live_names[workload.key] = workload.id
        if isinstance(record.state, Reserved):
            waits = self.waits_ms.setdefault(record.cluster_queue, deque(maxlen=WAITS_KEPT))
            waits.append(max(0, now_ms - workload.created_at_ms))
        deadline = self.deadline_ms(record)
        if deadline is not None:
            heapq.heappush(self._deadlines, (deadline, workload.id))

    def _move_ledger(self, before: Record, after: Record, now_ms: int) -> None:
        old, new = before.state, after.state
        match old, new:
            case _, Reserved():
                self.ledger.reserve(
                    hold_id(after.workload.id, new.attempt),
                    new.admission.cluster_queue,
                    new.admission.usage,
                    None,
                )
            case Reserved(), Admitted():
                self.ledger.post(hold_id(after.workload.id, old.attempt))
            case (Reserved() | Evicting() | Admitted()), (Pending() | Finished()):
                identity = hold_id(after.workload.id, old.attempt)
                if self.ledger.is_posted(identity):
                    self.ledger.release(identity, now_ms)
                else:
                    self.ledger.void(identity, now_ms)
            case _:
                pass
