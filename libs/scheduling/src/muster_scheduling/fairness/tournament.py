"""The order of a cycle's entries under fair sharing (R-62).

Whoever would have the smallest share goes first, compared at every level of the cohort tree.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class _Standing:
    """A contender's share and whether it borrows what it asks, at one level of the tree."""

    share: Share
    borrows: bool


class Tournament(Generic[Tag]):
    """Pops the winner; the caller changes usage between two pops."""

    def __init__(
        self,
        tree: QuotaTree,
        contenders: Mapping[str, Contender[Tag]],
        *,
        non_borrowing_first: bool,
    ) -> None:
        self._tree = tree
        self._left = dict(contenders)
        self._non_borrowing_first = non_borrowing_first

    def __iter__(self) -> Iterator[Tag]:
        """Winners, one by one, each judged on the usage of that moment."""
        while self._left:
            yield self._pop().tag

    def _pop(self) -> Contender[Tag]:
        first = next(iter(self._left.values()))
        winner = first
        if first.node.parent is not None:
            standings = {c.id: self._standings(c) for c in self._left.values()}
            winner = self._winner(first.node.root, standings) or first
        del self._left[winner.node.name]
        return winner

    def _standings(self, contender: Contender[Tag]) -> dict[str, _Standing]:
        """How it would stand below every cohort above it, keyed by that cohort."""
        mark = self._tree.journal.checkpoint()
        self._tree.add(contender.node, contender.usage)
        standings = {
            node.parent.name: _Standing(
                share_of(node), borrows=not node.within_nominal(contender.usage)
            )
            for node in path_to_root(contender.node)
            if node.parent is not None
        }
        self._tree.journal.rollback(mark)
        return standings

    def _winner(
        self, cohort: QuotaNode, standings: Mapping[str, Mapping[str, _Standing]]
    ) -> Contender[Tag] | None:
        best: Contender[Tag] | None = None
        challengers = [self._winner(child, standings) for child in cohort.cohorts]
        challengers += [self._left.get(queue.name) for queue in cohort.queues]
        for challenger in challengers:
            if challenger is not None and (
                best is None or self._before(challenger, best, cohort.name, standings)
            ):
                best = challenger
        return best

    def _before(
        self,
        left: Contender[Tag],
        right: Contender[Tag],
        cohort: str,
        standings: Mapping[str, Mapping[str, _Standing]],
    ) -> bool:
        mine, theirs = standings[left.id][cohort], standings[right.id][cohort]
        if left.preemptor != right.preemptor:
            return left.preemptor
        if self._non_borrowing_first and mine.borrows != theirs.borrows:
            return theirs.borrows
        compared = mine.share.compare(theirs.share)
        if compared:
            return compared < 0
        return (-left.priority, left.queued_at_ms, left.id) < (
            -right.priority,
            right.queued_at_ms,
            right.id,
        )
