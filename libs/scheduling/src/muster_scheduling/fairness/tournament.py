"""The order of a cycle's entries under fair sharing (R-62).

Whoever would have the smallest share goes first, compared at every level of the cohort tree. After
each winner only the subtree it stands in is judged again: nothing else has changed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from typing import Generic, TypeVar

from muster_scheduling.fairness.share import Share, path_to_root, share_of
from muster_scheduling.quota import QuotaNode, QuotaTree, Vector

Tag = TypeVar("Tag")


@dataclass(frozen=True, slots=True)
class Contender(Generic[Tag]):
    """One entry: what it would use, and how it stands where shares are equal."""

    tag: Tag
    node: QuotaNode
    usage: Vector
    preemptor: bool
    priority: int
    queued_at_ms: int
    id: str


_Key = tuple[bool, bool, bool, Fraction, int, int, str]
"""Smaller goes first: preemptor, not borrowing what it asks, lower share, priority, age, id."""


class Tournament(Generic[Tag]):
    """Pops the winner; the caller changes usage between two pops.

    `follower` may name another contender of the winner's queue once the winner was dealt with.
    """

    def __init__(
        self,
        tree: QuotaTree,
        contenders: Mapping[str, Contender[Tag]],
        follower: Callable[[Tag], Contender[Tag] | None],
        *,
        non_borrowing_first: bool,
    ) -> None:
        self._tree = tree
        self._left = dict(contenders)
        self._follower = follower
        self._non_borrowing_first = non_borrowing_first

    def __iter__(self) -> Iterator[Tag]:
        """Winners, one by one, each judged on the usage of that moment."""
        brackets: dict[str, _Bracket[Tag]] = {}
        while self._left:
            winner = next(iter(self._left.values()))
            if winner.node.parent is not None:
                root = winner.node.root
                if root.name not in brackets:
                    brackets[root.name] = _Bracket(self, root)
                winner = brackets[root.name].pop()
            del self._left[winner.node.name]
            yield winner.tag
            follower = self._follower(winner.tag)
            if follower is not None:
                self._left[follower.node.name] = follower
                if follower.node.parent is not None:
                    brackets[follower.node.root.name].enter(follower)

    def of(self, queue: QuotaNode) -> Contender[Tag] | None:
        """The entry of a queue, while it is left."""
        return self._left.get(queue.name)

    def keys(self, contender: Contender[Tag]) -> dict[str, _Key]:
        """How it would stand among the children of every cohort above it, by that cohort."""
        journal = self._tree.journal
        mark = journal.checkpoint()
        self._tree.try_add(contender.node, contender.usage)
        keys = {
            node.parent.name: self._key(contender, node)
            for node in path_to_root(contender.node)
            if node.parent is not None
        }
        journal.rollback(mark)
        return keys

    def _key(self, contender: Contender[Tag], node: QuotaNode) -> _Key:
        share = share_of(node)
        borrows = self._non_borrowing_first and not node.within_nominal(contender.usage)
        return (
            not contender.preemptor,
            borrows,
            share.unbounded,
            _weighted(share),
            -contender.priority,
            contender.queued_at_ms,
            contender.id,
        )


class _Bracket(Generic[Tag]):
    """One cohort tree: a heap over the root's queues and the winners of its child cohorts."""

    def __init__(self, tournament: Tournament[Tag], root: QuotaNode) -> None:
        self._tournament = tournament
        self._root = root
        self._heap: list[tuple[_Key, int, Contender[Tag]]] = []
        self._ticket = 0
        self._ticket_of: dict[QuotaNode, int] = {}
        self._changed: QuotaNode | None = None
        for queue in root.queues:
            contender = tournament.of(queue)
            if contender is not None:
                self._push(contender, tournament.keys(contender)[root.name], queue)
        for child in root.cohorts:
            self._enter(child)

    def pop(self) -> Contender[Tag]:
        """The winner of the tree; at least one contender must be left in it."""
        if self._changed is not None:
            self._enter(self._changed)
            self._changed = None
        while True:
            _, ticket, winner = heappop(self._heap)
            top = self._top(winner.node)
            if self._ticket_of.get(top) == ticket:
                break
        if top is not winner.node:
            self._changed = top
        return winner

    def enter(self, contender: Contender[Tag]) -> None:
        """Let a contender in after the winner of its queue; a cohort is judged again anyhow."""
        if self._top(contender.node) is contender.node:
            key = self._tournament.keys(contender)[self._root.name]
            self._push(contender, key, contender.node)

    def _enter(self, cohort: QuotaNode) -> None:
        """Judge a child cohort's subtree and let its winner stand for it."""
        keys: dict[str, dict[str, _Key]] = {}
        winner = self._winner(cohort, keys)
        if winner is not None:
            self._push(winner, keys[winner.id][self._root.name], cohort)

    def _push(self, contender: Contender[Tag], key: _Key, top: QuotaNode) -> None:
        self._ticket += 1
        self._ticket_of[top] = self._ticket
        heappush(self._heap, (key, self._ticket, contender))

    def _top(self, queue: QuotaNode) -> QuotaNode:
        """The child of the root under which a queue stands."""
        return queue if len(queue.ancestors) == 1 else queue.ancestors[-2]

    def _winner(self, cohort: QuotaNode, keys: dict[str, dict[str, _Key]]) -> Contender[Tag] | None:
        found = [self._winner(child, keys) for child in cohort.cohorts]
        for queue in cohort.queues:
            contender = self._tournament.of(queue)
            if contender is not None:
                keys[contender.id] = self._tournament.keys(contender)
                found.append(contender)
        standing = [contender for contender in found if contender is not None]
        return min(standing, key=lambda one: keys[one.id][cohort.name], default=None)


def _weighted(share: Share) -> Fraction:
    """The share as a number; of those without weight only borrowers compare, by the raw ratio."""
    weight = share.weight_milli
    if share.borrowed == 0:
        return Fraction(0)
    return Fraction(share.borrowed * 1000, share.lendable * (weight or 1000))
