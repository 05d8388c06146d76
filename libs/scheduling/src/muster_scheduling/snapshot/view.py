"""The long-lived state of one owner's deciding: configuration, usage, holders and waiters.

Changes come in one by one as reservations change; a change of configuration rebuilds the tree.
`snapshot` costs nothing: a decision works on this very state, journalled, and undoes what it did.
"""

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from muster_domain.errors import Conflict
from muster_scheduling.fairness.history import (
    NOTHING,
    LocalQueueHistory,
    UsageKey,
    entry_penalty,
)
from muster_scheduling.ordering.keys import backoff_expired
from muster_scheduling.ordering.pending import PendingQueue
from muster_scheduling.quota import Journal, QuotaTree, Vector
from muster_scheduling.snapshot.board import Seats, TopologyBoard
from muster_scheduling.snapshot.catalog import Catalog, Configuration, QueueEntry
from muster_scheduling.snapshot.workloads import (
    AdmittedWorkload,
    PendingWorkload,
    prepare_again,
)

if TYPE_CHECKING:
    from muster_domain.states import Admission
    from muster_scheduling.admission.decision import Decision, Step
    from muster_scheduling.quota import FlavorResource, Undone
    from muster_scheduling.snapshot.purse import Purse
    from muster_scheduling.snapshot.remembered import Answer, Asks

_ELIGIBILITY_MAX = 200_000
_ASKS_MAX = 20_000

_NOTHING_UNDONE: "tuple[int, tuple[Step, ...], Undone]" = (0, (), [])


class AdmissionView:
    """Everything admission decides by. One writer; not for use from several threads."""

    def __init__(self, configuration: Configuration) -> None:
        self.admitted: dict[str, dict[str, AdmittedWorkload]] = {}
        self.by_priority: dict[str, dict[int, dict[str, AdmittedWorkload]]] = {}
        self.holders: dict[str, AdmittedWorkload] = {}
        self.holder_of_key: dict[str, AdmittedWorkload] = {}
        self.evicting: dict[str, bool] = {}
        self.claims: dict[str, tuple[str, Vector]] = {}
        self.histories: dict[str, LocalQueueHistory] = {}
        self.queues: dict[str, PendingQueue] = {}
        self.queue_of: dict[str, str] = {}
        self.orphans: dict[str, PendingWorkload] = {}
        self.generations: dict[str, int] = {}
        self.cycles: dict[str, int] = {}
        self.dirty: dict[str, None] = {}
        self.gone: dict[str, bool] = {}
        self.eligibility: dict[tuple[str, str, str], str] = {}
        self.possible: dict[tuple[str, str], bool] = {}
        """Shapes that could start in a ClusterQueue with everybody else gone."""
        self.asks: dict[tuple[str, str], Asks] = {}
        """What workloads ask of a ClusterQueue, by its name and their shape."""
        self.answers: dict[tuple[str, FlavorResource], Answer] = {}
        """What victim search found for the last head of a queue that lacked a pair."""
        self.board: TopologyBoard | None = None
        self.second_pass: dict[str, PendingWorkload] = {}
        self.purse: Purse | None = None
        """What budgets have left; whoever decides puts in what holds at the moment."""
        self.version = 0
        self.undone = _NOTHING_UNDONE
        """The version at which something was decided last, the steps, and what they changed."""
        self._flush: dict[str, None] = {}
        self._due: list[tuple[int, str]] = []
        self._load(configuration)

    def configure(self, configuration: Configuration) -> None:
        """Take another configuration; everybody who waits is looked at again (R-43).

        Under another policy who waits is prepared anew. Holders keep what they are charged.
        """
        waiting = [w for queue in self.queues.values() for w in queue.workloads.values()]
        waiting += self.orphans.values()
        parked = {
            w.id
            for queue in self.queues.values()
            for w in queue.workloads.values()
            if w.requeue_at_ms is not None and not queue.is_active(w.id)
        }
        parked |= {w.id for w in self.orphans.values() if w.requeue_at_ms is not None}
        bookmarks = {k: v for queue in self.queues.values() for k, v in queue.bookmarks.items()}
        sticky = {
            workload_id for queue in self.queues.values() for workload_id in queue.sticky.values()
        }
        if configuration.policy != self.policy:
            waiting = [prepare_again(workload, configuration.policy) for workload in waiting]
        self._load(configuration)
        for workload in waiting:
            self._enqueue(workload, held_back=workload.id in parked)
        for queue in self.queues.values():
            for workload_id in queue.workloads:
                if workload_id in bookmarks:
                    queue.bookmark(workload_id, bookmarks[workload_id])
                if workload_id in sticky:
                    queue.stick(workload_id)
        for root in self.catalog.queues_of_root:
            self.generations[root] = self.generations.get(root, 0) + 1
            self._touch(root)
        self._settle()

    def add_pending(self, workload: PendingWorkload, now_ms: int) -> str:
        """Let a workload wait; returns its ClusterQueue, empty when its queue does not exist.

        Raises `Conflict` when it waits or holds quota already, unless it comes back for more.
        """
        may_wait = workload.has_quota or workload.grows or workload.id not in self.holders
        if workload.id in self.queue_of or not may_wait:
            raise Conflict(f"workload {workload.id} is already known")
        held_back = not backoff_expired(
            workload.requeue_at_ms, now_ms, held_back=workload.held_back
        )
        name = self._enqueue(workload, held_back=held_back)
        self._settle()
        return name

    def remove_pending(self, workload_id: str) -> PendingWorkload | None:
        """Forget a workload that waits."""
        name = self.queue_of.pop(workload_id, None)
        self.drop_claim(workload_id)
        if name is None:
            return None
        orphan = self.orphans.pop(workload_id, None)
        if orphan is not None:
            return orphan
        removed = self.queues[name].discard(workload_id)
        if name in self.catalog.queues:
            self.dirty[self.catalog.queues[name].root] = None
        self._settle()
        return removed

    def pending(self, workload_id: str) -> PendingWorkload | None:
        """The workload, if it waits."""
        name = self.queue_of.get(workload_id)
        if name is None:
            return None
        return self.orphans.get(workload_id) or self.queues[name].workloads.get(workload_id)

    def charge(self, workload: AdmittedWorkload) -> None:
        """A workload holds quota: count it. Raises `Conflict` when it is counted already."""
        if workload.id in self.holders:
            raise Conflict(f"workload {workload.id} already holds quota")
        self.hold(workload)
        self._settle()

    def hold(self, workload: AdmittedWorkload) -> None:
        """Count a holder, journalled."""
        journal = self.journal
        name, priority = workload.cluster_queue, workload.priority
        if name not in self.admitted:
            self.admitted[name], self.by_priority[name] = {}, {}
        by_priority = self.by_priority[name]
        if priority not in by_priority:
            by_priority[priority] = {}
        journal.put(self.admitted[name], workload.id, workload)
        journal.put(by_priority[priority], workload.id, workload)
        journal.put(self.holders, workload.id, workload)
        journal.put(self.holder_of_key, workload.key, workload)
        if workload.evicting:
            journal.put(self.evicting, workload.id, True)  # noqa: FBT003 - a set of ids
        entry = self.catalog.queues.get(workload.cluster_queue)
        if entry is not None:
            self.tree.try_add(entry.node, workload.usage)
            self.tree.renew(entry.node, workload.usage)
        if self.board is not None:
            self.board.charge(workload.seats)

    def mark_evicting(self, workload_id: str) -> None:
        """It must go. Its quota stays charged."""
        if workload_id in self.holders:
            self.evict(workload_id)
            self._settle()

    def mark_admitted(self, workload_id: str) -> None:
        """Its quota is posted."""
        if workload_id in self.holders:
            self.holders[workload_id].admitted = True

    def mark_saved(self, workload_id: str, unsaved_since_ms: int) -> None:
        """An eviction would lose what it has done since then."""
        holder = self.holders.get(workload_id)
        if holder is not None and holder.unsaved_since_ms != unsaved_since_ms:
            holder.unsaved_since_ms = unsaved_since_ms
            if self.policy.improvements.least_lost_work_first:
                self._renew(holder)
                self._settle()

    def release(self, workload_id: str) -> AdmittedWorkload | None:
        """It is gone: give its quota back, and let its whole tree be looked at again (R-43)."""
        workload = self.holders.get(workload_id)
        if workload is None:
            return None
        self.let_go(workload)
        self.evicting.pop(workload_id, None)
        entry = self.catalog.queues.get(workload.cluster_queue)
        if entry is not None:
            self.generations[entry.root] = self.generations.get(entry.root, 0) + 1
            self._touch(entry.root)
        self._settle()
        return workload

    def take(self, workload: PendingWorkload) -> None:
        """Take a workload out of its line, journalled."""
        self.queues[self.queue_of[workload.id]].discard(workload.id)
        self.journal.drop(self.queue_of, workload.id)
        if workload.id in self.claims:
            self.journal.drop(self.claims, workload.id)

    def evict(self, workload_id: str) -> None:
        """Mark a holder as going, journalled; its quota stays charged."""
        self.journal.put(self.evicting, workload_id, True)  # noqa: FBT003 - a set of ids
        self._renew(self.holders[workload_id])

    def let_go(self, workload: AdmittedWorkload) -> None:
        """Stop counting a holder, journalled."""
        queue = workload.cluster_queue
        self.journal.drop(self.admitted[queue], workload.id)
        self.journal.drop(self.by_priority[queue][workload.priority], workload.id)
        self.journal.drop(self.holders, workload.id)
        if self.holder_of_key.get(workload.key) is workload:
            self.journal.drop(self.holder_of_key, workload.key)
        entry = self.catalog.queues.get(workload.cluster_queue)
        if entry is not None:
            self.tree.try_remove(entry.node, workload.usage)
            self.tree.renew(entry.node, workload.usage)
        if self.board is not None:
            self.board.release(workload.seats)

    def resize(self, workload_id: str, admission: "Admission") -> None:
        """Charge a holder differently from now on (pods that are done give quota back)."""
        workload = self.release(workload_id)
        if workload is not None:
            self.charge(replace(workload, usage=admission.usage, admission=admission))

    def grow(self, workload_id: str, admission: "Admission", more: Vector) -> None:
        """Charge a holder `more`, journalled: it has quota for all of `admission` from now on."""
        before = self.holders[workload_id]
        usage = dict(before.usage)
        for fr, amount in more.items():
            usage[fr] = usage.get(fr, 0) + amount
        self.let_go(before)
        self.hold(replace(before, usage=usage, admission=admission))

    def release_due(self, now_ms: int) -> None:
        """Put in line whose back-off is over (R-104)."""
        while self._due and self._due[0][0] <= now_ms:
            _, workload_id = heappop(self._due)
            workload = self.pending(workload_id)
            name = self.queue_of.get(workload_id)
            if workload is None or not name or workload.requeue_at_ms is None:
                continue
            if workload.requeue_at_ms <= now_ms:
                workload.requeue_at_ms = None
                self.queues[name].unpark(workload_id)
                self.dirty[self.catalog.queues[name].root] = None
        self._settle()

    @property
    def next_due_ms(self) -> int | None:
        """When the next back-off ends."""
        return self._due[0][0] if self._due else None

    def retry(self, workload_id: str) -> None:
        """Put one workload in line again: something about it changed."""
        name = self.queue_of.get(workload_id)
        if name:
            self.queues[name].unpark(workload_id)
            self._touch(self.catalog.queues[name].root)
            self._settle()

    def park(self, workload_id: str) -> None:
        """Set one workload aside until its tree changes (its preemption cannot help)."""
        name = self.queue_of.get(workload_id)
        if name:
            queue = self.queues[name]
            if queue.sticky.get(name) == workload_id:
                queue.stick(None)
            if queue.is_active(workload_id):
                queue.park(workload_id)
            self._settle()

    def snapshot(self, now_ms: int) -> "Snapshot":
        """What a decision made now depends on."""
        self._forget_shapes()
        for root in self._flush:
            for entry in self.catalog.queues_of_root.get(root, ()):
                self.queues[entry.name].flush(now_ms)
        self._flush.clear()
        self._settle()
        return Snapshot(self, now_ms, self.version)

    def apply(self, decision: "Decision") -> None:
        """Make what a decision changed true here, after it was committed.

        What it did and took back is done again as it was, where nothing has changed since then.
        """
        version, steps, undone = self.undone
        if steps is decision.steps and version == self.version:
            self.journal.do_again(undone)
            for root in decision.settled:
                self.dirty.pop(root, None)
        else:
            decision.replay(self)
        self.undone = _NOTHING_UNDONE
        self._settle()

    def shares_turns(self, entry: QueueEntry) -> bool:
        """Whether the LocalQueues of a ClusterQueue take turns by usage (R-70)."""
        policy = self.policy.admission_fair_sharing
        return policy is not None and entry.queue.admission_fair_sharing

    def usage_key(self, local_queue: str) -> UsageKey:
        """A LocalQueue's place by what it used lately; smaller goes first."""
        policy = self.policy.admission_fair_sharing
        history = self.histories.get(local_queue)
        if policy is None or history is None:
            history = LocalQueueHistory()
        declared = self.catalog.configuration.local_queues.get(local_queue)
        weight = 1000 if declared is None else declared.fair_weight_milli
        return NOTHING if policy is None else history.key(weight, policy)

    def penalise(self, workload: PendingWorkload, now_ms: int) -> None:
        """Count a workload against its LocalQueue from the moment it is let in, journalled."""
        policy = self.policy.admission_fair_sharing
        if policy is None:
            return
        history = self.histories.get(workload.local_queue)
        if history is None:
            history = LocalQueueHistory(updated_ms=now_ms)
            self.journal.put(self.histories, workload.local_queue, history)
        penalty = entry_penalty(workload.asks(), policy)
        self.journal.put(history.penalties, workload.id, penalty)

    def look_at_queue_of(self, local_queue: str) -> None:
        """The order in a LocalQueue's ClusterQueue may have changed: decide about its tree."""
        door = self.catalog.configuration.local_queues.get(local_queue)
        entry = None if door is None else self.catalog.queues.get(door.cluster_queue)
        if entry is not None and len(self.queues[entry.name]):
            self.dirty[entry.root] = None
            self._settle()

    def drop_penalty(self, local_queue: str, workload_id: str) -> None:
        """The workload lost its reservation before it was admitted (R-72)."""
        history = self.histories.get(local_queue)
        if history is not None:
            history.penalties.pop(workload_id, None)

    def use_board(self, board: TopologyBoard) -> None:
        """Seat workloads from now on, where one process decides everything."""
        self.board = board
        board.attach(self.journal)
        for holder in self.holders.values():
            board.charge(holder.seats)
        self._settle()

    def look_again(self, workload: PendingWorkload) -> None:
        """Let a holder be looked at once in the next decision, for its seats (R-49)."""
        granted = workload.granted
        if granted is None or granted.cluster_queue not in self.catalog.queues:
            raise Conflict(f"workload {workload.id} holds no quota")
        self.second_pass[workload.id] = workload
        self.dirty[self.catalog.queues[granted.cluster_queue].root] = None
        self._settle()

    def reseat(self, workload_id: str, seats: tuple[Seats, ...]) -> None:
        """Give a holder other seats, journalled."""
        holder = self.holders[workload_id]
        if self.board is not None:
            self.board.release(holder.seats)
            self.board.charge(seats)
        undo, redo = (holder, holder.seats), (holder, seats)
        self.journal.called((self._set_seats, undo), (self._set_seats, redo))
        holder.seats = seats

    def second_pass_done(self, workload_id: str) -> None:
        """A holder was looked at for its seats, journalled."""
        self.journal.drop(self.second_pass, workload_id)

    @staticmethod
    def _set_seats(holder: AdmittedWorkload, seats: tuple[Seats, ...]) -> None:
        holder.seats = seats

    def claim(self, workload_id: str, cluster_queue: str, usage: Vector) -> None:
        """Count what a preemptor waits for as used by it, for everybody else."""
        self.claims[workload_id] = (cluster_queue, usage)
        self._settle()

    def drop_claim(self, workload_id: str) -> None:
        """The preemptor waits for nobody any more."""
        claim = self.claims.pop(workload_id, None)
        if claim is None:
            return
        entry = self.catalog.queues.get(claim[0])
        if entry is not None:
            self._touch(entry.root)
        self._settle()

    def charge_claims(self, root: str, *, except_for: str = "") -> None:
        """Charge the claims of a tree, journalled."""
        for workload_id, (name, usage) in self.claims.items():
            entry = self.catalog.queues.get(name)
            if entry is not None and entry.root == root and workload_id != except_for:
                self.tree.add(entry.node, usage)

    def lift_claim(self, workload_id: str) -> None:
        """Take back the charge of one claim, journalled."""
        name, usage = self.claims[workload_id]
        entry = self.catalog.queues.get(name)
        if entry is not None:
            self.tree.remove(entry.node, usage)

    def is_evicting(self, workload_id: str) -> bool:
        """Whether it must go already."""
        return workload_id in self.evicting

    def generation(self, entry: QueueEntry) -> int:
        """Moves when quota of the tree changes or comes back (R-24)."""
        return self.generations.get(entry.root, 0)

    def _renew(self, holder: AdmittedWorkload) -> None:
        """Let victims be searched anew where this holder may be one."""
        entry = self.catalog.queues.get(holder.cluster_queue)
        if entry is not None:
            self.tree.renew(entry.node, holder.usage)

    def _load(self, configuration: Configuration) -> None:
        self.policy = configuration.policy
        self.catalog = Catalog(configuration)
        self.tree: QuotaTree = self.catalog.tree
        self.journal: Journal = self.tree.journal
        self.eligibility.clear()
        self.possible.clear()
        self.asks.clear()
        self.answers.clear()
        if self.board is not None:
            self.board.attach(self.journal)
        self.queues = {
            name: PendingQueue(
                name, self.journal, self.usage_key if self.shares_turns(entry) else None
            )
            for name, entry in self.catalog.queues.items()
        }
        self.queue_of = {}
        self.orphans = {}
        for name, workloads in self.admitted.items():
            entry = self.catalog.queues.get(name)
            if entry is not None:
                for workload in workloads.values():
                    self.tree.add(entry.node, workload.usage)
        self._settle()

    def _forget_shapes(self) -> None:
        """Keep what is known of shapes bounded; it is worked out again."""
        if len(self.eligibility) > _ELIGIBILITY_MAX:
            self.eligibility.clear()
        if len(self.asks) > _ASKS_MAX:
            self.asks.clear()
        if len(self.possible) > _ASKS_MAX:
            self.possible.clear()

    def _enqueue(self, workload: PendingWorkload, *, held_back: bool) -> str:
        name = self.catalog.cluster_queue_name(
            workload.namespace, workload.queue_name, volcano=workload.volcano
        )
        if name not in self.queues:
            self.queue_of[workload.id] = ""
            self.orphans[workload.id] = workload
            return ""
        self.queue_of[workload.id] = name
        self.queues[name].add(workload, held_back=held_back)
        if held_back and workload.requeue_at_ms is not None:
            heappush(self._due, (workload.requeue_at_ms, workload.id))
        self.dirty[self.catalog.queues[name].root] = None
        return name

    def _touch(self, root: str) -> None:
        self.dirty[root] = None
        self._flush[root] = None

    def _settle(self) -> None:
        self.journal.settle()
        self.version += 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at one version and the time of the decision; stale once the view changes."""

    view: AdmissionView = field(repr=False)
    now_ms: int
    version: int
