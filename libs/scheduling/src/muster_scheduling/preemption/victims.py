"""The entry points of victim search: real, and as the oracle of flavor assignment."""

from dataclasses import dataclass

from muster_domain.errors import NotFound
from muster_scheduling.preemption.classical import classical_victims
from muster_scheduling.preemption.context import Search
from muster_scheduling.preemption.fair import candidates_anywhere, fair_victims
from muster_scheduling.quota import FlavorResource, Vector
from muster_scheduling.snapshot.catalog import QueueEntry
from muster_scheduling.snapshot.remembered import Answer, Possibility, Victim
from muster_scheduling.snapshot.view import AdmissionView, Snapshot
from muster_scheduling.snapshot.workloads import AdmittedWorkload, PendingWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a preemptor wants in a ClusterQueue; `need` are the pairs in which room must be made."""

    cluster_queue: str
    usage: Vector
    need: frozenset[FlavorResource]


def find_victims(
    snapshot: Snapshot,
    preemptor: PendingWorkload,
    wanted: Wanted,
    *,
    must: frozenset[str] = frozenset(),
) -> tuple[Victim, ...]:
    """Who must give way so that the preemptor can have what it wants; nobody if that cannot be.

    The set is smallest in the sense of R-55: nobody in it, but perhaps the last one found, could
    stay. With `must` all of these are in it, because their seats are needed: they alone where that
    is enough. Raises `NotFound` when the ClusterQueue does not exist.
    """
    search = _search(snapshot, preemptor, wanted)
    if must:
        search.make_leave(must, alone=True)
        found = victims_for(search)
        if found:
            return tuple(found)
        search.make_leave(must, alone=False)
    return tuple(victims_for(search))


def may_leave(
    snapshot: Snapshot, preemptor: PendingWorkload, wanted: Wanted
) -> tuple[AdmittedWorkload, ...]:
    """Everybody whom the policies let go for the preemptor, in the order in which they would.

    Whether all of them may go together is for `find_victims` to say. Raises `NotFound` as it does.
    """
    search = _search(snapshot, preemptor, wanted)
    return tuple(sorted(candidates_anywhere(search), key=search.key))


def _search(snapshot: Snapshot, preemptor: PendingWorkload, wanted: Wanted) -> Search:
    view = snapshot.view
    entry = view.catalog.queues.get(wanted.cluster_queue)
    if entry is None:
        raise NotFound(f"ClusterQueue {wanted.cluster_queue} does not exist")
    return Search(view, snapshot.now_ms, preemptor, entry, wanted.need, wanted.usage)


def victims_for(search: Search) -> list[Victim]:
    """A smallest set of victims under the policy in force; empty when none would do."""
    fair = search.view.policy.fair_sharing
    return classical_victims(search) if fair is None else fair_victims(search, fair)


class Oracle:
    """Answers whether preemption could make room for one (flavor, resource) (R-31).

    An answer holds for the same question as long as the mark of the pair in the tree is the same;
    of all pairs under fair sharing, where shares count. Where LocalQueues take turns none is kept:
    there time changes who is taken first.
    """

    def __init__(self, view: AdmissionView, now_ms: int) -> None:
        self._view = view
        self._now_ms = now_ms
        self._found: dict[FlavorResource, Answer] = {}

    def forget(self) -> None:
        """Another preemptor asks, or usage has changed."""
        if self._found:
            self._found.clear()

    def recall(self, usage: Vector, need: frozenset[FlavorResource]) -> list[Victim] | None:
        """The victims, where that very question was asked since; else `None`."""
        if len(usage) != 1 or len(need) != 1:
            return None
        ((fr, amount),) = usage.items()
        found = self._found.get(fr)
        if found is None or found.amount != amount or fr not in need:
            return None
        return list(found.victims)

    def ask(
        self, preemptor: PendingWorkload, entry: QueueEntry, fr: FlavorResource, amount: int
    ) -> tuple[Possibility, int]:
        """What is possible, and the borrow level once the victims were gone."""
        view = self._view
        by_share = view.policy.fair_sharing is not None
        mark = view.tree.mark_of_all(entry.node) if by_share else view.tree.mark(entry.node, fr)
        found = view.answers.get((entry.name, fr))
        if (
            found is None
            or found.mark != mark
            or found.preemptor is not preemptor
            or found.amount != amount
        ):
            found = self._answer(preemptor, entry, fr, amount, mark)
            if not view.shares_turns(entry):
                view.answers[entry.name, fr] = found
        self._found[fr] = found
        return found.possibility, found.borrow

    def _answer(
        self,
        preemptor: PendingWorkload,
        entry: QueueEntry,
        fr: FlavorResource,
        amount: int,
        mark: object,
    ) -> Answer:
        usage: Vector = {fr: amount}
        search = Search(self._view, self._now_ms, preemptor, entry, frozenset((fr,)), usage)
        victims = victims_for(search)
        tree = self._view.tree
        if not victims:
            level = tree.borrow_level(entry.node, fr, amount)[0]
            return Answer(preemptor, amount, mark, victims, Possibility.NO_CANDIDATES, level)
        journal = self._view.journal
        before = journal.checkpoint()
        for victim in victims:
            search.remove(victim.workload)
        level = tree.borrow_level(entry.node, fr, amount)[0]
        journal.rollback(before)
        own = any(victim.workload.cluster_queue == entry.name for victim in victims)
        possibility = Possibility.PREEMPT if own else Possibility.RECLAIM
        return Answer(preemptor, amount, mark, victims, possibility, level)
