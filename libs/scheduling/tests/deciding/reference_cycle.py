"""Kueue's rules of flavors and of one cycle once more, from the text alone (R-26 to R-46, R-62)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from muster_domain.queues import (
    BorrowWithinCohortPolicy,
    ClusterQueue,
    FungibilityPreference,
    QueueingStrategy,
    ReclaimWithinCohort,
    WhenCan,
)

from .reference import FR, Asker, Share, Vector, Victims, World, victims


class Suit(IntEnum):
    """How a flavor suits, worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


Outlook = tuple[Suit, int]
"""The suit and the borrow level."""


@dataclass
class Assigned:
    """Flavors by pod set and resource; those of a workload that does not fit are not told."""

    flavors: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    outlooks: dict[FR, Outlook] = field(default_factory=dict[FR, Outlook])
    usage: dict[FR, int] = field(default_factory=dict[FR, int])
    tried: list[int] = field(default_factory=list[int])
    suit: Suit = Suit.FIT

    @property
    def borrowing(self) -> int:
        return max((level for _, level in self.outlooks.values()), default=0)

    @property
    def need(self) -> frozenset[FR]:
        return frozenset(fr for fr, (suit, _) in self.outlooks.items() if suit < Suit.FIT)


def assign(
    world: World, asker: Asker, pinned: Sequence[Mapping[str, str]] | None = None
) -> Assigned:
    """R-26 to R-35, for pod sets that share nothing."""
    queue = world.queues[asker.queue]
    done = Assigned()
    for number, requests in enumerate(asker.pod_sets):
        chosen: dict[str, str] = {}
        outlooks: dict[FR, Outlook] = {}
        indexes: list[int] = []
        for group in queue.resource_groups:
            wanted = {name: requests[name] for name in group.covered_resources if name in requests}
            if not wanted:
                continue
            names = [flavor.flavor for flavor in group.flavors]
            only = None if pinned is None else pinned[number][next(iter(wanted))]
            best, tried = _scan(world, asker, names, wanted, done.usage, only)
            if best is None:
                return Assigned(suit=Suit.NO_FIT, usage=done.usage, tried=done.tried)
            indexes.append(tried)
            chosen |= dict.fromkeys(wanted, best[0])
            outlooks |= {(best[0], name): outlook for name, outlook in best[1].items()}
        done.flavors.append(chosen)
        done.tried += indexes
        for fr, outlook in outlooks.items():
            before = done.outlooks.get(fr, (Suit.FIT, 0))
            done.outlooks[fr] = min(before[0], outlook[0]), max(before[1], outlook[1])
            done.usage[fr] = done.usage.get(fr, 0) + requests[fr[1]]
            done.suit = min(done.suit, outlook[0])
    return done


def _scan(
    world: World,
    asker: Asker,
    names: Sequence[str],
    wanted: Mapping[str, int],
    assumed: Vector,
    only: str | None,
) -> tuple[tuple[str, dict[str, Outlook]] | None, int]:
    """R-34."""
    queue = world.queues[asker.queue]
    best: tuple[str, dict[str, Outlook]] | None = None
    best_outlook: Outlook = (Suit.NO_FIT, 0)
    for index, name in enumerate(names):
        if only not in {None, name}:
            continue
        each = {
            resource: _outlook(world, asker, (name, resource), assumed, amount)
            for resource, amount in wanted.items()
        }
        worst: Outlook = (Suit.FIT, 0)
        for outlook in each.values():
            if _better(queue, worst, outlook):
                worst = outlook
        if _stops(queue, worst):
            return (name, each), -1 if index == len(names) - 1 else index
        if _better(queue, worst, best_outlook):
            best, best_outlook = (name, each), worst
    return best, -1


def _better(queue: ClusterQueue, left: Outlook, right: Outlook) -> bool:
    """R-33."""

    def key(outlook: Outlook) -> tuple[int, int, int]:
        suit, borrow = outlook
        if suit is Suit.NO_FIT:
            return 0, 0, 0
        seen = 1 if suit is Suit.NO_CANDIDATES else 2
        by_borrowing = (
            queue.flavor_fungibility.preference is FungibilityPreference.PREEMPTION_OVER_BORROWING
        )
        return (seen, -borrow, suit) if by_borrowing else (seen, suit, -borrow)

    return key(left) > key(right)


def _stops(queue: ClusterQueue, outlook: Outlook) -> bool:
    suit, borrow = outlook
    go_on = WhenCan.TRY_NEXT_FLAVOR
    if suit <= Suit.NO_CANDIDATES:
        return False
    if suit < Suit.FIT and queue.flavor_fungibility.when_can_preempt is go_on:
        return False
    return not (borrow > 0 and queue.flavor_fungibility.when_can_borrow is go_on)


def _outlook(world: World, asker: Asker, fr: FR, assumed: Vector, amount: int) -> Outlook:
    """R-30 and R-31."""
    name, total = asker.queue, assumed.get(fr, 0) + amount
    if total > world.potential(name, fr):
        return Suit.NO_FIT, 0
    borrow, may_reclaim = world.borrow_level(name, fr, total)
    if total <= max(0, world.available(name, fr)):
        return Suit.FIT, borrow
    policy = world.queues[name].preemption
    while_borrowing = policy.borrow_within_cohort.policy is not BorrowWithinCohortPolicy.NEVER or (
        world.fair is not None and policy.reclaim_within_cohort is not ReclaimWithinCohort.NEVER
    )
    if world.quota(name, fr)[0] < total and not may_reclaim and not while_borrowing:
        return Suit.NO_FIT, 0
    found = victims(world, asker, frozenset((fr,)), {fr: total})
    if not found:
        return Suit.NO_CANDIDATES, borrow
    queue_of = {held.id: held.queue for held in world.held}
    own = any(queue_of[victim] == name for victim, _ in found)
    after = world.without(victim for victim, _ in found).borrow_level(name, fr, total)[0]
    return (Suit.PREEMPT if own else Suit.RECLAIM), after


@dataclass
class Entry:
    """One head, and what became of it."""

    asker: Asker
    assigned: Assigned
    victims: Victims
    verdict: str = ""


def run_cycle(world: World, heads: Sequence[Asker]) -> list[Entry]:
    """One cycle, the entries in the order in which they were processed."""
    entries = [Entry(head, *_nominate(world, head)) for head in heads]
    cycle = _Cycle(world)
    return [cycle.process(entry) for entry in cycle.order(entries)]


def _nominate(
    world: World, asker: Asker, pinned: Sequence[Mapping[str, str]] | None = None
) -> tuple[Assigned, Victims]:
    assigned = assign(world, asker, pinned)
    if Suit.NO_FIT < assigned.suit < Suit.FIT:
        return assigned, victims(world, asker, assigned.need, assigned.usage)
    return assigned, []


@dataclass
class _Cycle:
    """`world` has what earlier entries charged; `taken` are the victims they claimed."""

    world: World
    taken: list[str] = field(default_factory=list[str])
    claims: list[tuple[str, Vector]] = field(default_factory=list[tuple[str, Vector]])

    def order(self, entries: list[Entry]) -> Iterator[Entry]:
        if self.world.fair is None:
            yield from sorted(entries, key=_turn)
            return
        left = list(entries)
        while left:
            winner = self._winner(left)
            left.remove(winner)
            yield winner

    def _winner(self, left: list[Entry]) -> Entry:
        above = self.world.above(left[0].asker.queue)
        if not above:
            return left[0]
        winner = self._winner_below(above[-1], left)
        assert winner is not None
        return winner

    def _winner_below(self, cohort: str, left: list[Entry]) -> Entry | None:
        """R-62: winners of the child cohorts and entries of the child queues."""
        standing: list[tuple[str, Entry]] = []
        for child in self.world.child_cohorts(cohort):
            winner = self._winner_below(child, left)
            if winner is not None:
                standing.append((child, winner))
        children = self.world.child_queues(cohort)
        standing += [(e.asker.queue, e) for e in left if e.asker.queue in children]
        return min(standing, key=self._standing, default=("", None))[1]

    def _standing(self, stands: tuple[str, Entry]) -> tuple[bool, Share, int, int, str]:
        node, entry = stands
        asker, usage = entry.asker, entry.assigned.usage
        world = self.world.charging(asker.queue, usage)
        borrows = world.borrows(node, usage)
        return borrows, world.share(node)[0], -asker.priority, asker.queued_at, asker.id

    def process(self, entry: Entry) -> Entry:
        """R-44 to R-46."""
        deferred = False
        if any(victim in self.taken for victim, _ in entry.victims):
            world = self.world.without(self.taken)
            pinned = entry.assigned.flavors
            entry.assigned, entry.victims = _nominate(world, entry.asker, pinned)
            deferred = entry.assigned.suit is Suit.FIT
        entry.verdict = self._verdict(entry, deferred=deferred)
        if entry.verdict in {"deferred", "preempting", "fit"}:
            self._charge(entry, entry.assigned.usage, claim=entry.verdict != "fit")
        if entry.verdict == "preempting":
            self.taken += [victim for victim, _ in entry.victims]
        policy = self.world.queues[entry.asker.queue].preemption
        if (
            entry.verdict == "no candidates"
            and policy.reclaim_within_cohort is not ReclaimWithinCohort.ANY
        ):
            self._charge(entry, self._reserved(entry), claim=True)
        return entry

    def _verdict(self, entry: Entry, *, deferred: bool) -> str:
        if entry.assigned.suit is Suit.NO_FIT:
            return "no fit"
        if entry.assigned.suit is not Suit.FIT and not entry.victims:
            return "no candidates"
        if deferred:
            return "deferred"
        gone = {*self.taken, *(victim for victim, _ in entry.victims)}
        fits = self.world.without(gone).fits(entry.asker.queue, entry.assigned.usage)
        if fits and entry.assigned.suit is Suit.FIT and self.taken:
            fits = self._fits_today(entry)
        if not fits:
            return "no longer fits"
        return "fit" if entry.assigned.suit is Suit.FIT else "preempting"

    def _fits_today(self, entry: Entry) -> bool:
        """Muster's own: while this cycle's victims are there, without what they make room for."""
        charged = list(self.world.charged)
        for claim in self.claims:
            charged.remove(claim)
        world = World(
            self.world.queues, self.world.cohorts, self.world.held, self.world.fair, tuple(charged)
        )
        return world.fits(entry.asker.queue, entry.assigned.usage)

    def _charge(self, entry: Entry, usage: Vector, *, claim: bool) -> None:
        self.world = self.world.charging(entry.asker.queue, usage)
        if claim:
            self.claims.append((entry.asker.queue, usage))

    def _reserved(self, entry: Entry) -> dict[FR, int]:
        queue, usage = entry.asker.queue, entry.assigned.usage
        reserved: dict[FR, int] = {}
        for fr, amount in usage.items():
            nominal, limit, _ = self.world.quota(queue, fr)
            used = self.world.used(queue, fr)
            if entry.assigned.borrowing == 0:
                reserved[fr] = max(0, min(amount, nominal - used))
            else:
                most = amount if limit is None else nominal + limit - used
                reserved[fr] = max(0, min(amount, most))
        return reserved


def _turn(entry: Entry) -> tuple[int, int, int, str]:
    asker = entry.asker
    return entry.assigned.borrowing, -asker.priority, asker.queued_at, asker.id


def place(world: World, entry: Entry) -> str:
    """R-42: where a workload that got nothing waits."""
    strict = world.queues[entry.asker.queue].queueing_strategy is QueueingStrategy.STRICT_FIFO
    if strict or entry.verdict in {"deferred", "preempting", "no longer fits"}:
        return "in_line"
    return "in_line" if any(index >= 0 for index in entry.assigned.tried) else "parked"
